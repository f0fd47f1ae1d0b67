package snapshots_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/snapshots"
	"github.com/drover-io/drover/pkg/testkit/packed"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

var demo = snapshots.Cluster{Namespace: "fleet-default", Name: "demo", UID: "cluster-uid"}

// read reads a list of one page.
func read(page string) (files []snapshots.File, complete bool, err error) {
	var list snapshots.List
	_, err = list.Read(strings.NewReader(page))
	return list.Files(), list.Complete(), err
}

func local(name string) snapshots.File {
	return snapshots.File{
		Name: "local-" + name, SnapshotName: name, NodeName: "n1", Location: "file:///snapshots/" + name, Size: 4096,
		Successful: true,
		CreatedAt:  new(metav1.NewTime(time.Unix(1795694402, 0).UTC())),
	}
}

func input(files ...snapshots.File) snapshots.Input {
	return snapshots.Input{
		Cluster: demo, Files: files, Complete: true,
		Machines: map[string]snapshots.Machine{"n1": {Name: "server-a", UID: "machine-uid"}}, Now: noon,
	}
}

// TestDecide_AListBecomesObjects checks that a list as K3s writes it becomes objects
// (docs/wire/planner.md#etcdsnapshot-objects).
func TestDecide_AListBecomesObjects(t *testing.T) {
	t.Parallel()
	spec := packed.Text(`{"kubernetesVersion":"v1.36.3+k3s1","rkeConfig":{}}`)
	raw := fmt.Sprintf(`{"kind":"ETCDSnapshotFileList","apiVersion":"k3s.cattle.io/v1","metadata":{"resourceVersion":"7"},"items":[
	 {"metadata":{"name":"local-on-demand-n1-1795694402-0a1b2c"},
	  "spec":{"snapshotName":"on-demand-n1-1795694402","nodeName":"n1","location":"file:///snapshots/on-demand-n1-1795694402","metadata":{"provisioning-cluster-spec":%q}},
	  "status":{"size":"5Mi","creationTime":"2026-11-26T12:00:02Z","readyToUse":true}},
	 {"metadata":{"name":"s3-on-demand-n1-1795694402-3d4e5f"},
	  "spec":{"snapshotName":"on-demand-n1-1795694402","nodeName":"n1","location":"s3://backups/demo/on-demand-n1-1795694402",
	   "s3":{"endpoint":"s3.example.com","bucket":"backups","region":"r1","prefix":"demo","skipSSLVerify":true}},
	  "status":{"creationTime":"2026-11-26T12:00:02Z","readyToUse":false,"error":{"time":"2026-11-26T12:00:02Z","message":"no such bucket\n\u001b[31m"}}}]}`, spec)
	files, complete, err := read(raw)
	if err != nil || !complete {
		t.Fatalf("read: %v, complete %t", err, complete)
	}
	in := input(files...)
	decision := snapshots.Decide(in)
	metadata := base64.StdEncoding.EncodeToString([]byte(fmt.Sprintf(`{"provisioning-cluster-spec":%q}`, spec)))
	created := metav1.Date(2026, 11, 26, 12, 0, 2, 0, time.UTC)
	meta := metav1.TypeMeta{APIVersion: "rke.cattle.io/v1", Kind: "ETCDSnapshot"}
	want := snapshots.Decision{Missing: map[string]time.Time{}, Create: []*rkev1.ETCDSnapshot{
		{
			TypeMeta: meta,
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "fleet-default", Name: "demo-local-on-demand-n1-1795694402-a37308",
				Labels: map[string]string{"rke.cattle.io/cluster-name": "demo", "rke.cattle.io/node-name": "n1"},
				Annotations: map[string]string{
					"etcdsnapshot.rke.io/snapshot-name":        "local-on-demand-n1-1795694402-0a1b2c",
					"etcdsnapshot.rke.io/snapshot-file-name":   "on-demand-n1-1795694402",
					"etcdsnapshot.rke.io/storage":              "local",
					"etcdsnapshot.rke.io/restore-mode-options": "none,kubernetesVersion,all",
				},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine",
					Name: "server-a", UID: "machine-uid"}},
			},
			Spec: rkev1.ETCDSnapshotSpec{ClusterName: "demo"},
			SnapshotFile: rkev1.ETCDSnapshotFile{
				Name: "on-demand-n1-1795694402", NodeName: "n1", Location: "file:///snapshots/on-demand-n1-1795694402",
				Metadata:  metadata,
				CreatedAt: &created, Size: 5 << 20, Status: "successful",
			},
		},
		{
			TypeMeta: meta,
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "fleet-default", Name: "demo-s3-on-demand-n1-1795694402-66d5af",
				Labels: map[string]string{"rke.cattle.io/cluster-name": "demo"},
				Annotations: map[string]string{
					"etcdsnapshot.rke.io/snapshot-name":        "s3-on-demand-n1-1795694402-3d4e5f",
					"etcdsnapshot.rke.io/snapshot-file-name":   "on-demand-n1-1795694402",
					"etcdsnapshot.rke.io/storage":              "s3",
					"etcdsnapshot.rke.io/restore-mode-options": "none",
				},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster",
					Name: "demo", UID: "cluster-uid"}},
			},
			Spec: rkev1.ETCDSnapshotSpec{ClusterName: "demo"},
			SnapshotFile: rkev1.ETCDSnapshotFile{
				Name: "on-demand-n1-1795694402", NodeName: "n1", Location: "s3://backups/demo/on-demand-n1-1795694402",
				CreatedAt: &created,
				S3: &rkev1.ETCDSnapshotS3{Endpoint: "s3.example.com", Bucket: "backups", Region: "r1",
					Folder: "demo", SkipSSLVerify: true}, Status: "failed", Message: "no such bucket[31m",
			},
		},
	}}
	if diff := cmp.Diff(want, decision); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
	in.Have = decision.Create
	if again := snapshots.Decide(in); !again.Empty() {
		t.Errorf("a created object differs from the desired one: %+v", again)
	}
}

