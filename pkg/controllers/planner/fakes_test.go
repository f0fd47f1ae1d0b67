package planner

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/clients"
)

var gr = schema.GroupResource{Resource: "things"}

// fakes holds the controllers of a cluster with one machine, made of generated mocks only. It records every write in
// order; fail makes a write return an error.
type fakes struct {
	deps    Deps
	handler func(string, *rkev1.RKEControlPlane) (*rkev1.RKEControlPlane, error)

	cp      *rkev1.RKEControlPlane
	machine *clusterv1.Machine
	// machines fills the cache of Machines; provisioning is the Cluster.
	machines     cache.SharedIndexInformer
	provisioning *provv1.Cluster
	plan         *corev1.Secret
	state        *corev1.Secret
	// snapshots are keyed by name; secrets are all others than plan and state.
	snapshots map[string]*rkev1.ETCDSnapshot
	secrets   []*corev1.Secret
	dropped   *clients.SecretDroppedError // a Secret without its data in the cache

	writes   []string
	fail     map[string]error
	enqueued []time.Duration
}

func (f *fakes) write(name string) error {
	f.writes = append(f.writes, name)
	return f.fail[name]
}

func informer(obj runtime.Object) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{}, obj, 0, cache.Indexers{})
}

// mockCache is a cache with the objects that get returns.
func mockCache[T generic.RuntimeMetaObject](c *gomock.Controller,
	get func(namespace, name string) (T, error)) *fake.MockCacheInterface[T] {
	m := fake.NewMockCacheInterface[T](c)
	m.EXPECT().AddIndexer(gomock.Any(), gomock.Any()).AnyTimes()
	m.EXPECT().Get(gomock.Any(), gomock.Any()).DoAndReturn(get).AnyTimes()
	return m
}

func notFound(name string) error { return apierrors.NewNotFound(gr, name) }

func newFakes(t *testing.T) *fakes {
	t.Helper()
	c := gomock.NewController(t)
	f := &fakes{fail: map[string]error{}}
	yes := true
	f.cp = &rkev1.RKEControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "cp", ResourceVersion: "1",
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "demo", Controller: &yes},
			}},
		Spec: rkev1.RKEControlPlaneSpec{KubernetesVersion: "v1.36.2+k3s1", ClusterName: "demo",
			ManagementClusterName: "c-m-1"},
	}
	f.machine = &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "machine", ResourceVersion: "1",
			Labels: map[string]string{
				"rke.cattle.io/etcd-role": "true", "rke.cattle.io/control-plane-role": "true",
				"rke.cattle.io/worker-role": "true",
			}},
		Spec: clusterv1.MachineSpec{ClusterName: "demo",
			Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{Kind: "RKEBootstrap",
				Name: "boot"}}},
		Status: clusterv1.MachineStatus{Conditions: []metav1.Condition{{Type: "InfrastructureReady", Status: "True"}}},
	}
	f.provisioning = &provv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"drover.io/instance": "me"}}}
	f.plan = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "boot-machine-plan",
		ResourceVersion: "1"}, Type: "rke.cattle.io/machine-plan"}
	f.state = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo-rke-state"}, Type: "rke.cattle.io/cluster-state",
		Data: map[string][]byte{"serverToken": []byte("s"), "agentToken": []byte("a")},
	}
	f.deps = Deps{
		Access:     access.New(access.Options{}),
		InstanceID: "me",
		Release:    func(v string) distro.Release { return distro.Release{Version: v, Known: true} },
		Settings:   func() render.Settings { return render.Settings{} },
		Now:        func() time.Time { return time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC) },
	}
	f.mockControlPlanes(c)
	f.mockMachines(c)
	f.mockSecrets(c)
	f.mockOthers(c)
	if err := Register(t.Context(), f.deps); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fakes) mockControlPlanes(c *gomock.Controller) {
	m := fake.NewMockControllerInterface[*rkev1.RKEControlPlane, *rkev1.RKEControlPlaneList](c)
	m.EXPECT().Cache().Return(mockCache(c, func(_, _ string) (*rkev1.RKEControlPlane, error) {
		return f.cp, nil
	})).AnyTimes()
	m.EXPECT().OnChange(gomock.Any(), "planner", gomock.Any()).Do(
		func(_ context.Context, _ string, h generic.ObjectHandler[*rkev1.RKEControlPlane]) { f.handler = h })
	m.EXPECT().EnqueueAfter("ns", "demo", gomock.Any()).Do(func(_, _ string, after time.Duration) {
		f.enqueued = append(f.enqueued, after)
	}).AnyTimes()
	m.EXPECT().UpdateStatus(gomock.Any()).DoAndReturn(func(cp *rkev1.RKEControlPlane) (*rkev1.RKEControlPlane, error) {
		name := "status"
		if cp.Status.Ticket != nil && f.cp.Status.Ticket == nil {
			name = "ticket"
		}
		if err := f.write(name); err != nil {
			return nil, err
		}
		f.cp = cp
		return cp, nil
	}).AnyTimes()
	f.deps.ControlPlanes = m
}

