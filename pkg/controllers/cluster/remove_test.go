package cluster

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/applyset"
)

// sets records what is applied and purged, in order.
type sets struct{ done []string }

func (s *sets) Watch(...schema.GroupVersionKind) error { return nil }

func (s *sets) Apply(_ context.Context, _ string, _ runtime.Object, _ applyset.OwnerRefs, kinds []schema.GroupVersionKind, objects []runtime.Object) (applyset.Result, error) {
	for _, object := range objects {
		record := object.(*mgmtv3.Cluster)
		s.done = append(s.done, "apply "+record.Name+" protect="+record.Annotations[rkev1.ProtectAnnotation])
	}
	if len(kinds) != 1 {
		s.done = append(s.done, "of other kinds")
	}
	return applyset.Result{}, nil
}

func (s *sets) PurgeLive(context.Context, string, schema.GroupVersionKind, string, string, []schema.GroupVersionKind) error {
	s.done = append(s.done, "purge")
	return nil
}

// noProber is a Prober without state.
type noProber struct{}

func (noProber) Answered(types.NamespacedName) bool { return false }
func (noProber) Forget(types.NamespacedName)        {}

// The copied protection of earlier releases is removed from the management cluster, where it would refuse the removal.
func TestRemove_TakesTheCopyOfTheProtectionOff(t *testing.T) {
	t.Parallel()
	protected := map[string]string{rkev1.ProtectAnnotation: "true"}
	for name, tc := range map[string]struct {
		management metav1.ObjectMeta
		want       []string
	}{
		"a copy":                {metav1.ObjectMeta{Annotations: protected}, []string{"apply " + claimed + " protect=", "purge"}},
		"no copy":               {metav1.ObjectMeta{}, []string{"purge"}},
		"one that goes already": {metav1.ObjectMeta{Annotations: protected, DeletionTimestamp: &metav1.Time{}}, []string{"purge"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, done := newOffice(t), &sets{}
			o.cached = &mgmtv3.Cluster{ObjectMeta: tc.management}
			writer := fake.NewMockControllerInterface[*provv1.Cluster, *provv1.ClusterList](gomock.NewController(t))
			writer.EXPECT().Patch("ns", "demo", types.MergePatchType, gomock.Any()).Return(&provv1.Cluster{}, nil)
			o.handler.Clusters, o.handler.Apply, o.handler.Prober = writer, done, noProber{}
			cluster := &provv1.Cluster{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", Finalizers: []string{provv1.ProvisioningClusterFinalizer}},
				Status:     provv1.ClusterStatus{ClusterName: claimed},
			}
			if _, err := o.handler.remove(cluster); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, done.done); diff != "" {
				t.Error(diff)
			}
		})
	}
}
