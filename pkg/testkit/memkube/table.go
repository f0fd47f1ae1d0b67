package memkube

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/pkg/testkit/admission"
)

// table holds the objects of one resource, in all its versions.
type table struct {
	gr         schema.GroupResource
	kind       string
	versions   []string // served versions, the preferred one first
	namespaced bool
	status     bool // has the status subresource
	custom     bool // is defined by a CRD
	crd        *apiextensionsv1.CustomResourceDefinition
	validator  *admission.Validator // the validator of crd, made at first use

	items    map[string]*item // by namespace/name
	history  []change
	watchers map[*watcher]bool
}

// item is a stored object. Neither part ever changes.
type item struct {
	obj *unstructured.Unstructured
	raw []byte
}

// itemRef identifies a stored object.
type itemRef struct {
	gr  schema.GroupResource
	key string
}

func (t *table) serves(version string) bool { return slices.Contains(t.versions, version) }

func (t *table) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: t.gr.Group, Version: t.versions[0], Kind: t.kind}
}

// clusterScoped are the kinds without namespaces that a scheme may hold. A scheme does not record the scope.
var clusterScoped = map[schema.GroupKind]bool{
	{Kind: "Namespace"}:        true,
	{Kind: "Node"}:             true,
	{Kind: "PersistentVolume"}: true,
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:                  true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:                          true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:                   true,
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                                    true,
	{Group: "storage.k8s.io", Kind: "CSIDriver"}:                                       true,
	{Group: "storage.k8s.io", Kind: "CSINode"}:                                         true,
	{Group: "storage.k8s.io", Kind: "VolumeAttachment"}:                                true,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:                                true,
	{Group: "node.k8s.io", Kind: "RuntimeClass"}:                                       true,
	{Group: "networking.k8s.io", Kind: "IngressClass"}:                                 true,
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}:                  true,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:      true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}:    true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}:         true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"}:  true,
	{Group: "management.cattle.io", Kind: "Cluster"}:                                   true,
	{Group: "management.cattle.io", Kind: "NodeDriver"}:                                true,
	{Group: "management.cattle.io", Kind: "DynamicSchema"}:                             true,
	{Group: "management.cattle.io", Kind: "PodSecurityAdmissionConfigurationTemplate"}: true,
}

// serveScheme creates tables for the kinds of a scheme, in the preferred version of each.
func (s *Server) serveScheme(scheme *runtime.Scheme) {
	best := map[schema.GroupKind]schema.GroupVersionKind{}
	for gvk, goType := range scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || !isObject(goType) {
			continue
		}
		old, seen := best[gvk.GroupKind()]
		if !seen || preferred(gvk.Version, old.Version) < 0 {
			best[gvk.GroupKind()] = gvk
		}
	}
	for gk, gvk := range best {
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		if s.tables[plural.GroupResource()] != nil {
			continue
		}
		status, hasStatus := scheme.AllKnownTypes()[gvk].FieldByName("Status")
		s.tables[plural.GroupResource()] = newTable(plural.GroupResource(), gvk.Kind, []string{gvk.Version},
			!clusterScoped[gk],
			hasStatus && status.Type.Kind() == reflect.Struct)
	}
}

func isObject(t reflect.Type) bool {
	_, ok := reflect.TypeAssert[metav1.Object](reflect.New(t))
	return ok
}

func newTable(gr schema.GroupResource, kind string, versions []string, namespaced, status bool) *table {
	return &table{
		gr: gr, kind: kind, versions: versions, namespaced: namespaced, status: status,
		items: map[string]*item{}, watchers: map[*watcher]bool{},
	}
}

// define serves the resource of a CRD. It keeps objects that are already stored.
func (s *Server) define(crd *apiextensionsv1.CustomResourceDefinition) {
	gr := schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}
	var versions []string
	status := false
	for _, v := range crd.Spec.Versions {
		if v.Served {
			versions = append(versions, v.Name)
			status = status || v.Subresources != nil && v.Subresources.Status != nil
		}
	}
	slices.SortFunc(versions, preferred)
	t := s.tables[gr]
	if t == nil {
		t = newTable(gr, crd.Spec.Names.Kind, versions, false, status)
		s.tables[gr] = t
	}
	t.kind, t.versions, t.status, t.custom = crd.Spec.Names.Kind, versions, status, true
	t.namespaced = crd.Spec.Scope == apiextensionsv1.NamespaceScoped
	t.crd, t.validator = crd, nil
}

// undefine removes a resource and its objects. It keeps the history for watches that have not seen the deletions yet.
func (s *Server) undefine(gr schema.GroupResource) {
	t := s.tables[gr]
	if t == nil || !t.custom {
		return
	}
	for _, key := range sortedKeys(t.items) {
		if it := t.items[key]; it != nil {
			s.remove(t, key, it.obj)
		}
	}
	for w := range t.watchers {
		w.end()
	}
	delete(s.tables, gr)
}

// schemaOf returns the validator of a custom resource, or nil when its CRD has no schema.
func (t *table) schemaOf() (*admission.Validator, error) {
	if t.crd == nil || t.validator != nil {
		return t.validator, nil
	}
	for _, v := range t.crd.Spec.Versions {
		if v.Storage && (v.Schema == nil || v.Schema.OpenAPIV3Schema == nil) {
			return nil, nil
		}
	}
	validator, err := admission.New(t.crd)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", t.gr, err)
	}
	t.validator = validator
	return validator, nil
}

func keyOf(namespace, name string) string { return namespace + "/" + name }

func splitKey(key string) (namespace, name string) {
	namespace, name, _ = strings.Cut(key, "/")
	return namespace, name
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