func (f *fakes) mockMachines(c *gomock.Controller) {
	m := fake.NewMockControllerInterface[*clusterv1.Machine, *clusterv1.MachineList](c)
	machines := mockCache(c, func(_, _ string) (*clusterv1.Machine, error) { return f.machine, nil })
	machines.EXPECT().GetByIndex(indexMachinesByCluster, "ns/demo").DoAndReturn(func(_, _ string) ([]*clusterv1.Machine,
		error) {
		return []*clusterv1.Machine{f.machine}, nil
	}).AnyTimes()
	m.EXPECT().Cache().Return(machines).AnyTimes()
	f.machines = informer(&clusterv1.Machine{})
	m.EXPECT().Informer().Return(f.machines).AnyTimes()
	m.EXPECT().Patch("ns", "m", types.MergePatchType, gomock.Any()).DoAndReturn(
		func(_, _ string, _ types.PatchType, _ []byte, _ ...string) (*clusterv1.Machine, error) {
			return f.machine.DeepCopy(), f.write("mark")
		}).AnyTimes()
	m.EXPECT().Patch("ns", "m", types.JSONPatchType, gomock.Any(), "status").DoAndReturn(
		func(_, _ string, _ types.PatchType, _ []byte, _ ...string) (*clusterv1.Machine, error) {
			return f.machine.DeepCopy(), f.write("condition")
		}).AnyTimes()
	f.deps.Machines = m
}

func (f *fakes) mockSecrets(c *gomock.Controller) {
	m := fake.NewMockControllerInterface[*corev1.Secret, *corev1.SecretList](c)
	m.EXPECT().Cache().Return(mockCache(c, func(_, name string) (*corev1.Secret, error) {
		if f.dropped != nil && f.dropped.Name == name {
			return nil, f.dropped
		}
		for _, secret := range append([]*corev1.Secret{f.plan, f.state}, f.secrets...) {
			if secret != nil && secret.Name == name {
				return secret, nil
			}
		}
		return nil, notFound(name)
	})).AnyTimes()
	m.EXPECT().Informer().Return(informer(&corev1.Secret{})).AnyTimes()
	m.EXPECT().Update(gomock.Any()).DoAndReturn(func(s *corev1.Secret) (*corev1.Secret, error) {
		return s, f.write("plan")
	}).AnyTimes()
	m.EXPECT().Create(gomock.Any()).DoAndReturn(func(s *corev1.Secret) (*corev1.Secret, error) {
		return s, f.write("tokens")
	}).AnyTimes()
	f.deps.Secrets = m
}

