package rkecontrolplane

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// world holds the caches' content and records writes.
type world struct {
	controlPlane *rkev1.RKEControlPlane
	machines     []*clusterv1.Machine
	cluster      *provv1.Cluster
	writes       []string
	after        time.Duration
	// uncached means that the cluster exists, belongs to another instance, and is in no cache.
	uncached bool
}

func (w *world) register(t *testing.T) generic.ObjectHandler[*rkev1.RKEControlPlane] {
	t.Helper()
	ctrl := gomock.NewController(t)
	var handle generic.ObjectHandler[*rkev1.RKEControlPlane]
	planes := fake.NewMockControllerInterface[*rkev1.RKEControlPlane, *rkev1.RKEControlPlaneList](ctrl)
	planes.EXPECT().OnChange(gomock.Any(), "rke-control-plane-remove", gomock.Any()).Do(
		func(_ context.Context, _ string, h generic.ObjectHandler[*rkev1.RKEControlPlane]) { handle = h })
	store := func(what string) func(*rkev1.RKEControlPlane) (*rkev1.RKEControlPlane, error) {
		return func(c *rkev1.RKEControlPlane) (*rkev1.RKEControlPlane, error) {
			w.writes = append(w.writes, what)
			w.controlPlane = c.DeepCopy()
			return c, nil
		}
	}
	planes.EXPECT().Update(gomock.Any()).DoAndReturn(store("update")).AnyTimes()
	planes.EXPECT().UpdateStatus(gomock.Any()).DoAndReturn(store("update status")).AnyTimes()
	planes.EXPECT().EnqueueAfter(gomock.Any(), gomock.Any(), gomock.Any()).Do(
		func(_, _ string, after time.Duration) { w.after = after }).AnyTimes()

	machines := fake.NewMockControllerInterface[*clusterv1.Machine, *clusterv1.MachineList](ctrl)
	machineCache := fake.NewMockCacheInterface[*clusterv1.Machine](ctrl)
	machineCache.EXPECT().List("fleet-default",
		gomock.Any()).DoAndReturn(func(_ string, selector labels.Selector) ([]*clusterv1.Machine, error) {
		var found []*clusterv1.Machine
		for _, machine := range w.machines {
			if selector.Matches(labels.Set(machine.Labels)) {
				found = append(found, machine)
			}
		}
		return found, nil
	}).AnyTimes()
	machines.EXPECT().Cache().Return(machineCache).AnyTimes()
	machines.EXPECT().Informer().Return(cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Secret{}, 0,
		cache.Indexers{})).AnyTimes()
	machines.EXPECT().Delete(gomock.Any(), gomock.Any(),
		gomock.Any()).DoAndReturn(func(_, name string, _ *metav1.DeleteOptions) error {
		w.writes = append(w.writes, "delete "+name)
		return nil
	}).AnyTimes()

	clusters := fake.NewMockControllerInterface[*provv1.Cluster, *provv1.ClusterList](ctrl)
	clusterCache := fake.NewMockCacheInterface[*provv1.Cluster](ctrl)
	clusterCache.EXPECT().Get("fleet-default", "demo").DoAndReturn(func(_, _ string) (*provv1.Cluster, error) {
		if w.cluster == nil {
			return nil, apierrors.NewNotFound(schema.GroupResource{}, "demo")
		}
		return w.cluster, nil
	}).AnyTimes()
	clusters.EXPECT().Cache().Return(clusterCache).AnyTimes()
	clusters.EXPECT().Informer().Return(cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Secret{}, 0,
		cache.Indexers{})).AnyTimes()
	clusters.EXPECT().Get("fleet-default", "demo",
		gomock.Any()).DoAndReturn(func(_, _ string, _ metav1.GetOptions) (*provv1.Cluster, error) {
		if !w.uncached {
			return nil, apierrors.NewNotFound(schema.GroupResource{}, "demo")
		}
		return &provv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"drover.io/instance": "instance-2"}}}, nil
	}).AnyTimes()

	if err := Register(t.Context(), Deps{
		ControlPlanes: planes, Machines: machines, Clusters: clusters, InstanceID: "instance-1", Now: func() time.Time {
			return now
		},
	}); err != nil {
		t.Fatal(err)
	}
	return handle
}

func machine(name string, edits ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: name, Labels: map[string]string{
			"cluster.x-k8s.io/cluster-name": "demo", "rke.cattle.io/control-plane-role": "true",
		}},
	}
	for _, edit := range edits {
		edit(m)
	}
	return m
}

func custom(m *clusterv1.Machine) {
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io",
		Kind: "CustomMachine", Name: m.Name}
}

func deletedFor(d time.Duration) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: now.Add(-d)} }
}

func newWorld(edits ...func(*world)) *world {
	w := &world{
		controlPlane: &rkev1.RKEControlPlane{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "fleet-default", Name: "demo",
				Finalizers:        []string{"another", "wrangler.cattle.io/rke-control-plane-remove"},
				DeletionTimestamp: &metav1.Time{Time: now},
			},
			Spec: rkev1.RKEControlPlaneSpec{ClusterName: "demo"},
		},
		cluster: &provv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"drover.io/instance": "instance-1"}}},
	}
	for _, edit := range edits {
		edit(w)
	}
	return w
}

