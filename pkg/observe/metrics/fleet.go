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

// Source is where a Fleet reads: caches. Objects belong to them and are not changed.
type Source struct {
	// InstanceID is our ownership mark: clusters without it are somebody else's and do not count.
	InstanceID    string
	Clusters      func() ([]*provv1.Cluster, error)
	ControlPlanes func() ([]*rkev1.RKEControlPlane, error)
	CAPIClusters  func() ([]*clusterv1.Cluster, error)
	Machines      func() ([]*clusterv1.Machine, error)
	Snapshots     func() ([]*rkev1.ETCDSnapshot, error)
	// Cluster and Secret return nil for what is not there.
	Cluster func(namespace, name string) *provv1.Cluster
	Secret  func(namespace, name string) *corev1.Secret
	// Annotations are those of what a Machine refers to, its RKEBootstrap or the object of its host, and nil for what is not there.
	Annotations func(namespace string, of clusterv1.ContractVersionedObjectReference) map[string]string
}

// Fleet tells how all clusters fare. Until Lead and after its end it tells only that the controllers do not run here: another replica
// tells the rest.
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
	// held is when machines that are being made or removed were last seen held by a pause, by their UIDs.
	held map[types.UID]time.Time
}

// NewFleet registers everything that is told about clusters; nil is the process-wide registerer. Now defaults to the clock.
func NewFleet(registerer prometheus.Registerer, now func() time.Time) (*Fleet, error) {
	if now == nil {
		now = time.Now
	}
	f := &Fleet{Reasons: &Reasons{}, now: now, plans: planstore.NewMemo(readPlan), ends: planstore.NewMemo(kubeconfigEnd)}
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
	// All are there from the beginning, so that the first failure of a kind is seen as a step from zero.
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

// Lead makes the fleet tell of what the source has, until stop is called.
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
	certificateDesc = prometheus.NewDesc(certificateExpiration.Name, certificateExpiration.Help, nil,
		prometheus.Labels{certificateExpiration.Labels[0]: CertificateKubeconfig})
)

// Describe implements prometheus.Collector.
func (f *Fleet) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		leaderDesc, clustersDesc, machinesDesc, stuckDesc, ageDesc, pendingDesc, lagDesc, snapshotDesc, withoutDesc, certificateDesc,
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
		return // a cache that cannot be listed has nothing to tell
	}
	for state, n := range s.clusters {
		gauge(clustersDesc, float64(n), state)
	}
	for state, n := range s.machines {
		gauge(machinesDesc, float64(n), state)
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
