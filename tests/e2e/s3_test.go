package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/tests/testbed/rig"
)

// TestS3 stores snapshots of a cluster in an S3 server with an authority of its own, addressed by path. Each fault of
// the storage gives a condition with the reason, and the cluster and its snapshots stay as they were. At the end the
// cluster is restored from S3.
func TestS3(t *testing.T) {
	r := newStored(t, "s3", "v1.36.3+rke2r1", pool{"server", 1, "ecw"})
	r.make("made-before")

	r.in("a snapshot is in S3, and in the list", func() {
		r.takeSnapshot(1)
		r.wantStored(1)
		r.listedInS3(1)
	})
	r.in("only the newest stay", func() {
		r.takeSnapshot(2)
		r.takeSnapshot(3)
		r.wantStored(2)
	})
	good := r.newest()
	r.remove("made-before")
	r.make("made-after")
	before := r.process()

	r.in("without the bucket", func() {
		aside := r.bucket + "-aside"
		must(r.t, os.Rename(r.bucket, aside))
		r.failToSave(4, "bucket clusters does not exist")
		r.failToStart(good, 1, "bucket clusters does not exist")
		must(r.t, os.Rename(aside, r.bucket))
		r.wantStored(2)
	})
	r.in("a full bucket", func() {
		must(r.t, syscall.Mount("tmpfs", r.bucket, "tmpfs", 0, "size=64k"))
		defer func() { must(r.t, syscall.Unmount(r.bucket, 0)) }()
		r.failToSave(5, "space")
	})
	r.in("a transfer that is cut", func() {
		r.s3.Limit(128 << 10)
		defer r.s3.Limit(-1)
		r.failToSave(6, "")
		r.removePart(r.fileOf(good))
	})
	r.in("a wrong key", func() {
		must(r.t, r.Apply(r.t.Context(), []byte(`
apiVersion: v1
kind: Secret
metadata: {name: cc-wrong, namespace: fleet-default}
stringData: {s3credentialConfig-accessKey: lab, s3credentialConfig-secretKey: not-the-key}
`)))
		r.writeS3("wrong-key", r.fileOf(good), r.s3.EncodedCA(), "cc-wrong")
		r.failToStart("wrong-key", 2, "S3 client")
	})
	r.in("an unknown authority", func() {
		r.writeS3("no-authority", r.fileOf(good), "", "cc-s3")
		r.failToStart("no-authority", 3, "certificate")
	})
	r.in("a file that is not there", func() {
		r.writeS3("no-file", "on-demand-none-1795694402", r.s3.EncodedCA(), "cc-s3")
		r.failToStart("no-file", 4, "is not in S3")
	})
	r.in("a truncated snapshot", func() {
		file := filepath.Join(r.bucket, "demo", r.fileOf(good))
		info, err := os.Stat(file)
		must(r.t, err)
		whole, err := os.ReadFile(file)
		must(r.t, err)
		must(r.t, os.Truncate(file, info.Size()/2))
		r.failToStart(good, 5, "is not complete")
		must(r.t, os.WriteFile(file, whole, info.Mode()))
	})
	r.in("nothing was restarted or lost", func() {
		if now := r.process(); now != before {
			r.t.Errorf("the server was restarted: %s, before %s", now, before)
		}
		r.wantStored(2)
		r.listedInS3(2)
		r.awaitReady("restore")
		r.expect("made-after", true)
	})
	r.in("a download that is cut, and again", func() {
		r.s3.Limit(128 << 10)
		r.fail("etcdSnapshotRestore", fmt.Sprintf(`{"name": %q, "generation": 6}`, good), 6,
			"the cluster is stopped, request a restore again")
		r.s3.Limit(-1)
		r.restore(good, 7)
		r.awaitReady("restore")
		r.expect("made-before", true)
		r.expect("made-after", false)
	})
}

// stored is a cluster with snapshots in S3.
type stored struct {
	*restored
	s3 *rig.S3
	// bucket is the folder of the bucket.
	bucket string
}

