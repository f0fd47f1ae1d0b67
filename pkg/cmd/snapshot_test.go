package cmd

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/testkit/build"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/packed"
)

// snapshotted adds snapshots: one in S3, an older one on a node with another version, a failed one, and one of another
// cluster.
func snapshotted(t *testing.T) *memkube.Server {
	t.Helper()
	api := operated(t)
	machined(t, api, "m1")
	holder := build.Machine("demo", "m1", "ec")
	if found, err := api.Get(holder); err != nil || !found {
		t.Fatal(err)
	}
	add := func(name, cluster string, age time.Duration, file rkev1.ETCDSnapshotFile) {
		taken := metav1.NewTime(time.Now().Add(-age))
		file.Name, file.CreatedAt = name+".file", &taken
		meta := metav1.ObjectMeta{Namespace: defaultNamespace, Name: name,
			Labels: map[string]string{rkev1.ClusterNameLabel: cluster}}
		if file.NodeName == "m1" {
			meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(),
				Kind: "Machine", Name: "m1", UID: holder.UID}}
		}
		check(t, api.Add(&rkev1.ETCDSnapshot{
			TypeMeta: metav1.TypeMeta{APIVersion: "rke.cattle.io/v1", Kind: "ETCDSnapshot"}, ObjectMeta: meta,
			Spec: rkev1.ETCDSnapshotSpec{ClusterName: cluster}, SnapshotFile: file,
		}))
	}
	add("local", "demo", 26*time.Hour, rkev1.ETCDSnapshotFile{NodeName: "m1", Status: "successful", Size: 12 << 20,
		Metadata: packed.Metadata(`{"kubernetesVersion":"v1.35.3+k3s1"}`)})
	add("young", "demo", time.Minute, rkev1.ETCDSnapshotFile{
		NodeName: "s3", Status: "successful", Size: 3 << 19,
		Metadata: packed.Metadata(`{"kubernetesVersion":"v1.36.2+k3s1"}`),
		S3:       &rkev1.ETCDSnapshotS3{Bucket: "b", Folder: "f"},
	})
	add("broken", "demo", time.Hour, rkev1.ETCDSnapshotFile{NodeName: "m2", Status: "failed",
		Message: "no space\nleft"})
	add("lost", "demo", 30*time.Hour, rkev1.ETCDSnapshotFile{NodeName: "m3"})
	add("theirs", "other", 2*time.Hour, rkev1.ETCDSnapshotFile{NodeName: "o1", Size: 100})
	return api
}

func TestSnapshotList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := snapshotted(t)
		for name, tc := range map[string]struct {
			args []string
			want string
		}{
			"those of a cluster": {[]string{"demo"}, `NAME    CLUSTER  STORAGE  NODE  STATUS      SIZE      AGE  VERSION
young   demo     s3       -     successful  1.5 MiB   60s  v1.36.2+k3s1
broken  demo     local    m2    failed      -         60m  -
local   demo     local    m1    successful  12.0 MiB  26h  v1.35.3+k3s1
lost    demo     local    m3    -           -         30h  -
`},
			"those of all clusters": {nil, `NAME    CLUSTER  STORAGE  NODE  STATUS      SIZE      AGE   VERSION
young   demo     s3       -     successful  1.5 MiB   60s   v1.36.2+k3s1
broken  demo     local    m2    failed      -         60m   -
theirs  other    local    o1    -           0.1 MiB   120m  -
local   demo     local    m1    successful  12.0 MiB  26h   v1.35.3+k3s1
lost    demo     local    m3    -           -         30h   -
`},
			"those of a cluster that has none": {[]string{"young"}, ""},
		} {
			code, out, problems := look(t, api, append([]string{"snapshot", "list"}, tc.args...)...)
			if diff := cmp.Diff(tc.want, out); diff != "" || code != 0 || (tc.want == "") != strings.Contains(problems,
				"no snapshots of cluster young are known in namespace fleet-default") {
				t.Errorf("%s: exit code %d, %s (-want +got):\n%s", name, code, problems, diff)
			}
		}
		if code, _, problems := look(t, api, "snapshot", "list", "absent"); code != 1 ||
			!strings.Contains(problems, "there is no Cluster absent in namespace fleet-default") {
			t.Errorf("exit code %d, %s", code, problems)
		}
		_, out, _ := look(t, api, "snapshot", "list", "demo", "-o", "json")
		var got inspect.Snapshots
		check(t, json.Unmarshal([]byte(out), &got))
		if got.Cluster != "demo" || len(got.Snapshots) != 4 || got.Snapshots[0].Bucket != "b" ||
			got.Snapshots[0].Node != "" || got.Snapshots[2].Size != 12<<20 {
			t.Errorf("got %+v", got)
		}
		if writes := api.Writes("drover"); len(writes) > 0 {
			t.Errorf("writes: %v", writes)
		}
	})
}

func TestSnapshotRestore_Completion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := snapshotted(t)
		for words, want := range map[string]string{
			"":                                  "demo\nyoung\n",
			"demo ":                             "young\nlocal\nlost\n",
			"demo local --kubernetes-version ":  "v1.35.3+k3s1\n",
			"demo theirs --kubernetes-version ": ":4\n",
			"demo local ":                       ":4\n",
		} {
			code, out, _ := look(t, api, append([]string{cobraComplete, "snapshot", "restore"},
				strings.Split(words, " ")...)...)
			if code != 0 || !strings.HasPrefix(out, want) {
				t.Errorf("%q: %d %q, want %q", words, code, out, want)
			}
		}
		if code, out, _ := look(t, api, cobraComplete, "rotate", "certificates", "demo", "--service", ""); code != 0 ||
			!strings.HasPrefix(out, "admin\napi-server\n") {
			t.Errorf("services: %d %q", code, out)
		}
	})
}
