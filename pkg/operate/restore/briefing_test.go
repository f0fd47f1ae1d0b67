package restore

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/operation"
)

var words = Words{File: " (file)", Version: " (set)", Config: " (restored)", Offer: " (or restore it)"}

func TestLines(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	taken := metav1.NewTime(now.Add(-3 * time.Hour))
	scene := operation.Scene{Cluster: &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "demo"},
		Spec: provv1.ClusterSpec{KubernetesVersion: "v1.36.2+rke2r1"}}}
	order := operation.Order{Kind: planner.RestoreOperation, Wish: operation.Wish{Name: "s"}}
	for name, tc := range map[string]struct {
		snapshot *inspect.Snapshot
		want     []Line
	}{
		"a snapshot in S3": {
			&inspect.Snapshot{Name: "s", Cluster: "demo", Storage: "s3", Bucket: "b", TakenAt: &taken,
				KubernetesVersion: "v1.35.3+rke2r1"},
			[]Line{{"Cluster", "a/demo"}, {"Snapshot", "s"}, {"Taken", "2026-11-22T09:00:00Z, 3h ago"},
				{"Kept by", "S3, bucket b"}, {"Version then", "v1.35.3+rke2r1"}, {"Version now", "v1.36.2+rke2r1"},
				{"Version after", "v1.36.2+rke2r1 (or restore it)"}},
		},
		"a file": {
			nil,
			[]Line{{"Cluster", "a/demo"}, {"Snapshot", "s, which is no ETCDSnapshot of namespace a (file)"},
				{"Of cluster", "not known"}, {"Taken", "not known"},
				{"Kept by", "the only machine with etcd, in server/db/snapshots; with more than one machine the " +
					"restore fails, and stops nothing"},
				{"Version then", "not known"}, {"Version now", "v1.36.2+rke2r1"}, {"Version after", "v1.36.2+rke2r1"}},
		},
	} {
		got := Briefing{Scene: scene, Order: order, Snapshot: tc.snapshot}.Lines(now, words)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestVersionAfter(t *testing.T) {
	t.Parallel()
	restored := operation.Order{Wish: operation.Wish{RestoreRKEConfig: "all"}}
	for _, tc := range []struct {
		then, now string
		order     operation.Order
		want      string
	}{
		{"v1", "v1", operation.Order{}, "v1"}, {"", "v2", operation.Order{}, "v2"},
		{"v1", "v2", operation.Order{}, "v2 (or restore it)"},
		{"v1", "v2", operation.Order{KubernetesVersion: "v3"}, "v3 (set)"},
		{"v1", "v2", restored, "v1 (restored)"},
	} {
		if got := versionAfter(tc.then, tc.now, tc.order, words); got != tc.want {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}

func TestAbsentError_NamesTheSnapshotOfAFile(t *testing.T) {
	t.Parallel()
	for instead, want := range map[string]string{
		"":      "there is no ETCDSnapshot x in namespace a",
		"local": "there is no ETCDSnapshot x in namespace a; that is the name of a file, and the ETCDSnapshot of it is local",
	} {
		if got := (&AbsentError{Namespace: "a", Name: "x", Instead: instead}).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
