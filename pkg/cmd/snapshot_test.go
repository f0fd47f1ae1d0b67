package cmd

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/inspect"
	"github.com/drover-io/drover/pkg/planner"
	"github.com/drover-io/drover/pkg/testkit/build"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// metadataOf is what a distribution stores with a snapshot of a cluster that had a version.
func metadataOf(t *testing.T, version string) string {
	t.Helper()
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write([]byte(`{"kubernetesVersion":"` + version + `"}`)); err != nil || writer.Close() != nil {
		t.Fatal(err)
	}
	values, err := json.Marshal(map[string]string{rkev1.SnapshotClusterSpecKey: base64.StdEncoding.EncodeToString(packed.Bytes())})
	check(t, err)
	return base64.StdEncoding.EncodeToString(values)
}

// snapshotted adds snapshots: one in S3, one on a node that is older and of another version, one that failed, and one of another cluster.
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
		meta := metav1.ObjectMeta{Namespace: defaultNamespace, Name: name, Labels: map[string]string{rkev1.ClusterNameLabel: cluster}}
		if file.NodeName == "m1" {
			meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m1", UID: holder.UID}}
		}
		check(t, api.Add(&rkev1.ETCDSnapshot{
			TypeMeta: metav1.TypeMeta{APIVersion: "rke.cattle.io/v1", Kind: "ETCDSnapshot"}, ObjectMeta: meta,
			Spec: rkev1.ETCDSnapshotSpec{ClusterName: cluster}, SnapshotFile: file,
		}))
	}
	add("local", "demo", 26*time.Hour, rkev1.ETCDSnapshotFile{NodeName: "m1", Status: "successful", Size: 12 << 20, Metadata: metadataOf(t, "v1.35.3+k3s1")})
	add("young", "demo", time.Minute, rkev1.ETCDSnapshotFile{
		NodeName: "s3", Status: "successful", Size: 3 << 19, Metadata: metadataOf(t, "v1.36.2+k3s1"), S3: &rkev1.ETCDSnapshotS3{Bucket: "b", Folder: "f"},
	})
	add("broken", "demo", time.Hour, rkev1.ETCDSnapshotFile{NodeName: "m2", Status: "failed", Message: "no space\nleft"})
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
			if diff := cmp.Diff(tc.want, out); diff != "" || code != 0 || (tc.want == "") != strings.Contains(problems, "no snapshots of cluster young are known in namespace fleet-default") {
				t.Errorf("%s: exit code %d, %s (-want +got):\n%s", name, code, problems, diff)
			}
		}
		if code, _, problems := look(t, api, "snapshot", "list", "nobody"); code != 1 || !strings.Contains(problems, "there is no Cluster nobody in namespace fleet-default") {
			t.Errorf("exit code %d, %s", code, problems)
		}
		_, out, _ := look(t, api, "snapshot", "list", "demo", "-o", "json")
		var got inspect.Snapshots
		check(t, json.Unmarshal([]byte(out), &got))
		if got.Cluster != "demo" || len(got.Snapshots) != 4 || got.Snapshots[0].Bucket != "b" || got.Snapshots[0].Node != "" || got.Snapshots[2].Size != 12<<20 {
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
			code, out, _ := look(t, api, append([]string{cobraComplete, "snapshot", "restore"}, strings.Split(words, " ")...)...)
			if code != 0 || !strings.HasPrefix(out, want) {
				t.Errorf("%q: %d %q, want %q", words, code, out, want)
			}
		}
		if code, out, _ := look(t, api, cobraComplete, "rotate", "certificates", "demo", "--service", ""); code != 0 || !strings.HasPrefix(out, "admin\napi-server\n") {
			t.Errorf("services: %d %q", code, out)
		}
	})
}

