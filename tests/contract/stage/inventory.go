package stage

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// everywhere are the objects that Kubernetes creates in every namespace.
var everywhere = []string{"ServiceAccount default", "ConfigMap kube-root-ca.crt"}

// Inventory lists the objects of all kinds in a namespace as "KIND NAME", sorted. It omits Events and the objects that
// Kubernetes creates in every namespace.
func (st *Stage) Inventory(namespace string) []string {
	st.t.Helper()
	var out []string
	for _, object := range st.Objects(namespace) {
		if name := object.GetKind() + " " + object.GetName(); !slices.Contains(everywhere, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Objects lists the objects of all kinds except Events in a namespace.
func (st *Stage) Objects(namespace string) []*unstructured.Unstructured {
	st.t.Helper()
	var out []*unstructured.Unstructured
	for _, gvk := range st.Kinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := st.Client.List(st.t.Context(), list, client.InNamespace(namespace)); err != nil {
			st.t.Fatalf("list %s: %v", gvk.Kind, err)
		}
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
	}
	return out
}

// Kinds returns all namespaced kinds that can be listed, except Events.
func (st *Stage) Kinds() []schema.GroupVersionKind {
	st.t.Helper()
	kinds, err := discovery.NewDiscoveryClientForConfig(st.Config("contract-tests"))
	if err != nil {
		st.t.Fatal(err)
	}
	groups, err := kinds.ServerPreferredNamespacedResources()
	if err != nil {
		st.t.Fatal(err)
	}
	var out []schema.GroupVersionKind
	for _, group := range groups {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			st.t.Fatal(err)
		}
		for i := range group.APIResources {
			if resource := &group.APIResources[i]; slices.Contains(resource.Verbs, "list") && resource.Kind != "Event" {
				out = append(out, version.WithKind(resource.Kind))
			}
		}
	}
	return out
}
