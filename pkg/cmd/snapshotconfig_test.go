package cmd

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/testkit/build"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/packed"
)

// configured has a snapshot on m1 that contains a configuration.
func configured(t *testing.T) *memkube.Server {
	t.Helper()
	api := snapshotted(t)
	holder := build.Machine("demo", "m1", "ec")
	if found, err := api.Get(holder); err != nil || !found {
		t.Fatal(err)
	}
	taken := metav1.NewTime(time.Now())
	check(t, api.Add(&rkev1.ETCDSnapshot{
		TypeMeta: metav1.TypeMeta{APIVersion: "rke.cattle.io/v1", Kind: "ETCDSnapshot"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: defaultNamespace,
			Name:      "whole",
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: "m1", UID: holder.UID},
			},
		},
		Spec: rkev1.ETCDSnapshotSpec{ClusterName: "demo"},
		SnapshotFile: rkev1.ETCDSnapshotFile{Name: "f", NodeName: "m1", CreatedAt: &taken, Metadata: packed.Metadata(
			`{"kubernetesVersion":"v1.35.3+k3s1","rkeConfig":{"machineGlobalConfig":{"token":"hunter2","cni":"none"}}}`,
		)},
	}))
	return api
}

func TestSnapshotRestore_Configuration(t *testing.T) {
	request := func(name string, mode rkev1.RestoreMode) *rkev1.ETCDSnapshotRestore {
		return &rkev1.ETCDSnapshotRestore{Name: name, Generation: 1, RestoreRKEConfig: mode}
	}
	for name, tc := range map[string]struct {
		args  []string
		code  int
		want  string
		asked *rkev1.ETCDSnapshotRestore
	}{
		"everything": {[]string{"whole", "--yes", "--restore-config", "all"}, 0,
			"spec.rkeConfig.machineGlobalConfig.cni: (absent) → none", request("whole", "all")},
		"secrets are hidden": {[]string{"whole", "--yes", "--restore-config", "all"}, 0,
			"spec.rkeConfig.machineGlobalConfig.token: (absent) → ***", request("whole", "all")},
		"the version": {[]string{"local", "--yes", "--restore-config", "kubernetesVersion"}, 0,
			"spec.kubernetesVersion: v1.36.2+k3s1 → v1.35.3+k3s1", request("local", "kubernetesVersion")},
		"the version that it has": {[]string{"young", "--yes", "--restore-config", "kubernetesVersion"}, 0,
			"nothing: the spec has what the snapshot contains", nil},
		"a dry run lists the fields": {[]string{"whole", "--dry-run", "--restore-config", "all"}, 2,
			"Fields that go back with the restore:", nil},
		"a dry run hides secrets": {[]string{"whole", "--dry-run", "-o", "json", "--restore-config", "all"}, 2,
			`"field": "spec.rkeConfig.machineGlobalConfig.token"`, nil},
		"a snapshot without configuration": {[]string{"local", "--yes", "--restore-config", "all"}, 1,
			"the snapshot does not contain the rkeConfig of its cluster", nil},
		"an unknown mode": {[]string{"whole", "--yes", "--restore-config", "some"}, 1,
			`--restore-config: "some" must be one of none, kubernetesVersion, all`, nil},
		"two versions": {
			[]string{"whole", "--yes", "--restore-config", "all", "--kubernetes-version", "v1.35.3+k3s1"}, 1,
			"[kubernetes-version restore-config] were all set", nil},
		"a file": {[]string{"f", "--yes", "--file", "--restore-config", "all"}, 1, "[file restore-config] were all set",
			nil},
		"a manifest of nothing": {[]string{"whole", "--print-spec"}, 1,
			"--print-spec: no field goes back without --restore-config", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := configured(t)
				code, out, problems := look(t, api, append([]string{"snapshot", "restore", "demo"}, tc.args...)...)
				if code != tc.code || !strings.Contains(out+problems, tc.want) {
					t.Errorf("exit code %d, want %d, %q in\n%s%s", code, tc.code, tc.want, out, problems)
				}
				if strings.Contains(out+problems, "hunter2") {
					t.Errorf("it shows a secret: %s%s", out, problems)
				}
				if tc.asked == nil {
					return
				}
				cluster := theirCluster(t, api)
				if diff := cmp.Diff(tc.asked, cluster.Spec.RKEConfig.ETCDSnapshotRestore); diff != "" ||
					cluster.Spec.KubernetesVersion != "v1.36.2+k3s1" {
					t.Errorf("version %s; request (-want +got):\n%s", cluster.Spec.KubernetesVersion, diff)
				}
			})
		})
	}
}

func TestSnapshotRestore_PrintsTheManifest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := configured(t)
		code, out, problems := look(t, api, "snapshot", "restore", "demo", "whole", "--restore-config", "all",
			"--print-spec")
		const want = `apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata:
  name: demo
  namespace: fleet-default
spec:
  kubernetesVersion: v1.35.3+k3s1
  rkeConfig:
    machineGlobalConfig:
      cni: none
      token: hunter2
`
		if diff := cmp.Diff(want, out); diff != "" || code != 0 || len(api.Writes("drover")) > 0 {
			t.Errorf("exit code %d, writes %v, %s\n%s", code, api.Writes("drover"), problems, diff)
		}
	})
}

// A restore succeeds for the waiting command only if the fields that went back are still there.
func TestFollow_RestoredFieldsMayChangeAgain(t *testing.T) {
	t.Parallel()
	s := scene{Cluster: build.Cluster("demo"), ControlPlane: build.ControlPlane("demo")}
	o := order{Kind: planner.RestoreOperation, Wish: wish{Name: "whole", Generation: 1, RestoreRKEConfig: "all"},
		Restored: &rkev1.ETCDSnapshot{SnapshotFile: rkev1.ETCDSnapshotFile{Metadata: packed.Metadata(
			`{"kubernetesVersion":"` + s.Cluster.Spec.KubernetesVersion + `","rkeConfig":{}}`)}}}
	s.Cluster.Spec.RKEConfig.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "whole", Generation: 1,
		RestoreRKEConfig: "all"}
	s.ControlPlane.Status.Operations = []rkev1.OperationRecord{{Name: "etcd-restore", Attempt: 1,
		State:   rkev1.OperationStateSucceeded,
		Request: `{"name":"whole","generation":1,"restoreRKEConfig":"all"}`}}
	if seen := followed(s, o); !seen.ended || seen.err != nil {
		t.Errorf("everything is as restored: %+v", seen)
	}
	s.Cluster.Spec.RKEConfig.AdditionalManifest = "kind: A"
	if seen := followed(s,
		o,
	); seen.err == nil ||
		!strings.Contains(seen.err.Error(), "spec.rkeConfig.additionalManifest") {
		t.Errorf("a field has changed again: %+v", seen)
	}
}
