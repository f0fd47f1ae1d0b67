package rehearsal

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/drover-io/drover/pkg/kube/applyset"
)

// Differences returns the changes against the live objects, sorted by kind, namespace and name. For a Secret they
// contain the keys but not the values.
func (s *Stage) Differences() ([]applyset.Difference, error) {
	var out []applyset.Difference
	for key, one := range s.known {
		d := applyset.Difference{Kind: key.gvk, Namespace: key.namespace, Name: key.name}
		switch {
		case one.found == one.now:
			continue
		case one.found == nil:
			d.Verb = applyset.Create
		case one.now == nil, one.found.GetDeletionTimestamp() == nil && one.now.GetDeletionTimestamp() != nil:
			d.Verb = applyset.Delete
		default:
			patch, err := difference(one.found, one.now)
			if err != nil {
				return nil, err
			}
			if len(patch) == 0 {
				continue
			}
			d.Verb, d.Patch = applyset.Update, withoutContents(key.gvk, patch)
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b applyset.Difference) int {
		return strings.Compare(a.Kind.String()+"/"+a.Namespace+"/"+a.Name, b.Kind.String()+"/"+b.Namespace+"/"+b.Name)
	})
	return out, nil
}

// withoutContents removes the values from the changes of a Secret.
func withoutContents(gvk schema.GroupVersionKind, patch map[string]any) map[string]any {
	if gvk != secretKind {
		return patch
	}
	for _, field := range []string{"data", "stringData"} {
		data, _ := patch[field].(map[string]any)
		for key := range data {
			data[key] = nil
		}
	}
	return patch
}

// difference returns the merge patch from one object to another, without fields that the API server sets.
func difference(before, after *unstructured.Unstructured) (map[string]any, error) {
	var texts [2][]byte
	for i, object := range []*unstructured.Unstructured{before, after} {
		object = object.DeepCopy()
		for _, field := range []string{"resourceVersion", "generation", "managedFields", "uid", "creationTimestamp"} {
			unstructured.RemoveNestedField(object.Object, "metadata", field)
		}
		delete(object.Object, "kind")
		delete(object.Object, "apiVersion")
		var err error
		if texts[i], err = json.Marshal(withoutEmpty(object.Object)); err != nil {
			return nil, fmt.Errorf("encode %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	patch, err := jsonpatch.CreateMergePatch(texts[0], texts[1])
	if err != nil {
		return nil, fmt.Errorf("compare %s %s: %w", before.GetKind(), before.GetName(), err)
	}
	out := map[string]any{}
	return out, json.Unmarshal(patch, &out)
}

// withoutEmpty removes null values and empty objects, which typed objects write for empty fields.
func withoutEmpty(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, one := range v {
			v[key] = withoutEmpty(one)
			if fields, isObject := v[key].(map[string]any); v[key] == nil || isObject && len(fields) == 0 {
				delete(v, key)
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutEmpty(v[i])
		}
	}
	return value
}

// patch applies a patch to an object.
func (s *Stage) patch(key id, pt types.PatchType, data []byte, sub ...string) (*unstructured.Unstructured, error) {
	before, err := s.look(key)
	if err != nil {
		return nil, err
	}
	text, err := before.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", key.gvk.Kind, key.name, err)
	}
	switch pt {
	case types.MergePatchType:
		text, err = jsonpatch.MergePatch(text, data)
	case types.JSONPatchType:
		var patch jsonpatch.Patch
		if patch, err = jsonpatch.DecodePatch(data); err == nil {
			text, err = patch.Apply(text)
		}
	case types.StrategicMergePatchType:
		var typed runtime.Object
		if typed, err = s.Scheme.New(key.gvk); err == nil {
			text, err = strategicpatch.StrategicMergePatch(text, data, typed)
		}
	default:
		err = fmt.Errorf("patches of type %s are not understood", pt)
	}
	after := &unstructured.Unstructured{}
	if err == nil {
		err = after.UnmarshalJSON(text)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("patch %s %s: %v", key.gvk.Kind, key.name, err))
	}
	return s.write(key.gvk, after, slices.Contains(sub, statusField))
}
