package stories

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// userFile is a Cluster as a user wrote it, with values that Drover's Go types would omit or add.
const userFile = `{
  "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
  "metadata": {"namespace": "fleet-default", "name": "demo", "labels": {"team": ""}, "annotations": {"note": ""}, "finalizers": ["example.org/theirs"]},
  "spec": {
    "kubernetesVersion": "v1.36.2+k3s1", "enableNetworkPolicy": false, "localClusterAuthEndpoint": {}, "agentEnvVars": [],
    "rkeConfig": {
      "etcd": {}, "machineGlobalConfig": {"disable": [], "debug": false, "of-tomorrow": {"depth": 0}}, "upgradeStrategy": {"controlPlaneConcurrency": ""},
      "machinePools": [
        {"name": "server", "etcdRole": true, "controlPlaneRole": true, "workerRole": false, "paused": false, "machineConfigRef": {"kind": "PodConfig", "name": "nc"}},
        {"name": "worker", "workerRole": true, "quantity": 0, "labels": {}, "taints": [], "machineConfigRef": {"kind": "PodConfig", "name": "nc"}}
      ]
    }
  }
}`

// TestCluster_UserFileStaysAsItWasWrittenWhereverTheProcessIsKilled: Drover changes no byte that the user wrote,
// neither at preparation, nor with the status, nor at deletion. Otherwise, tools that compare the Cluster with a
// repository would never settle.
func TestCluster_UserFileStaysAsItWasWrittenWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 4, drivers, func(s *story) {
		t := s.t
		t.Helper()
		file := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(userFile), &file.Object); err != nil {
			t.Fatal(err)
		}
		clusters := s.core.client.Resource(provv1.SchemeGroupVersion.WithResource("clusters")).Namespace(namespace)
		if _, err := clusters.Create(t.Context(), file, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		s.settle()
		stored := func() map[string]any {
			t.Helper()
			found, err := clusters.Get(t.Context(), "demo", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return found.Object
		}
		same := func(when string) {
			t.Helper()
			if diff := cmp.Diff(string(bytesOf(t, file.Object["spec"])),
				string(bytesOf(t, withoutSchemas(t, stored()["spec"])))); diff != "" {
				t.Errorf("spec %s (-written +stored):\n%s", when, diff)
			}
			found := &unstructured.Unstructured{Object: stored()}
			if value, has := found.GetAnnotations()["note"]; !has || value != "" || found.GetLabels()["team"] != "" ||
				len(found.GetLabels()) != 1 {
				t.Errorf("metadata %s: labels %v, annotations %v", when, found.GetLabels(), found.GetAnnotations())
			}
		}
		same("of a cluster that was made")
		if got := s.read().Status.ClusterName; got == "" {
			t.Error("Drover must act on the cluster")
		}
		s.delete()
		s.settle()
		same("of a cluster that we have let go")
		if got := s.read().Finalizers; !cmp.Equal(got, []string{"example.org/theirs"}) {
			t.Errorf("finalizers %v", got)
		}
		if _, err := clusters.Patch(t.Context(), "demo", types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	})
}

// withoutSchemas removes the one field that Drover adds: the copies of driver schemas.
func withoutSchemas(t *testing.T, spec any) any {
	t.Helper()
	copied := map[string]any{}
	if err := json.Unmarshal(bytesOf(t, spec), &copied); err != nil {
		t.Fatal(err)
	}
	pools, _, err := unstructured.NestedSlice(copied, "rkeConfig", "machinePools")
	if err != nil {
		t.Fatal(err)
	}
	for _, pool := range pools {
		if fields, ok := pool.(map[string]any); ok {
			delete(fields, "dynamicSchemaSpec")
		}
	}
	if err := unstructured.SetNestedSlice(copied, pools, "rkeConfig", "machinePools"); err != nil {
		t.Fatal(err)
	}
	return copied
}

// bytesOf returns a value as JSON with sorted keys.
func bytesOf(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
