package inspect

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// resource finds the resource of a kind in its group's preferred version. It is empty if the kind is not served. Every
// user may ask for the served kinds.
func (r *Reader) resource(kind schema.GroupKind) (schema.GroupVersionResource, error) {
	if known, ok := r.resources[kind]; ok {
		return known, nil
	}
	found := schema.GroupVersionResource{}
	discovery := r.clients.Kubernetes.Discovery()
	served, err := discovery.ServerGroups()
	if err != nil {
		return found, fmt.Errorf("ask which groups are served: %w", err)
	}
	at := slices.IndexFunc(served.Groups, func(g metav1.APIGroup) bool { return g.Name == kind.Group })
	if at >= 0 {
		version := served.Groups[at].PreferredVersion
		list, err := discovery.ServerResourcesForGroupVersion(version.GroupVersion)
		if err != nil && !apierrors.IsNotFound(err) {
			return found, fmt.Errorf("ask which kinds %s has: %w", kind.Group, err)
		}
		for i := 0; list != nil && i < len(list.APIResources); i++ {
			if r := list.APIResources[i]; r.Kind == kind.Kind && !strings.Contains(r.Name, "/") {
				found = schema.GroupVersionResource{Group: kind.Group, Version: version.Version, Resource: r.Name}
			}
		}
	}
	r.resources[kind] = found
	return found, nil
}

// serves reports whether a kind is served.
func (r *Reader) serves(kind schema.GroupKind) (bool, error) {
	resource, err := r.resource(kind)
	return resource.Resource != "", err
}