func TestSnapshotRestore(t *testing.T) {
	const given = "Everything that was written to the cluster's API since the snapshot is given up."
	asked := &rkev1.ETCDSnapshotRestore{Name: "local", Generation: 1}
	for name, tc := range map[string]struct {
		args    []string
		code    int
		want    string
		asked   *rkev1.ETCDSnapshotRestore
		version string
	}{
		"it says what it does":            {[]string{"local", "--yes"}, 0, given, asked, ""},
		"and how to have the version":     {[]string{"local", "--yes"}, 0, "v1.36.2+k3s1; --kubernetes-version v1.35.3+k3s1 goes back to that of the snapshot", asked, ""},
		"back to the version":             {[]string{"local", "--yes", "--kubernetes-version", "v1.35.3+k3s1"}, 0, "v1.35.3+k3s1, which --kubernetes-version asks for\n", asked, "v1.35.3+k3s1"},
		"a file":                          {[]string{"f", "--file", "--yes"}, 0, "f, which is no ETCDSnapshot of namespace fleet-default: --file says that it is the name of a file", &rkev1.ETCDSnapshotRestore{Name: "f", Generation: 1}, ""},
		"a name that is mistyped":         {[]string{"locla", "--yes"}, 1, "there is no ETCDSnapshot locla in namespace fleet-default, and nothing was asked for; drover snapshot list demo -n fleet-default lists", nil, ""},
		"the file of a snapshot":          {[]string{"local.file", "--yes"}, 1, "that is the name of a file, and the ETCDSnapshot of it is local", nil, ""},
		"no file, but a snapshot":         {[]string{"local", "--file", "--yes"}, 1, "there is an ETCDSnapshot local, and by that name it would be restored: leave out --file", nil, ""},
		"one that would fail":             {[]string{"lost", "--yes"}, 1, "the etcd restore would fail, and nothing was asked for: the machine that holds snapshot lost cannot start etcd or is gone", nil, ""},
		"one that would fail, in a try":   {[]string{"lost", "--dry-run"}, 1, "the etcd restore would fail: the machine that holds snapshot lost cannot start etcd or is gone", nil, ""},
		"a version without distribution":  {[]string{"local", "--yes", "--kubernetes-version", "v1.35.3"}, 1, `"v1.35.3" must name a distribution behind +`, nil, ""},
		"a version that nobody knows":     {[]string{"local", "--yes", "--kubernetes-version", "v1.99.0+k3s1"}, 0, "the release data do not know v1.99.0+k3s1", asked, "v1.99.0+k3s1"},
		"release data that are not there": {[]string{"local", "--yes", "--release-data", "/nowhere"}, 0, "it cannot be said whether it would fail at once: --release-data: ", asked, ""},
		"nor with them a version":         {[]string{"local", "--yes", "--release-data", "/nowhere", "--kubernetes-version", "v1.35.3+k3s1"}, 1, "--kubernetes-version would stay in the spec: nothing was asked for", nil, ""},
		"nobody is there to be asked":     {[]string{"local"}, 1, "there is no terminal to ask on, and nothing was asked for; --yes restores without asking", nil, ""},
		"a snapshot of another cluster":   {[]string{"theirs", "--yes"}, 1, "snapshot theirs is of cluster other, not of demo; drover snapshot list demo -n fleet-default lists those that are", nil, ""},
		"a snapshot that was not taken":   {[]string{"broken", "--yes"}, 1, "snapshot broken was not taken: no space left; ", nil, ""},
		"a version that is none":          {[]string{"local", "--yes", "--kubernetes-version", "1.35"}, 1, `--kubernetes-version: "1.35" must be v and a semantic version`, nil, ""},
		"a version of another":            {[]string{"local", "--yes", "--kubernetes-version", "v1.35.3+rke2r1"}, 1, `"v1.35.3+rke2r1" is a version of rke2, and the cluster is one of k3s`, nil, ""},
		"what is refused is so in a try":  {[]string{"broken", "--dry-run"}, 1, "snapshot broken was not taken", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := snapshotted(t)
				was := theirCluster(t, api).Spec.KubernetesVersion
				code, out, problems := look(t, api, append([]string{"snapshot", "restore", "demo"}, tc.args...)...)
				if code != tc.code || !strings.Contains(problems, tc.want) {
					t.Errorf("exit code %d, want %d, %q in\n%s%s", code, tc.code, tc.want, out, problems)
				}
				if tc.version != "" {
					was = tc.version
				}
				cluster := theirCluster(t, api)
				if diff := cmp.Diff(tc.asked, cluster.Spec.RKEConfig.ETCDSnapshotRestore); diff != "" || cluster.Spec.KubernetesVersion != was {
					t.Errorf("version %s, want %s; request (-want +got):\n%s", cluster.Spec.KubernetesVersion, was, diff)
				}
			})
		})
	}
}

