package thrift

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// read reads an object of the kind of apiserver_test.go.
func read(t fataler, text string) map[string]any {
	t.Helper()
	var content map[string]any
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		t.Fatal(err)
	}
	return object(content)
}

// object returns an object with some content, which stays as it is.
func object(content map[string]any) map[string]any {
	named := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
	named.SetGroupVersionKind(thingKind)
	named.SetNamespace("fleet")
	named.SetName("t1")
	return named.Object
}

// The answer is compared with what the API server's own code does. In doubt, it is that the wish changes something.
func TestUnchanged_AsTheAPIServer(t *testing.T) {
	for name, test := range map[string]struct {
		// first is what the manager has applied. before and after it, other managers apply their wishes by force.
		before, first, after string
		// update is the whole object as another manager has updated it last.
		update string
		// then is what the manager applies now; the same as before if it is empty.
		then string
		// sent reports whether the apply must be sent.
		sent bool
		// doubt reports whether the API server would change nothing, and only the entry does not show it.
		doubt bool
	}{
		"one value":                         {first: `spec: {name: a}`},
		"a number that has another form":    {first: `spec: {count: 1}`, then: `spec: {count: 1.0}`},
		"a zero, a false and an empty text": {first: `spec: {count: 0, enabled: false, name: ""}`},
		"labels, annotations, finalizers and owners": {first: `metadata: {labels: {a: b}, annotations: {c: d},
			finalizers: [x/one, x/two], ownerReferences: [{apiVersion: v1, kind: Set, name: own, uid: one}]}`},
		"other labels of another manager":   {first: `metadata: {labels: {a: b}}`, after: `metadata: {labels: {c: d}}`},
		"the same label of another manager": {first: `metadata: {labels: {a: b}}`, after: `metadata: {labels: {a: b}}`},
		"a part of a list with keys": {before: `spec: {ports: [{port: 1, name: web}, {port: 3}]}`,
			first: `spec: {ports: [{port: 2, name: dns}]}`, after: `spec: {ports: [{port: 4}]}`},
		"a part of a list of values": {before: `spec: {tags: [a, c]}`, first: `spec: {tags: [b, d]}`},
		"a whole list":               {first: `spec: {args: [a, b, a, {x: 1}]}`},
		"a whole map":                {first: `spec: {selector: {a: b, c: d}}`},
		"a map without fields":       {first: `spec: {inner: {}}`},
		"a map without fields, which another has filled": {first: `{metadata: {annotations: {}}, spec: {inner: {}}}`,
			after: `{metadata: {annotations: {a: b}}, spec: {inner: {name: a}}}`},
		"whole items with keys":   {first: `spec: {owners: [{uid: a, name: b}, {uid: c}]}`},
		"maps of maps":            {first: `spec: {groups: {a: {name: b}, c: {count: 1}}}`},
		"fields without a schema": {first: `spec: {free: {a: {b: [1, {c: 2}]}, d: 1.5}}`},

		"another value":               {first: `spec: {name: a}`, then: `spec: {name: b}`, sent: true},
		"another number":              {first: `spec: {count: 1}`, then: `spec: {count: 2}`, sent: true},
		"a number that is a text now": {first: `spec: {free: {a: 1}}`, then: `spec: {free: {a: "1"}}`, sent: true},
		"one more field":              {first: `spec: {name: a}`, then: `spec: {name: a, count: 1}`, sent: true},
		"one field less":              {first: `spec: {name: a, count: 1}`, then: `spec: {name: a}`, sent: true},
		"no field":                    {first: `spec: {name: a}`, then: `{}`, sent: true},
		"a field that another has set": {first: `spec: {name: a}`, after: `spec: {count: 1}`, sent: true,
			then: `spec: {name: a, count: 1}`},
		"a field of another manager in place of the own one": {first: `spec: {name: a}`, after: `spec: {count: 1}`,
			sent: true, then: `spec: {count: 1}`},
		"a value that another has changed": {first: `spec: {name: a}`, update: `spec: {name: b}`, sent: true},
		"a value that another has changed, and is wished now": {first: `spec: {name: a}`, update: `spec: {name: b}`,
			then: `spec: {name: b}`, sent: true},
		"a field that another has removed": {first: `spec: {name: a, count: 1}`, update: `spec: {name: a}`, sent: true},
		"an item less": {first: `spec: {ports: [{port: 1}, {port: 2}]}`,
			then: `spec: {ports: [{port: 1}]}`, sent: true},
		"an item more": {first: `spec: {ports: [{port: 1}]}`,
			then: `spec: {ports: [{port: 1}, {port: 2}]}`, sent: true},
		"another order of items": {first: `spec: {ports: [{port: 1}, {port: 2}]}`,
			then: `spec: {ports: [{port: 2}, {port: 1}]}`, sent: true},
		"another order of values":       {first: `spec: {tags: [a, b]}`, then: `spec: {tags: [b, a]}`, sent: true},
		"another order of a whole list": {first: `spec: {args: [a, b]}`, then: `spec: {args: [b, a]}`, sent: true},
		"another value in a whole map": {first: `spec: {selector: {a: b}}`,
			then: `spec: {selector: {a: c}}`, sent: true},
		"a field of a map that was empty and that another has filled": {first: `spec: {inner: {}}`,
			after: `spec: {inner: {name: a}}`, then: `spec: {inner: {name: a}}`, sent: true},
		"a whole map that is empty, and that another has replaced": {first: `spec: {selector: {}}`,
			after: `spec: {selector: {a: b}}`, sent: true},
		"null":                    {first: `spec: {name: a, count: null}`, sent: true, doubt: true},
		"an empty list with keys": {first: `spec: {name: a, ports: []}`, sent: true, doubt: true},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t)
			for _, step := range []struct{ text, manager string }{{test.before, "before"}, {test.first, owner},
				{test.after, "after"}} {
				if step.text != "" {
					api.apply(read(t, step.text), step.manager)
				}
			}
			if test.update != "" {
				api.update(read(t, test.update), "updater")
			}
			if test.then == "" {
				test.then = test.first
			}
			wish := read(t, test.then)
			live, entries := api.live()
			if got := unchanged(wish, live, entries, owner); got == test.sent {
				t.Errorf("unchanged is %t, entries %s", got, text(entries))
			}
			api.apply(read(t, test.then), owner)
			changed := api.differs(live, entries) != ""
			if want := test.sent && !test.doubt; changed != want {
				t.Errorf("the API server has changed something: %t, want %t\n%s", changed, want,
					api.differs(live, entries))
			}
		})
	}
}

