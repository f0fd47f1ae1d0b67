package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/planstore"
)

// Source is the input of a Fleet: caches. Objects belong to them and must not be changed.
type Source struct {
	// InstanceID is Drover's ownership mark. Clusters without it belong to other managers and do not count.
	InstanceID string
	// AgentVersion is the version of the server's node agent.
	AgentVersion  string
	Clusters      func() ([]*provv1.Cluster, error)
	ControlPlanes func() ([]*rkev1.RKEControlPlane, error)
	CAPIClusters  func() ([]*clusterv1.Cluster, error)
	Machines      func() ([]*clusterv1.Machine, error)
	Snapshots     func() ([]*rkev1.ETCDSnapshot, error)
	// Cluster and Secret return nil for a missing object.
	Cluster func(namespace, name string) *provv1.Cluster
	Secret  func(namespace, name string) *corev1.Secret
	// Annotations returns the annotations of an object that a Machine refers to: its RKEBootstrap or its infrastructure
	// machine. It returns nil for a missing object.
	Annotations func(namespace string, of clusterv1.ContractVersionedObjectReference) map[string]string
}

// Fleet reports the state of all clusters. Outside of Lead it reports only that the controllers do not run here,
// because another replica reports the rest.
type Fleet struct {
	// Reasons is filled by the planner's controller.
	Reasons *Reasons

	now   func() time.Time
	plans *planstore.Memo[corev1.Secret, planReport]
	ends  *planstore.Memo[corev1.Secret, time.Time]

	clusterReady  prometheus.Observer
	clusterStages *prometheus.HistogramVec
	machineStages *prometheus.HistogramVec
	planDuration  prometheus.Observer
	failures      *prometheus.CounterVec

	mu     sync.Mutex
	source *Source
	// held is when a pause was last seen to hold each machine that is being created or removed, by UID.
	held map[types.UID]time.Time
}

// NewFleet registers all metrics about clusters; nil is the process-wide registerer. now defaults to the clock.
func NewFleet(registerer prometheus.Registerer, now func() time.Time) (*Fleet, error) {
	if now == nil {
		now = time.Now
	}
	f := &Fleet{Reasons: &Reasons{}, now: now, plans: planstore.NewMemo(readPlan),
		ends: planstore.NewMemo(kubeconfigEnd)}
	if err := f.registerChanges(registerer); err != nil {
		return nil, err
	}
	shared, err := register[prometheus.Collector](registerer, leader.Name, f)
	if err != nil {
		return nil, err
	}
	if same, ok := shared.(*Fleet); ok {
		return same, nil
	}
	return f, nil
}

func (f *Fleet) registerChanges(registerer prometheus.Registerer) error {
	for _, h := range []struct {
		of   Definition
		into func(*prometheus.HistogramVec)
	}{
		{clusterReady, func(v *prometheus.HistogramVec) { f.clusterReady = v.WithLabelValues() }},
		{planDuration, func(v *prometheus.HistogramVec) { f.planDuration = v.WithLabelValues() }},
		{clusterStages, func(v *prometheus.HistogramVec) { f.clusterStages = v }},
		{machineStages, func(v *prometheus.HistogramVec) { f.machineStages = v }},
	} {
		vec, err := register(registerer, h.of.Name, h.of.histogram(slow))
		if err != nil {
			return err
		}
		h.into(vec)
	}
	failures, err := register(registerer, failuresTotal.Name, failuresTotal.counter())
	if err != nil {
		return err
	}
	f.failures = failures
	// All exist from the beginning, so that the first failure of a kind is a step from zero.
	for _, code := range Codes() {
		failures.WithLabelValues(code)
	}
	for _, stage := range clusterStageNames {
		f.clusterStages.WithLabelValues(stage)
	}
	for _, stage := range machineStageNames {
		f.machineStages.WithLabelValues(stage)
	}
	return nil
}

// Lead makes the fleet report the source, until stop is called.
func (f *Fleet) Lead(source Source) (stop func()) {
	mine := &source
	f.mu.Lock()
	defer f.mu.Unlock()
	f.source = mine
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.source == mine {
			f.source = nil
		}
	}
}

func (f *Fleet) leads() *Source {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.source
}

var (
	leaderDesc      = leader.desc()
	clustersDesc    = clustersByState.desc()
	machinesDesc    = machinesByState.desc()
	stuckDesc       = stuckObjects.desc()
	ageDesc         = stuckAge.desc()
	pendingDesc     = plansPending.desc()
	lagDesc         = planLag.desc()
	snapshotDesc    = snapshotAge.desc()
	withoutDesc     = withoutSnapshot.desc()
	agentsDesc      = agentsByVersion.desc()
	certificateDesc = prometheus.NewDesc(certificateExpiration.Name, certificateExpiration.Help, nil,
		prometheus.Labels{certificateExpiration.Labels[0]: CertificateKubeconfig})
)

// Describe implements prometheus.Collector.
func (f *Fleet) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		leaderDesc, clustersDesc, machinesDesc, stuckDesc, ageDesc, pendingDesc, lagDesc, snapshotDesc, withoutDesc,
		certificateDesc, agentsDesc,
	} {
		to <- desc
	}
}

// Collect implements prometheus.Collector: it reads the caches once.
func (f *Fleet) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	source := f.leads()
	if source == nil {
		gauge(leaderDesc, 0)
		return
	}
	gauge(leaderDesc, 1)
	s, err := f.summarize(source)
	if err != nil {
		return // a cache that cannot be listed has nothing to report
	}
	for state, n := range s.clusters {
		gauge(clustersDesc, float64(n), state)
	}
	for state, n := range s.machines {
		gauge(machinesDesc, float64(n), state)
	}
	for agent, n := range s.agents {
		gauge(agentsDesc, float64(n), agent)
	}
	for of, t := range s.stuck {
		gauge(stuckDesc, float64(t.objects), of.kind, of.reason)
		gauge(ageDesc, t.age.Seconds(), of.kind, of.reason)
	}
	gauge(pendingDesc, float64(s.plans.objects))
	gauge(lagDesc, s.plans.age.Seconds())
	gauge(withoutDesc, float64(s.withoutSnapshot))
	if s.snapshots.objects > 0 {
		gauge(snapshotDesc, s.snapshots.age.Seconds())
	}
	if !s.kubeconfigEnd.IsZero() {
		gauge(certificateDesc, float64(s.kubeconfigEnd.Unix()))
	}
}