func alive(w *world) { w.controlPlane.DeletionTimestamp = nil }

func TestOnChange(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		edit        func(*world)
		wantWrites  []string
		wantReason  string
		wantMessage string
		wantAfter   time.Duration
	}{
		"a new control plane gets the finalizer": {
			edit: func(w *world) { alive(w); w.controlPlane.Finalizers = nil }, wantWrites: []string{"update"},
		},
		"a control plane with the finalizer needs no write": {edit: alive},
		"a control plane of another manager gets no finalizer": {
			edit: func(w *world) { alive(w); w.controlPlane.Finalizers = nil; w.cluster.Annotations = nil },
		},
		"a control plane of another instance is not removed": {edit: func(w *world) {
			w.cluster.Annotations["drover.io/instance"] = "instance-2"
		}},
		"its cluster is deleted":        {edit: func(w *world) { w.cluster = nil }, wantWrites: []string{"update"}},
		"its cluster is not cached yet": {edit: func(w *world) { w.cluster = nil; w.uncached = true }},
		"a new control plane whose cluster is not cached yet": {
			edit: func(w *world) { alive(w); w.controlPlane.Finalizers = nil; w.cluster = nil },
		},
		"without servers": {edit: func(*world) {}, wantWrites: []string{"update"}},
		"registered servers are deleted": {
			edit: func(w *world) {
				w.machines = []*clusterv1.Machine{machine("b", custom), machine("a", custom), machine("c")}
			},
			wantWrites: []string{"delete a", "delete b", "update status"}, wantReason: "Waiting",
			wantMessage: "waiting for machine [a] to delete",
		},
		"each server is deleted once": {
			edit: func(w *world) {
				w.machines = []*clusterv1.Machine{machine("a", custom, deletedFor(time.Minute))}
			},
			wantWrites: []string{"update status"}, wantReason: "Waiting",
			wantMessage: "waiting for machine [a] to delete", wantAfter: 29 * time.Minute,
		},
		"a deletion is overdue": {
			edit:       func(w *world) { w.machines = []*clusterv1.Machine{machine("a", deletedFor(31*time.Minute))} },
			wantWrites: []string{"update status"}, wantReason: "DeletionOverdue",
			wantMessage: "waiting for machine [a] to delete: the deletion is overdue; the condition Deleting and " +
				"the finalizers of the Machine show what delays it",
		},
		"machines with an old label count": {
			edit: func(w *world) {
				w.machines = []*clusterv1.Machine{machine("a", func(m *clusterv1.Machine) {
					m.Labels = map[string]string{"rke.cattle.io/cluster-name": "demo",
						"rke.cattle.io/control-plane-role": "true"}
				})}
			},
			wantWrites: []string{"update status"}, wantReason: "Waiting",
			wantMessage: "waiting for machine [a] to delete",
		},
		"workers and machines of other clusters do not count": {
			edit: func(w *world) {
				w.machines = []*clusterv1.Machine{
					machine("worker", custom, func(m *clusterv1.Machine) {
						delete(m.Labels, "rke.cattle.io/control-plane-role")
					}),
					machine("other", custom, func(m *clusterv1.Machine) {
						m.Labels["cluster.x-k8s.io/cluster-name"] = "other"
					}),
				}
			},
			wantWrites: []string{"update"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(c.edit)
			handle := w.register(t)
			if _, err := handle("", w.controlPlane.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.wantWrites, w.writes); diff != "" {
				t.Errorf("writes: %s", diff)
			}
			if w.after != c.wantAfter {
				t.Errorf("requeued after %v, want %v", w.after, c.wantAfter)
			}
			removed := conditions.Get(w.controlPlane.Status.Conditions, "Removed")
			if c.wantReason == "" {
				if removed != nil {
					t.Errorf("condition %+v", removed)
				}
				return
			}
			if removed.Reason != c.wantReason || removed.Message != c.wantMessage {
				t.Errorf("condition %+v", removed)
			}
			w.writes = nil
			if _, err := handle("", w.controlPlane.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			for _, write := range w.writes {
				if write == "update status" {
					t.Error("the same status was written twice")
				}
			}
		})
	}
}

func TestOnChange_ReleasesOurFinalizerAlone(t *testing.T) {
	t.Parallel()
	w := newWorld()
	if _, err := w.register(t)("", w.controlPlane.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"another"}, w.controlPlane.Finalizers); diff != "" {
		t.Error(diff)
	}
	if got, err := w.register(t)("", nil); got != nil || err != nil {
		t.Errorf("a deleted object: %v, %v", got, err)
	}
}

func TestOfMachine(t *testing.T) {
	t.Parallel()
	if keys := ofMachine(machine("a")); len(keys) != 0 {
		t.Errorf("a machine that is not deleted wakes %v", keys)
	}
	if keys := ofMachine(machine("a", deletedFor(0), func(m *clusterv1.Machine) {
		m.Spec.ClusterName = "demo"
	})); len(keys) != 1 || keys[0].Name != "demo" {
		t.Errorf("keys %v", keys)
	}
}
