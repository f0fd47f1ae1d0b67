package metrics

import "github.com/prometheus/client_golang/prometheus"

// Type is the type of a metric.
type Type string

// The types in use.
const (
	TypeCounter   Type = "counter"
	TypeGauge     Type = "gauge"
	TypeHistogram Type = "histogram"
)

// Definition is one metric. Dashboards and alerts use names, labels and label values: renaming one breaks them.
type Definition struct {
	Name   string
	Type   Type
	Labels []string
	Help   string
}

// The metrics.
var (
	disruptionsTotal = Definition{DisruptionsName, TypeCounter, []string{CauseLabel},
		"Restarts, drains and replacements of machines that Drover has begun, by cause. The cause \"unknown\" is a mistake of Drover's."}
	leader = Definition{"drover_leader", TypeGauge, nil,
		"1 where the controllers run, which is on one replica, and 0 elsewhere."}
	clustersByState = Definition{"drover_clusters", TypeGauge, []string{"state"},
		"Clusters that this Drover manages, by state."}
	machinesByState = Definition{"drover_machines", TypeGauge, []string{"state"},
		"Machines of these clusters, by state."}
	stuckObjects = Definition{"drover_stuck_objects", TypeGauge, []string{"kind", "reason"},
		"Clusters and machines that are not as they should be, by the reason they give. Those under way count, too."}
	stuckAge = Definition{"drover_stuck_age_seconds", TypeGauge, []string{"kind", "reason"},
		"Time since what the one that waits longest says about itself has changed, by kind and reason."}
	plansPending = Definition{"drover_plans_pending", TypeGauge, nil,
		"Plans that were delivered and that their machines have not applied yet."}
	planLag = Definition{"drover_plan_lag_seconds", TypeGauge, nil,
		"Time since the oldest of these plans was delivered, 0 when there is none."}
	planDuration = Definition{"drover_plan_duration_seconds", TypeHistogram, nil,
		"Time from the delivery of a plan until it was applied and all its probes passed."}
	clusterStages = Definition{"drover_cluster_stage_duration_seconds", TypeHistogram, []string{"stage"},
		"Time a new cluster took for each stage. Observed once per cluster, when it is ready for the first time."}
	clusterReady = Definition{"drover_cluster_ready_duration_seconds", TypeHistogram, nil,
		"Time from the creation of a Cluster until it was ready for the first time."}
	machineStages = Definition{"drover_machine_stage_duration_seconds", TypeHistogram, []string{"stage"},
		"Time a new machine took for each stage. Observed once per machine, when its node is known."}
	failuresTotal = Definition{"drover_failures_total", TypeCounter, []string{"code"},
		"Failures that clusters and machines came to report, by code."}
	reconcileDuration = Definition{"drover_reconcile_duration_seconds", TypeHistogram, []string{"handler"},
		"Duration of the runs of a handler."}
	reconcileErrors = Definition{"drover_reconcile_errors_total", TypeCounter, []string{"handler"},
		"Runs of a handler that ended in an error. Each is tried again."}
	certificateExpiration = Definition{"drover_certificate_expiration_timestamp_seconds", TypeGauge, []string{"certificate"},
		"Unix time at which the certificate expires. Of several of a kind it is the one that expires first."}
	snapshotAge = Definition{"drover_snapshot_age_seconds", TypeGauge, nil,
		"Age of the newest etcd snapshot of the cluster whose newest one is the oldest. Clusters without any do not count."}
	withoutSnapshot = Definition{"drover_clusters_without_snapshot", TypeGauge, nil,
		"Clusters that shall take etcd snapshots and of which none is known."}
	tunnelSessions = Definition{"drover_tunnel_sessions", TypeGauge, []string{"kind"},
		"Sessions that agents of clusters have with this replica, by kind of agent."}
	tunnelConnects = Definition{"drover_tunnel_connects_total", TypeCounter, []string{"kind"},
		"Sessions that have begun, by kind of agent."}
	tunnelEnds = Definition{"drover_tunnel_session_ends_total", TypeCounter, []string{"reason"},
		"Sessions that have ended, by reason."}
	tunnelRefused = Definition{"drover_tunnel_refused_dials_total", TypeCounter, nil,
		"Connections into clusters that were refused, because they lead elsewhere than to the API server or were too many."}
	tunnelStreams = Definition{"drover_tunnel_streams", TypeGauge, nil,
		"Connections that are open within sessions."}
	tunnelBytes = Definition{"drover_tunnel_bytes_total", TypeCounter, []string{"direction"},
		"Bytes that sessions have carried, by direction."}
	agentUpdates = Definition{"drover_cluster_agent_updates", TypeGauge, []string{"state"},
		"Clusters whose agent is being replaced by a newer one, by state. With several lost ones no others are replaced."}
	proxyRequests = Definition{"drover_proxy_requests_total", TypeCounter, []string{"verb", "code"},
		"Requests to clusters below /k8s/clusters/, by verb of Kubernetes and class of the answer's code."}
	proxyInFlight = Definition{"drover_proxy_requests_in_flight", TypeGauge, []string{"long_running"},
		"Requests to clusters that go on now, those that may take any time apart from the others."}
	proxyDuration = Definition{"drover_proxy_request_duration_seconds", TypeHistogram, []string{"verb"},
		"Duration of requests to clusters, by verb. Those that may take any time are not in it."}
)

// Definitions returns all metrics of Drover, in the order of the documentation.
func Definitions() []Definition {
	return []Definition{
		leader, clustersByState, machinesByState, stuckObjects, stuckAge,
		clusterReady, clusterStages, machineStages, planDuration, plansPending, planLag,
		failuresTotal, disruptionsTotal,
		reconcileDuration, reconcileErrors,
		certificateExpiration, snapshotAge, withoutSnapshot,
		tunnelSessions, tunnelConnects, tunnelEnds, tunnelRefused, tunnelStreams, tunnelBytes, agentUpdates,
		proxyRequests, proxyInFlight, proxyDuration,
	}
}

func (d Definition) desc() *prometheus.Desc { return prometheus.NewDesc(d.Name, d.Help, d.Labels, nil) }

func (d Definition) counter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
}

func (d Definition) gauge() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.Labels)
}

func (d Definition) histogram(buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: buckets}, d.Labels)
}

// Buckets in seconds: slow is for the work of machines, from seconds to hours, and fast for that of this program.
var (
	slow = []float64{1, 5, 15, 30, 60, 120, 180, 300, 450, 600, 900, 1800, 3600, 7200, 14400}
	fast = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
)