// newStored starts the cluster "restore", which stores two snapshots in S3.
func newStored(t *testing.T, name, version string, pools ...pool) *stored {
	t.Helper()
	w := newWorld(t, name, version)
	s3, err := w.ServeS3(t.Context())
	must(t, err)
	r := &stored{restored: &restored{world: w}, s3: s3}
	r.bucket, err = s3.MakeBucket("clusters")
	must(t, err)
	must(t, w.Apply(t.Context(), fmt.Appendf(nil, `
apiVersion: v1
kind: Secret
metadata: {name: cc-s3, namespace: fleet-default}
stringData: {s3credentialConfig-accessKey: %s, s3credentialConfig-secretKey: %s}
`, s3.AccessKey, s3.SecretKey)))
	must(t, w.Apply(t.Context(), fmt.Appendf(manifest("restore", version, pools...), `    etcd:
      s3: {bucket: clusters, folder: demo, region: %s, endpoint: "%s", endpointCA: %s, cloudCredentialName: cc-s3,
        retention: 2}
`, s3.Region, s3.Endpoint, s3.EncodedCA())))
	w.awaitReady("restore")
	r.known = w.downstreamConfig("restore")
	return r
}

// in runs a part of the test. The following parts need it.
func (r *stored) in(what string, do func()) {
	r.t.Helper()
	whole := r.t
	ok := whole.Run(what, func(t *testing.T) {
		r.t = t
		defer func() { r.t = whole }()
		do()
	})
	if !ok {
		whole.FailNow()
	}
}

// files are the names of the snapshots in the bucket, the oldest first.
func (r *stored) files() []string {
	r.t.Helper()
	entries, err := os.ReadDir(filepath.Join(r.bucket, "demo"))
	must(r.t, err)
	var names []string
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			names = append(names, entry.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return strings.Compare(a[strings.LastIndexByte(a, '-'):], b[strings.LastIndexByte(b, '-'):])
	})
	return names
}

// wantStored compares the number of snapshots in the bucket, which all have metadata.
func (r *stored) wantStored(want int) {
	r.t.Helper()
	files := r.files()
	if len(files) != want {
		r.t.Errorf("in S3 are %v, want %d snapshots", files, want)
	}
	for _, file := range files {
		if _, err := os.Stat(filepath.Join(r.bucket, "demo", ".metadata", file)); err != nil {
			r.t.Errorf("snapshot %s has no metadata: %v", file, err)
		}
	}
}

// removePart removes the part of an upload that was cut, which is smaller than a whole snapshot and has no metadata. S3
// itself keeps no such object, but this server does.
func (r *stored) removePart(whole string) {
	r.t.Helper()
	folder := filepath.Join(r.bucket, "demo")
	want, err := os.Stat(filepath.Join(folder, whole))
	must(r.t, err)
	for _, file := range r.files() {
		if _, err := os.Stat(filepath.Join(folder, ".metadata", file)); err == nil {
			continue
		}
		found, err := os.Stat(filepath.Join(folder, file))
		must(r.t, err)
		if found.Size() >= want.Size() {
			r.t.Errorf("%s is stored whole, without metadata", file)
		}
		must(r.t, os.Remove(filepath.Join(folder, file)))
	}
}

// listedInS3 returns Drover's ETCDSnapshots of the files in the bucket, by file, once all have one.
func (r *stored) listedInS3(want int) map[string]string {
	r.t.Helper()
	names := map[string]string{}
	r.within(2*time.Minute, "Drover lists the snapshots in S3", func() error {
		list, err := r.list(snapshotsResource)
		if err != nil {
			return err
		}
		clear(names)
		files := r.files()
		for i := range list {
			file, _, _ := unstructured.NestedString(list[i].Object, "snapshotFile", "name")
			status, _, _ := unstructured.NestedString(list[i].Object, "snapshotFile", "status")
			notes, owners := list[i].GetAnnotations(), list[i].GetOwnerReferences()
			if notes[rkev1.SnapshotStorageAnnotation] == "s3" && status == "successful" &&
				slices.Contains(files, file) &&
				notes[rkev1.SnapshotRestoreModesAnnotation] == "none,kubernetesVersion,all" && len(owners) == 1 &&
				owners[0].Kind == "Cluster" {
				names[file] = list[i].GetName()
			}
		}
		if len(names) != want {
			return fmt.Errorf("%d of %v have an ETCDSnapshot", len(names), files)
		}
		return nil
	})
	return names
}

