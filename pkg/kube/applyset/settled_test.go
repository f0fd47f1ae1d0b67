package applyset

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/rancher/wrangler/v3/pkg/apply"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/drover-io/drover/pkg/decide/naming"
)

// informer returns the cache of a kind.
func (f *fixture) informer(gvk schema.GroupVersionKind) cache.SharedIndexInformer {
	f.Helper()
	informer, err := f.set.opts.Informer(gvk)
	check(f.T, err)
	return informer
}

// known reports whether the next apply of these objects skips the comparison.
func (f *fixture) known() bool {
	f.Helper()
	_, known := f.set.settled.sets.Get(naming.ApplySet(setID, configMaps.String(), f.owner.Name, f.owner.Namespace))
	return known
}

// A set that needs nothing is compared once. Later edits of its objects are still detected and undone.
func TestApply_RepairsASettledSet(t *testing.T) {
	edit := func(change func(*corev1.ConfigMap)) func(*fixture) {
		return func(f *fixture) {
			made, err := f.kube.CoreV1().ConfigMaps("ns").Get(f.Context(), "a", metav1.GetOptions{})
			check(f.T, err)
			change(made)
			_, err = f.kube.CoreV1().ConfigMaps("ns").Update(f.Context(), made, metav1.UpdateOptions{})
			check(f.T, err)
		}
	}
	const hash = "objectset.rio.cattle.io/hash"
	tests := map[string]struct {
		happens func(*fixture)
		want    Result
	}{
		"content changed": {edit(func(c *corev1.ConfigMap) {
			c.Data["k"] = "theirs"
		}), Result{Updated: []string{"configmaps ns/a"}}},
		"mark of the set removed": {edit(func(c *corev1.ConfigMap) {
			delete(c.Labels, hash)
		}), Result{Updated: []string{"configmaps ns/a"}}},
		"owner removed": {edit(func(c *corev1.ConfigMap) {
			c.OwnerReferences = nil
		}), Result{Updated: []string{"configmaps ns/a"}}},
		"object deleted": {func(f *fixture) {
			check(f.T, f.kube.CoreV1().ConfigMaps("ns").Delete(f.Context(), "a", metav1.DeleteOptions{}))
		}, Result{Created: []string{"configmaps ns/a"}}},
		"one more object in the set": {func(f *fixture) {
			made, err := f.kube.CoreV1().ConfigMaps("ns").Get(f.Context(), "a", metav1.GetOptions{})
			check(f.T, err)
			more := configMap("more", "1")
			more.Labels, more.Annotations = made.Labels, made.Annotations
			_, err = f.kube.CoreV1().ConfigMaps("ns").Create(f.Context(), more, metav1.CreateOptions{})
			check(f.T, err)
		}, Result{Deleted: []string{"configmaps ns/more"}}},
		"nothing": {func(*fixture) {}, Result{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			run(t, func(f *fixture) {
				f.apply(configMap("a", "1"), configMap("b", "1"))
				if f.known() {
					t.Error("a new set is not settled before a cache shows it")
				}
				f.want("settled", Result{}, f.apply(configMap("a", "1"), configMap("b", "1")))
				if !f.known() {
					t.Error("a settled set is compared again")
				}
				test.happens(f)
				synctest.Wait()
				f.want("after it", test.want, f.apply(configMap("a", "1"), configMap("b", "1")))
				f.want("changed by us", Result{Updated: []string{"configmaps ns/b"}},
					f.apply(configMap("a", "1"), configMap("b", "2")))
				f.want("settled again", Result{}, f.apply(configMap("a", "1"), configMap("b", "2")))
			})
		})
	}
}

func TestPurge_ForgetsTheSet(t *testing.T) {
	run(t, func(f *fixture) {
		f.apply(configMap("a", "1"))
		f.apply(configMap("a", "1"))
		_, err := f.set.Purge(t.Context(), setID, configMaps, "ns", "owner", both)
		check(t, err)
		synctest.Wait()
		if f.known() {
			t.Error("a deleted set is remembered")
		}
		f.want("recreated", Result{Created: []string{"configmaps ns/a"}}, f.apply(configMap("a", "1")))
	})
}

// End forgets the set of a deleted owner and writes nothing, because the objects are deleted with the owner.
func TestEnd_ForgetsTheSetWithoutAWrite(t *testing.T) {
	run(t, func(f *fixture) {
		f.apply(configMap("a", "1"))
		f.apply(configMap("a", "1"))
		check(t, f.set.End(setID, configMaps, "ns", "owner"))
		if f.known() {
			t.Error("an ended set is remembered")
		}
		if diff := cmp.Diff([]string{"a"}, f.left()); diff != "" {
			t.Errorf("objects after End (-want +got):\n%s", diff)
		}
	})
}

