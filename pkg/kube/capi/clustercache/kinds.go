package clustercache

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kinds maps the kinds of a cluster. Controllers read nodes of every cluster, and kinds of user manifests in some. The
// embedded mapper reads and keeps the resources of a whole API group, so nodes do not go through it. Their mapping is
// the same in every cluster.
type kinds struct{ meta.RESTMapper }

// RESTMapping implements meta.RESTMapper.
func (k kinds) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	node := corev1.SchemeGroupVersion.WithKind("Node")
	if kind != node.GroupKind() || len(versions) > 0 && !slices.Contains(versions, node.Version) {
		return k.RESTMapper.RESTMapping(kind, versions...)
	}
	return &meta.RESTMapping{
		Resource: corev1.SchemeGroupVersion.WithResource("nodes"), GroupVersionKind: node, Scope: meta.RESTScopeRoot,
	}, nil
}
