package inspect

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Users edit the spec of the Cluster, and Cluster API writes owner references of the control plane: neither is a manager at work.
func TestLastActivity_IsAManagers(t *testing.T) {
	at := func(minute int) *metav1.Time {
		v := metav1.NewTime(time.Date(2026, 9, 1, 12, minute, 0, 0, time.UTC))
		return &v
	}
	wrote := func(manager, subresource, fields string, minute int) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields), Time: at(minute)}
	}
	cluster, controlPlane := &provv1.Cluster{}, &rkev1.RKEControlPlane{}
	if got := lastActivity(cluster, controlPlane); got != nil {
		t.Errorf("%+v", got)
	}
	cluster.ManagedFields = []metav1.ManagedFieldsEntry{wrote("kubectl", "", `{"f:spec":{}}`, 9), wrote("rancher", "status", `{}`, 1)}
	controlPlane.ManagedFields = []metav1.ManagedFieldsEntry{
		wrote("rancher", "", `{"f:spec":{}}`, 3), wrote("rancher", "status", `{}`, 2), wrote("capi", "", `{"f:metadata":{"f:ownerReferences":{}}}`, 8), {Manager: "old", Subresource: "status"},
	}
	if diff := cmp.Diff(&Activity{Writer: "rancher", What: "the RKEControlPlane", At: *at(3)}, lastActivity(cluster, controlPlane)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFieldPath_NamesFieldsAsTheServerDoes(t *testing.T) {
	var got []string
	for _, path := range fieldsOf(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"a.b/c": nil}, "labels": map[string]any{}}, "spec": map[string]any{"list": []any{1}, "x": "y"},
	}) {
		got = append(got, fieldPath(path))
	}
	if diff := cmp.Diff([]string{"metadata.annotations[a.b/c]", "metadata.labels", "spec.list", "spec.x"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
