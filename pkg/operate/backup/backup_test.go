package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

func object(apiVersion, kind, name, uid string, owners ...*unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetAPIVersion(apiVersion)
	out.SetKind(kind)
	out.SetNamespace("ns")
	out.SetName(name)
	out.SetUID(types.UID(uid))
	var references []metav1.OwnerReference
	for _, owner := range owners {
		references = append(references, metav1.OwnerReference{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(),
			Name: owner.GetName(), UID: owner.GetUID()})
	}
	out.SetOwnerReferences(references)
	return out
}

// small is a backup of a namespace, an account, and a Secret that belongs to the account.
func small(t *testing.T) *Backup {
	t.Helper()
	space := object("v1", "Namespace", "ns", "n")
	space.SetNamespace("")
	account := object("v1", "ServiceAccount", "b", "a")
	secret := object("v1", "Secret", "a", "s", account)
	secret.Object["data"] = map[string]any{"key": "dmFsdWU="}
	objects, err := order([]*unstructured.Unstructured{secret, account, space})
	if err != nil {
		t.Fatal(err)
	}
	return &Backup{Manifest: Manifest{ID: "backup-1", CreatedAt: time.Unix(0, 0).UTC(), Counts: map[string]int{}},
		Objects: objects}
}

func names(objects []*unstructured.Unstructured) []string {
	var out []string
	for _, object := range objects {
		out = append(out, describe(object))
	}
	return out
}

func TestOrder_OwnersComeFirst(t *testing.T) {
	want := []string{"Namespace ns", "ServiceAccount ns/b", "Secret ns/a"}
	if diff := cmp.Diff(want, names(small(t).Objects)); diff != "" {
		t.Error(diff)
	}
	a, b := object("v1", "Secret", "a", "a"), object("v1", "Secret", "b", "b")
	a.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Secret", Name: "b", UID: "b"}})
	b.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Secret", Name: "a", UID: "a"}})
	if _, err := order([]*unstructured.Unstructured{a, b}); err == nil {
		t.Error("objects that own each other have an order")
	}
}

func TestArchive_ReadsWhatItWrote(t *testing.T) {
	b := small(t)
	var file bytes.Buffer
	if err := b.Write(&file); err != nil {
		t.Fatal(err)
	}
	read, err := Read(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b, read); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
}

func TestArchive_DetectsDamage(t *testing.T) {
	b := small(t)
	var file bytes.Buffer
	if err := b.Write(&file); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(bytes.NewReader(file.Bytes()[:file.Len()/2])); err == nil {
		t.Error("Read accepts half an archive")
	}
	if _, err := Read(strings.NewReader("not an archive")); err == nil {
		t.Error("Read accepts a text")
	}
}

