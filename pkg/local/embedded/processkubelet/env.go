package processkubelet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

// sources reads the objects that a pod refers to. For a missing object it returns an error that satisfies
// apierrors.IsNotFound.
type sources interface {
	Secret(namespace, name string) (*corev1.Secret, error)
	ConfigMap(namespace, name string) (*corev1.ConfigMap, error)
}

// nodeFacts is what a container can read about its node and pod.
type nodeFacts struct {
	Name    string
	Address string
	// PodAddress is the pod's address: the node's, or that of the pod's own network.
	PodAddress string
	// APIHost and APIPort are the real address of the API server.
	APIHost string
	APIPort string
}

// environment builds a container's environment as a kubelet does: image, API address, envFrom, env with $(NAME)
// references. Later values win. It contains none of the kubelet's own variables. The result is sorted.
func environment(pod *corev1.Pod, container *corev1.Container, image Image, home string, node nodeFacts,
	from sources) ([]string, error) {
	values := map[string]string{
		"PATH":                          "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME":                          home,
		"HOSTNAME":                      pod.Name,
		"KUBERNETES_SERVICE_HOST":       node.APIHost,
		"KUBERNETES_SERVICE_PORT":       node.APIPort,
		"KUBERNETES_SERVICE_PORT_HTTPS": node.APIPort,
	}
	for _, variable := range image.Env {
		if name, value, ok := strings.Cut(variable, "="); ok {
			values[name] = value
		}
	}
	for _, source := range container.EnvFrom {
		if err := addAll(values, pod.Namespace, source, from); err != nil {
			return nil, err
		}
	}
	for _, variable := range container.Env {
		value, found, err := variableValue(pod, container, variable, values, node, from)
		if err != nil {
			return nil, fmt.Errorf("container %s: env %s: %w", container.Name, variable.Name, err)
		}
		if found {
			values[variable.Name] = value
		}
	}
	out := make([]string, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, name+"="+values[name])
	}
	return out, nil
}

// addAll adds every key of a Secret or ConfigMap that is a valid variable name. Like a kubelet, it skips other keys.
func addAll(values map[string]string, namespace string, source corev1.EnvFromSource, from sources) error {
	var data map[string]string
	switch {
	case source.SecretRef != nil:
		secret, err := from.Secret(namespace, source.SecretRef.Name)
		if err != nil {
			return missing(err, source.SecretRef.Optional)
		}
		data = texts(secret.Data)
	case source.ConfigMapRef != nil:
		configMap, err := from.ConfigMap(namespace, source.ConfigMapRef.Name)
		if err != nil {
			return missing(err, source.ConfigMapRef.Optional)
		}
		data = configMap.Data
	}
	for key, value := range data {
		if name := source.Prefix + key; len(validation.IsRelaxedEnvVarName(name)) == 0 {
			values[name] = value
		}
	}
	return nil
}

// variableValue resolves one entry of env. found is false when an optional source lacks it.
func variableValue(pod *corev1.Pod, container *corev1.Container, variable corev1.EnvVar, values map[string]string,
	node nodeFacts,
	from sources,
) (value string, found bool, err error) {
	if variable.ValueFrom == nil {
		return expansion.Expand(variable.Value, expansion.MappingFuncFor(values)), true, nil
	}
	ref := variable.ValueFrom
	switch {
	case ref.SecretKeyRef != nil:
		secret, err := from.Secret(pod.Namespace, ref.SecretKeyRef.Name)
		if err != nil {
			return "", false, missing(err, ref.SecretKeyRef.Optional)
		}
		return pick(texts(secret.Data), ref.SecretKeyRef.Key, "Secret "+ref.SecretKeyRef.Name,
			ref.SecretKeyRef.Optional)
	case ref.ConfigMapKeyRef != nil:
		configMap, err := from.ConfigMap(pod.Namespace, ref.ConfigMapKeyRef.Name)
		if err != nil {
			return "", false, missing(err, ref.ConfigMapKeyRef.Optional)
		}
		return pick(configMap.Data, ref.ConfigMapKeyRef.Key, "ConfigMap "+ref.ConfigMapKeyRef.Name,
			ref.ConfigMapKeyRef.Optional)
	case ref.FieldRef != nil:
		value, err := fieldValue(pod, node, ref.FieldRef.FieldPath)
		return value, err == nil, err
	default:
		return "", false, fmt.Errorf("this node does not support its source (container %s)", container.Name)
	}
}

func pick(data map[string]string, key, where string, optional *bool) (string, bool, error) {
	if value, ok := data[key]; ok {
		return value, true, nil
	}
	if optional != nil && *optional {
		return "", false, nil
	}
	return "", false, fmt.Errorf("%s has no key %q", where, key)
}

func texts(data map[string][]byte) map[string]string {
	out := make(map[string]string, len(data))
	for key, value := range data {
		out[key] = string(value)
	}
	return out
}