// newest returns the ETCDSnapshot of the newest snapshot in S3.
func (r *stored) newest() string {
	r.t.Helper()
	files := r.files()
	return r.listedInS3(len(files))[files[len(files)-1]]
}

func (r *stored) fileOf(snapshot string) string {
	r.t.Helper()
	object, err := r.objects.Resource(snapshotsResource).Namespace(namespace).Get(r.t.Context(), snapshot,
		metav1.GetOptions{})
	must(r.t, err)
	file, _, _ := unstructured.NestedString(object.Object, "snapshotFile", "name")
	return file
}

// writeS3 writes the ETCDSnapshot of a file in the bucket, as docs/operations.md describes.
func (r *stored) writeS3(name, file, authority, credential string) {
	r.t.Helper()
	must(r.t, r.Apply(r.t.Context(), fmt.Appendf(nil, `
apiVersion: rke.cattle.io/v1
kind: ETCDSnapshot
metadata: {name: %s, namespace: fleet-default}
spec: {clusterName: restore}
snapshotFile:
  name: %s
  s3: {bucket: clusters, folder: demo, region: %s, endpoint: "%s", endpointCA: "%s", cloudCredentialName: %s}
`, name, file, r.s3.Region, r.s3.Endpoint, authority, credential)))
}

// process identifies the process of the distribution on the only machine.
func (r *stored) process() string {
	r.t.Helper()
	return r.command(r.Lab.List()[0].Name, "systemctl show -p InvocationID -p NRestarts rke2-server")
}

// failToSave requests a snapshot that cannot be stored in S3. It stays on the machine.
func (r *stored) failToSave(generation int, why string) {
	r.t.Helper()
	r.fail("etcdSnapshotCreate", fmt.Sprintf(`{"generation": %d}`, generation), generation, why)
	r.awaitReady("restore")
}

// failToStart requests a restore that fails before it stops anything.
func (r *stored) failToStart(snapshot string, generation int, why string) {
	r.t.Helper()
	message := r.fail("etcdSnapshotRestore", fmt.Sprintf(`{"name": %q, "generation": %d}`, snapshot, generation),
		generation, why)
	if strings.Contains(message, "the cluster is stopped") {
		r.t.Errorf("the restore of %s has stopped the cluster: %s", snapshot, message)
	}
	r.awaitReady("restore")
}

// fail requests an operation, waits until it has failed, and returns the message of its condition.
func (r *stored) fail(field, request string, generation int, why string) (message string) {
	r.t.Helper()
	start := time.Now()
	r.change("restore", fmt.Sprintf(`{"spec": {"rkeConfig": {%q: %s}}}`, field, request))
	r.within(restoreTimeout, field+" has failed", func() error {
		controlPlane, err := r.objects.Resource(controlPlanesResource).Namespace(namespace).Get(r.t.Context(),
			"restore", metav1.GetOptions{})
		if err != nil {
			return err
		}
		handled, _, _ := unstructured.NestedInt64(controlPlane.Object, "status", field, "generation")
		phase, _, _ := unstructured.NestedString(controlPlane.Object, "status", field+"Phase")
		if handled != int64(generation) || phase != string(rkev1.ETCDSnapshotPhaseFailed) {
			if handled == int64(generation) && phase == string(rkev1.ETCDSnapshotPhaseFinished) {
				r.t.Fatalf("%s %d has succeeded", field, generation)
			}
			return fmt.Errorf("%s %d is in %s", field, handled, phase)
		}
		conditions, _, _ := unstructured.NestedSlice(controlPlane.Object, "status", "conditions")
		for _, entry := range conditions {
			condition, _ := entry.(map[string]any)
			if kind := fmt.Sprint(condition["type"]); strings.HasPrefix(kind, "ETCDSnapshot") && strings.Contains(
				strings.ToLower(field), strings.ToLower(strings.TrimSuffix(kind, "d"))) {
				message = fmt.Sprint(condition["message"])
			}
		}
		if message == "" {
			return errors.New("it has no message")
		}
		return nil
	})
	r.t.Logf("%s %d has failed after %s: %s", field, generation, time.Since(start).Round(time.Second), message)
	if !strings.Contains(message, why) {
		r.t.Errorf("the message has no %q", why)
	}
	return message
}
