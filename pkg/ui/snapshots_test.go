package ui

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/testkit/build"
	"github.com/drover-io/drover/pkg/testkit/packed"
)

var takenAt = metav1.NewTime(time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC))

func snapshot(name, cluster string, file rkev1.ETCDSnapshotFile) *rkev1.ETCDSnapshot {
	file.Name = name + ".file"
	return &rkev1.ETCDSnapshot{TypeMeta: metav1.TypeMeta{APIVersion: "rke.cattle.io/v1", Kind: "ETCDSnapshot"},
		ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: name,
			Labels: map[string]string{rkev1.ClusterNameLabel: cluster}},
		Spec: rkev1.ETCDSnapshotSpec{ClusterName: cluster}, SnapshotFile: file}
}

// snapshotted is a managed cluster with snapshots: one in S3 with a configuration, a failed one, one of a user, and one
// of another cluster.
func snapshotted() []runtime.Object {
	demo := build.Cluster("demo")
	demo.Annotations = map[string]string{rkev1.InstanceAnnotation: "mine"}
	demo.Spec.KubernetesVersion = "v1.36.2+k3s1"
	return []runtime.Object{demo, build.ControlPlane("demo"),
		snapshot("whole", "demo", rkev1.ETCDSnapshotFile{NodeName: "s3", Status: "successful", Size: 1 << 20,
			CreatedAt: &takenAt, S3: &rkev1.ETCDSnapshotS3{Bucket: "b", Folder: "f"}, Metadata: packed.Metadata(
				`{"kubernetesVersion":"v1.35.3+k3s1","rkeConfig":{"machineGlobalConfig":{"token":"hunter2"}}}`)}),
		snapshot("broken", "demo", rkev1.ETCDSnapshotFile{NodeName: "m2", Status: "failed", Message: "no space\nleft"}),
		snapshot("plain", "demo", rkev1.ETCDSnapshotFile{NodeName: "m1"}),
		snapshot("theirs", "other", rkev1.ETCDSnapshotFile{NodeName: "o1"}),
	}
}

const snapshotsPath = "/ui/api/v1/namespaces/" + build.Namespace + "/clusters/demo/snapshots"