// An entry that is not exactly the one of an apply of this version says nothing.
func TestUnchanged_NeedsTheEntry(t *testing.T) {
	for name, change := range map[string]func([]metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry{
		"no entries":      func([]metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry { return nil },
		"another manager": each(func(e *metav1.ManagedFieldsEntry) { e.Manager = "other" }),
		"an update": each(func(e *metav1.ManagedFieldsEntry) {
			e.Operation = metav1.ManagedFieldsOperationUpdate
		}),
		"a subresource":      each(func(e *metav1.ManagedFieldsEntry) { e.Subresource = "status" }),
		"another version":    each(func(e *metav1.ManagedFieldsEntry) { e.APIVersion = "test.io/v2" }),
		"no fields":          each(func(e *metav1.ManagedFieldsEntry) { e.FieldsV1 = nil }),
		"fields that are {}": each(func(e *metav1.ManagedFieldsEntry) { e.FieldsV1.SetRawString(`{}`) }),
		"fields of a text": each(func(e *metav1.ManagedFieldsEntry) {
			e.FieldsV1.SetRawString(`{"f:spec":{"f:name":{".":{},"f:part":{}}}}`)
		}),
		"half a text": each(func(e *metav1.ManagedFieldsEntry) { e.FieldsV1.SetRawString(`{"f:spec":`) }),
	} {
		t.Run(name, func(t *testing.T) {
			api, wish := newAPI(t), read(t, `spec: {name: a}`)
			api.apply(read(t, `spec: {name: a}`), owner)
			live, entries := api.live()
			if !unchanged(wish, live, entries, owner) {
				t.Fatal("the wish changes something")
			}
			if unchanged(wish, live, change(entries), owner) {
				t.Error("nothing shows what the manager owns, and the apply is dropped")
			}
		})
	}
}

// A wish may say which object it is about. The API server puts that into no entry.
func TestUnchanged_IgnoresWhatNamesTheObject(t *testing.T) {
	api, wish := newAPI(t), read(t, `{metadata: {uid: one, creationTimestamp: null}, spec: {name: a}}`)
	api.apply(read(t, `spec: {name: a}`), owner)
	live, entries := api.live()
	if !unchanged(wish, live, entries, owner) {
		t.Error("the wish changes something")
	}
	wish["metadata"].(map[string]any)["generation"] = int64(2)
	if unchanged(wish, live, entries, owner) {
		t.Error("the wish for another field changes nothing")
	}
}

func each(change func(*metav1.ManagedFieldsEntry)) func([]metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	return func(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
		for i := range entries {
			change(&entries[i])
		}
		return entries
	}
}
