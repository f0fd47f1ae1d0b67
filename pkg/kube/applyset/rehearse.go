package applyset

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rancher/wrangler/v3/pkg/apply"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// Verb is the operation on an object.
type Verb string

// The verbs.
const (
	Create Verb = "Create"
	Update Verb = "Update"
	Delete Verb = "Delete"
	// Refuse: the object belongs to another set, so the set cannot be applied.
	Refuse Verb = "Refuse"
)

// Difference is what Apply would do to an object.
type Difference struct {
	Verb      Verb
	Kind      schema.GroupVersionKind
	Namespace string
	Name      string
	// Patch is the JSON merge patch of an Update, without the annotations of apply itself.
	Patch map[string]any
	// Reason is why Refuse refuses.
	Reason string
}

// Rehearsal computes an Apply without writing.
type Rehearsal struct {
	Discovery discovery.DiscoveryInterface
	Scheme    *runtime.Scheme
	// Live are all existing objects of the kinds of the set, as read from the API server.
	Live []*unstructured.Unstructured
}

// Apply returns what Set.Apply would do. It uses the same comparison and sorts the result by kind and name.
func (r Rehearsal) Apply(setID string, owner runtime.Object, refs OwnerRefs, kinds []schema.GroupVersionKind, objs []runtime.Object) ([]Difference, error) {
	set := &Set{opts: Options{Scheme: r.Scheme}}
	identity, err := set.identify(setID, owner, refs)
	if err != nil {
		return nil, err
	}
	prepared, err := set.prepare(setID, kinds, objs)
	if err != nil {
		return nil, err
	}
	labels, _, err := apply.GetLabelsAndAnnotations(setID, identity.owner)
	if err != nil {
		return nil, fmt.Errorf("apply set %s: %w", setID, err)
	}
	live, refused, err := r.claim(prepared, labels[apply.LabelHash], identity.ownerNamespace)
	if err != nil {
		return nil, err
	}
	var getters []apply.InformerGetter
	for _, gvk := range kinds {
		informer := NewStill(cache.Indexers{hashIndex: byHash})
		for _, object := range live {
			if object.GroupVersionKind() == gvk {
				if err := informer.indexer.Add(object); err != nil {
					return nil, fmt.Errorf("apply set %s: %w", setID, err)
				}
			}
		}
		getters = append(getters, getter{informer: informer, gvk: gvk})
	}
	// Reads and writes nothing.
	nobody := func(schema.GroupVersionResource) (dynamic.NamespaceableResourceInterface, error) { return nil, nil }
	a := apply.New(r.Discovery, nobody).WithSetID(setID).WithOwner(identity.owner).WithDefaultNamespace(identity.ownerNamespace).WithCacheTypes(getters...)
	if refs != NoOwnerRef {
		a = a.WithSetOwnerReference(refs == ControllerRef, refs == ControllerRef)
	}
	plan, err := a.DryRun(prepared...)
	if err != nil {
		return nil, fmt.Errorf("apply set %s: %w", setID, err)
	}
	return differences(plan, refused)
}

// claim handles wanted objects that already exist. If an object is in no set, claim gives it the label of the set, so
// that the comparison includes it as Apply would. If it is in another set, claim refuses it.
func (r Rehearsal) claim(wanted []runtime.Object, hash, namespace string) (live []*unstructured.Unstructured, refused []Difference, err error) {
	live = slices.Clone(r.Live)
	for _, object := range wanted {
		converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, nil, fmt.Errorf("convert %T: %w", object, err)
		}
		w := &unstructured.Unstructured{Object: converted}
		for i, there := range live {
			if there.GroupVersionKind() != w.GroupVersionKind() || there.GetName() != w.GetName() ||
				there.GetNamespace() != "" && there.GetNamespace() != w.GetNamespace() && (w.GetNamespace() != "" || there.GetNamespace() != namespace) {
				continue
			}
			switch theirs := there.GetLabels()[apply.LabelHash]; theirs {
			case hash:
			case "":
				live[i] = there.DeepCopy()
				live[i].SetLabels(withHash(there.GetLabels(), hash))
			default:
				notes := there.GetAnnotations()
				refused = append(refused, Difference{
					Verb: Refuse, Kind: there.GroupVersionKind(), Namespace: there.GetNamespace(), Name: there.GetName(),
					Reason: fmt.Sprintf("belongs to set %q of %s", notes[apply.LabelID],
						describe(notes[apply.LabelGVK], notes[apply.LabelNamespace], notes[apply.LabelName])),
				})
			}
		}
	}
	return live, refused, nil
}

func withHash(labels map[string]string, hash string) map[string]string {
	out := map[string]string{apply.LabelHash: hash}
	maps.Copy(out, labels)
	return out
}

func differences(plan apply.Plan, refused []Difference) ([]Difference, error) {
	out := slices.Clone(refused)
	isRefused := func(gvk schema.GroupVersionKind, name string) bool {
		return slices.ContainsFunc(refused, func(d Difference) bool { return d.Kind == gvk && d.Name == name })
	}
	for gvk, keys := range plan.Create {
		for _, key := range keys {
			if !isRefused(gvk, key.Name) {
				out = append(out, Difference{Verb: Create, Kind: gvk, Namespace: key.Namespace, Name: key.Name})
			}
		}
	}
	for gvk, keys := range plan.Delete {
		for _, key := range keys {
			out = append(out, Difference{Verb: Delete, Kind: gvk, Namespace: key.Namespace, Name: key.Name})
		}
	}
	for gvk, patches := range plan.Update {
		for key, text := range patches {
			d := Difference{Verb: Update, Kind: gvk, Namespace: key.Namespace, Name: key.Name}
			if err := json.Unmarshal([]byte(text), &d.Patch); err != nil {
				return nil, fmt.Errorf("read the patch of %s: %w", describe(gvk.Kind, key.Namespace, key.Name), err)
			}
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b Difference) int {
		return strings.Compare(a.Kind.String()+"/"+a.Name, b.Kind.String()+"/"+b.Name)
	})
	return out, nil
}

// Still is an informer without a watch: the caller fills its store, and no handler is notified.
type Still struct {
	cache.SharedIndexInformer
	indexer cache.Indexer
}

// NewStill returns an empty Still.
func NewStill(indexers cache.Indexers) Still {
	return Still{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)}
}

// GetIndexer implements cache.SharedIndexInformer.
func (s Still) GetIndexer() cache.Indexer { return s.indexer }

// GetStore implements cache.SharedIndexInformer.
func (s Still) GetStore() cache.Store { return s.indexer }

// AddIndexers implements cache.SharedIndexInformer.
func (s Still) AddIndexers(indexers cache.Indexers) error { return s.indexer.AddIndexers(indexers) }

// HasSynced implements cache.SharedIndexInformer.
func (Still) HasSynced() bool { return true }