func TestSnapshots_AreThoseOfTheCluster(t *testing.T) {
	f := newFakeAPI(t, append(snapshotted(), build.Cluster("young"))...)
	p := signedIn(t, f)
	got := decode[snapshotsBody](t, p.get(snapshotsPath))
	want := snapshotsBody{Items: []snapshotBody{
		{Name: "whole", File: "whole.file", Created: &takenAt, Place: "S3, bucket b, folder f",
			Version: "v1.35.3+k3s1", Size: 1 << 20, State: "Successful", HasConfig: true},
		{Name: "broken", File: "broken.file", Place: "node m2", State: "Failed", Message: "no space\nleft"},
		{Name: "plain", File: "plain.file", Place: "node m1", State: "Unknown"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	young := strings.Replace(snapshotsPath, "demo", "young", 1)
	if got := decode[snapshotsBody](t, p.get(young)); len(got.Items) != 0 || len(got.Notes) != 1 {
		t.Errorf("got %+v", got)
	}
	wants(t, p.get(strings.Replace(snapshotsPath, "demo", "absent", 1)), http.StatusNotFound, reasonNotFound)
	f.forbid("ann", build.Namespace)
	for _, path := range []string{snapshotsPath, snapshotsPath + "/whole/briefing"} {
		wants(t, p.get(path), http.StatusForbidden, reasonForbidden)
	}
}

func TestBriefing_SaysWhatARestoreDoes(t *testing.T) {
	p := signedIn(t, newFakeAPI(t, snapshotted()...))
	recorder := p.get(snapshotsPath + "/whole/briefing?config=all")
	got := decode[briefingBody](t, recorder)
	for label, want := range map[string]string{
		"Cluster": build.Namespace + "/demo", "Snapshot": "whole", "Kept by": "S3, bucket b, folder f",
		"Version then": "v1.35.3+k3s1", "Version now": "v1.36.2+k3s1",
		"Version after": "v1.35.3+k3s1, which the restore puts back",
		"Effect": "Everything that was written to the cluster's API since the snapshot is given up. All machines are " +
			"stopped at once.",
	} {
		if text := lineOf(got, label); text != want {
			t.Errorf("%s: %q, want %q", label, text, want)
		}
	}
	if got.Generation != 1 || len(got.Restored) != 2 || strings.Contains(recorder.Body.String(), "hunter2") {
		t.Errorf("got %s", recorder.Body)
	}
	if note := lineOf(got, "Note"); !strings.Contains(note, "GitOps") || strings.Contains(note, "--") {
		t.Errorf("note %q", note)
	}
}

func lineOf(b briefingBody, label string) string {
	for _, line := range b.Lines {
		if line.Label == label {
			return line.Text
		}
	}
	return ""
}

func TestBriefing_RefusesWhatIsImpossible(t *testing.T) {
	objects := snapshotted()
	theirs := build.Cluster("theirs")
	objects = append(objects, theirs, build.ControlPlane("theirs"))
	p := signedIn(t, newFakeAPI(t, objects...))
	for name, tc := range map[string]struct{ path, want string }{
		"a failed snapshot": {snapshotsPath + "/broken/briefing", "snapshot broken was not taken: no space left"},
		"one of another cluster": {snapshotsPath + "/theirs/briefing",
			"snapshot theirs is of cluster other, not of demo"},
		"one without a configuration": {snapshotsPath + "/plain/briefing?config=all",
			"spec.rkeConfig.etcdSnapshotRestore"},
		"no machine has the file": {snapshotsPath + "/plain/briefing?config=none", "the etcd restore would fail: "},
		"a cluster without a manager": {strings.Replace(snapshotsPath, "demo", "theirs", 1) + "/theirs/briefing",
			"snapshot theirs is of cluster other"},
	} {
		p.relax()
		got := decode[briefingBody](t, p.get(tc.path))
		if !strings.Contains(got.Refused, tc.want) || strings.Contains(got.Refused, "drover ") || len(got.Lines) < 5 {
			t.Errorf("%s: refused %q, want %q; lines %v", name, got.Refused, tc.want, got.Lines)
		}
	}
	p.relax()
	wants(t, p.get(snapshotsPath+"/absent/briefing"), http.StatusNotFound, reasonNotFound)
	got := p.get(snapshotsPath + "/plain.file/briefing")
	wants(t, got, http.StatusNotFound, reasonNotFound)
	if !strings.Contains(got.Body.String(), "the ETCDSnapshot of it is plain") {
		t.Errorf("got %s", got.Body)
	}
	wants(t, p.get(snapshotsPath+"/whole/briefing?config=some"), http.StatusBadRequest, reasonInvalid)
	wants(t, p.get(snapshotsPath+"/Wh_ole/briefing"), http.StatusBadRequest, reasonInvalid)
}

// A request for a restore that waits for its turn raises the generation, and the briefing says so.
func TestBriefing_KnowsEarlierRequests(t *testing.T) {
	objects := snapshotted()
	for _, object := range objects {
		if demo, ok := object.(*provv1.Cluster); ok {
			demo.Spec.RKEConfig.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "x", Generation: 6}
		}
	}
	p := signedIn(t, newFakeAPI(t, objects...))
	got := decode[briefingBody](t, p.get(snapshotsPath+"/whole/briefing"))
	if got.Generation != 7 || !strings.Contains(lineOf(got, "Note"), "has not begun") {
		t.Errorf("got %+v", got)
	}
}

func TestOperations_HaveTheNextGeneration(t *testing.T) {
	demo, controlPlane := build.Cluster("demo"), build.ControlPlane("demo")
	demo.Annotations = map[string]string{rkev1.InstanceAnnotation: "mine"}
	demo.Spec.RKEConfig.RotateEncryptionKeys = &rkev1.RotateEncryptionKeys{Generation: 2}
	controlPlane.Status.CertificateRotationGeneration = 5
	controlPlane.Status.Operations = []rkev1.OperationRecord{{Name: planner.SnapshotOperation.Record, Attempt: 1,
		Request: `{"generation":3}`, State: rkev1.OperationStateRunning, Step: "takes it", Message: "m"}}
	f := newFakeAPI(t, demo, controlPlane, build.Cluster("young"))
	p := signedIn(t, f)
	path := strings.TrimSuffix(snapshotsPath, "snapshots") + "operations"
	got := decode[operationsBody](t, p.get(path))
	const waits = "it begins when the running etcd snapshot has ended"
	want := []operationBody{
		{Field: "etcdSnapshotCreate", Title: "etcd snapshot", State: string(rkev1.OperationStateRunning),
			Step: "takes it", Message: "m", Refused: "the etcd snapshot of cluster " + build.Namespace +
				"/demo runs already, at generation 3"},
		{Field: "etcdSnapshotRestore", Title: "etcd restore", Generation: 1, Notes: []string{waits}},
		{Field: "rotateCertificates", Title: "certificate rotation", Generation: 6, Notes: []string{waits}},
		{Field: "rotateEncryptionKeys", Title: "encryption key rotation", Generation: 3, Notes: []string{
			"the request with generation 2 has not begun, and this one takes its place", waits}},
	}
	if diff := cmp.Diff(want, got.Items); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	young := decode[operationsBody](t, p.get(strings.Replace(path, "demo", "young", 1)))
	for _, item := range young.Items {
		if !strings.Contains(item.Refused, "no control plane yet") || item.Generation != 0 {
			t.Errorf("got %+v", item)
		}
	}
	wants(t, p.get(strings.Replace(path, "demo", "absent", 1)), http.StatusNotFound, reasonNotFound)
}
