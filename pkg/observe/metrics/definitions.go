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
		"Restarts, drains and replacements of machines that Drover started, by cause. The cause \"unknown\" is a " +
			"bug in Drover."}
	leader = Definition{"drover_leader", TypeGauge, nil,
		"1 on the replica that runs the controllers, and 0 on all others."}
	clustersByState = Definition{"drover_clusters", TypeGauge, []string{"state"},
		"Clusters that this Drover manages, by state."}
	machinesByState = Definition{"drover_machines", TypeGauge, []string{"state"},
		"Machines of the clusters that this Drover manages, by state."}
	stuckObjects = Definition{"drover_stuck_objects", TypeGauge, []string{"kind", "reason"},
		"Clusters and machines that are not in their desired state, by the reason that they report. Those in " +
			"progress also count."}
	stuckAge = Definition{"drover_stuck_age_seconds", TypeGauge, []string{"kind", "reason"},
		"Time since the last reported change of the object that has waited longest, by kind and reason."}
	plansPending = Definition{"drover_plans_pending", TypeGauge, nil,
		"Plans that were delivered and that their machines have not applied yet."}
	planLag = Definition{"drover_plan_lag_seconds", TypeGauge, nil,
		"Time since the delivery of the oldest plan that is not applied yet. 0 if all plans are applied."}
	planDuration = Definition{"drover_plan_duration_seconds", TypeHistogram, nil,
		"Time from the delivery of a plan until it is applied and all its probes pass."}
	clusterStages = Definition{"drover_cluster_stage_duration_seconds", TypeHistogram, []string{"stage"},
		"Time that a new cluster takes for each stage. Observed once per cluster, when it is ready for the first time."}
	clusterReady = Definition{"drover_cluster_ready_duration_seconds", TypeHistogram, nil,
		"Time from the creation of a Cluster until it is ready for the first time."}
	machineStages = Definition{"drover_machine_stage_duration_seconds", TypeHistogram, []string{"stage"},
		"Time that a new machine takes for each stage. Observed once per machine, when its node is known."}
	failuresTotal = Definition{"drover_failures_total", TypeCounter, []string{"code"},
		"Failures that clusters and machines reported, by code."}
	reconcileDuration = Definition{"drover_reconcile_duration_seconds", TypeHistogram, []string{"handler"},
		"Duration of the runs of a handler."}
	reconcileErrors = Definition{"drover_reconcile_errors_total", TypeCounter, []string{"handler"},
		"Runs of a handler that ended in an error. Drover retries each."}
	certificateExpiration = Definition{"drover_certificate_expiration_timestamp_seconds", TypeGauge,
		[]string{"certificate"},
		"Unix time at which the certificate expires. If a kind has several certificates, the first expiration counts."}
	snapshotAge = Definition{"drover_snapshot_age_seconds", TypeGauge, nil,
		"Largest age of a cluster's newest etcd snapshot. Clusters without a snapshot do not count."}
	withoutSnapshot = Definition{"drover_clusters_without_snapshot", TypeGauge, nil,
		"Clusters with etcd snapshots enabled for which Drover knows no snapshot."}
	agentsByVersion = Definition{"drover_agents", TypeGauge, []string{"agent"},
		"Machines by the version of their node agent: current (the server's), other, or unknown."}
	tunnelSessions = Definition{"drover_tunnel_sessions", TypeGauge, []string{"kind"},
		"Open sessions of cluster agents with this replica, by kind of agent."}
	tunnelConnects = Definition{"drover_tunnel_connects_total", TypeCounter, []string{"kind"},
		"Sessions that started, by kind of agent."}
	tunnelEnds = Definition{"drover_tunnel_session_ends_total", TypeCounter, []string{"reason"},
		"Sessions that ended, by reason."}
	tunnelRefused = Definition{"drover_tunnel_refused_dials_total", TypeCounter, nil,
		"Refused connections into clusters: they lead to other destinations than the API server, or exceed the limit."}
	tunnelStreams = Definition{"drover_tunnel_streams", TypeGauge, nil,
		"Open connections within sessions."}
	tunnelBytes = Definition{"drover_tunnel_bytes_total", TypeCounter, []string{"direction"},
		"Bytes that sessions carried, by direction."}
	agentUpdates = Definition{"drover_cluster_agent_updates", TypeGauge, []string{"state"},
		"Clusters with an agent that Drover replaces with a newer one, by state. Several lost agents stop all other " +
			"replacements."}
	proxyRequests = Definition{"drover_proxy_requests_total", TypeCounter, []string{"verb", "code"},
		"Requests to clusters below /k8s/clusters/, by verb of Kubernetes and class of the response code."}
	proxyInFlight = Definition{"drover_proxy_requests_in_flight", TypeGauge, []string{"long_running"},
		"Requests to clusters in flight. Long-running requests, which have no time limit, count separately."}
	proxyWaiting = Definition{"drover_proxy_requests_waiting", TypeGauge, nil,
		"Requests to clusters that wait for a slot. They also count as in flight."}
	proxyRejected = Definition{"drover_proxy_requests_rejected_total", TypeCounter, []string{"reason"},
		"Requests to clusters that were answered with 429, by reason."}
	proxyDuration = Definition{"drover_proxy_request_duration_seconds", TypeHistogram, []string{"verb"},
		"Duration of requests to clusters, by verb. Long-running requests, which have no time limit, do not count."}
	unreadStreams = Definition{"drover_unread_streams_closed_total", TypeCounter, []string{"reason"},
		"Answers and connections that Drover ended because their client stopped reading, by reason."}
	connectionsOpen = Definition{"drover_connections", TypeGauge, []string{"listener"},
		"Open connections to this replica, by listener."}
	connectionsRefused = Definition{"drover_refused_connections_total", TypeCounter, []string{"listener"},
		"Connections that this replica closed at once because too many were open, by listener."}
)

// Definitions returns all metrics of Drover, in the order of the documentation.
func Definitions() []Definition {
	return []Definition{
		leader, clustersByState, machinesByState, stuckObjects, stuckAge,
		clusterReady, clusterStages, machineStages, planDuration, plansPending, planLag,
		failuresTotal, disruptionsTotal,
		reconcileDuration, reconcileErrors,
		certificateExpiration, snapshotAge, withoutSnapshot, agentsByVersion,
		tunnelSessions, tunnelConnects, tunnelEnds, tunnelRefused, tunnelStreams, tunnelBytes, agentUpdates,
		proxyRequests, proxyInFlight, proxyWaiting, proxyRejected, proxyDuration, unreadStreams, connectionsOpen,
		connectionsRefused,
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