// A restore that cannot work is left by asking for another one.
func TestSnapshotRestore_BeginsAnewWhileOneRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := snapshotted(t)
		told(t, api, at(planner.RestoreOperation, `{"name":"young","generation":4}`, rkev1.OperationStateRunning, "etcd restore: x"))
		code, _, problems := look(t, api, "snapshot", "restore", "demo", "local", "--yes")
		if code != 0 || !strings.Contains(problems, "the etcd restore that runs, at generation 4, ends where it stands, and this one begins anew") {
			t.Errorf("exit code %d: %s", code, problems)
		}
		if got := theirCluster(t, api).Spec.RKEConfig.ETCDSnapshotRestore; got == nil || got.Generation != 5 {
			t.Errorf("asked %+v", got)
		}
	})
}

func TestPrintBriefing(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	taken := metav1.NewTime(now.Add(-3 * time.Hour))
	var out bytes.Buffer
	found := &inspect.Snapshot{Name: "s", Storage: "s3", Bucket: "b", Folder: "f", TakenAt: &taken, KubernetesVersion: "v1.35.3+rke2r1"}
	b := briefing{
		management: managementText("https://user:secret@api.example.com:6443", "prod"), scene: demoScene(), snapshot: found, notes: []string{"the cluster is paused"},
		asks: order{kind: planner.RestoreOperation, wish: wish{Name: "s"}},
	}
	b.print(&out, now)
	want := `Management:     https://api.example.com:6443, context prod
Cluster:        a/demo
Snapshot:       s
Of cluster:     not known
Taken:          2026-11-22T09:00:00Z, 3h ago
Kept by:        S3, bucket b, folder f
Version then:   v1.35.3+rke2r1
Version now:    v1.36.2+rke2r1
Version after:  v1.36.2+rke2r1; --kubernetes-version v1.35.3+rke2r1 goes back to that of the snapshot
Note:           the cluster is paused
Everything that was written to the cluster's API since the snapshot is given up. All machines are stopped at once.
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("briefing (-want +got):\n%s", diff)
	}
}

// What has to be said of this very cluster is not what somebody has in the environment, for another command or another cluster.
func TestSnapshotRestore_TakesNoConsentFromTheEnvironment(t *testing.T) {
	t.Parallel()
	got := withoutConsent([]string{"A=b", "DROVER_KUBERNETES_VERSION=v1.30.0+rke2r1", "DROVER_YES=true", "DROVER_yes=1", "DROVER_FILE=true", "DROVER_FILENAME=x", "YES=1", "DROVER_WAIT=true"})
	if diff := cmp.Diff([]string{"A=b", "DROVER_FILENAME=x", "YES=1", "DROVER_WAIT=true"}, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestVersionAfter(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ then, now, asked, want string }{
		"the same":                {"v1", "v1", "", "v1"},
		"nobody knows":            {"", "v2", "", "v2"},
		"another one":             {"v1", "v2", "", "v2; --kubernetes-version v1 goes back to that of the snapshot"},
		"the one that was asked":  {"v1", "v2", "v1", "v1, which --kubernetes-version asks for"},
		"a third":                 {"v1", "v2", "v3", "v3, which --kubernetes-version asks for, and not that of the snapshot"},
		"asked without knowledge": {"", "v2", "v3", "v3, which --kubernetes-version asks for"},
	} {
		if got := versionAfter(tc.then, tc.now, tc.asked); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestConfirm(t *testing.T) {
	for name, tc := range map[string]struct{ typed, want string }{
		"the name":           {"demo\n", ""},
		"the name, unended":  {" demo", ""},
		"another name":       {"prod\n", `"prod" is not the name of the cluster, which is "demo": nothing was asked for`},
		"a yes is no name":   {"y\n", `"y" is not the name of the cluster, which is "demo": nothing was asked for`},
		"nothing, and Enter": {"\n", `"" is not the name of the cluster, which is "demo": nothing was asked for`},
	} {
		o := restoreOptions{isTerminal: func(io.Reader) bool { return true }}
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		cmd.SetIn(strings.NewReader(tc.typed))
		cmd.SetErr(io.Discard)
		if err := o.confirm(cmd, "demo"); (err == nil) != (tc.want == "") || err != nil && err.Error() != tc.want {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
}

// Who presses Ctrl-C instead of an answer is not held by a terminal that goes on listening.
func TestConfirm_EndsWithTheUser(t *testing.T) {
	in, typing := io.Pipe()
	defer func() { _ = typing.Close() }()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if _, err := readLine(ctx, in); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	for range 50 { // an answer that is there as well is none
		if _, err := readLine(ctx, strings.NewReader("demo\n")); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v", err)
		}
	}
	if onTerminal(in) {
		t.Error("a pipe is a terminal")
	}
}
