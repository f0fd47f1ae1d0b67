package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/testkit/packed"
)

func TestDecodeSnapshot(t *testing.T) {
	storage := &rkev1.ETCDSnapshotS3{Bucket: "b"}
	owners := func(list ...metav1.OwnerReference) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "s", OwnerReferences: list}
	}
	machine := metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", UID: "m"}
	for name, tc := range map[string]struct {
		given rkev1.ETCDSnapshot
		want  planner.ETCDSnapshot
	}{
		"on a machine": {
			rkev1.ETCDSnapshot{
				ObjectMeta: owners(metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Machine", UID: "other"},
					machine),
				Spec: rkev1.ETCDSnapshotSpec{ClusterName: "demo"},
				SnapshotFile: rkev1.ETCDSnapshotFile{Name: "f", Status: "successful",
					Metadata: packed.Metadata(`{"kubernetesVersion":"v1.36.2+k3s1"}`)},
			},
			planner.ETCDSnapshot{Name: "s", Cluster: "demo", MachineUID: "m", File: "f",
				KubernetesVersion: "v1.36.2+k3s1"},
		},
		"written with an older Cluster API": {
			rkev1.ETCDSnapshot{ObjectMeta: owners(metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta1",
				Kind: "Machine", UID: "m"})},
			planner.ETCDSnapshot{Name: "s", MachineUID: "m"},
		},
		"in a folder of the configuration": {
			rkev1.ETCDSnapshot{ObjectMeta: owners(machine),
				SnapshotFile: rkev1.ETCDSnapshotFile{Name: "f", Location: "file:///mnt/backups/f"}},
			planner.ETCDSnapshot{Name: "s", MachineUID: "m", File: "f", Folder: "/mnt/backups"},
		},
		"at a location of another file": {
			rkev1.ETCDSnapshot{ObjectMeta: owners(machine),
				SnapshotFile: rkev1.ETCDSnapshotFile{Name: "f", Location: "file:///mnt/backups/g"}},
			planner.ETCDSnapshot{Name: "s", MachineUID: "m", File: "f"},
		},
		"at an invalid path": {
			rkev1.ETCDSnapshot{ObjectMeta: owners(machine),
				SnapshotFile: rkev1.ETCDSnapshotFile{Name: "f", Location: "file:///mnt/../f"}},
			planner.ETCDSnapshot{Name: "s", MachineUID: "m", File: "f"},
		},
		"in S3": {
			rkev1.ETCDSnapshot{ObjectMeta: owners(machine),
				SnapshotFile: rkev1.ETCDSnapshotFile{Name: "f", S3: storage}},
			planner.ETCDSnapshot{Name: "s", File: "f", S3: storage},
		},
		"of a cluster by its label": {
			rkev1.ETCDSnapshot{ObjectMeta: metav1.ObjectMeta{Name: "s",
				Labels: map[string]string{"rke.cattle.io/cluster-name": "demo"}}},
			planner.ETCDSnapshot{Name: "s", Cluster: "demo"},
		},
		"failed": {
			rkev1.ETCDSnapshot{ObjectMeta: owners(), SnapshotFile: rkev1.ETCDSnapshotFile{Status: "failed",
				Message: "disk full\nmore"}},
			planner.ETCDSnapshot{Name: "s", Failed: true, Message: "disk full"},
		},
		"with invalid metadata": {
			rkev1.ETCDSnapshot{ObjectMeta: owners(), SnapshotFile: rkev1.ETCDSnapshotFile{Name: "f", Metadata: "?"}},
			planner.ETCDSnapshot{Name: "s", File: "f"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, decodeSnapshot(&tc.given)); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
		})
	}
}

// Only snapshots that restores name are gathered, and of the cluster's own snapshots also the credentials that are
// shared or in its namespace.
func TestGather_SnapshotsAndTheirCredentials(t *testing.T) {
	inS3 := func(name, cluster, credential string) *rkev1.ETCDSnapshot {
		return &rkev1.ETCDSnapshot{
			ObjectMeta:   metav1.ObjectMeta{Namespace: "ns", Name: name},
			Spec:         rkev1.ETCDSnapshotSpec{ClusterName: cluster},
			SnapshotFile: rkev1.ETCDSnapshotFile{Name: "f", S3: &rkev1.ETCDSnapshotS3{CloudCredentialName: credential}},
		}
	}
	for name, tc := range map[string]struct {
		asked, atWork string
		etcd          *rkev1.ETCD
		want          []string
		wantObjects   []string
	}{
		"no restore": {},
		"the requested snapshot": {asked: "own", want: []string{"own"},
			wantObjects: []string{"ns/cc"}},
		"the current snapshot, and the next one": {asked: "shared", atWork: "own",
			want: []string{"shared", "own"}, wantObjects: []string{"cattle-global-data/cc denied", "ns/cc"}},
		"the requested snapshot is the current one": {asked: "own", atWork: "own", want: []string{"own"},
			wantObjects: []string{"ns/cc"}},
		"the cluster has the same storage": {asked: "own",
			etcd: &rkev1.ETCD{S3: &rkev1.ETCDSnapshotS3{CloudCredentialName: "cc"}}, want: []string{"own"},
			wantObjects: []string{"ns/cc"}},
		"a snapshot of another cluster, without its credential": {asked: "foreign", want: []string{"foreign"}},
		"the name of a file": {asked: "file"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakes(t)
			f.snapshots = map[string]*rkev1.ETCDSnapshot{
				"own": inS3("own", "demo", "cc"), "shared": inS3("shared", "demo", "cattle-global-data:cc"),
				"foreign": inS3("foreign", "other", "cc"),
			}
			f.secrets = []*corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Name: "cc"}}}
			f.cp.Spec.ETCD = tc.etcd
			f.cp.Spec.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: tc.asked}
			f.cp.Status.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: tc.atWork}
			v, err := newHandler(f.deps).gather(f.cp)
			if err != nil {
				t.Fatal(err)
			}
			var got, objects []string
			for _, snapshot := range v.snapshot.Snapshots {
				got = append(got, snapshot.Name)
			}
			for _, object := range v.snapshot.Objects {
				name := object.Namespace + "/" + object.Name
				if object.Denied != "" {
					name += " denied"
				}
				objects = append(objects, name)
			}
			if diff := cmp.Diff([][]string{tc.want, tc.wantObjects}, [][]string{got, objects}); diff != "" {
				t.Errorf("snapshots and objects (-want +got):\n%s", diff)
			}
		})
	}
}
