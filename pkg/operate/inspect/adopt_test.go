package inspect

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// A user's edit of the Cluster's spec and Cluster API's owner references of the control plane do not count as activity
// of a manager.
func TestLastActivity_CountsManagersOnly(t *testing.T) {
	at := func(minute int) *metav1.Time {
		v := metav1.NewTime(time.Date(2026, 9, 1, 12, minute, 0, 0, time.UTC))
		return &v
	}
	wrote := func(manager, subresource, fields string, minute int) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource,
			FieldsV1: metav1.NewFieldsV1(fields), Time: at(minute)}
	}
	cluster, controlPlane := &provv1.Cluster{}, &rkev1.RKEControlPlane{}
	if got := lastActivity(cluster, controlPlane, false); got != nil {
		t.Errorf("%+v", got)
	}
	cluster.ManagedFields = []metav1.ManagedFieldsEntry{wrote("kubectl", "", `{"f:spec":{}}`, 9),
		wrote("rancher", "status", `{}`, 1)}
	controlPlane.ManagedFields = []metav1.ManagedFieldsEntry{
		wrote("rancher", "", `{"f:spec":{}}`, 3), wrote("rancher", "status", `{}`, 2),
		wrote("capi", "", `{"f:metadata":{"f:ownerReferences":{}}}`, 8), {Manager: "old", Subresource: "status"},
	}
	if diff := cmp.Diff(&Activity{Writer: "rancher", What: "the RKEControlPlane", At: *at(3)},
		lastActivity(cluster, controlPlane, false)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The release, move or restore of a released cluster does not count as activity of a manager. Later writes do.
func TestLastActivity_IgnoresTheRelease(t *testing.T) {
	noon := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	entry := func(manager, subresource, fields string, after time.Duration) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(noon.Add(after))
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource,
			FieldsV1: metav1.NewFieldsV1(fields), Time: &at}
	}
	const spec, mark = `{"f:spec":{}}`, `{"f:metadata":{"f:annotations":{"f:drover.io/released-by":{}}}}`
	for name, tc := range map[string]struct {
		created      time.Duration // of both objects, after noon
		restored     bool
		cluster      []metav1.ManagedFieldsEntry
		controlPlane []metav1.ManagedFieldsEntry
		want         string // the active writer
	}{
		"just released": {
			created: -time.Hour, cluster: []metav1.ManagedFieldsEntry{entry("drover", "", mark, 0),
				entry("drover", "status", "{}", -time.Second)},
			controlPlane: []metav1.ManagedFieldsEntry{entry("drover", "status", "{}", 5*time.Second)},
		},
		"its instance continues": {
			created: -time.Hour, cluster: []metav1.ManagedFieldsEntry{entry("drover", "", mark, 0)},
			controlPlane: []metav1.ManagedFieldsEntry{entry("drover", "status", "{}", time.Minute)}, want: "drover",
		},
		"Rancher manages it now": {
			created: -time.Hour, cluster: []metav1.ManagedFieldsEntry{entry("drover", "", mark, 0),
				entry("rancher", "status", "{}", time.Minute)}, want: "rancher",
		},
		"moved": {controlPlane: []metav1.ManagedFieldsEntry{entry("clusterctl", "", spec, 0)}},
		"moved, and another manager plans it": {
			controlPlane: []metav1.ManagedFieldsEntry{entry("clusterctl", "", spec, 0),
				entry("rancher", "status", "{}", time.Minute)}, want: "rancher",
		},
		"restored": {
			restored: true, cluster: []metav1.ManagedFieldsEntry{entry("drover", "", mark, 0),
				entry("drover", "status", "{}", time.Second)},
			controlPlane: []metav1.ManagedFieldsEntry{entry("drover", "", spec, 0),
				entry("drover", "status", "{}", time.Minute)},
		},
		"restored, and another manager plans it": {
			restored: true, controlPlane: []metav1.ManagedFieldsEntry{entry("drover", "", spec, 0),
				entry("rancher", "status", "{}", time.Minute)}, want: "rancher",
		},
	} {
		t.Run(name, func(t *testing.T) {
			meta := metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon.Add(tc.created))}
			if tc.restored {
				meta.Annotations = map[string]string{rkev1.RestoredFromAnnotation: "b"}
			}
			cluster, controlPlane := &provv1.Cluster{ObjectMeta: meta}, &rkev1.RKEControlPlane{ObjectMeta: meta}
			cluster.ManagedFields, controlPlane.ManagedFields = tc.cluster, tc.controlPlane
			got := lastActivity(cluster, controlPlane, true)
			if (got == nil) != (tc.want == "") || got != nil && got.Writer != tc.want {
				t.Errorf("%+v, want %q", got, tc.want)
			}
		})
	}
}

func TestFieldPath_NamesFieldsLikeTheServer(t *testing.T) {
	var got []string
	for _, path := range fieldsOf(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"a.b/c": nil}, "labels": map[string]any{}},
		"spec":     map[string]any{"list": []any{1}, "x": "y"},
	}) {
		got = append(got, fieldPath(path))
	}
	if diff := cmp.Diff([]string{"metadata.annotations[a.b/c]", "metadata.labels", "spec.list", "spec.x"},
		got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