func (f *fakes) mockOthers(c *gomock.Controller) {
	yes := true
	prov := fake.NewMockControllerInterface[*provv1.Cluster, *provv1.ClusterList](c)
	prov.EXPECT().Cache().Return(mockCache(c, func(_, _ string) (*provv1.Cluster, error) {
		return f.provisioning, nil
	})).AnyTimes()
	prov.EXPECT().Informer().Return(informer(&provv1.Cluster{})).AnyTimes()
	clusters := fake.NewMockControllerInterface[*clusterv1.Cluster, *clusterv1.ClusterList](c)
	clusters.EXPECT().Cache().Return(mockCache(c, func(_, _ string) (*clusterv1.Cluster, error) {
		return &clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"},
			Status: clusterv1.ClusterStatus{Initialization: clusterv1.ClusterInitializationStatus{
				InfrastructureProvisioned: &yes}},
		}, nil
	})).AnyTimes()
	clusters.EXPECT().Informer().Return(informer(&clusterv1.Cluster{})).AnyTimes()
	boots := fake.NewMockControllerInterface[*rkev1.RKEBootstrap, *rkev1.RKEBootstrapList](c)
	boots.EXPECT().Cache().Return(mockCache(c, func(_, name string) (*rkev1.RKEBootstrap, error) {
		return &rkev1.RKEBootstrap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}, nil
	})).AnyTimes()
	boots.EXPECT().Informer().Return(informer(&rkev1.RKEBootstrap{})).AnyTimes()
	mgmt := fake.NewMockNonNamespacedControllerInterface[*mgmtv3.Cluster, *mgmtv3.ClusterList](c)
	mgmtCache := fake.NewMockNonNamespacedCacheInterface[*mgmtv3.Cluster](c)
	mgmtCache.EXPECT().Get(gomock.Any()).DoAndReturn(func(name string) (*mgmtv3.Cluster, error) {
		return nil, notFound(name)
	}).AnyTimes()
	mgmt.EXPECT().Cache().Return(mgmtCache).AnyTimes()
	mgmt.EXPECT().Informer().Return(informer(&mgmtv3.Cluster{})).AnyTimes()
	configMaps := fake.NewMockControllerInterface[*corev1.ConfigMap, *corev1.ConfigMapList](c)
	configMaps.EXPECT().Cache().Return(mockCache(c, func(_, name string) (*corev1.ConfigMap, error) {
		return nil, notFound(name)
	})).AnyTimes()
	configMaps.EXPECT().Informer().Return(informer(&corev1.ConfigMap{})).AnyTimes()
	snapshots := fake.NewMockControllerInterface[*rkev1.ETCDSnapshot, *rkev1.ETCDSnapshotList](c)
	snapshots.EXPECT().Cache().Return(mockCache(c, func(_, name string) (*rkev1.ETCDSnapshot, error) {
		if snapshot, ok := f.snapshots[name]; ok {
			return snapshot, nil
		}
		return nil, notFound(name)
	})).AnyTimes()
	snapshots.EXPECT().Informer().Return(informer(&rkev1.ETCDSnapshot{})).AnyTimes()
	f.deps.Snapshots = snapshots
	f.deps.ProvisioningClusters, f.deps.Clusters, f.deps.Bootstraps = prov, clusters, boots
	f.deps.ManagementClusters, f.deps.ConfigMaps = mgmt, configMaps
}

// run reconciles once.
func (f *fakes) run() error {
	_, err := f.handler("ns/demo", f.cp)
	return err
}

