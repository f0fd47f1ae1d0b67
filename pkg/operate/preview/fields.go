package preview

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// Parts of a document.
const (
	partSpec    = "spec"
	partMeta    = "metadata"
	partConfigs = "machineConfigs"
	partPools   = "machinePools"
	partRKE     = "rkeConfig"
)

// document is a Cluster and its pools' machine configs as plain data. It maps pools by name, so a pool that moves in
// the list is the same pool.
type document map[string]any

// documentOf returns the document of an input. It omits metadata that programs write.
func documentOf(in topology.Input) (document, error) {
	spec, err := plain(in.Cluster.Spec)
	if err != nil {
		return nil, fmt.Errorf("encode spec of cluster %s/%s: %w", in.Cluster.Namespace, in.Cluster.Name, err)
	}
	if config, ok := spec[partRKE].(map[string]any); ok {
		byName := map[string]any{}
		list, _ := config[partPools].([]any)
		for _, entry := range list {
			if pool, ok := entry.(map[string]any); ok {
				byName[fmt.Sprint(pool["name"])] = pool
			}
		}
		config[partPools] = byName
	}
	configs := map[string]any{}
	for ref, object := range in.MachineConfigs {
		content, err := plain(object.Object)
		if err != nil {
			return nil, fmt.Errorf("encode %s %s: %w", ref.Kind, ref.Name, err)
		}
		for _, key := range []string{"apiVersion", "kind", "metadata", "status"} {
			delete(content, key)
		}
		configs[ref.Kind+"/"+ref.Name] = content
	}
	metadata := map[string]any{"labels": anyMap(in.Cluster.Labels), "annotations": anyMap(in.Cluster.Annotations)}
	return document{partSpec: spec, partMeta: metadata, partConfigs: configs}, nil
}

func plain(value any) (map[string]any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	return out, json.Unmarshal(data, &out)
}

func anyMap(in map[string]string) map[string]any {
	out := map[string]any{}
	for key, value := range in {
		out[key] = value
	}
	return out
}

// input converts the document to an input of topology. Everything else comes from base. order is the order of the
// pools.
func (d document) input(base topology.Input, order map[string]int) (topology.Input, error) {
	cluster := base.Cluster.DeepCopy()
	spec := runtime.DeepCopyJSON(d)[partSpec].(map[string]any)
	if config, ok := spec[partRKE].(map[string]any); ok {
		byName, _ := config[partPools].(map[string]any)
		list := []any{}
		for _, name := range slices.SortedFunc(maps.Keys(byName), func(a, b string) int {
			return order[a] - order[b]
		}) {
			list = append(list, byName[name])
		}
		config[partPools] = list
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return base, fmt.Errorf("encode spec: %w", err)
	}
	cluster.Spec = provv1.ClusterSpec{}
	if err := json.Unmarshal(data, &cluster.Spec); err != nil {
		return base, fmt.Errorf("decode spec: %w", err)
	}
	metadata, _ := d[partMeta].(map[string]any)
	cluster.Labels, cluster.Annotations = stringMap(metadata["labels"]), stringMap(metadata["annotations"])
	out := base
	out.Cluster = cluster
	out.MachineConfigs = map[topology.ConfigRef]*unstructured.Unstructured{}
	configs, _ := d[partConfigs].(map[string]any)
	for ref, object := range base.MachineConfigs {
		content, ok := configs[ref.Kind+"/"+ref.Name].(map[string]any)
		if !ok {
			continue
		}
		edited := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
		edited.SetGroupVersionKind(object.GroupVersionKind())
		edited.SetNamespace(object.GetNamespace())
		edited.SetName(object.GetName())
		edited.SetOwnerReferences(object.GetOwnerReferences())
		out.MachineConfigs[ref] = edited
	}
	return out, nil
}

func stringMap(value any) map[string]string {
	given, _ := value.(map[string]any)
	out := map[string]string{}
	for key, value := range given {
		out[key] = fmt.Sprint(value)
	}
	return out
}

// change is one differing field: a path of keys and indexes, and the value after the edit.
type change struct {
	path  []any
	value any
	gone  bool
}

