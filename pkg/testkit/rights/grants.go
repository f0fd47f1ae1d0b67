package rights

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Request is a request to the Kubernetes API, or the permission for one.
type Request struct {
	Verb, Group string
	// Resource may have a subresource after a slash. In a permission, "*" means every resource of the group.
	Resource string
	// Namespace is empty for cluster-scoped resources and for requests to all namespaces. In a permission, an empty
	// namespace means any namespace.
	Namespace string
	// Name is empty for requests without a name. In a permission, an empty name means any name.
	Name string
}

// String returns the request as one line.
func (r Request) String() string {
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	out := r.Verb + " " + resource
	if r.Namespace != "" {
		out += " in " + r.Namespace
	}
	if r.Name != "" {
		out += " named " + r.Name
	}
	return out
}

// Compare orders requests by group, resource, namespace, name and verb.
func (r Request) Compare(other Request) int {
	return cmp.Or(
		cmp.Compare(r.Group, other.Group), cmp.Compare(r.Resource, other.Resource),
		cmp.Compare(r.Namespace, other.Namespace),
		cmp.Compare(r.Name, other.Name), cmp.Compare(r.Verb, other.Verb),
	)
}

// Grant is one permission of a role: one verb on one resource.
type Grant struct {
	// Role is the name of the Role or ClusterRole.
	Role string
	Request
}

func (g Grant) compare(other Grant) int {
	return cmp.Or(strings.Compare(g.Role, other.Role), g.Request.Compare(other.Request))
}

// Covers reports whether the grant permits a request. Like in the API server, "*" includes subresources.
func (g Grant) Covers(r Request) bool {
	return g.Verb == r.Verb && g.Group == r.Group && (g.Resource == "*" || g.Resource == r.Resource) &&
		(g.Namespace == "" || g.Namespace == r.Namespace) && (g.Name == "" || g.Name == r.Name)
}

// Grants returns, sorted, the permissions that the role bindings among the objects grant.
func Grants(objects []*unstructured.Unstructured) ([]Grant, error) {
	roles := map[string][]rbacv1.PolicyRule{}
	for _, object := range objects {
		if kind := object.GetKind(); kind == "Role" || kind == "ClusterRole" {
			// Role and ClusterRole have their rules in the same place.
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
				return nil, fmt.Errorf("%s %s: %w", kind, object.GetName(), err)
			}
			roles[kind+"/"+object.GetNamespace()+"/"+object.GetName()] = role.Rules
		}
	}
	var out []Grant
	for _, object := range objects {
		kind, namespace := object.GetKind(), object.GetNamespace()
		if kind != "RoleBinding" && kind != "ClusterRoleBinding" {
			continue
		}
		var binding rbacv1.ClusterRoleBinding
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &binding); err != nil {
			return nil, fmt.Errorf("%s %s: %w", kind, object.GetName(), err)
		}
		in := namespace
		if binding.RoleRef.Kind == "ClusterRole" {
			in = ""
		}
		rules, ok := roles[binding.RoleRef.Kind+"/"+in+"/"+binding.RoleRef.Name]
		if !ok {
			return nil, fmt.Errorf("%s %s refers to %s %s, but the chart does not contain it",
				kind, object.GetName(), binding.RoleRef.Kind, binding.RoleRef.Name)
		}
		for _, rule := range rules {
			out = append(out, expand(binding.RoleRef.Name, namespace, rule)...)
		}
	}
	slices.SortFunc(out, Grant.compare)
	return out, nil
}

func expand(role, namespace string, rule rbacv1.PolicyRule) []Grant {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var out []Grant
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					out = append(out, Grant{role, Request{verb, group, resource, namespace, name}})
				}
			}
		}
	}
	return out
}
