package thrift

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

var thingKind = schema.GroupVersionKind{Group: "test.io", Version: "v1", Kind: "Thing"}

// thing is the schema of a kind with each way to merge.
const thing = `{"thing": {"type": "object",
"x-kubernetes-group-version-kind": [{"group": "test.io", "version": "v1", "kind": "Thing"}],
"properties": {
  "apiVersion": {"type": "string"}, "kind": {"type": "string"},
  "metadata": {"type": "object", "properties": {
    "name": {"type": "string"}, "namespace": {"type": "string"}, "uid": {"type": "string"},
    "creationTimestamp": {"type": "string"}, "managedFields": {"type": "array", "items": {"type": "object"},
      "x-kubernetes-list-type": "atomic"},
    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
    "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    "ownerReferences": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
      "items": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"uid": {"type": "string"},
        "name": {"type": "string"}, "kind": {"type": "string"}, "apiVersion": {"type": "string"}}}}}},
  "spec": {"type": "object", "properties": {
    "name": {"type": "string"}, "count": {"type": "number"}, "enabled": {"type": "boolean"},
    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    "selector": {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
    "args": {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": true},
      "x-kubernetes-list-type": "atomic"},
    "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    "inner": {"type": "object", "properties": {"name": {"type": "string"}, "count": {"type": "number"}}},
    "groups": {"type": "object", "additionalProperties": {"type": "object", "properties": {
      "name": {"type": "string"}, "count": {"type": "number"}}}},
    "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
      "items": {"type": "object", "properties": {"port": {"type": "number"}, "name": {"type": "string"}}}},
    "owners": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
      "items": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
        "uid": {"type": "string"}, "name": {"type": "string"}}}},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}`

// fataler is a test of any kind.
type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// api is one object behind the code with which the API server merges applies.
type api struct {
	t      fataler
	fields managedfieldstest.TestFieldManager
}

func newAPI(t fataler) *api {
	t.Helper()
	var schemas map[string]*spec.Schema
	if err := json.Unmarshal([]byte(thing), &schemas); err != nil {
		t.Fatal(err)
	}
	converter, err := managedfields.NewTypeConverter(schemas, false)
	if err != nil {
		t.Fatal(err)
	}
	return &api{t: t, fields: managedfieldstest.NewTestFieldManager(converter, thingKind)}
}

func (a *api) apply(object map[string]any, manager string) {
	a.t.Helper()
	if err := a.fields.Apply(&unstructured.Unstructured{Object: object}, manager, true); err != nil {
		a.t.Fatalf("apply by %s: %v", manager, err)
	}
}

func (a *api) update(object map[string]any, manager string) {
	a.t.Helper()
	updated := &unstructured.Unstructured{Object: object}
	updated.SetManagedFields(a.fields.ManagedFields())
	if err := a.fields.Update(updated, manager); err != nil {
		a.t.Fatalf("update by %s: %v", manager, err)
	}
}

// live returns the object and its managedFields.
func (a *api) live() (map[string]any, []metav1.ManagedFieldsEntry) {
	object := a.fields.Live().(*unstructured.Unstructured).Object
	unstructured.RemoveNestedField(object, "metadata", "managedFields")
	return object, a.fields.ManagedFields()
}

// differs returns how the object differs from an earlier one, or "".
func (a *api) differs(before map[string]any, entries []metav1.ManagedFieldsEntry) string {
	live, now := a.live()
	return cmp.Diff(before, live) + cmp.Diff(text(entries), text(now))
}

// text shows managedFields, without their times.
func text(entries []metav1.ManagedFieldsEntry) string {
	var lines []string
	for _, e := range entries {
		lines = append(lines, fmt.Sprintf("%s %s %s %s %s", e.Manager, e.Operation, e.APIVersion, e.Subresource,
			e.FieldsV1.GetRawBytes()))
	}
	return strings.Join(lines, "\n")
}
