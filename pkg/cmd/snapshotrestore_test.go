package cmd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/preview"
	"github.com/drover-io/drover/pkg/operate/restore"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

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
		"it says what it does": {[]string{"local", "--yes"}, 0, given, asked, ""},
		"it names the flag for the version": {[]string{"local", "--yes"}, 0,
			"v1.36.2+k3s1; --restore-config kubernetesVersion goes back to that of the snapshot", asked, ""},
		"back to the version": {[]string{"local", "--yes", "--kubernetes-version", "v1.35.3+k3s1"}, 0,
			"v1.35.3+k3s1, which --kubernetes-version asks for\n", asked, "v1.35.3+k3s1"},
		"a file": {[]string{"f", "--file", "--yes"}, 0,
			"f, which is no ETCDSnapshot of namespace fleet-default: --file says that it is the name of a file",
			&rkev1.ETCDSnapshotRestore{Name: "f", Generation: 1}, ""},
		"a name that is mistyped": {[]string{"locla", "--yes"}, 1,
			"there is no ETCDSnapshot locla in namespace fleet-default, and nothing was asked for; drover snapshot " +
				"list demo -n fleet-default lists", nil, ""},
		"the file of a snapshot": {[]string{"local.file", "--yes"}, 1,
			"that is the name of a file, and the ETCDSnapshot of it is local", nil, ""},
		"no file, but a snapshot": {[]string{"local", "--file", "--yes"}, 1,
			"there is an ETCDSnapshot local, and by that name it would be restored: leave out --file", nil, ""},
		"one that would fail": {[]string{"lost", "--yes"}, 1,
			"the etcd restore would fail, and nothing was asked for: the machine that holds snapshot lost cannot " +
				"start etcd or is gone", nil, ""},
		"one that would fail, in a dry run": {[]string{"lost", "--dry-run"}, 1,
			"the etcd restore would fail: the machine that holds snapshot lost cannot start etcd or is gone", nil, ""},
		"an unknown version": {[]string{"local", "--yes", "--kubernetes-version", "v1.99.0+k3s1"}, 0,
			"the release data do not know v1.99.0+k3s1", asked, "v1.99.0+k3s1"},
		"release data that are not there": {[]string{"local", "--yes", "--release-data", "/nowhere"}, 0,
			"it cannot be said whether it would fail at once: --release-data: ", asked, ""},
		"no terminal": {[]string{"local"}, 1,
			"there is no terminal to ask on, and nothing was asked for; --yes restores without asking", nil, ""},
		"a snapshot of another cluster": {[]string{"theirs", "--yes"}, 1,
			"snapshot theirs is of cluster other, not of demo; drover snapshot list demo -n fleet-default lists " +
				"those that are", nil, ""},
		"a snapshot that was not taken": {[]string{"broken", "--yes"}, 1,
			"snapshot broken was not taken: no space left; ", nil, ""},
		"a version of another": {[]string{"local", "--yes", "--kubernetes-version", "v1.35.3+rke2r1"}, 1,
			`"v1.35.3+rke2r1" is a version of rke2, and the cluster is one of k3s`, nil, ""},
		"a dry run refuses the same": {[]string{"broken", "--dry-run"}, 1, "snapshot broken was not taken", nil, ""},
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
				if diff := cmp.Diff(tc.asked, cluster.Spec.RKEConfig.ETCDSnapshotRestore); diff != "" ||
					cluster.Spec.KubernetesVersion != was {
					t.Errorf("version %s, want %s; request (-want +got):\n%s", cluster.Spec.KubernetesVersion, was,
						diff)
				}
			})
		})
	}
}

// An answer that is not about the snapshot does not turn its name into the name of a file.
func TestSnapshotRestore_IsNotMisledByAProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := snapshotted(t)
		api.Intercept(func(r memkube.Request) error {
			if r.Verb == "get" && r.Resource.Resource == "etcdsnapshots" {
				return apierrors.NewGenericServerResponse(http.StatusNotFound, "get", r.Resource.GroupResource(),
					r.Name, "<html>", 0, true)
			}
			return nil
		})
		code, _, problems := look(t, api, "snapshot", "restore", "demo", "local", "--file", "--yes")
		if code != 1 || !strings.Contains(problems, "read ETCDSnapshot fleet-default/local: ") ||
			len(api.Writes("drover")) > 0 {
			t.Errorf("exit code %d, writes %v: %s", code, api.Writes("drover"), problems)
		}
	})
}

