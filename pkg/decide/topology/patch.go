package topology

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// A Cluster is the user's file, and other programs may compare it with a repository. Writing it back through the Go
// type would lose unknown fields and the user's zeros, and would add zeros that the user did not write. Therefore every
// write of its metadata and pools is a patch of Drover's own fields. Each patch names the resource version that it was
// decided on, because lists are changed by position or as a whole.

// operation is one step of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// PreparePatch is the JSON patch that turns a Cluster into the result of Prepare. A merge patch cannot change one field
// of one pool.
func PreparePatch(cluster, prepared *provv1.Cluster) ([]byte, error) {
	operations := []operation{{"add", "/metadata/resourceVersion", cluster.ResourceVersion}}
	operations = append(operations, annotationOperations(cluster, prepared)...)
	operations = append(operations, finalizerOperations(cluster, prepared)...)
	before := pools(cluster)
	for i, pool := range pools(prepared) {
		if pool.DynamicSchemaSpec != before[i].DynamicSchemaSpec {
			path := "/spec/rkeConfig/machinePools/" + strconv.Itoa(i) + "/dynamicSchemaSpec"
			operations = append(operations, operation{"add", path, pool.DynamicSchemaSpec})
		}
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("encode patch of cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return patch, nil
}

func annotationOperations(cluster, prepared *provv1.Cluster) []operation {
	if len(cluster.Annotations) == 0 {
		return []operation{{"add", "/metadata/annotations", prepared.Annotations}}
	}
	var operations []operation
	for _, key := range slices.Sorted(maps.Keys(prepared.Annotations)) {
		if before, has := cluster.Annotations[key]; !has || before != prepared.Annotations[key] {
			operations = append(operations, operation{"add", "/metadata/annotations/" + pointer(key),
				prepared.Annotations[key]})
		}
	}
	return operations
}

func finalizerOperations(cluster, prepared *provv1.Cluster) []operation {
	if len(cluster.Finalizers) == 0 {
		return []operation{{"add", "/metadata/finalizers", prepared.Finalizers}}
	}
	var operations []operation
	for _, finalizer := range prepared.Finalizers[len(cluster.Finalizers):] {
		operations = append(operations, operation{"add", "/metadata/finalizers/-", finalizer})
	}
	return operations
}

// pointer escapes a key for a JSON pointer. (RFC 6901.)
func pointer(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

// ReleasePatch is the JSON merge patch that removes finalizers from an object, such as a Cluster.
func ReleasePatch(object metav1.Object, finalizers ...string) ([]byte, error) {
	released := func(finalizer string) bool { return slices.Contains(finalizers, finalizer) }
	left := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), released)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": object.GetResourceVersion(), "finalizers": left,
	}})
	if err != nil {
		return nil, fmt.Errorf("encode patch of %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return patch, nil
}