func TestHandler_WritesInOrder(t *testing.T) {
	refused := apierrors.NewForbidden(gr, "x", errors.New("no"))
	conflict := apierrors.NewConflict(gr, "x", errors.New("modified"))
	exists := apierrors.NewAlreadyExists(gr, "x")
	for name, tc := range map[string]struct {
		given       func(f *fakes)
		wantWrites  []string
		wantErr     error
		wantRetry   bool
		wantReady   string
		wantMessage string
	}{
		"the first plan": {
			wantWrites:  []string{"ticket", "mark", "plan", "condition"},
			wantReady:   "Unknown",
			wantMessage: "configuring bootstrap node(s) m: waiting for agent to check in and apply initial plan",
		},
		"without tokens": {
			given:      func(f *fakes) { f.state = nil },
			wantWrites: []string{"tokens", "status"},
			wantReady:  "Unknown", wantMessage: "waiting for the join tokens of the cluster",
		},
		"tokens that the cache does not show yet": {
			given:      func(f *fakes) { f.state, f.fail["tokens"] = nil, exists },
			wantWrites: []string{"tokens", "status"},
			wantReady:  "Unknown", wantMessage: "waiting for the join tokens of the cluster",
		},
		"tokens that the API server refuses": {
			given:      func(f *fakes) { f.state, f.fail["tokens"] = nil, refused },
			wantWrites: []string{"tokens", "status"},
			wantErr:    refused,
		},
		"an outdated control plane: no plan is delivered": {
			given:      func(f *fakes) { f.fail["ticket"] = conflict },
			wantWrites: []string{"ticket"},
			wantRetry:  true,
		},
		"the mark is refused: no plan is delivered": {
			given:      func(f *fakes) { f.fail["mark"] = refused },
			wantWrites: []string{"ticket", "mark", "condition", "status"},
			wantErr:    refused, wantReady: "False",
			wantMessage: "Cannot carry out the decision: the API server answered Forbidden",
		},
		"the agent wrote first: the status reports nothing": {
			given:      func(f *fakes) { f.fail["plan"] = conflict },
			wantWrites: []string{"ticket", "mark", "plan", "condition"},
			wantRetry:  true, wantReady: "Unknown",
			wantMessage: "configuring bootstrap node(s) m: waiting for agent to check in and apply initial plan",
		},
		"the plan is refused: the status reports it": {
			given:      func(f *fakes) { f.fail["plan"] = refused },
			wantWrites: []string{"ticket", "mark", "plan", "condition", "status"},
			wantErr:    refused, wantReady: "False",
			wantMessage: "Cannot carry out the decision: the API server answered Forbidden",
		},
		"a cluster that is being deleted": {
			given: func(f *fakes) { f.cp.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakes(t)
			if tc.given != nil {
				tc.given(f)
			}
			if err := f.run(); !errors.Is(err, tc.wantErr) || (err == nil) != (tc.wantErr == nil) {
				t.Errorf("error is %v, want %v", err, tc.wantErr)
			}
			if !slices.Equal(f.writes, tc.wantWrites) {
				t.Errorf("writes are %v, want %v", f.writes, tc.wantWrites)
			}
			if (len(f.enqueued) > 0) != tc.wantRetry {
				t.Errorf("enqueued after %v, want a retry: %v", f.enqueued, tc.wantRetry)
			}
			if ready := conditions.Get(f.cp.Status.Conditions, "Ready"); tc.wantReady != "" &&
				(ready == nil || ready.Status != tc.wantReady || ready.Message != tc.wantMessage) {
				t.Errorf("Ready is %+v", ready)
			}
		})
	}
}

// The second reconcile does nothing, because the mocks' caches never show the first one's writes.
func TestHandler_DoesNothingWhileACacheIsBehind(t *testing.T) {
	f := newFakes(t)
	old := f.cp
	if err := f.run(); err != nil {
		t.Fatal(err)
	}
	f.writes = nil
	f.cp = old
	written := f.plan.DeepCopy()
	written.ResourceVersion = "9"
	h := &handler{written: newWritten()}
	h.written.note("ns/demo", kindSecret, written, f.deps.Now())
	cached := func(kind, _, _ string) metav1.Object {
		if kind == kindSecret {
			return f.plan
		}
		return nil
	}
	if got := h.written.behind("ns/demo", f.deps.Now(), cached); !slices.Equal(got,
		[]string{"Secret ns/boot-machine-plan"}) {
		t.Errorf("outdated objects: %v", got)
	}
	f.plan.ResourceVersion = "10"
	if got := h.written.behind("ns/demo", f.deps.Now(), cached); len(got) > 0 {
		t.Errorf("outdated objects: %v", got)
	}
}

