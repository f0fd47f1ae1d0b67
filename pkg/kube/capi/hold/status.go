package hold

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
)

// Paths of the lists of conditions. A condition is one field: its path is that of the list and its type.
const (
	current    = "conditions/"
	deprecated = "deprecated/v1beta1/conditions/"
)

var conditionLists = []string{current, deprecated}

// status is the status of an object in JSON: maps, lists, strings, int64 and bool.
type status = map[string]any

// field is a field of a status that changes. nil is an absent field.
type field struct {
	// base is the value that the API server had when the change was computed.
	base, value any
}

// change is what differs between two statuses, by path.
type change struct {
	fields map[string]field
	// order has the types of each list of conditions, in the order of the later status.
	order map[string][]string
}

func (c change) isEmpty() bool { return len(c.fields) == 0 }

// difference returns the change from one status to another.
func difference(from, to status) change {
	before, after := flatten(from), flatten(to)
	out := change{fields: map[string]field{}, order: map[string][]string{}}
	for path := range before {
		if _, stays := after[path]; !stays {
			out.fields[path] = field{base: before[path]}
		}
	}
	for path, value := range after {
		if !reflect.DeepEqual(before[path], value) {
			out.fields[path] = field{base: before[path], value: value}
		}
	}
	for _, list := range conditionLists {
		for _, condition := range conditionsOf(to, list) {
			out.order[list] = append(out.order[list], typeOf(condition))
		}
	}
	return out
}

// since returns the fields of the change that an earlier change does not have, or has with another value.
func (c change) since(earlier change) change {
	out := change{fields: map[string]field{}}
	for path, f := range c.fields {
		if old, ok := earlier.fields[path]; !ok || !reflect.DeepEqual(old.value, f.value) {
			out.fields[path] = f
		}
	}
	return out
}

// apply returns the status with the change. It skips a field that no longer has the value from which the change was
// computed: another writer has written it since, as if after the change.
func (c change) apply(to status) status {
	if c.isEmpty() {
		return to
	}
	now, out := flatten(to), status{}
	if to != nil {
		out = runtime.DeepCopyJSON(to)
	}
	paths := slices.Collect(maps.Keys(c.fields))
	// Removals come first: an empty map is a field, and makes room for the fields of the map.
	slices.SortFunc(paths, func(a, b string) int {
		if removes := c.fields[a].value == nil; removes != (c.fields[b].value == nil) {
			return map[bool]int{true: -1, false: 1}[removes]
		}
		return strings.Compare(a, b)
	})
	for _, path := range paths {
		f := c.fields[path]
		if !reflect.DeepEqual(now[path], f.base) {
			continue
		}
		if list, kind := condition(path); list != "" {
			setCondition(out, list, kind, f.value)
			continue
		}
		set(out, strings.Split(path, "/"), f.value)
	}
	for _, list := range conditionLists {
		arrange(out, list, c.order[list])
	}
	return out
}

// merge returns a status with a JSON merge patch.
func merge(into status, patch any) (status, error) {
	before, err := json.Marshal(into)
	if err != nil {
		return nil, fmt.Errorf("encode the status: %w", err)
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode the patch: %w", err)
	}
	after, err := jsonpatch.MergePatch(before, data)
	if err != nil {
		return nil, fmt.Errorf("merge the patch: %w", err)
	}
	out := status{}
	if err := json.Unmarshal(after, &out); err != nil {
		return nil, fmt.Errorf("decode the status: %w", err)
	}
	return out, nil
}

// flatten returns the fields of a status by path. Maps are not fields, unless they are empty. The statuses of the held
// kinds have no maps with free keys, so no name in a path has a slash. Types of conditions may have one.
func flatten(s status) map[string]any {
	out := map[string]any{}
	var walk func(prefix string, m map[string]any)
	walk = func(prefix string, m map[string]any) {
		for name, value := range m {
			path := prefix + name
			switch typed := value.(type) {
			case map[string]any:
				if len(typed) > 0 {
					walk(path+"/", typed)
					continue
				}
			case []any:
				if slices.Contains(conditionLists, path+"/") {
					for _, c := range typed {
						out[path+"/"+typeOf(c)] = c
					}
					continue
				}
			case nil:
				continue
			}
			out[path] = value
		}
	}
	walk("", s)
	return out
}

// condition returns the list and the type of a condition, or nothing for another field.
func condition(path string) (list, kind string) {
	for _, list := range conditionLists {
		if kind, ok := strings.CutPrefix(path, list); ok {
			return list, kind
		}
	}
	return "", ""
}

func typeOf(condition any) string {
	m, _ := condition.(map[string]any)
	kind, _ := m["type"].(string)
	return kind
}

func conditionsOf(s status, list string) []any {
	// Another type than a list is impossible: the definitions of the kinds have lists.
	found, _, _ := unstructured.NestedFieldNoCopy(s, names(list)...)
	out, _ := found.([]any)
	return out
}

func names(list string) []string { return strings.Split(strings.TrimSuffix(list, "/"), "/") }

func setCondition(s status, list, kind string, value any) {
	found := conditionsOf(s, list)
	at := slices.IndexFunc(found, func(c any) bool { return typeOf(c) == kind })
	switch {
	case value == nil && at < 0:
		return
	case value == nil:
		found = slices.Delete(slices.Clone(found), at, at+1)
	case at < 0:
		found = append(slices.Clone(found), runtime.DeepCopyJSONValue(value))
	default:
		found = slices.Clone(found)
		found[at] = runtime.DeepCopyJSONValue(value)
	}
	if len(found) == 0 {
		set(s, names(list), nil)
		return
	}
	set(s, names(list), found)
}

// arrange sorts conditions as in order. The others follow.
func arrange(s status, list string, order []string) {
	found := conditionsOf(s, list)
	if len(found) < 2 || len(order) == 0 {
		return
	}
	rank := map[string]int{}
	for i, kind := range order {
		rank[kind] = i - len(order)
	}
	sorted := slices.Clone(found)
	slices.SortStableFunc(sorted, func(a, b any) int { return rank[typeOf(a)] - rank[typeOf(b)] })
	set(s, names(list), sorted)
}

// set writes a value, or removes it if it is nil. It also removes the maps that become empty with the removal.
func set(m map[string]any, path []string, value any) {
	name := path[0]
	if len(path) > 1 {
		child, ok := m[name].(map[string]any)
		if !ok {
			if value == nil {
				return
			}
			child = map[string]any{}
			m[name] = child
		}
		set(child, path[1:], value)
		return
	}
	if value == nil {
		delete(m, name)
		return
	}
	if kept, ok := m[name].(map[string]any); ok && len(kept) > 0 {
		return // the value is an empty map, and another field is in the map
	}
	m[name] = runtime.DeepCopyJSONValue(value)
}
