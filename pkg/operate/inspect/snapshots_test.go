package inspect

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

func TestSnapshotOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		object rkev1.ETCDSnapshot
		want   Snapshot
		place  string
	}{
		"on a node": {
			rkev1.ETCDSnapshot{Spec: rkev1.ETCDSnapshotSpec{ClusterName: "demo"},
				SnapshotFile: rkev1.ETCDSnapshotFile{Name: "f", NodeName: "n", Status: "successful", Size: 7}},
			Snapshot{Cluster: "demo", Storage: storageLocal, Node: "n", File: "f", Status: "successful", Size: 7},
			"node n",
		},
		"in S3, like older objects": {
			rkev1.ETCDSnapshot{SnapshotFile: rkev1.ETCDSnapshotFile{NodeName: "s3",
				S3: &rkev1.ETCDSnapshotS3{Bucket: "b", Folder: "d"}}},
			Snapshot{Storage: storageS3, Bucket: "b", Folder: "d"}, "S3, bucket b, folder d",
		},
		"in S3, with the bucket in the credential": {
			rkev1.ETCDSnapshot{SnapshotFile: rkev1.ETCDSnapshotFile{NodeName: "n", S3: &rkev1.ETCDSnapshotS3{}}},
			Snapshot{Storage: storageS3, Node: "n"}, "S3",
		},
		"with its cluster in a label only": {
			rkev1.ETCDSnapshot{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{rkev1.ClusterNameLabel: "demo"}}},
			Snapshot{Cluster: "demo", Storage: storageLocal}, "a machine of the cluster",
		},
		"invalid metadata": {
			rkev1.ETCDSnapshot{SnapshotFile: rkev1.ETCDSnapshotFile{Metadata: "?"}}, Snapshot{Storage: storageLocal},
			"a machine of the cluster",
		},
	} {
		got := snapshotOf(&tc.object)
		if diff := cmp.Diff(tc.want, got); diff != "" || got.Place() != tc.place {
			t.Errorf("%s: the place is %q, want %q (-want +got):\n%s", name, got.Place(), tc.place, diff)
		}
	}
}

func TestSelectorsOf_SelectTheClusterOnly(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cluster string
		want    []string
	}{
		"all clusters": {"", []string{""}},
		"one": {"demo",
			[]string{"rke.cattle.io/cluster-name=demo", "!rke.cattle.io/cluster-name"}},
		"a name that is no valid label": {"a,b", []string{""}},
	} {
		if diff := cmp.Diff(tc.want, selectorsOf(tc.cluster)); diff != "" {
			t.Errorf("%s: selectors (-want +got):\n%s", name, diff)
		}
	}
}

func TestYounger_UnknownTimesAreLast(t *testing.T) {
	t.Parallel()
	at := func(seconds int64) *metav1.Time { return new(metav1.Unix(seconds, 0)) }
	list := []Snapshot{{Name: "z"}, {Name: "old", TakenAt: at(1)}, {Name: "b", TakenAt: at(9)},
		{Name: "a", TakenAt: at(9)}, {Name: "y"}}
	slices.SortFunc(list, younger)
	var got []string
	for _, s := range list {
		got = append(got, s.Name)
	}
	if diff := cmp.Diff([]string{"a", "b", "old", "y", "z"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
