package rkecluster

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// world holds the caches' content and records writes.
type world struct {
	infra        *rkev1.RKECluster
	capiCluster  *clusterv1.Cluster
	provisioning *provv1.Cluster
	readErr      error
	writeErr     error
	writes       []string
}

func (w *world) register(t *testing.T) generic.ObjectHandler[*rkev1.RKECluster] {
	t.Helper()
	ctrl := gomock.NewController(t)
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Secret{}, 0, cache.Indexers{})
	absent := apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, "x")

	var handle generic.ObjectHandler[*rkev1.RKECluster]
	infra := fake.NewMockControllerInterface[*rkev1.RKECluster, *rkev1.RKEClusterList](ctrl)
	infra.EXPECT().OnChange(gomock.Any(), "rke-cluster", gomock.Any()).Do(
		func(_ context.Context, _ string, h generic.ObjectHandler[*rkev1.RKECluster]) { handle = h })
	store := func(what string) func(*rkev1.RKECluster) (*rkev1.RKECluster, error) {
		return func(c *rkev1.RKECluster) (*rkev1.RKECluster, error) {
			if w.writeErr != nil {
				return nil, w.writeErr
			}
			w.writes = append(w.writes, what)
			w.infra = c.DeepCopy()
			return c, nil
		}
	}
	infra.EXPECT().Update(gomock.Any()).DoAndReturn(store("update")).AnyTimes()
	infra.EXPECT().UpdateStatus(gomock.Any()).DoAndReturn(store("update status")).AnyTimes()

	capi := fake.NewMockControllerInterface[*clusterv1.Cluster, *clusterv1.ClusterList](ctrl)
	capiCache := fake.NewMockCacheInterface[*clusterv1.Cluster](ctrl)
	capiCache.EXPECT().Get("fleet-default", "demo").DoAndReturn(func(_, _ string) (*clusterv1.Cluster, error) {
		if w.readErr != nil {
			return nil, w.readErr
		}
		if w.capiCluster == nil {
			return nil, absent
		}
		return w.capiCluster, nil
	}).AnyTimes()
	capi.EXPECT().Cache().Return(capiCache).AnyTimes()
	capi.EXPECT().Informer().Return(informer).AnyTimes()

	clusters := fake.NewMockControllerInterface[*provv1.Cluster, *provv1.ClusterList](ctrl)
	clusterCache := fake.NewMockCacheInterface[*provv1.Cluster](ctrl)
	clusterCache.EXPECT().Get("fleet-default", "demo").DoAndReturn(func(_, _ string) (*provv1.Cluster, error) {
		if w.provisioning == nil {
			return nil, absent
		}
		return w.provisioning, nil
	}).AnyTimes()
	clusters.EXPECT().Cache().Return(clusterCache).AnyTimes()
	clusters.EXPECT().Informer().Return(informer).AnyTimes()

	if err := Register(t.Context(), Deps{RKEClusters: infra, CAPIClusters: capi, Clusters: clusters,
		InstanceID: "instance-1"}); err != nil {
		t.Fatal(err)
	}
	return handle
}

// newWorld has an object that Cluster API owns and that has this instance's mark.
func newWorld(edits ...func(*world)) *world {
	w := &world{
		infra: &rkev1.RKECluster{ObjectMeta: metav1.ObjectMeta{
			Namespace: "fleet-default", Name: "demo",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster",
				Name: "demo"}},
		}},
		capiCluster: &clusterv1.Cluster{},
		provisioning: &provv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"drover.io/instance": "instance-1"}}},
	}
	for _, edit := range edits {
		edit(w)
	}
	return w
}

