package backup

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

var (
	clusters = schema.GroupVersionResource{Group: "provisioning.cattle.io", Version: "v1", Resource: "clusters"}
	machines = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines"}
)

// prod is a cluster with these annotations and an empty specification, like every imported cluster.
func prod(annotations map[string]string) *unstructured.Unstructured {
	out := object("provisioning.cattle.io/v1", "Cluster", "prod", "u")
	out.SetAnnotations(annotations)
	out.Object["spec"] = map[string]any{}
	return out
}

// ofProd is a backup of that cluster with an identity and a Machine, managed by Drover "first".
func ofProd() *Backup {
	space := object("v1", "Namespace", "ns", "n")
	space.SetNamespace("")
	cluster := set(prod(map[string]string{rkev1.InstanceAnnotation: "first"}), "c-m-old", "status", "clusterName")
	machine := object("cluster.x-k8s.io/v1beta2", "Machine", "m", "mu", cluster)
	machine.Object["spec"] = map[string]any{"clusterName": "prod"}
	return &Backup{Manifest: Manifest{ID: "backup-1"}, Objects: []*unstructured.Unstructured{
		definition("Cluster", clusters), definition("Machine", machines), space, cluster, machine,
	}}
}

// The identity of a cluster is in its status, so an existing cluster with the same specification is a conflict.
func TestRestore_ExistingClusters(t *testing.T) {
	const name = "Cluster.provisioning.cattle.io ns/prod"
	cases := map[string]struct {
		annotations map[string]string
		want        *ConflictError
	}{
		"created again by Git": {nil, &ConflictError{Clusters: []string{name}}},
		"managed by a Drover": {map[string]string{rkev1.InstanceAnnotation: "first"},
			&ConflictError{Clusters: []string{name}}},
		"restored from another backup": {map[string]string{rkev1.RestoredFromAnnotation: "backup-0",
			rkev1.ReleasedByAnnotation: "first"}, &ConflictError{Clusters: []string{name}}},
		"after an interrupted restore": {map[string]string{rkev1.RestoredFromAnnotation: "backup-1",
			rkev1.ReleasedByAnnotation: "first"}, nil},
		"restored and adopted": {map[string]string{rkev1.RestoredFromAnnotation: "backup-1",
			rkev1.InstanceAnnotation: "second"}, &ConflictError{Adopted: []string{name}}},
		"restored, without a mark": {map[string]string{rkev1.RestoredFromAnnotation: "backup-1"},
			&ConflictError{Adopted: []string{name}}},
		"restored, adopted and released": {map[string]string{rkev1.RestoredFromAnnotation: "backup-1",
			rkev1.ReleasedByAnnotation: "second"}, &ConflictError{Adopted: []string{name}}},
	}
	for narrative, c := range cases {
		t.Run(narrative, func(t *testing.T) {
			api := memkube.New(memkube.Options{})
			kinds := ofProd()
			kinds.Objects = kinds.Objects[:3]
			_, err := Restore(t.Context(), kinds, RestoreOptions{Client: client(t, api)})
			check(t, err)
			_, err = client(t, api).Resource(clusters).Namespace("ns").Create(t.Context(), prod(c.annotations),
				metav1.CreateOptions{})
			check(t, err)
			api.ResetLog()
			_, err = Restore(t.Context(), ofProd(), RestoreOptions{Client: client(t, api)})
			var conflict *ConflictError
			if errors.As(err, &conflict) == (c.want == nil) {
				t.Fatalf("the error is %v", err)
			}
			if diff := cmp.Diff(c.want, conflict); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			found, err := client(t, api).Resource(clusters).Namespace("ns").Get(t.Context(), "prod",
				metav1.GetOptions{})
			check(t, err)
			identity, _, _ := unstructured.NestedString(found.Object, "status", "clusterName")
			if writes := api.Writes("tester"); c.want != nil && len(writes) > 0 || c.want == nil &&
				identity != "c-m-old" {
				t.Errorf("the identity is %q after the writes %v", identity, writes)
			}
		})
	}
}

func TestRestore_DoesNotRecreateObjectsDeletedAfterTheAdoption(t *testing.T) {
	api := memkube.New(memkube.Options{})
	_, err := Restore(t.Context(), ofProd(), RestoreOptions{Client: client(t, api)})
	check(t, err)
	adopted, err := client(t, api).Resource(clusters).Namespace("ns").Get(t.Context(), "prod", metav1.GetOptions{})
	check(t, err)
	unstructured.RemoveNestedField(adopted.Object, "metadata", "annotations", rkev1.ReleasedByAnnotation)
	annotate(adopted, rkev1.InstanceAnnotation, "second")
	_, err = client(t, api).Resource(clusters).Namespace("ns").Update(t.Context(), adopted, metav1.UpdateOptions{})
	check(t, err)
	check(t, client(t, api).Resource(machines).Namespace("ns").Delete(t.Context(), "m", metav1.DeleteOptions{}))

	result, err := Restore(t.Context(), ofProd(), RestoreOptions{Client: client(t, api)})
	if err == nil {
		t.Errorf("the restore created %v", result.Created)
	}
	if _, err := client(t, api).Resource(machines).Namespace("ns").Get(t.Context(), "m",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the read of the Machine: %v", err)
	}
}

func TestConflictError_SaysWhatToDo(t *testing.T) {
	var many []string
	for i := range 25 {
		many = append(many, fmt.Sprintf("Secret ns/s%d", i))
	}
	for name, c := range map[string]struct {
		err  ConflictError
		want []string
	}{
		"an object": {ConflictError{Objects: []string{"Secret ns/a"}},
			[]string{"delete or rename", "Secret ns/a"}},
		"many objects": {ConflictError{Objects: many}, []string{"Secret ns/s19 and 5 more"}},
		"a cluster": {ConflictError{Clusters: []string{"Cluster ns/prod"}},
			[]string{"identity", "delete", "drover restore -n", "Cluster ns/prod"}},
		"a cluster in use": {ConflictError{Adopted: []string{"Cluster ns/prod"}},
			[]string{"adopted since", "keep them", "Cluster ns/prod"}},
		"several kinds of conflicts": {ConflictError{Objects: []string{"Secret ns/a"},
			Adopted: []string{"Cluster ns/prod"}}, []string{"Secret ns/a; these clusters", "Cluster ns/prod"}},
	} {
		for _, want := range c.want {
			if got := c.err.Error(); !strings.HasPrefix(got, "nothing was restored: ") || !strings.Contains(got, want) {
				t.Errorf("%s: want %q in %q", name, want, got)
			}
		}
	}
}
