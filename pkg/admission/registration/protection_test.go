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

// marked is an object that clusterctl is about to delete because it lives on elsewhere. The patch is that of clusterctl: the mark is the only annotation
// that it leaves.
func marked(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	patch, err := jsonpatch.DecodePatch([]byte(`[{"op": "add", "path":"/metadata/annotations", "value":{"clusterctl.cluster.x-k8s.io/delete-for-move":""}}]`))
	check(t, err)
	data, err := o.MarshalJSON()
	check(t, err)
	data, err = patch.Apply(data)
	check(t, err)
	out := &unstructured.Unstructured{}
	check(t, out.UnmarshalJSON(data))
	return out
}

// clusterctl deletes as the person who runs it. What it has moved goes, and nothing that somebody manages here.
func TestPolicies_LetReleasedClustersMove(t *testing.T) {
	t.Parallel()
	guarded := annotated(demo("home"), protect, "true")
	released := annotated(guarded, rkev1.ReleasedByAnnotation, "first")
	for name, tc := range map[string]struct {
		cluster *unstructured.Unstructured
		mark    bool
		kept    bool
	}{
		"moved after it was released":                        {released, true, false},
		"released, and deleted by a person":                  {released, false, true},
		"left behind by a move of one that is managed again": {guarded, true, true},
		"released by nobody":                                 {annotated(guarded, rkev1.ReleasedByAnnotation, ""), true, true},
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
	// What is protected by itself has lost its protection with its annotations, and so has the Cluster.
	j := newJudge(t, released)
	for _, single := range []*unstructured.Unstructured{released, annotated(parts("home")["machine config"], protect, "true")} {
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

// The controllers hold a protected Cluster by its finalizers, and nobody but Drover takes them off.
func TestPolicies_KeepTheFinalizersOfAProtectedCluster(t *testing.T) {
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
		"all, by a person":                     {alice, guarded, finalized(guarded), first + ", " + second},
		"all of one that is deleted":           {alice, deleted, finalized(deleted), first + ", " + second},
		"one, by a person":                     {alice, deleted, finalized(deleted, first), second},
		"by a tool that deploys":               {deployer, guarded, finalized(guarded), first + ", " + second},
		"by the garbage collector":             {garbageCollector, deleted, finalized(deleted), first + ", " + second},
		"with the protection":                  {alice, guarded, finalized(annotated(guarded, protect, "false")), first + ", " + second},
		"by Drover":                            {drover, deleted, finalized(deleted, first), ""},
		"by the server that has installed":     {installer, deleted, finalized(deleted, first), ""},
		"by clusterctl, in a move":             {alice, moved, finalized(moved), ""},
		"after the protection":                 {alice, free, finalized(free), ""},
		"that of somebody else":                {alice, finalized(guarded, first, theirs, second), guarded, ""},
		"none, and one is added":               {alice, guarded, finalized(guarded, theirs, second, first), ""},
		"none, with a change":                  {alice, guarded, annotated(guarded, "a", "b"), ""},
		"none, of a Cluster that has none yet": {alice, finalized(guarded), annotated(finalized(guarded), "a", "b"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			refusal, _ := j.ask(tc.who, tc.before, tc.after)
			if (refusal == "") != (tc.kept == "") || tc.kept != "" && !strings.HasSuffix(refusal, "leave in metadata.finalizers what is there: "+tc.kept) {
				t.Errorf("refusal %q", refusal)
			}
		})
	}
}