// typist runs a function and then types a line.
type typist struct {
	before func()
	line   io.Reader
}

func (t *typist) Read(p []byte) (int, error) {
	if before := t.before; before != nil {
		t.before = nil
		before()
	}
	return t.line.Read(p)
}

// A change while the user reads the question is not covered by the user's confirmation.
func TestSnapshotRestore_IsWhatWasAgreedTo(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(*testing.T, *memkube.Server)
		want      string
	}{
		"nothing happens": {func(*testing.T, *memkube.Server) {}, ""},
		"the snapshot goes": {func(t *testing.T, api *memkube.Server) {
			t.Helper()
			client, err := dynamic.NewForConfig(api.Config("retention"))
			check(t, err)
			snapshots := client.Resource(rkev1.SchemeGroupVersion.WithResource("etcdsnapshots")).Namespace(
				defaultNamespace)
			check(t, snapshots.Delete(t.Context(), "local", metav1.DeleteOptions{}))
		}, "there is no ETCDSnapshot local in namespace fleet-default, and nothing was asked for; drover snapshot " +
			"list demo -n fleet-default lists those that are there; " +
			"--file says that it is the name of a file on the only machine with etcd"},
		"a restore fails": {func(t *testing.T, api *memkube.Server) {
			t.Helper()
			told(t, api, at(planner.RestoreOperation, `{"name":"x","generation":4}`, rkev1.OperationStateFailed, ""))
		}, strings.Replace(changedSince, "a/demo", "fleet-default/demo", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := snapshotted(t)
				o := newRestoreOptions(&inspectOptions{config: api.Config("asker")})
				o.isTerminal = func(io.Reader) bool { return true }
				cmd := &cobra.Command{}
				cmd.SetContext(t.Context())
				cmd.SetIn(&typist{before: func() { tc.meanwhile(t, api) }, line: strings.NewReader("demo\n")})
				cmd.SetErr(io.Discard)
				cmd.SetOut(io.Discard)
				err := o.run(cmd, "demo", o.order("local"))
				if (err == nil) != (tc.want == "") || err != nil && err.Error() != tc.want ||
					(len(api.Writes("drover")) > 0) != (tc.want == "") {
					t.Errorf("error %v, want %q; writes %v", err, tc.want, api.Writes("drover"))
				}
			})
		})
	}
}

// A restore without a preview is requested, but only without a version.
func TestForeseen(t *testing.T) {
	t.Parallel()
	const field = "spec.rkeConfig.etcdSnapshotRestore"
	for name, tc := range map[string]struct {
		report  preview.Report
		err     error
		version string
		notes   []string
		want    string
	}{
		"nothing is against it": {version: "v1"},
		"another operation would fail": {
			report: preview.Report{Operations: []preview.Operation{{Field: "spec.rkeConfig.rotateEncryptionKeys",
				Problem: "x"}}}},
		"it waits": {
			report: preview.Report{Operations: []preview.Operation{{Field: field, Held: "x"}}}},
		"it would fail": {
			report: preview.Report{Operations: []preview.Operation{{Field: field, Problem: "x"}}},
			want:   "the etcd restore would fail, and nothing was asked for: x"},
		"the preview fails": {err: errors.New("forbidden"),
			notes: []string{"it cannot be said whether it would fail at once: forbidden"}},
		"the preview fails, with a version": {err: errors.New("forbidden"), version: "v1",
			want: "it cannot be said whether the restore would fail, and --kubernetes-version would stay in the spec"},
		"the version is odd": {
			report: preview.Report{Warnings: []preview.Warning{{Field: "spec.kubernetesVersion", Message: "unknown"},
				{Field: "spec.x", Message: "y"}}}, version: "v1",
			notes: []string{"unknown"}},
	} {
		notes, err := foreseen(tc.report, tc.err, order{Kind: planner.RestoreOperation, KubernetesVersion: tc.version})
		if diff := cmp.Diff(tc.notes, notes); diff != "" || (err == nil) != (tc.want == "") || err != nil &&
			!strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q; notes (-want +got):\n%s", name, err, tc.want, diff)
		}
	}
}

func TestCheckVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"":                   "",
		"v1.35.3+rke2r1":     "",
		"v1.36.0-rc1+rke2r1": "",
		"1.35.3+rke2r1":      "must be v and a semantic version",
		"v1.35":              "must be v and a semantic version",
		"v1.35.3":            "must name a distribution behind +",
		"v1.35.3+x":          "must name a distribution behind +",
		"v1.35.3-k3s+rke2r1": "must name a distribution behind +",
		"v1.35.3-rke2r1":     "must name a distribution behind +",
		"v1.35.3+k3s1":       "is a version of k3s, and the cluster is one of rke2",
	} {
		err := checkVersion(version, "v1.36.2+rke2r1")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", version, err, want)
		}
	}
}

// Control characters in the name of a node or a snapshot do not reach the terminal.
func TestRow_IsOneLineWhateverIsInIt(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	row(&out, "a\x1b[2J", "", "b\r\n\tc", "\x07")
	if got, want := out.String(), "a [2J\t-\tb c\t-\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPrintBriefing(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	taken := metav1.NewTime(now.Add(-3 * time.Hour))
	var out bytes.Buffer
	found := &inspect.Snapshot{Name: "s", Storage: "s3", Bucket: "b", Folder: "f", TakenAt: &taken,
		KubernetesVersion: "v1.35.3+rke2r1"}
	b := briefing{
		management: managementText("https://user:secret@api.example.com:6443", "prod"),
		notes:      []string{"the cluster is paused"},
		Briefing: restore.Briefing{Scene: demoScene(), Snapshot: found,
			Order: order{Kind: planner.RestoreOperation, Wish: wish{Name: "s"}}},
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
Version after:  v1.36.2+rke2r1; --restore-config kubernetesVersion goes back to that of the snapshot
Note:           the cluster is paused
Everything that was written to the cluster's API since the snapshot is given up. All machines are stopped at once.
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("briefing (-want +got):\n%s", diff)
	}
}

// The environment cannot set what the user must decide for this cluster, because it may be meant for another command or
// cluster.
func TestSnapshotRestore_TakesNoConsentFromTheEnvironment(t *testing.T) {
	t.Parallel()
	got := withoutConsent([]string{"A=b", "DROVER_KUBERNETES_VERSION=v1.30.0+rke2r1", "DROVER_YES=true", "DROVER_yes=1",
		"DROVER_FILE=true", "DROVER_RESTORE_CONFIG=all", "DROVER_FILENAME=x", "YES=1", "DROVER_WAIT=true"})
	if diff := cmp.Diff([]string{"A=b", "DROVER_FILENAME=x", "YES=1", "DROVER_WAIT=true"}, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestConfirm(t *testing.T) {
	for name, tc := range map[string]struct{ typed, want string }{
		"the name":          {"demo\n", ""},
		"the name, unended": {" demo", ""},
		"another name": {"prod\n",
			`"prod" is not the name of the cluster, which is "demo": nothing was asked for`},
		"a yes is no name": {"y\n", `"y" is not the name of the cluster, which is "demo": nothing was asked for`},
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

// Ctrl-C at the question ends the command, although the terminal's read continues.
func TestConfirm_EndsWithTheUser(t *testing.T) {
	in, typing := io.Pipe()
	defer func() { _ = typing.Close() }()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if _, err := readLine(ctx, in); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	for range 50 { // an answer that arrives together with Ctrl-C does not count
		if _, err := readLine(ctx, strings.NewReader("demo\n")); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v", err)
		}
	}
	if onTerminal(in) {
		t.Error("a pipe is a terminal")
	}
}
