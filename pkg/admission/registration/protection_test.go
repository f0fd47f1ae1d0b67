package registration

import (
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/authentication/user"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// marked returns an object that clusterctl is about to delete after a move. It applies the patch of clusterctl, which
// leaves the mark as the only annotation.
func marked(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	patch, err := jsonpatch.DecodePatch(
		[]byte(`[{"op": "add", "path":"/metadata/annotations", "value":{"clusterctl.cluster.x-k8s.io/delete-for-move":""}}]`))
	check(t, err)
	data, err := o.MarshalJSON()
	check(t, err)
	data, err = patch.Apply(data)
	check(t, err)
	out := &unstructured.Unstructured{}
	check(t, out.UnmarshalJSON(data))
	return out
}

// clusterctl deletes as the user who runs it. It may delete what it has moved, but nothing that an instance manages
// here.
func TestPolicies_AllowReleasedClustersToMove(t *testing.T) {
	t.Parallel()
	guarded := annotated(demo("home"), protect, "true")
	released := annotated(guarded, rkev1.ReleasedByAnnotation, "first")
	for name, tc := range map[string]struct {
		cluster *unstructured.Unstructured
		mark    bool
		kept    bool
	}{
		"released and moved":                  {released, true, false},
		"released and deleted by a user":      {released, false, true},
		"the source of a move, managed again": {guarded, true, true},
		"not released":                        {annotated(guarded, rkev1.ReleasedByAnnotation, ""), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJudge(t, tc.cluster)
			for what, part := range parts("home") {
				if tc.mark {
					part = marked(t, part)
				}
				if refusal, _ := j.ask(alice, part, nil); (refusal != "") != tc.kept {
					t.Errorf("%s: refusal %q", what, refusal)
				}
			}
		})
	}
	// The patch removes all annotations, and with them the protection of single objects and of the Cluster.
	j := newJudge(t, released)
	for _, single := range []*unstructured.Unstructured{released, annotated(parts("home")["machine config"], protect,
		"true")} {
		if refusal, _ := j.ask(alice, marked(t, single), nil); refusal != "" {
			t.Errorf("%s: refusal %q", single.GetKind(), refusal)
		}
	}
}

func finalized(o *unstructured.Unstructured, finalizers ...string) *unstructured.Unstructured {
	out := o.DeepCopy()
	out.SetFinalizers(finalizers)
	return out
}

// Only Drover may remove the finalizers with which the controllers hold a protected Cluster.
func TestPolicies_ProtectTheFinalizersOfAProtectedCluster(t *testing.T) {
	t.Parallel()
	const first, second, theirs = provv1.ProvisioningClusterFinalizer, provv1.RKEClusterFinalizer, "example.com/theirs"
	guarded := finalized(annotated(demo("home"), protect, "true"), first, second)
	deleted := guarded.DeepCopy()
	check(t, unstructured.SetNestedField(deleted.Object, "2026-11-22T10:00:00Z", "metadata", "deletionTimestamp"))
	free := finalized(demo("home"), first, second)
	moved := marked(t, annotated(guarded, rkev1.ReleasedByAnnotation, "first"))
	j := newJudge(t)
	for name, tc := range map[string]struct {
		who           user.Info
		before, after *unstructured.Unstructured
		kept          string
	}{
		"all finalizers, by a user":           {alice, guarded, finalized(guarded), first + ", " + second},
		"all finalizers of a deleted Cluster": {alice, deleted, finalized(deleted), first + ", " + second},
		"one finalizer, by a user":            {alice, deleted, finalized(deleted, first), second},
		"by a deployment tool":                {deployer, guarded, finalized(guarded), first + ", " + second},
		"by the garbage collector": {garbageCollector, deleted, finalized(deleted), first + ", " +
			second},
		"with the protection": {alice, guarded, finalized(annotated(guarded, protect, "false")), first + ", " + second},
		"by Drover":           {drover, deleted, finalized(deleted, first), ""},
		"by the server that installed the object": {installer, deleted, finalized(deleted, first), ""},
		"by clusterctl, in a move":                {alice, moved, finalized(moved), ""},
		"after the protection":                    {alice, free, finalized(free), ""},
		"another finalizer": {alice, finalized(guarded, first, theirs, second), guarded,
			""},
		"no finalizer, and a new one": {alice, guarded, finalized(guarded, theirs, second, first),
			""},
		"no finalizer, with a change": {alice, guarded, annotated(guarded, "a", "b"), ""},
		"no finalizer, of a Cluster without finalizers": {alice, finalized(guarded),
			annotated(finalized(guarded), "a", "b"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			refusal, _ := j.ask(tc.who, tc.before, tc.after)
			if (refusal == "") != (tc.kept == "") || tc.kept != "" &&
				!strings.HasSuffix(refusal, "keep in metadata.finalizers: "+tc.kept) {
				t.Errorf("refusal %q", refusal)
			}
		})
	}
}
