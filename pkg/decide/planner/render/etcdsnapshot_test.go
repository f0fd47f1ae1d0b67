package render_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner/render"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

const (
	snapshotHeader = "Name Location Size Created\n"
	snapshotOnNode = "on-demand-n1-100 file:///data/on-demand-n1-100 9 2026\n"
	snapshotInS3   = "on-demand-n1-100 s3://b/f/on-demand-n1-100 9 2026\n"
	olderInS3      = "on-demand-n1-99 s3://b/f/on-demand-n1-99 9 2026\n"
	noBucket       = "Unable to initialize S3 client: no bucket\n"
	olderOnNode    = "on-demand-n1-99 file:///data/on-demand-n1-99 9 2026\n"
)

// TestSnapshotInS3_FailsOnlyForACertainReason runs the script with the lists of distributions. journal is what the log
// of the unit says.
func TestSnapshotInS3_FailsOnlyForACertainReason(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		find          bool
		list, journal string
		fails         bool
		want          string // the end of the output of a failure
	}{
		"saved": {list: snapshotHeader + olderOnNode + snapshotOnNode + olderInS3 + snapshotInS3},
		"saved on the node only": {list: snapshotHeader + olderOnNode + snapshotOnNode + olderInS3,
			want: "the snapshot is on this machine and not in S3"},
		"saved on the node only, with a reason": {list: snapshotHeader + snapshotOnNode,
			journal: noBucket + "Error received during snapshot upload to S3: full\nx\n",
			want:    "Error received during snapshot upload to S3: full"},
		"S3 does not answer": {list: "see server log", fails: true, journal: noBucket,
			want: strings.TrimSpace(noBucket)},
		"saved, with a scheduled one": {list: snapshotHeader + snapshotOnNode + snapshotInS3 +
			"etcd-snapshot-n1-200 file:///data/etcd-snapshot-n1-200 9 2026\n"},
		"saved and compressed": {list: snapshotHeader + olderOnNode +
			"on-demand-n1-100.zip file:///d/on-demand-n1-100.zip 9 2026\n" +
			"on-demand-n1-100.zip s3://b/on-demand-n1-100.zip 9 2026\n"},
		"removed by another server's retention": {list: "on-demand-n1-1000 file:///d/x 9 2026\n" +
			"on-demand-n2-990 s3://b/on-demand-n2-990 9 2026\n"},
		"an older one of another server is in S3": {list: "on-demand-n1-1000 file:///d/x 9 2026\n" +
			"on-demand-n2-800 s3://b/on-demand-n2-800 9 2026\n" +
			"etcd-snapshot-n2-990 s3://b/etcd-snapshot-n2-990 9 2026\n",
			want: "the snapshot is on this machine and not in S3"},
		"only S3 is listed, as before Kubernetes 1.28": {list: "Name Size Created\non-demand-n1-100 9 2026\n"},
		"no snapshot, as on a learner":                 {list: snapshotHeader},

		"found":           {find: true, list: snapshotHeader + snapshotOnNode + snapshotInS3},
		"found as before": {find: true, list: "Name Size Created\non-demand-n1-100 9 2026\n"},
		"not found": {find: true, list: snapshotHeader + snapshotOnNode + olderInS3,
			want: "the snapshot is not in S3"},
		"truncated": {find: true, list: strings.ReplaceAll(snapshotInS3, " 9 ", " 4 "),
			want: "the snapshot in S3 is not complete: " +
				"it has another size than when it was taken, which was 9"},
		"refused": {find: true, list: "failed to initialize S3 client: Access Denied", fails: true,
			want: "failed to initialize S3 client: Access Denied"},
		"refused, as the log says": {find: true, list: "see server log for details", fails: true,
			journal: noBucket, want: strings.TrimSpace(noBucket)},
		"the server does not answer": {find: true, list: "connection refused", fails: true},
		"the API does not answer": {find: true, fails: true,
			list: "failed to initialize S3 client: failed to set S3 snapshot cluster ID: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := basicInput(distro.RKE2, "server")
			work := render.NodeOf(in).SnapshotCreateWork("1", true)
			if tc.find {
				source := render.Source{File: "on-demand-n1-100", Size: 9, S3: &rkev1.ETCDSnapshotS3{Bucket: "b"}}
				var err error
				if work, err = render.FindInS3Work(in, source, "1"); err != nil {
					t.Fatal(err)
				}
			}
			out, failed := runInS3(t, work, tc.list, tc.journal, tc.fails)
			if failed != (tc.want != "") || !strings.HasSuffix(strings.TrimSpace(out), tc.want) {
				t.Errorf("failed: %t, want %q, the output is:\n%s", failed, tc.want, out)
			}
		})
	}
}

// runInS3 runs the last instruction of work with a distribution that prints a list.
func runInS3(t *testing.T, work render.Work, list, journal string, fails bool) (out string, failed bool) {
	t.Helper()
	exit := "0"
	if fails {
		exit = "1"
	}
	prints := func(text string) string { return "cat <<END\n" + text + "\nEND" }
	dir := fakes(t, map[string]string{"rke2": prints(list) + "\nexit " + exit, "journalctl": prints(journal)})
	args := work.Instructions[len(work.Instructions)-1].Args
	args = args[slices.Index(args, work.Files[0].Path)+1:]
	code, out := script(t, work, "snapshot_in_s3.sh", dir, nil, args...)
	return out, code != 0
}

// TestFindInS3Work checks that the search uses the storage of the snapshot only, and that no argument has its secret.
func TestFindInS3Work(t *testing.T) {
	t.Parallel()
	const authority = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"
	in := basicInput(distro.K3s, "server", func(in *render.Input) {
		in.ControlPlane.Spec.ETCD = &rkev1.ETCD{S3: &rkev1.ETCDSnapshotS3{Bucket: "own", Folder: "own"}}
	})
	work, err := render.FindInS3Work(in, render.Source{File: "snap", S3: &rkev1.ETCDSnapshotS3{Bucket: "b",
		Endpoint: "s3.example", EndpointCA: authority}}, "1")
	if err != nil {
		t.Fatal(err)
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(authority))
	want := plan.CommonInstruction{
		Name: "snapshot-in-s3", Command: "timeout",
		Args: []string{"360", "/bin/sh", work.Files[0].Path, "found", "k3s", "k3s", "snap", "0", "--etcd-s3-bucket=b",
			"--etcd-s3-endpoint=s3.example", "--etcd-s3-endpoint-ca=" + encoded, "--etcd-s3"},
		Env: []string{"K3S_CONFIG_FILE=/dev/null", "K3S_DATA_DIR=/var/lib/rancher/k3s"},
	}
	if diff := cmp.Diff(want, work.Instructions[0].CommonInstruction); diff != "" {
		t.Errorf("the instruction (-want +got):\n%s", diff)
	}
	if !render.Finds(render.NodeOf(in).Operation(mustPlan(t, in), work)) {
		t.Error("the plan does not count as a search")
	}
}
