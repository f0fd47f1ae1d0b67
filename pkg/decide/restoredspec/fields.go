package restoredspec

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

const (
	fieldVersion = "kubernetesVersion"
	fieldConfig  = "rkeConfig"
)

// Fields are the fields of a Cluster's spec that a mode puts back. No other field of the spec ever changes: pools, the
// settings of etcd, files, folders, environments and endpoints belong to the machines that exist now.
func Fields(mode rkev1.RestoreMode) [][]string {
	version := []string{fieldVersion}
	switch mode {
	case rkev1.RestoreModeKubernetesVersion:
		return [][]string{version}
	case rkev1.RestoreModeAll:
	default:
		return nil
	}
	return [][]string{
		version,
		{"defaultPodSecurityAdmissionConfigurationTemplateName"},
		{"clusterAgentDeploymentCustomization"},
		{"fleetAgentDeploymentCustomization"},
		{"webhookDeploymentCustomization"},
		{fieldConfig, "additionalManifest"},
		{fieldConfig, "chartValues"},
		{fieldConfig, "machineGlobalConfig"},
		{fieldConfig, "machineSelectorConfig"},
		{fieldConfig, "networking"},
		{fieldConfig, "registries"},
		{fieldConfig, "upgradeStrategy"},
	}
}

// Change is a field of a Cluster that goes back.
type Change struct {
	// Field is its path, such as spec.rkeConfig.machineGlobalConfig.cni.
	Field string
	// Old is the value before, and New the value of the snapshot, as plain JSON. Nil means that the field is absent.
	Old, New any
}

// Names returns the paths of changes.
func Names(changes []Change) []string {
	names := make([]string, 0, len(changes))
	for _, change := range changes {
		names = append(names, change.Field)
	}
	return names
}

// Differences returns how the fields of a mode differ between two specs, sorted as Fields are.
func Differences(before, after *provv1.ClusterSpec, mode rkev1.RestoreMode) ([]Change, error) {
	was, err := plain(before)
	if err != nil {
		return nil, err
	}
	is, err := plain(after)
	if err != nil {
		return nil, err
	}
	var out []Change
	for _, path := range Fields(mode) {
		if !reflect.DeepEqual(value(was, path), value(is, path)) {
			field := strings.Join(append([]string{"spec"}, path...), ".")
			out = append(out, compare(field, walk(was, path), walk(is, path))...)
		}
	}
	return out, nil
}

// plain returns a spec as JSON values.
func plain(spec *provv1.ClusterSpec) (map[string]any, error) {
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode the spec of a cluster: %w", err)
	}
	out := map[string]any{}
	if err := utiljson.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("decode the spec of a cluster: %w", err)
	}
	return out, nil
}

// unset is a spec in which the user has set nothing. Some fields are not empty in it, because their type always writes
// its parts.
var unset = sync.OnceValue(func() map[string]any {
	out, err := plain(&provv1.ClusterSpec{RKEConfig: &provv1.RKEConfig{}})
	if err != nil {
		panic(err) // empty structs always encode
	}
	return out
})

// value returns the value at a path, nil when it is absent. An empty value counts as absent.
func value(spec map[string]any, path []string) any {
	at := walk(spec, path)
	if reflect.DeepEqual(at, walk(unset(), path)) {
		return nil
	}
	switch found := at.(type) {
	case map[string]any:
		if len(found) == 0 {
			return nil
		}
	case []any:
		if len(found) == 0 {
			return nil
		}
	case string:
		if found == "" {
			return nil
		}
	}
	return at
}

func walk(spec map[string]any, path []string) any {
	var at any = spec
	for _, key := range path {
		fields, _ := at.(map[string]any)
		at = fields[key]
	}
	return at
}

// compare lists the smallest differing fields of two values.
func compare(field string, before, after any) []Change {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	was, wasMap := before.(map[string]any)
	is, isMap := after.(map[string]any)
	oldList, wasList := before.([]any)
	newList, isList := after.([]any)
	var out []Change
	switch {
	case (wasMap || before == nil) && (isMap || after == nil):
		for _, key := range keysOf(was, is) {
			out = append(out, compare(child(field, key), was[key], is[key])...)
		}
	case wasList && isList && len(oldList) == len(newList):
		for i := range oldList {
			out = append(out, compare(fmt.Sprintf("%s[%d]", field, i), oldList[i], newList[i])...)
		}
	}
	if len(out) == 0 { // one of them is no object, or they differ in a null or an empty object
		return []Change{{field, before, after}}
	}
	return out
}

// keysOf are the keys of both objects, sorted.
func keysOf(a, b map[string]any) []string {
	keys := map[string]bool{}
	for _, object := range []map[string]any{a, b} {
		for key := range object {
			keys[key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// child is the path of a key of an object.
func child(field, key string) string {
	if strings.ContainsAny(key, "./") {
		return field + "[" + key + "]"
	}
	return field + "." + key
}
