package distro

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/drover-io/drover/pkg/local/localfile"
)

// snapshotsIn returns the snapshots of a node in a test folder, with files of these names.
func snapshotsIn(t *testing.T, names ...string) *snapshotter {
	t.Helper()
	l := NewLayout(RKE2, t.TempDir())
	node := Node{Name: "n1"}
	s := &snapshotter{run: &run{Options: Options{Runtime: RKE2, Log: io.Discard}, layout: l, node: node,
		config: Config{Token: "t1"}}, folder: l.snapshots(node, Config{})}
	for _, name := range names {
		if err := localfile.Write(s.folder.path(name), []byte("12345")); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *snapshotter) names(t *testing.T) []string {
	t.Helper()
	files, err := s.folder.list()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		names = append(names, file.Name)
	}
	return names
}

func TestObjectName(t *testing.T) {
	for name, test := range map[string]struct{ file, node, want string }{
		"as requested": {"on-demand-n1-1795694402", "n1",
			"local-on-demand-n1-1795694402-56338f"},
		"capitals": {"Before-n1-1795694402", "n1", "local-before-n1-1795694402-c99b0d"},
		"with invalid characters": {"my_own-n1.example-1795694402", "n1.example",
			"local-etcd-snapshot-n1-1795694402-df6f07"},
		"another node's file with the same name": {"on-demand-n1-1795694402", "n2",
			"local-on-demand-n1-1795694402-a577ee"},
	} {
		t.Run(name, func(t *testing.T) {
			file := snapshotFile{Name: test.file, Location: "file:///var/lib/rancher/rke2/server/db/snapshots/" +
				test.file, Created: time.Unix(1795694402, 0)}
			if got := objectName(file, test.node); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestSnapshotFolder_KeepsTheLastOfAName(t *testing.T) {
	there := []string{"on-demand-n1-9", "on-demand-n1-100", "on-demand-n1-20", "other-n1-1", "on-demand-n1-extra-2",
		"by-hand", "on-demand-n1-200.part"}
	for name, test := range map[string]struct {
		keep int
		want []string
	}{
		"all snapshots are kept": {0, nil},
		"more than exist":        {5, nil},
		"by time, not by name":   {1, []string{"on-demand-n1-extra-2", "on-demand-n1-9", "on-demand-n1-20"}},
		"the last two":           {2, []string{"on-demand-n1-extra-2", "on-demand-n1-9"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := snapshotsIn(t, there...)
			before := s.names(t)
			removed, err := s.folder.prune("on-demand", test.keep)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, removed); diff != "" {
				t.Errorf("removed (-want +got):\n%s", diff)
			}
			if len(s.names(t))+len(removed) != len(before) {
				t.Errorf("of %v, these remain: %v", before, s.names(t))
			}
		})
	}
}

func TestSnapshotFolder_RemovesOnlySnapshots(t *testing.T) {
	s := snapshotsIn(t, "one")
	if err := localfile.Write(s.folder.metadata("one"), []byte(`{"a":"b"}`)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "../snapshots/one", "none"} {
		if err := s.folder.remove(name); err == nil {
			t.Errorf("%q was removed", name)
		}
	}
	if err := s.folder.remove("one"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.folder.metadata("one")); !os.IsNotExist(err) {
		t.Errorf("metadata of a deleted snapshot: %v", err)
	}
}

// After a restore, objects match the files again: objects without files are removed, and files without objects get one.
func TestReconcile_ObjectsMatchTheFiles(t *testing.T) {
	s := snapshotsIn(t, "on-demand-n1-1", "on-demand-n1-2")
	if err := localfile.Write(s.folder.metadata("on-demand-n1-2"), []byte(`{"spec":"whole"}`)); err != nil {
		t.Fatal(err)
	}
	files, err := s.folder.list()
	if err != nil {
		t.Fatal(err)
	}
	half := s.object(files[0]) // from a server that was killed before it wrote the status
	delete(half.Object, "status")
	gone := s.object(snapshotFile{Name: "on-demand-n1-0"})
	others := s.object(snapshotFile{Name: "on-demand-n2-0"})
	others.SetLabels(map[string]string{"etcd.rke2.cattle.io/snapshot-storage-node": "n2"})
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{snapshotFilesResource: "ETCDSnapshotFileList"}, half, gone, others)
	objects := client.Resource(snapshotFilesResource)
	for range 2 { // the second time changes nothing
		client.ClearActions()
		if err := s.reconcile(t.Context(), objects); err != nil {
			t.Fatal(err)
		}
	}
	if actions := client.Actions(); len(actions) != 1 {
		t.Errorf("correct objects are written again: %v", actions)
	}
	list, err := objects.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, item := range list.Items {
		name, _, _ := unstructured.NestedString(item.Object, "spec", "snapshotName")
		size, _, _ := unstructured.NestedString(item.Object, "status", "size")
		metadata, _, _ := unstructured.NestedString(item.Object, "spec", "metadata", "spec")
		got[name] = size + metadata
	}
	if diff := cmp.Diff(map[string]string{"on-demand-n1-1": "5", "on-demand-n1-2": "5whole", "on-demand-n2-0": "0"},
		got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestSnapshots_UseTheConfiguredFolder(t *testing.T) {
	l := NewLayout(K3s, "/data")
	for name, test := range map[string]struct{ configured, want, metadata string }{
		"not configured": {"", "/data/server/db/snapshots/x", "/data/server/db/.metadata/x"},
		"configured":     {"/backup/etcd", "/backup/etcd/x", "/backup/.metadata/x"},
	} {
		t.Run(name, func(t *testing.T) {
			f := l.snapshots(Node{Name: "n1"}, Config{EtcdSnapshotDir: test.configured})
			if got, metadata := f.path("x"), f.metadata("x"); got != filepath.FromSlash(test.want) ||
				metadata != filepath.FromSlash(test.metadata) {
				t.Errorf("got %s and %s", got, metadata)
			}
		})
	}
}

// Objects of S3 follow the list of the bucket. Failed uploads stay, and new objects too: other servers upload
// meanwhile.
func TestReconcileStorage_S3(t *testing.T) {
	s := snapshotsIn(t)
	s3 := S3{Bucket: "b", Folder: "f", EndpointCA: "/ca.crt"}.completed()
	bucket := &storage{S3: s3, node: "n1"}
	file := func(name string) snapshotFile { return bucket.file(name, time.Unix(1, 0)) }
	failed, gone, settling := file("failed"), s.object(file("gone")), s.object(file("settling"))
	failed.Failure = "no space"
	settling.SetCreationTimestamp(metav1.Now())
	local := s.object(snapshotFile{Name: "local"})
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{snapshotFilesResource: "ETCDSnapshotFileList"}, s.object(failed), gone,
		settling, local)
	objects := client.Resource(snapshotFilesResource)
	if err := s.reconcileStorage(t.Context(), objects, storageS3, []snapshotFile{file("kept")}); err != nil {
		t.Fatal(err)
	}
	list, err := objects.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, item := range list.Items {
		name, _, _ := unstructured.NestedString(item.Object, "spec", "snapshotName")
		got[name], _, _ = unstructured.NestedString(item.Object, "status", "error", "message")
		if name != "kept" {
			continue
		}
		spec, _, _ := unstructured.NestedMap(item.Object, "spec")
		if diff := cmp.Diff(map[string]any{
			"snapshotName": "kept", "nodeName": "n1", "location": "s3://b/f/kept", "s3": map[string]any{
				"endpoint": defaultS3Endpoint, "endpointCA": "/ca.crt", "skipSSLVerify": false, "bucket": "b",
				"region": defaultS3Region, "prefix": "f", "insecure": false,
			},
		}, spec); diff != "" {
			t.Errorf("the object (-want +got):\n%s", diff)
		}
	}
	want := map[string]any{"failed": "no space", "kept": "", "settling": "", "local": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}