func client(t *testing.T, api *memkube.Server) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(api.Config("tester"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRestore_SetsOwnersAndIsRepeatable(t *testing.T) {
	api := memkube.New(memkube.Options{})
	result, err := Restore(t.Context(), small(t), RestoreOptions{Client: client(t, api)})
	if err != nil || len(result.Created) != 3 {
		t.Fatalf("created %v, error %v", result, err)
	}
	secret, err := client(t, api).Resource(coreKinds[0]).Namespace("ns").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	account, err := client(t, api).Resource(coreKinds[2]).Namespace("ns").Get(t.Context(), "b", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if owners := secret.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != account.GetUID() ||
		account.GetUID() == "a" {
		t.Errorf("the Secret is owned by %v, the account is %s", owners, account.GetUID())
	}
	if secret.GetAnnotations()[rkev1.RestoredFromAnnotation] != "backup-1" {
		t.Error("the Secret has no annotation of the backup")
	}
	result, err = Restore(t.Context(), small(t), RestoreOptions{Client: client(t, api)})
	if err != nil || len(result.Created) != 0 || len(result.Kept) != 3 {
		t.Errorf("the second restore: %+v, error %v", result, err)
	}
}

func TestRestore_DryRunCreatesNothing(t *testing.T) {
	api := memkube.New(memkube.Options{})
	result, err := Restore(t.Context(), small(t), RestoreOptions{Client: client(t, api), DryRun: true})
	if err != nil || len(result.Created) != 3 {
		t.Fatalf("%+v, error %v", result, err)
	}
	if writes := api.Writes("tester"); len(writes) > 0 {
		t.Errorf("a dry run wrote %v", writes)
	}
}

func TestRestore_RefusesToChangeExistingObjects(t *testing.T) {
	api := memkube.New(memkube.Options{Namespaces: []string{"ns"}})
	other := object("v1", "Secret", "a", "")
	other.Object["data"] = map[string]any{"key": "b3RoZXI="}
	if _, err := client(t, api).Resource(coreKinds[0]).Namespace("ns").Create(t.Context(), other,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	api.ResetLog()
	_, err := Restore(t.Context(), small(t), RestoreOptions{Client: client(t, api)})
	var conflict *ConflictError
	if !errors.As(err, &conflict) || !slices.Equal(conflict.Objects, []string{"Secret ns/a"}) {
		t.Errorf("the error is %v", err)
	}
	if writes := api.Writes("tester"); len(writes) > 0 {
		t.Errorf("a refused restore wrote %v", writes)
	}
}

func TestTarget_NoProgramActsOnRestoredClusters(t *testing.T) {
	r := &restore{id: "backup-1", uids: map[types.UID]types.UID{}}
	cluster := object("provisioning.cattle.io/v1", "Cluster", "demo", "c")
	cluster.SetAnnotations(map[string]string{rkev1.InstanceAnnotation: "first", rkev1.BlockMoveAnnotation: "true"})
	want := map[string]string{rkev1.ReleasedByAnnotation: "first", rkev1.RestoredFromAnnotation: "backup-1"}
	if diff := cmp.Diff(want, r.target(cluster).GetAnnotations()); diff != "" {
		t.Errorf("cluster: %s", diff)
	}
	core := object("cluster.x-k8s.io/v1beta2", "Cluster", "demo", "d")
	core.Object["spec"] = map[string]any{}
	paused, _, _ := unstructured.NestedBool(r.target(core).Object, "spec", "paused")
	if !paused || r.target(core).GetAnnotations()[rkev1.PausedByOperationAnnotation] == "" {
		t.Error("Cluster API is not paused")
	}
	core.Object["spec"] = map[string]any{"paused": true}
	if r.target(core).GetAnnotations()[rkev1.PausedByOperationAnnotation] != "" {
		t.Error("adoption would end a pause of the user")
	}
	machine := object("cluster.x-k8s.io/v1beta2", "Machine", "m", "first-uid")
	if got := r.target(machine).GetAnnotations()[rkev1.MachineUIDAnnotation]; got != "first-uid" {
		t.Errorf("the node of the machine would have UID %q", got)
	}
}

func TestTarget_ClusterWithoutAMarkIsReleased(t *testing.T) {
	r := &restore{id: "backup-1", uids: map[types.UID]types.UID{}}
	cluster := object("provisioning.cattle.io/v1", "Cluster", "demo", "c")
	if got := r.target(cluster).GetAnnotations()[rkev1.ReleasedByAnnotation]; got == "" {
		t.Error("any instance would claim it at once")
	}
	cluster.SetAnnotations(map[string]string{rkev1.ReleasedByAnnotation: "first"})
	if got := r.target(cluster).GetAnnotations()[rkev1.ReleasedByAnnotation]; got != "first" {
		t.Errorf("a cluster released by instance first has the annotation of %q", got)
	}
}

func TestTarget_MachineKeepsItsFirstUID(t *testing.T) {
	r := &restore{id: "backup-1", uids: map[types.UID]types.UID{}}
	machine := object("cluster.x-k8s.io/v1beta2", "Machine", "m", "second-uid")
	machine.SetAnnotations(map[string]string{rkev1.MachineUIDAnnotation: "first-uid"})
	if got := r.target(machine).GetAnnotations()[rkev1.MachineUIDAnnotation]; got != "first-uid" {
		t.Errorf("after a second move, the node of the machine would have UID %q", got)
	}
}

func TestTarget_TokenIsForTheExistingAccount(t *testing.T) {
	r := &restore{id: "backup-1", uids: map[types.UID]types.UID{"before": "now"}}
	token := object("v1", "Secret", "t", "s")
	token.Object["type"] = string(corev1.SecretTypeServiceAccountToken)
	token.Object["data"] = map[string]any{corev1.ServiceAccountRootCAKey: "Y2E=", corev1.ServiceAccountTokenKey: "dA=="}
	token.SetAnnotations(map[string]string{corev1.ServiceAccountUIDKey: "before"})
	made := r.target(token)
	if got := made.GetAnnotations()[corev1.ServiceAccountUIDKey]; got != "now" {
		t.Errorf("the token is for account %q", got)
	}
	data, _, _ := unstructured.NestedStringMap(made.Object, "data")
	if diff := cmp.Diff(map[string]string{corev1.ServiceAccountTokenKey: "dA=="}, data); diff != "" {
		t.Error(diff)
	}
	token.SetAnnotations(map[string]string{corev1.ServiceAccountUIDKey: "of an account outside of the backup"})
	if got, has := r.target(token).GetAnnotations()[corev1.ServiceAccountUIDKey]; has {
		t.Errorf("the token is for account %q", got)
	}
}

func TestTarget_WithholdsPlansThatWereNotApplied(t *testing.T) {
	const before, pending = `{"files":[]}`, `{"files":[{"path":"/a"}]}`
	evidence := `{"plan":"` + nodeplan.Checksum([]byte(pending)) + `","spec":{"etcd":"1"}}`
	applied := map[string]string{nodeplan.KeyPlan: pending, nodeplan.KeyAppliedPlan: before,
		nodeplan.KeyAppliedChecksum: nodeplan.Checksum([]byte(before))}
	reported := map[string]string{nodeplan.KeyPlan: pending, nodeplan.KeyAppliedPlan: before,
		nodeplan.KeyAppliedChecksum: nodeplan.Checksum([]byte(pending))}
	back := map[string]string{nodeplan.KeyPlan: before, nodeplan.KeyAppliedPlan: before,
		nodeplan.KeyAppliedChecksum: nodeplan.Checksum([]byte(pending))}
	begun := map[string]string{nodeplan.KeyPlan: pending, nodeplan.KeyAppliedPlan: before,
		nodeplan.KeyPlanState: "in-progress"}
	cases := map[string]struct {
		secretType string
		data, want map[string]string
		evidence   string
	}{
		"delivered": {rkev1.SecretTypeMachinePlan, applied, with(applied, nodeplan.KeyPlan, before),
			`{"plan":"` + nodeplan.Checksum([]byte(before)) + `"}`},
		"back to the previous plan": {rkev1.SecretTypeMachinePlan, back, back, evidence},
		"begun": {rkev1.SecretTypeMachinePlan, begun,
			map[string]string{nodeplan.KeyPlan: before, nodeplan.KeyAppliedPlan: before,
				nodeplan.KeyAppliedChecksum: nodeplan.Checksum([]byte(before))}, `{"plan":"` +
				nodeplan.Checksum([]byte(before)) + `"}`},
		"reported, but not copied yet": {rkev1.SecretTypeMachinePlan, reported, reported, evidence},
		"the first plan": {rkev1.SecretTypeMachinePlan, map[string]string{nodeplan.KeyPlan: pending},
			map[string]string{nodeplan.KeyPlan: pending}, evidence},
		"without a plan": {rkev1.SecretTypeMachinePlan, map[string]string{nodeplan.KeyAppliedPlan: before},
			map[string]string{nodeplan.KeyAppliedPlan: before}, evidence},
		"another type of Secret": {"Opaque", applied, applied, evidence},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			plan := object("v1", "Secret", "m-machine-plan", "p")
			plan.Object["type"] = c.secretType
			plan.SetAnnotations(map[string]string{rkev1.PlanEvidenceAnnotation: evidence})
			for key, value := range c.data {
				check(t, unstructured.SetNestedField(plan.Object, base64.StdEncoding.EncodeToString([]byte(value)),
					"data", key))
			}
			r := &restore{id: "backup-1", uids: map[types.UID]types.UID{}}
			made := r.target(plan)
			var secret corev1.Secret
			check(t, into(made, &secret))
			got := map[string]string{}
			for key, value := range secret.Data {
				got[key] = string(value)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("data (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.evidence, secret.Annotations[rkev1.PlanEvidenceAnnotation]); diff != "" {
				t.Errorf("evidence (-want +got):\n%s", diff)
			}
		})
	}
}

func with(data map[string]string, key, value string) map[string]string {
	out := maps.Clone(data)
	out[key] = value
	return out
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestArchive_ManifestMayBeLargerThanAnObject(t *testing.T) {
	b := small(t)
	b.Manifest.Warnings = []string{strings.Repeat("x", maxFile+1)}
	var file bytes.Buffer
	check(t, b.Write(&file))
	if _, err := Read(&file); err != nil {
		t.Error(err)
	}
}

func TestArchive_WritesOnlyWhatReadAccepts(t *testing.T) {
	full := make([]byte, maxFile)
	many := slices.Repeat([][]byte{full}, maxArchive/maxFile)
	for name, c := range map[string]struct {
		manifest []byte
		contents [][]byte
		want     string
	}{
		"an object":         {nil, [][]byte{append(full, 0)}, "16 MiB"},
		"the list":          {make([]byte, maxManifest+1), nil, "512 MiB"},
		"the whole archive": {nil, many, "4 GiB"},
		"no error":          {nil, many[:200], ""},
	} {
		err := fits(c.manifest, c.contents)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := small(t)
	b.Objects[2].Object["data"] = map[string]any{"key": strings.Repeat("x", maxFile)}
	var file bytes.Buffer
	if err := b.Write(&file); err == nil || file.Len() > 0 {
		t.Errorf("%d bytes were written, error %v", file.Len(), err)
	}
}

// member is one file of an archive.
type member struct{ name, content string }

// unpacked returns the files of an archive. packed makes an archive from them.
func unpacked(t *testing.T, b *Backup) []member {
	t.Helper()
	var file bytes.Buffer
	check(t, b.Write(&file))
	plain, err := gzip.NewReader(&file)
	check(t, err)
	var out []member
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		check(t, err)
		content, err := io.ReadAll(archive)
		check(t, err)
		out = append(out, member{header.Name, string(content)})
	}
}

func packed(t *testing.T, members []member) io.Reader {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for _, m := range members {
		check(t, archive.WriteHeader(&tar.Header{Name: m.name, Mode: 0o600, Size: int64(len(m.content))}))
		_, err := archive.Write([]byte(m.content))
		check(t, err)
	}
	check(t, errors.Join(archive.Close(), zipped.Close()))
	return &out
}

func TestArchive_RefusesChangedArchives(t *testing.T) {
	cases := map[string]struct {
		change func([]member) []member
		want   string
	}{
		"a changed byte": {func(m []member) []member {
			m[3].content = strings.Replace(m[3].content, "dmFsdWU=", "dmFsdWU9", 1)
			return m
		}, "checksum"},
		"two files in the wrong order": {func(m []member) []member { m[2], m[3] = m[3], m[2]; return m },
			" bytes, want objects/"},
		"a renamed file":     {func(m []member) []member { m[2].name += "x"; return m }, " bytes, want objects/"},
		"a missing file":     {func(m []member) []member { return m[:3] }, "ends before"},
		"an additional file": {func(m []member) []member { return append(m, member{"more", "x"}) }, "does not name"},
		"a file that is too large": {func(m []member) []member {
			m[3].content += strings.Repeat(" ", maxFile)
			return m
		}, " of at most "},
		"another version": {func(m []member) []member {
			m[0].content = strings.Replace(m[0].content, apiVersion, "backup.drover.io/v2", 1)
			return m
		}, "this Drover reads"},
		"another kind": {func(m []member) []member {
			m[0].content = strings.Replace(m[0].content, "kind: Backup", "kind: Report", 1)
			return m
		}, "this Drover reads"},
		"without an identity": {func(m []member) []member {
			m[0].content = strings.Replace(m[0].content, "id: backup-1", `id: ""`, 1)
			return m
		}, "this Drover reads"},
		"an unknown field in the list": {func(m []member) []member { m[0].content += "more: 1\n"; return m },
			"unknown field"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := Read(packed(t, c.change(unpacked(t, small(t))))); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := Read(packed(t, unpacked(t, small(t)))); err != nil {
		t.Errorf("an unchanged archive: %v", err)
	}
}

func TestOnlyPaused(t *testing.T) {
	condition := func(kind string) any { return map[string]any{"type": kind, "status": "True"} }
	for name, c := range map[string]struct {
		status any
		want   bool
	}{
		"none":          {nil, true},
		"empty":         {map[string]any{}, true},
		"paused":        {map[string]any{"conditions": []any{condition("Paused")}}, true},
		"more":          {map[string]any{"conditions": []any{condition("Paused"), condition("Ready")}}, false},
		"another field": {map[string]any{"conditions": []any{condition("Paused")}, "phase": "Running"}, false},
	} {
		if got := onlyPaused(&unstructured.Unstructured{Object: map[string]any{"status": c.status}}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
