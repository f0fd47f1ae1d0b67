package fleetcluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/clients"
)

func TestDecide(t *testing.T) {
	own := func(t *testing.T) *unstructured.Unstructured {
		t.Helper()
		object := &unstructured.Unstructured{Object: map[string]any{}}
		if err := applyset.Mark(object, handlerName, clusterKind, "team-a", "demo"); err != nil {
			t.Fatal(err)
		}
		return object
	}
	elsewhere := func(f *Facts) {
		f.cluster.Annotations = map[string]string{provv1.FleetWorkspaceNameAnnotation: "work"}
	}
	for name, tc := range map[string]struct {
		edit func(t *testing.T, f *Facts)
		want step
		end  string // how the problem begins
	}{
		"a ready cluster":    {want: create},
		"a cluster in Fleet": {edit: func(t *testing.T, f *Facts) { t.Helper(); f.existing = own(t) }, want: update},
		"a disconnected cluster in Fleet": {edit: func(t *testing.T, f *Facts) {
			t.Helper()
			f.existing, f.hasKubeconfig, f.management.Status.Conditions = own(t), false, nil
		}, want: update},
		"a cluster that was never ready": {edit: func(_ *testing.T, f *Facts) { f.management.Status.Conditions = nil },
			want: keep},
		"a cluster without a kubeconfig": {edit: func(_ *testing.T, f *Facts) { f.hasKubeconfig = false }, want: keep},
		"a Fleet Cluster that is being deleted": {edit: func(t *testing.T, f *Facts) {
			t.Helper()
			f.existing = own(t)
			f.existing.SetDeletionTimestamp(new(metav1.Now()))
		}, want: keep},
		"a cluster that is being deleted": {edit: func(_ *testing.T, f *Facts) {
			f.cluster.DeletionTimestamp = new(metav1.Now())
		}, want: ignore},
		"a cluster that was made from its management cluster": {edit: func(_ *testing.T, f *Facts) {
			f.cluster.Name = "local"
		}, want: ignore},
		"Fleet's cache is not filled": {edit: func(_ *testing.T, f *Facts) { f.fleet = clients.Filling }, want: ignore},
		"the namespace of the cluster is not readable": {edit: func(_ *testing.T, f *Facts) { elsewhere(f) },
			want: keep,
			end: "metadata.annotations[provisioning.cattle.io/fleet-workspace-name]: Fleet does not read kubeconfigs of " +
				"namespace team-a for workspace work; remove the annotation, or create the Cluster in namespace work " +
				"or " +
				"fleet-default"},
		"another workspace of a readable namespace admits the cluster": {edit: func(_ *testing.T, f *Facts) {
			elsewhere(f)
			f.cluster.Namespace = "fleet-default"
			f.workspace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				rkev1.AuthorizedObjectAnnotation: "fleet-default/demo"}}}
		}, want: create},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Facts{
				cluster:    &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "demo"}},
				management: &mgmtv3.Cluster{}, fleet: clients.Served, hasKubeconfig: true,
			}
			f.cluster.Status.ClientSecretName = "demo-kubeconfig"
			conditions.Set(&f.management.Status.Conditions, conditions.Condition{
				Type: mgmtv3.ClusterConditionReady, Status: rkev1.ConditionTrue}, f.now)
			if tc.edit != nil {
				tc.edit(t, f)
			}
			got := f.decide()
			end := ""
			if got.end != nil {
				end = got.end.Error()
			}
			if got.step != tc.want || !strings.HasPrefix(end, tc.end) || tc.end == "" && end != "" {
				t.Errorf("step %d with problem %q, want step %d with problem %q", got.step, end, tc.want, tc.end)
			}
		})
	}
}
