package topology_test

import (
	"encoding/json"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch"
	"github.com/google/go-cmp/cmp"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// written is a user's text: zeros, empty objects and lists, a field that no Go type has, and null where it is allowed.
const written = `{
  "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
  "metadata": {"namespace": "fleet-default", "name": "demo", "resourceVersion": "7"METADATA},
  "spec": {
    "kubernetesVersion": "v1.36.2+rke2r1", "fromTheFuture": {"depth": 0}, "enableNetworkPolicy": false,
    "localClusterAuthEndpoint": {}, "agentEnvVars": [], "defaultPodSecurityAdmissionConfigurationTemplateName": "",
    "rkeConfig": {
      "machineGlobalConfig": {"disable": [], "debug": false, "x": null}, "etcd": {}, "upgradeStrategy": {"controlPlaneConcurrency": ""},
      "machinePools": [
        {"name": "a", "quantity": 0, "etcdRole": false, "paused": false, "new": 1, "machineConfigRef": {"kind": "PodConfig", "name": "nc"}},
        {"name": "b", "quantity": 2, "labels": {}, "taints": [], "machineConfigRef": {"kind": "PodConfig", "name": "nc"}}
      ]
    }
  }
}`

// generic decodes JSON without Drover's types.
func generic(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// with is the written Cluster with metadata, as text and as Drover's type.
func with(t *testing.T, metadata string) ([]byte, *provv1.Cluster) {
	t.Helper()
	raw := []byte(strings.Replace(written, "METADATA", metadata, 1))
	cluster := &provv1.Cluster{}
	if err := json.Unmarshal(raw, cluster); err != nil {
		t.Fatal(err)
	}
	return raw, cluster
}

// TestPreparePatch_KeepsTheUsersFields checks that only Drover's own fields differ between the original and the
// result.
func TestPreparePatch_KeepsTheUsersFields(t *testing.T) {
	const ours = `"clusterctl.cluster.x-k8s.io/block-move": "true", "drover.io/instance": "instance-1", "provisioning.cattle.io/management-cluster-display-name": "demo"`
	for name, c := range map[string]struct{ metadata, want string }{
		"bare": {
			want: `, "annotations": {` + ours + `}, "finalizers": ["` + provv1.ProvisioningClusterFinalizer + `", "` +
				provv1.RKEClusterFinalizer + `"]`,
		},
		"with metadata of the user": {
			metadata: `, "annotations": {"a/b~c": "", "drover.io/instance": ""}, "labels": {"team": ""}, "finalizers": ["theirs"]`,
			want: `, "annotations": {"a/b~c": "", ` + ours + `}, "labels": {"team": ""}, "finalizers": ["theirs", "` +
				provv1.ProvisioningClusterFinalizer + `", "` + provv1.RKEClusterFinalizer + `"]`,
		},
		"prepared except for a pool": {
			metadata: `, "annotations": {` + ours + `}, "finalizers": ["` + provv1.RKEClusterFinalizer + `", "` +
				provv1.ProvisioningClusterFinalizer + `"]`,
			want: `, "annotations": {` + ours + `}, "finalizers": ["` + provv1.RKEClusterFinalizer + `", "` +
				provv1.ProvisioningClusterFinalizer + `"]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			raw, cluster := with(t, c.metadata)
			prepared, err := topology.Prepare(cluster, "instance-1",
				map[string]*mgmtv3.DynamicSchemaSpec{"podconfig": {}})
			if err != nil {
				t.Fatal(err)
			}
			patch, err := topology.PreparePatch(cluster, prepared)
			if err != nil {
				t.Fatal(err)
			}
			decoded, err := jsonpatch.DecodePatch(patch)
			if err != nil {
				t.Fatal(err)
			}
			after, err := decoded.Apply(raw)
			if err != nil {
				t.Fatalf("%s: %v", patch, err)
			}
			wantRaw, _ := with(t, c.want)
			want := generic(t, wantRaw)
			for _, pool := range want["spec"].(map[string]any)["rkeConfig"].(map[string]any)["machinePools"].([]any) {
				pool.(map[string]any)["dynamicSchemaSpec"] = prepared.Spec.RKEConfig.MachinePools[0].DynamicSchemaSpec
			}
			if diff := cmp.Diff(want, generic(t, after)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestReleasePatch_RemovesOnlyDroversFinalizer checks that the patch removes only Drover's finalizer, and names the
// resource version, because it replaces the list.
func TestReleasePatch_RemovesOnlyDroversFinalizer(t *testing.T) {
	raw, cluster := with(t, `, "finalizers": ["theirs", "`+provv1.RKEClusterFinalizer+`"]`)
	patch, err := topology.ReleasePatch(cluster, provv1.RKEClusterFinalizer)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"metadata":{"finalizers":["theirs"],"resourceVersion":"7"}}`, string(patch)); diff != "" {
		t.Error(diff)
	}
	after, err := jsonpatch.MergePatch(raw, patch)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := with(t, `, "finalizers": ["theirs"]`)
	if diff := cmp.Diff(generic(t, want), generic(t, after)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
