package backup

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
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
		references = append(references, metav1.OwnerReference{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID()})
	}
	out.SetOwnerReferences(references)
	return out
}

// small is a backup of a namespace, an account, and a Secret that belongs to it.
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
	return &Backup{Manifest: Manifest{ID: "backup-1", CreatedAt: time.Unix(0, 0).UTC(), Counts: map[string]int{}}, Objects: objects}
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
		t.Error("objects that own each other were ordered")
	}
}

func TestArchive_IsReadAsItWasWritten(t *testing.T) {
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

func TestArchive_DamageIsSeen(t *testing.T) {
	b := small(t)
	var file bytes.Buffer
	if err := b.Write(&file); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(bytes.NewReader(file.Bytes()[:file.Len()/2])); err == nil {
		t.Error("half an archive was read")
	}
	if _, err := Read(strings.NewReader("no archive")); err == nil {
		t.Error("a text was read")
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

func TestRestore_FindsOwnersAgainAndCanBeRepeated(t *testing.T) {
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
	if owners := secret.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != account.GetUID() || account.GetUID() == "a" {
		t.Errorf("the Secret is owned by %v, the account is %s", owners, account.GetUID())
	}
	if secret.GetAnnotations()[rkev1.RestoredFromAnnotation] != "backup-1" {
		t.Error("the Secret does not say what it was made from")
	}
	result, err = Restore(t.Context(), small(t), RestoreOptions{Client: client(t, api)})
	if err != nil || len(result.Created) != 0 || len(result.Kept) != 3 {
		t.Errorf("the second restore: %+v, error %v", result, err)
	}
}

func TestRestore_DryRunMakesNothing(t *testing.T) {
	api := memkube.New(memkube.Options{})
	result, err := Restore(t.Context(), small(t), RestoreOptions{Client: client(t, api), DryRun: true})
	if err != nil || len(result.Created) != 3 {
		t.Fatalf("%+v, error %v", result, err)
	}
	if writes := api.Writes("tester"); len(writes) > 0 {
		t.Errorf("a dry run wrote %v", writes)
	}
}

func TestRestore_RefusesToTouchWhatIsThere(t *testing.T) {
	api := memkube.New(memkube.Options{Namespaces: []string{"ns"}})
	other := object("v1", "Secret", "a", "")
	other.Object["data"] = map[string]any{"key": "b3RoZXI="}
	if _, err := client(t, api).Resource(coreKinds[0]).Namespace("ns").Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	api.ResetLog()
	_, err := Restore(t.Context(), small(t), RestoreOptions{Client: client(t, api)})
	var conflict *ConflictError
	if !errors.As(err, &conflict) || !slices.Equal(conflict.Objects, []string{"Secret ns/a"}) {
		t.Errorf("the error is %v", err)
	}
	if writes := api.Writes("tester"); len(writes) > 0 {
		t.Errorf("a restore that is refused wrote %v", writes)
	}
}

func TestTarget_NobodyActsOnWhatIsRestored(t *testing.T) {
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
		t.Error("a pause of the user's would be taken back")
	}
	machine := object("cluster.x-k8s.io/v1beta2", "Machine", "m", "first-uid")
	if got := r.target(machine).GetAnnotations()[rkev1.MachineUIDAnnotation]; got != "first-uid" {
		t.Errorf("the node of the machine would know it by %q", got)
	}
}
