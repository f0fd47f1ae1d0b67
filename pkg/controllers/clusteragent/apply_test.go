package clusteragent

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/drover-io/drover/pkg/reach/proxy"
)

// Drover owns the fields of kubectl and the distribution, so that they disappear with the manifest, but not those of
// scalers and status writers.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	entry := func(manager, subresource, fields string,
		operation metav1.ManagedFieldsOperationType) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: operation, Subresource: subresource, APIVersion: "apps/v1",
			FieldsType: "FieldsV1",
			FieldsV1:   metav1.NewFieldsV1(fields),
		}
	}
	const spec = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"cluster-register\"}":{".":{},"f:ports":{}}}}}}}`
	found := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-system", Name: "cattle-cluster-agent",
		ResourceVersion: "7", ManagedFields: []metav1.ManagedFieldsEntry{
			entry("deploy@server-1", "", spec, metav1.ManagedFieldsOperationUpdate),
			entry("kubectl", "scale", `{"f:spec":{"f:replicas":{}}}`, metav1.ManagedFieldsOperationUpdate),
			entry("kube-controller-manager", "status", `{"f:status":{"f:replicas":{}}}`,
				metav1.ManagedFieldsOperationUpdate),
			entry(proxy.FieldManager, "", `{"f:spec":{"f:strategy":{}}}`, metav1.ManagedFieldsOperationApply),
		}}}
	client := fake.NewClientset()
	var patch []byte
	client.PrependReactor("patch", "deployments", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch = action.(clienttesting.PatchAction).GetPatch()
		return true, found, nil
	})
	if err := takeOver(context.Background(), client, found); err != nil {
		t.Fatal(err)
	}
	var operations []struct {
		Path  string
		Value json.RawMessage
	}
	if err := json.Unmarshal(patch, &operations); err != nil {
		t.Fatal(err)
	}
	var entries []metav1.ManagedFieldsEntry
	if err := json.Unmarshal(operations[0].Value, &entries); err != nil {
		t.Fatal(err)
	}
	managers := map[string]string{}
	for _, e := range entries {
		managers[e.Manager+"/"+e.Subresource] = e.FieldsV1.GetRawString()
	}
	if len(managers) != 3 || !strings.Contains(managers["drover/"], "f:ports") ||
		!strings.Contains(managers["drover/"], "f:strategy") || managers["kubectl/scale"] == "" {
		t.Errorf("the owners are %v", managers)
	}
	if string(operations[1].Value) != `"7"` {
		t.Errorf("the patch names an API version: %s", patch)
	}
	patch, found.ManagedFields = nil, entries
	if err := takeOver(context.Background(), client, found); err != nil || patch != nil {
		t.Errorf("the second patch is %s, error %v", patch, err)
	}
}