func TestDecide_ExistingObjects(t *testing.T) {
	t.Parallel()
	made := snapshots.Decide(input(local("one"))).Create[0]
	with := func(f func(*rkev1.ETCDSnapshot)) *rkev1.ETCDSnapshot {
		out := made.DeepCopy()
		f(out)
		return out
	}
	since := func(d time.Duration) snapshots.Input {
		in := input()
		in.Missing = map[string]time.Time{"local-one": noon.Add(-d)}
		return in
	}
	tests := map[string]struct {
		in   snapshots.Input
		have []*rkev1.ETCDSnapshot
		// want are the names of the created, updated and deleted objects.
		want [3]string
	}{
		"a file that is missing for the first time": {in: input(), have: []*rkev1.ETCDSnapshot{made}},
		"a file that is missing for a long time": {in: since(snapshots.Grace), have: []*rkev1.ETCDSnapshot{made},
			want: [3]string{"", "", made.Name}},
		"a file that is missing for a short time": {in: since(snapshots.Grace - time.Second),
			have: []*rkev1.ETCDSnapshot{made}},
		"a file on a node without a machine": {
			in: snapshots.Input{Cluster: demo, Files: []snapshots.File{local("one")}, Complete: true, Now: noon,
				Missing: since(snapshots.Grace).Missing}, have: []*rkev1.ETCDSnapshot{made},
		},
		"a file that is missing in an incomplete list": {
			in:   snapshots.Input{Cluster: demo, Now: noon, Missing: since(snapshots.Grace).Missing},
			have: []*rkev1.ETCDSnapshot{made},
		},
		"a file whose object is being deleted": {
			in: input(local("one")), have: []*rkev1.ETCDSnapshot{with(func(s *rkev1.ETCDSnapshot) {
				s.DeletionTimestamp = new(metav1.Now())
			})},
		},
		"an edited object": {
			in: input(local("one")), have: []*rkev1.ETCDSnapshot{with(func(s *rkev1.ETCDSnapshot) {
				s.SnapshotFile.Name = "two"
			})}, want: [3]string{"", made.Name, ""},
		},
		"an object with other labels": {
			in: input(local("one")), have: []*rkev1.ETCDSnapshot{with(func(s *rkev1.ETCDSnapshot) {
				s.Labels["team"] = "a"
			})},
		},
		"two objects for one file": {
			in: input(local("one")), have: []*rkev1.ETCDSnapshot{with(func(s *rkev1.ETCDSnapshot) {
				s.Name = "zzz"
			}), made}, want: [3]string{"", "", "zzz"},
		},
		"two objects for one file, one being deleted": {
			in: input(local("one")), have: []*rkev1.ETCDSnapshot{made, with(func(s *rkev1.ETCDSnapshot) {
				s.Name, s.DeletionTimestamp = "aaa", new(metav1.Now())
			})},
		},
		"two entries with one name": {
			in: input(local("one"), func() snapshots.File {
				f := local("two")
				f.Name = "local-one"
				return f
			}()), have: []*rkev1.ETCDSnapshot{made},
		},
		"an object with another name, from another program": {
			in: input(local("one")), have: []*rkev1.ETCDSnapshot{with(func(s *rkev1.ETCDSnapshot) { s.Name = "zzz" })},
		},
		"an object that was written by hand": {
			in: input(), have: []*rkev1.ETCDSnapshot{with(func(s *rkev1.ETCDSnapshot) {
				delete(s.Annotations, rkev1.SnapshotNameAnnotation)
			})},
		},
		"a recreated machine": {
			in: input(local("one")), have: []*rkev1.ETCDSnapshot{with(func(s *rkev1.ETCDSnapshot) {
				s.OwnerReferences[0].UID = "before"
			})}, want: [3]string{"", made.Name, ""},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.in.Have = tc.have
			decision := snapshots.Decide(tc.in)
			var got [3]string
			for i, list := range [][]*rkev1.ETCDSnapshot{decision.Create, decision.Update, decision.Delete} {
				for _, s := range list {
					got[i] += s.Name
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("created, updated and deleted (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecide_KeepsTheUsersCredential checks that an object's credential stays. Lists contain no credential, so the
// user set it.
func TestDecide_KeepsTheUsersCredential(t *testing.T) {
	t.Parallel()
	file := local("one")
	file.S3 = &rkev1.ETCDSnapshotS3{Bucket: "backups"}
	in := input(file)
	made := snapshots.Decide(in).Create[0]
	made.SnapshotFile.S3.CloudCredentialName, made.SnapshotFile.Size = "cattle-global-data:cc-old", 0
	in.Have = []*rkev1.ETCDSnapshot{made}
	decision := snapshots.Decide(in)
	if len(decision.Update) != 1 || decision.Update[0].SnapshotFile.S3.CloudCredentialName !=
		"cattle-global-data:cc-old" || decision.Update[0].SnapshotFile.Size != 4096 {
		t.Errorf("update: %+v", decision.Update)
	}
	if made.SnapshotFile.Size != 0 || file.S3.CloudCredentialName != "" {
		t.Error("the input is changed")
	}
}

// TestList_Input checks that invalid entries of a cluster are rejected.
func TestList_Input(t *testing.T) {
	t.Parallel()
	list := func(items string) string { return `{"kind":"ETCDSnapshotFileList","items":[` + items + `]}` }
	entry := func(spec string) string { return list(`{"metadata":{"name":"x"},"spec":{` + spec + `}}`) }
	for name, raw := range map[string]string{
		"no name": entry(`"snapshotName":""`), "a path": entry(`"snapshotName":"../../etc/shadow"`),
		"the folder":     entry(`"snapshotName":".."`),
		"a Windows path": entry(`"snapshotName":"a\\b"`), "two lines": entry(`"snapshotName":"a\nb"`),
		"a long name":         entry(`"snapshotName":"` + strings.Repeat("a", 256) + `"`),
		"a long node":         entry(`"snapshotName":"a","nodeName":"` + strings.Repeat("n", 254) + `"`),
		"a node in two lines": entry(`"snapshotName":"a","nodeName":"a\nb"`),
		"a large authority": entry(`"snapshotName":"a","s3":{"endpointCA":"` +
			strings.Repeat("n", 1<<20) + `"}`),
		"a long bucket": entry(`"snapshotName":"a","s3":{"bucket":"` + strings.Repeat("n", 64) +
			`"}`),
		"an object that is being deleted": list(
			`{"metadata":{"name":"x","deletionTimestamp":"2026-11-26T12:00:02Z"},"spec":{"snapshotName":"a"}}`),
	} {
		if files, complete, err := read(raw); err != nil || len(files) > 0 || !complete {
			t.Errorf("%s: %v, %v, complete %t", name, files, err, complete)
		}
	}
	if files, complete, err := read(
		list(`{"metadata":{"name":7}},{"metadata":{"name":"x"},"spec":{"snapshotName":"a"}}`)); err != nil ||
		len(files) != 1 || complete {
		t.Errorf("an unreadable entry: %v, %v, complete %t", files, err, complete)
	}
	if files, complete, err := read(`{"kind":"PartialObjectMetadataList","items":null}`); err != nil ||
		len(files) > 0 || !complete {
		t.Errorf("no entries, as API servers write it: %v, %v, complete %t", files, err, complete)
	}
	if _, complete, err := read(`{"kind":"ETCDSnapshotFileList","metadata":{"continue":"more"},"items":[]}`); err !=
		nil || complete {
		t.Errorf("a list with more to come: %v, complete %t", err, complete)
	}
	for _, raw := range []string{
		"", "<html>", "null", "{}", `{"items":[]}`, `{"kind":"ETCDSnapshotFileList"}`,
		`{"kind":"ETCDSnapshotFileList","items":{}}`, `{"kind":"Status","items":[]}`,
		list(strings.Repeat("{},", 2000) + "{}"), list(`"` + strings.Repeat("x", 100)),
		list(`{"metadata":{"name":"x"}`),
	} {
		if files, _, err := read(raw); err == nil {
			t.Errorf("%.40q counts as a list: %v", raw, files)
		} else if strings.Contains(err.Error(), "xxx") {
			t.Errorf("the error contains the answer: %v", err)
		}
	}
}

func TestList_SizesAndTimes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		`"5Mi"`: 5 << 20, `4096`: 4096, `"1.5k"`: 1500, `"1e-2000000000"`: 0, `"-1"`: 0, `{}`: 0, `null`: 0,
		`"` + strings.Repeat("9", 40) + `"`: 0,
	} {
		files, _, err := read(
			`{"kind":"ETCDSnapshotFileList","items":[{"metadata":{"name":"x"},"spec":{"snapshotName":"a"},"status":{"size":` + text + `}}]}`)
		if err != nil || len(files) != 1 || files[0].Size != want {
			t.Errorf("size %s: %+v, %v, want %d", text, files, err, want)
		}
	}
	for text, want := range map[string]string{
		"2026-11-26T13:00:02.75+01:00": "2026-11-26T12:00:02Z", "0001-01-01T00:00:00Z": "", "": "", "yesterday": "",
		"9999-12-31T23:59:59-01:00": "",
	} {
		files, _, err := read(
			`{"kind":"ETCDSnapshotFileList","items":[{"metadata":{"name":"x"},"spec":{"snapshotName":"a"},"status":{"creationTime":"` + text + `"}}]}`)
		got := ""
		if err == nil && len(files) == 1 && files[0].CreatedAt != nil {
			got = files[0].CreatedAt.Format(time.RFC3339Nano)
		}
		if err != nil || got != want {
			t.Errorf("time %s: %s, %v, want %s", text, got, err, want)
		}
	}
}

// TestList_TheYoungestOfAllPages checks that the youngest entries of all pages are kept.
func TestList_TheYoungestOfAllPages(t *testing.T) {
	t.Parallel()
	var list snapshots.List
	const size = 500
	for page := range 3 {
		var items []string
		for i := range size {
			items = append(items,
				fmt.Sprintf(`{"metadata":{"name":"x%d"},"spec":{"snapshotName":"a"},"status":{"creationTime":%q}}`,
					page*size+i,
					noon.Add(time.Duration(page*size+i)*time.Second).Format(time.RFC3339)))
		}
		next := map[bool]string{true: "more"}[page < 2]
		got, err := list.Read(
			strings.NewReader(fmt.Sprintf(`{"kind":"ETCDSnapshotFileList","metadata":{"continue":%q},"items":[%s]}`,
				next, strings.Join(items, ","))))
		if err != nil || got != next {
			t.Fatalf("page %d: %q, %v", page, got, err)
		}
	}
	files := list.Files()
	if len(files) != snapshots.MaxFiles || files[0].Name != "x1499" || !list.Complete() {
		t.Errorf("%d files from %s, complete %t", len(files), files[0].Name, list.Complete())
	}
	if oldest := files[len(files)-1].Name; oldest != "x1000" {
		t.Errorf("the oldest is %s", oldest)
	}
}

// TestDecide_NoMoreThanMaxFiles checks that a cluster never has more objects than MaxFiles. The oldest are deleted at
// once.
func TestDecide_NoMoreThanMaxFiles(t *testing.T) {
	t.Parallel()
	in := input(local("new"))
	in.Complete = false
	for i := range snapshots.MaxFiles {
		file := local(fmt.Sprint("old", i))
		file.CreatedAt = new(metav1.NewTime(time.Unix(int64(i+1), 0)))
		in.Have = append(in.Have, snapshots.Decide(input(file)).Create...)
	}
	decision := snapshots.Decide(in)
	if len(decision.Create) != 1 || len(decision.Delete) != 1 || decision.Delete[0].SnapshotFile.Name != "old0" ||
		len(decision.Missing) > 0 {
		t.Errorf("%d objects are created, and these are deleted: %v", len(decision.Create), decision.Delete)
	}
}

// TestDecide_Bounds checks that metadata that are too large are dropped as a whole, and that the oldest snapshots are
// dropped first.
func TestDecide_Bounds(t *testing.T) {
	t.Parallel()
	files, complete, err := read(`{"kind":"ETCDSnapshotFileList","items":[
		{"metadata":{"name":"large"},"spec":{"snapshotName":"a","metadata":{"a":"` + strings.Repeat("x", 1<<20) + `"}}},
		{"metadata":{"name":"odd"},"spec":{"snapshotName":"b","metadata":{"a":7}}}]}`)
	if err != nil || !complete || len(files) != 2 || files[0].Metadata+files[1].Metadata != "" {
		t.Errorf("metadata that does not fit: %d files, complete %t, %v", len(files), complete, err)
	}
	var many []snapshots.File
	for i := range 200 {
		file := local(fmt.Sprint("m", i))
		file.Metadata = strings.Repeat("x", 80<<10)
		many = append(many, file)
	}
	total := 0
	for _, s := range snapshots.Decide(input(many...)).Create {
		total += len(s.SnapshotFile.Metadata)
	}
	if total < 7<<20 || total > 8<<20 {
		t.Errorf("the objects of a cluster have metadata of %d bytes together", total)
	}
}

// TestDecide_IsIdempotent checks any objects and any list: a second decision is empty, objects of users stay unchanged,
// and no name is created twice.
func TestDecide_IsIdempotent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringMatching(`[a-zA-Z_.-]{1,70}`), 0, 6)
		in := input()
		for i, name := range names.Draw(t, "files") {
			file := local(name)
			file.Name += fmt.Sprint("-", i)
			file.NodeName = rapid.SampledFrom([]string{"n1", "gone"}).Draw(t, "node")
			file.Location += strconv.Itoa(i)
			in.Files = append(in.Files, file)
		}
		for i, name := range names.Draw(t, "objects") {
			s := &rkev1.ETCDSnapshot{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("have-", i)}}
			if rapid.Bool().Draw(t, "listed") {
				s.Annotations = map[string]string{rkev1.SnapshotNameAnnotation: "local-" + name + fmt.Sprint("-", i)}
			}
			in.Have = append(in.Have, s)
		}
		in.Missing = map[string]time.Time{}
		for _, s := range in.Have {
			in.Missing[s.Annotations[rkev1.SnapshotNameAnnotation]] = noon.Add(-snapshots.Grace)
		}
		decision := snapshots.Decide(in)
		objects := map[string]*rkev1.ETCDSnapshot{}
		for _, s := range in.Have {
			objects[s.Name] = s
		}
		for _, s := range decision.Create {
			if objects[s.Name] != nil {
				t.Fatalf("%s is created twice", s.Name)
			}
			objects[s.Name] = s
		}
		for _, s := range decision.Update {
			objects[s.Name] = s
		}
		for _, s := range decision.Delete {
			if s.Annotations[rkev1.SnapshotNameAnnotation] == "" {
				t.Fatalf("%s belongs to a user", s.Name)
			}
			delete(objects, s.Name)
		}
		in.Have = nil
		for _, s := range objects {
			in.Have = append(in.Have, s)
		}
		if again := snapshots.Decide(in); !again.Empty() {
			encoded, _ := json.Marshal(again)
			t.Fatalf("work remains: %s", encoded)
		}
	})
}
