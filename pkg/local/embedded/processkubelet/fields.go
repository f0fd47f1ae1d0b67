package processkubelet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// missing returns nil for a not-found error of an optional object.
func missing(err error, optional *bool) error {
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil
	}
	return err
}

// fieldValue reads a field of the downward API for env and volumes.
func fieldValue(pod *corev1.Pod, node nodeFacts, path string) (string, error) {
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return quotedMap(pod.Labels), nil
	case "metadata.annotations":
		return quotedMap(pod.Annotations), nil
	case "spec.nodeName":
		return node.Name, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return node.PodAddress, nil
	case "status.hostIP", "status.hostIPs":
		return node.Address, nil
	}
	for prefix, from := range map[string]map[string]string{"metadata.labels['": pod.Labels,
		"metadata.annotations['": pod.Annotations} {
		if key, ok := strings.CutPrefix(path, prefix); ok {
			return from[strings.TrimSuffix(key, "']")], nil
		}
	}
	return "", fmt.Errorf("this node does not support field %s", path)
}

func quotedMap(m map[string]string) string {
	lines := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, fmt.Sprintf("%s=%q", key, m[key]))
	}
	return strings.Join(lines, "\n")
}