// Nothing is rendered while the caches show the mark of an adopted cluster but not yet the notes on its machines.
func TestHandler_WaitsForTheNotesOfAnAdoption(t *testing.T) {
	other := func(version string) *clusterv1.Machine {
		return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other",
			ResourceVersion: version}}
	}
	for name, tc := range map[string]struct {
		noted, machine, seen string
		explained            bool
		wantWait             bool
	}{
		"the cache is older than the notes":            {noted: "uid:10", machine: "7", seen: "9", wantWait: true},
		"the cache is empty":                           {noted: "uid:10", machine: "7", wantWait: true},
		"the cache has a later version":                {noted: "uid:10", machine: "7", seen: "11"},
		"the cache has the version of the last note":   {noted: "uid:10", machine: "7", seen: "10"},
		"the machine has a later version":              {noted: "uid:10", machine: "12", seen: "9"},
		"its plan is known":                            {noted: "uid:10", machine: "7", seen: "9", explained: true},
		"without an adoption":                          {machine: "7", seen: "9"},
		"an adoption in the former management cluster": {noted: "former:10", machine: "7", seen: "9"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakes(t)
			f.provisioning.UID, f.provisioning.Annotations[rkev1.NotedAnnotation] = "uid", tc.noted
			f.machine.ResourceVersion = tc.machine
			if tc.seen != "" {
				if err := f.machines.GetStore().Add(other(tc.seen)); err != nil {
					t.Fatal(err)
				}
			}
			if !tc.explained {
				f.plan.Data = map[string][]byte{"plan": []byte(`{"files":[{"path":"/etc/theirs"}]}`)}
			}
			if err := f.run(); err != nil {
				t.Fatal(err)
			}
			if (len(f.writes) == 0) != tc.wantWait {
				t.Errorf("writes %q", f.writes)
			}
		})
	}
}

func TestWritten(t *testing.T) {
	now := time.Unix(1000, 0)
	object := func(uid, version string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", UID: types.UID(uid),
			ResourceVersion: version}}
	}
	for name, tc := range map[string]struct {
		cached     *corev1.Secret
		later      time.Duration
		wantBehind bool
	}{
		"older":                      {cached: object("a", "9"), wantBehind: true},
		"the same":                   {cached: object("a", "10")},
		"newer":                      {cached: object("a", "11")},
		"another object":             {cached: object("b", "5")},
		"not in the cache yet":       {wantBehind: true},
		"never in the cache":         {later: time.Minute},
		"a version without a number": {cached: object("a", "x")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWritten()
			w.note("ns/demo", kindSecret, object("a", "10"), now)
			got := w.behind("ns/demo", now.Add(tc.later), func(_, _, _ string) metav1.Object {
				return found(tc.cached, nil)
			})
			if (len(got) > 0) != tc.wantBehind {
				t.Errorf("outdated objects: %v", got)
			}
			w.forget("ns/demo")
			if got := w.behind("ns/demo", now, func(_, _, _ string) metav1.Object { return nil }); len(got) > 0 {
				t.Errorf("outdated objects after forget: %v", got)
			}
		})
	}
}

func TestHealthOf(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
	}
	for name, tc := range map[string]struct {
		conditions   []metav1.Condition
		wantFailing  bool
		wantNotReady bool
		wantMessage  string
	}{
		"without conditions": {},
		"ready":              {conditions: []metav1.Condition{condition("Ready", "True", "Ready", "")}},
		"not ready yet": {
			conditions: []metav1.Condition{condition("Ready", "False", "NotReady",
				"* NodeHealthy: no node\n* Other: x")}, wantNotReady: true, wantMessage: "NodeHealthy: no node"},
		"a reason with a list of its own": {
			conditions: []metav1.Condition{condition("Ready", "False", "NotReady",
				"* NodeHealthy:\n  * Node.Ready: no network\n* Other: x")},
			wantNotReady: true, wantMessage: "NodeHealthy: Node.Ready: no network"},
		"a reason without an explanation": {
			conditions:   []metav1.Condition{condition("Ready", "False", "NotReady", "* NodeHealthy: ")},
			wantNotReady: true, wantMessage: "NodeHealthy"},
		"a plan failed": {conditions: []metav1.Condition{condition("Ready", "True", "Ready", ""),
			condition("PlanApplied", "False", "Error", "no")}, wantFailing: true, wantMessage: "no"},
		"a condition of the planner": {conditions: []metav1.Condition{condition("Reconciled", "False", "Error", "no")}},
	} {
		t.Run(name, func(t *testing.T) {
			got := healthOf(&clusterv1.Machine{Status: clusterv1.MachineStatus{Conditions: tc.conditions}})
			if got.Failing != tc.wantFailing || got.NotReady != tc.wantNotReady || got.Message != tc.wantMessage {
				t.Errorf("health is %+v", got)
			}
		})
	}
}