// A create that conflicts, because the cache is behind, does not make the set settled, even if it finds nothing to
// change.
func TestApply_CacheBehindIsNotSettled(t *testing.T) {
	run(t, func(f *fixture) {
		f.apply(configMap("a", "1"))
		indexer := f.informer(configMaps).GetIndexer()
		cached, found, err := indexer.GetByKey("ns/a")
		check(t, err)
		if !found {
			t.Fatal("the cache does not show the object")
		}
		check(t, indexer.Delete(cached))
		f.want("with a cache that is behind", Result{}, f.apply(configMap("a", "1")))
		if f.known() {
			t.Error("a set with an uncached object counts as settled")
		}
		check(t, indexer.Add(cached))
		f.want("when the cache shows it", Result{}, f.apply(configMap("a", "1")))
		if !f.known() {
			t.Error("the set is compared in every reconcile")
		}
	})
}

// PurgeLive reads from the API server, because caches may lack a new object.
func TestPurgeLive_FindsUncachedObjects(t *testing.T) {
	run(t, func(f *fixture) {
		f.apply(configMap("a", "1"), configMap("b", "1"))
		indexer := f.informer(configMaps).GetIndexer()
		cached, _, err := indexer.GetByKey("ns/a")
		check(t, err)
		check(t, indexer.Delete(cached))
		check(t, f.set.PurgeLive(t.Context(), setID, configMaps, "ns", "owner", both))
		if left := f.left(); len(left) != 0 {
			t.Errorf("%v remain", left)
		}
	})
}

// PurgeLive removes the finalizers of a former manager, also from objects that are already in deletion. Others stay.
func TestPurgeLive_RemovesFormerFinalizers(t *testing.T) {
	custom := schema.GroupKind{Group: "rke.cattle.io", Kind: "CustomMachine"}
	for name, tc := range map[string]struct {
		kind       schema.GroupKind
		finalizers []string
		deleting   bool
		want       []string
	}{
		"a finalizer of Rancher": {custom, []string{"wrangler.cattle.io/unmanaged-machine"}, false,
			[]string{"patch []", "delete"}},
		"in deletion": {custom, []string{"wrangler.cattle.io/unmanaged-machine"}, true, []string{"patch []"}},
		"with one of another program": {custom, []string{"a/b", "wrangler.cattle.io/unmanaged-machine"}, true,
			[]string{"patch [a/b]"}},
		"of another kind": {configMaps.GroupKind(), []string{"wrangler.cattle.io/unmanaged-machine"}, false,
			[]string{"delete"}},
		"none": {custom, nil, false, []string{"delete"}},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{}}
			object.SetFinalizers(tc.finalizers)
			if tc.deleting {
				object.SetDeletionTimestamp(new(metav1.Now()))
			}
			client := &oneObject{}
			check(t, deleteOne(t.Context(), client, tc.kind, object))
			if diff := cmp.Diff(tc.want, client.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// oneObject records the writes of one object.
type oneObject struct {
	dynamic.ResourceInterface
	writes []string
}

func (o *oneObject) Patch(_ context.Context, _ string, _ types.PatchType, patch []byte, _ metav1.PatchOptions,
	_ ...string) (*unstructured.Unstructured, error) {
	var decoded metav1.PartialObjectMetadata
	err := json.Unmarshal(patch, &decoded)
	o.writes = append(o.writes, fmt.Sprintf("patch %v", decoded.Finalizers))
	return nil, err
}

func (o *oneObject) Delete(context.Context, string, metav1.DeleteOptions, ...string) error {
	o.writes = append(o.writes, "delete")
	return nil
}

// PurgeKept deletes objects that the set kept although they were no longer wanted.
func TestPurgeKept_DeletesKeptObjects(t *testing.T) {
	run(t, func(f *fixture) {
		kept := configMap("a", "1")
		kept.Labels = map[string]string{apply.LabelPrune: "false"}
		f.apply(kept, configMap("b", "1"))
		check(t, f.set.PurgeLive(t.Context(), setID, configMaps, "ns", "owner", both))
		if diff := cmp.Diff([]string{"a"}, f.left()); diff != "" {
			t.Errorf("objects after PurgeLive (-want +got):\n%s", diff)
		}
		check(t, f.set.PurgeKept(t.Context(), setID, configMaps, "ns", "owner", both))
		if left := f.left(); len(left) != 0 {
			t.Errorf("%v remain", left)
		}
	})
}

// left returns the names of the objects of all sets.
func (f *fixture) left() []string {
	f.Helper()
	list, err := f.kube.CoreV1().ConfigMaps("").List(f.Context(), metav1.ListOptions{LabelSelector: apply.LabelHash})
	check(f.T, err)
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}