// compare lists the smallest differing fields of two documents, ordered by path.
func compare(before, after any, path ...any) []change {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	old, wasMap := asMap(before)
	fresh, isMap := asMap(after)
	if wasMap && isMap {
		return compareMaps(old, fresh, path)
	}
	oldList, wasList := before.([]any)
	freshList, isList := after.([]any)
	if wasList && isList && len(oldList) == len(freshList) && objects(oldList) && objects(freshList) {
		var out []change
		for i := range oldList {
			out = append(out, compare(oldList[i], freshList[i], with(path, i)...)...)
		}
		return out
	}
	return []change{{path: path, value: after}}
}

func compareMaps(before, after map[string]any, path []any) []change {
	keys := map[string]bool{}
	for key := range before {
		keys[key] = true
	}
	for key := range after {
		keys[key] = true
	}
	var out []change
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		value, stays := after[key]
		old, was := before[key]
		here := with(path, key)
		switch {
		case was && stays && !isRequest(here):
			out = append(out, compare(old, value, here...)...)
		case was && stays && reflect.DeepEqual(old, value):
		case divisible(here, old) || divisible(here, value):
			oldFields, _ := asMap(old)
			fields, _ := asMap(value)
			out = append(out, compareMaps(oldFields, fields, here)...)
		default:
			out = append(out, change{path: here, value: value, gone: !stays})
		}
	}
	return out
}

// divisible reports whether an added or removed object is listed field by field. Machine pools and requests for
// operations are listed as a whole.
func divisible(path []any, value any) bool {
	fields, ok := asMap(value)
	isPool := len(path) == 4 && path[1] == partRKE && path[2] == partPools
	return ok && len(fields) > 0 && !isPool && !isRequest(path) && path[0] != partConfigs
}

// isRequest reports whether the path is a request for an operation. The fields of a request make sense only together.
func isRequest(path []any) bool {
	return len(path) == 3 && path[1] == partRKE && slices.Contains(planner.OperationFields, fmt.Sprint(path[2]))
}

func asMap(value any) (map[string]any, bool) {
	switch v := value.(type) {
	case document:
		return v, true
	case map[string]any:
		return v, true
	}
	return nil, false
}

// objects reports whether a list contains only objects, which compare then compares field by field.
func objects(list []any) bool {
	return !slices.ContainsFunc(list, func(entry any) bool { _, ok := entry.(map[string]any); return !ok })
}

func with(path []any, element any) []any { return append(slices.Clone(path), element) }

// apply returns a copy of a document with only this change.
func (c change) apply(d document) document {
	out := runtime.DeepCopyJSON(d)
	var at any = out
	for _, element := range c.path[:len(c.path)-1] {
		switch key := element.(type) {
		case string:
			parent, _ := at.(map[string]any)
			if parent[key] == nil {
				parent[key] = map[string]any{}
			}
			at = parent[key]
		case int:
			parent, _ := at.([]any)
			at = parent[key]
		}
	}
	switch key := c.path[len(c.path)-1].(type) {
	case string:
		parent, _ := at.(map[string]any)
		if c.gone {
			delete(parent, key)
		} else {
			parent[key] = runtime.DeepCopyJSONValue(c.value)
		}
	case int:
		parent, _ := at.([]any)
		parent[key] = runtime.DeepCopyJSONValue(c.value)
	}
	return out
}

// text returns the field as the server's messages name it. A pool has its index in the edited file, or its name if the
// file no longer contains it.
func (c change) text(indexes map[string]int) string {
	if c.path[0] == partConfigs {
		name := fmt.Sprint(c.path[1])
		return strings.TrimSuffix(name+": "+join(c.path[2:]), ": ")
	}
	if len(c.path) < 4 || c.path[1] != partRKE || c.path[2] != partPools {
		return join(c.path)
	}
	name := fmt.Sprint(c.path[3])
	element := "[" + name + "]"
	if i, there := indexes[name]; there {
		element = fmt.Sprintf("[%d]", i)
	}
	rest := join(c.path[4:])
	if rest != "" && !strings.HasPrefix(rest, "[") {
		rest = "." + rest
	}
	return join(c.path[:3]) + element + rest
}

func join(path []any) string {
	var out strings.Builder
	for _, element := range path {
		key, isKey := element.(string)
		switch {
		case !isKey:
			fmt.Fprintf(&out, "[%v]", element)
		case strings.ContainsAny(key, "./"):
			fmt.Fprintf(&out, "[%s]", key)
		case out.Len() == 0:
			out.WriteString(key)
		default:
			out.WriteString("." + key)
		}
	}
	return out.String()
}
