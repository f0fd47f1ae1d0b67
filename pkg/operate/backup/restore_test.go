package backup

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/pkg/testkit/memkube"
)

var things = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "things"}

// definition is the definition of a kind with a status.
func definition(kind string, resource schema.GroupVersionResource) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": resource.Group, "scope": "Namespaced",
		"names": map[string]any{"kind": kind, "listKind": kind + "List", "plural": resource.Resource,
			"singular": strings.ToLower(kind)},
		"versions": []any{map[string]any{
			"name": resource.Version, "served": true, "storage": true,
			"subresources": map[string]any{"status": map[string]any{}},
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
				"x-kubernetes-preserve-unknown-fields": true}},
		}},
	}}}
	out.SetAPIVersion("apiextensions.k8s.io/v1")
	out.SetKind(kindCRD)
	out.SetName(resource.Resource + "." + resource.Group)
	return out
}

// withStatus is a backup of a kind's definition and of one object with a status.
func withStatus() *Backup {
	space := object("v1", "Namespace", "ns", "n")
	space.SetNamespace("")
	thing := object("example.org/v1", "Thing", "a", "a")
	thing.Object["status"] = map[string]any{"phase": "Done"}
	return &Backup{Manifest: Manifest{ID: "backup-1"},
		Objects: []*unstructured.Unstructured{definition("Thing", things), space, thing}}
}

func phase(t *testing.T, api *memkube.Server) string {
	t.Helper()
	thing, err := client(t, api).Resource(things).Namespace("ns").Get(t.Context(), "a", metav1.GetOptions{})
	check(t, err)
	text, _, _ := unstructured.NestedString(thing.Object, "status", "phase")
	return text
}

func TestRestore_WritesTheStatusDespiteConflicts(t *testing.T) {
	api := memkube.New(memkube.Options{})
	refused := 0
	api.Intercept(func(r memkube.Request) error {
		if r.Subresource == "status" && r.Resource == things && refused < 2 {
			refused++
			return apierrors.NewConflict(things.GroupResource(), r.Name, nil)
		}
		return nil
	})
	_, err := Restore(t.Context(), withStatus(), RestoreOptions{Client: client(t, api)})
	check(t, err)
	if got := phase(t, api); got != "Done" || refused != 2 {
		t.Errorf("the phase is %q after %d conflicts", got, refused)
	}
}

// A restore that stopped between an object and its status writes the status later. It does so even if Cluster API has
// written the condition Paused.
func TestRestore_NextAttemptWritesTheStatus(t *testing.T) {
	cases := map[string]struct {
		present any
		want    string
	}{
		"no program wrote": {nil, "Done"},
		"Cluster API wrote": {
			map[string]any{"conditions": []any{map[string]any{"type": "Paused", "status": "True"}}}, "Done"},
		"another program changed it": {map[string]any{"phase": "Again"}, "Again"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			api := memkube.New(memkube.Options{})
			api.Intercept(func(r memkube.Request) error {
				if r.Subresource == "status" && r.Resource == things {
					return apierrors.NewServiceUnavailable("interrupted")
				}
				return nil
			})
			if _, err := Restore(t.Context(), withStatus(), RestoreOptions{Client: client(t, api)}); err == nil {
				t.Fatal("an interrupted restore returns no error")
			}
			api.Intercept(nil)
			if c.present != nil {
				made, err := client(t, api).Resource(things).Namespace("ns").Get(t.Context(), "a", metav1.GetOptions{})
				check(t, err)
				made.Object["status"] = c.present
				_, err = client(t, api).Resource(things).Namespace("ns").UpdateStatus(t.Context(), made,
					metav1.UpdateOptions{})
				check(t, err)
			}
			_, err := Restore(t.Context(), withStatus(), RestoreOptions{Client: client(t, api)})
			check(t, err)
			if diff := cmp.Diff(c.want, phase(t, api)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A restore leaves an equal existing object unchanged: it gets no annotation and keeps its status.
func TestRestore_KeepsEqualObjects(t *testing.T) {
	api := memkube.New(memkube.Options{})
	first := withStatus()
	_, err := Restore(t.Context(), first, RestoreOptions{Client: client(t, api)})
	check(t, err)
	second := withStatus()
	second.Manifest.ID = "backup-2"
	second.Objects[2].Object["status"] = map[string]any{"phase": "Other"}
	api.ResetLog()
	result, err := Restore(t.Context(), second, RestoreOptions{Client: client(t, api)})
	check(t, err)
	if writes := api.Writes("tester"); len(result.Kept) != 3 || len(writes) > 0 {
		t.Errorf("kept %v, writes %v", result.Kept, writes)
	}
}