func TestOnChange_Writes(t *testing.T) {
	t.Parallel()
	yes := true
	done := func(w *world) {
		w.infra.Spec.ControlPlaneEndpoint = &clusterv1.APIEndpoint{Host: "localhost", Port: 6443}
		w.infra.Status.Initialization.Provisioned = &yes
	}
	cases := map[string]struct {
		edit func(*world)
		want []string
	}{
		"a new object":     {func(*world) {}, []string{"update", "update status"}},
		"a settled object": {done, nil},
		"an endpoint that another program has set": {func(w *world) {
			w.infra.Spec.ControlPlaneEndpoint = &clusterv1.APIEndpoint{Host: "lb", Port: 443}
		}, []string{"update status"}},
		"an endpoint without a port": {func(w *world) { done(w); w.infra.Spec.ControlPlaneEndpoint.Port = 0 },
			[]string{"update"}},
		"conditions of earlier versions": {func(w *world) {
			done(w)
			w.infra.Status.Conditions = []rkev1.GenericCondition{{Type: "Ready"}}
		}, []string{"update status"}},
		"created by hand":              {func(w *world) { w.provisioning = nil }, []string{"update", "update status"}},
		"created by hand, and settled": {func(w *world) { done(w); w.provisioning = nil }, nil},
		"its provisioning cluster is not cached yet": {func(w *world) {
			w.provisioning = nil
			w.infra.Annotations = map[string]string{
				"objectset.rio.cattle.io/owner-gvk": "provisioning.cattle.io/v1, Kind=Cluster"}
		}, nil},
		"created by another program's apply set": {func(w *world) {
			w.provisioning = nil
			w.infra.Annotations = map[string]string{"objectset.rio.cattle.io/owner-gvk": "example.org/v1, Kind=Cluster"}
		}, []string{"update", "update status"}},
		"another instance's cluster": {func(w *world) {
			w.provisioning.Annotations["drover.io/instance"] = "instance-2"
		}, nil},
		"another manager's cluster": {func(w *world) { w.provisioning.Annotations = nil }, nil},
		"not adopted yet":           {func(w *world) { w.infra.OwnerReferences = nil }, nil},
		"an owner of another group": {func(w *world) {
			w.infra.OwnerReferences[0].APIVersion = "provisioning.cattle.io/v1"
		}, nil},
		"the controller wins over other owners": {func(w *world) {
			first := metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "other"}
			w.infra.OwnerReferences[0].Controller = &yes
			w.infra.OwnerReferences = append([]metav1.OwnerReference{first}, w.infra.OwnerReferences...)
		}, []string{"update", "update status"}},
		"the owner is not cached yet": {func(w *world) { w.capiCluster = nil }, nil},
		"the cluster is paused":       {func(w *world) { w.capiCluster.Spec.Paused = &yes }, nil},
		"the object is paused": {func(w *world) {
			w.infra.Annotations = map[string]string{"cluster.x-k8s.io/paused": ""}
		}, nil},
		"another program manages the infrastructure": {func(w *world) {
			w.infra.Annotations = map[string]string{"cluster.x-k8s.io/managed-by": "them"}
		}, nil},
		"the object is being deleted": {func(w *world) { w.infra.DeletionTimestamp = ptrNow() }, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(c.edit)
			if _, err := w.register(t)("", w.infra.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, w.writes); diff != "" {
				t.Error(diff)
			}
			if len(c.want) == 0 {
				return
			}
			if p := w.infra.Status.Initialization.Provisioned; p == nil || !*p || len(w.infra.Status.Conditions) > 0 ||
				!w.infra.Spec.ControlPlaneEndpoint.IsValid() {
				t.Errorf("object %+v", w.infra)
			}
		})
	}
}

func TestOnChange_Errors(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*world){
		"the cache fails": func(w *world) { w.readErr = errors.New("no cache") },
		"a write fails":   func(w *world) { w.writeErr = errors.New("no API server") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(edit)
			if _, err := w.register(t)("", w.infra.DeepCopy()); err == nil {
				t.Error("the error is not returned")
			}
		})
	}
	w := newWorld()
	if got, err := w.register(t)("", nil); got != nil || err != nil {
		t.Errorf("a deleted object: %v, %v", got, err)
	}
}

func ptrNow() *metav1.Time {
	now := metav1.Now()
	return &now
}
