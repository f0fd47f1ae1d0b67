package helmlifecycle

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"github.com/drover-io/drover/tests/contract/plane"
)

// kept is what is no cluster and stays without Drover, as docs/install.md tells: what machines and users know the next Drover by, the
// definitions, with the objects that say what drivers there are, and namespaces.
var kept = []string{
	"Secret drover-system/drover-ca", "Secret drover-system/drover-grants", "Secret drover-system/proxy-token-*",
	"* drover-system/drover-settings-*", "Lease drover-system/drover", "Lease drover-system/drover-replica-*",
	"CustomResourceDefinition /*", "APIService /*", "NodeDriver /*", "DynamicSchema /*",
	"Namespace /drover-system", "Namespace /cattle-global-data", "Namespace /fleet-default", "ConfigMap */kube-root-ca.crt", "ServiceAccount */default",
}

// object is one of the management cluster.
type object struct{ Kind, Namespace, Name string }

func (o object) String() string { return fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name) }

// everything lists what there is in the whole management cluster but Events.
func everything(t *testing.T) []object {
	t.Helper()
	config := plane.Config(t, "contract-tests")
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	check(t, err)
	objects, err := metadata.NewForConfig(config)
	check(t, err)
	groups, err := kinds.ServerPreferredResources()
	check(t, err)
	var out []object
	for _, group := range groups {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		check(t, err)
		for i := range group.APIResources {
			resource := &group.APIResources[i]
			if !slices.Contains(resource.Verbs, "list") || resource.Kind == "Event" {
				continue
			}
			all, err := objects.Resource(version.WithResource(resource.Name)).List(t.Context(), metav1.ListOptions{})
			check(t, err)
			for j := range all.Items {
				out = append(out, object{resource.Kind, all.Items[j].Namespace, all.Items[j].Name})
			}
		}
	}
	return out
}

// expectOnlyClusters fails unless all that there is now, and was not before Drover was installed, is of these clusters' namespaces, or is kept.
func expectOnlyClusters(t *testing.T, before []object, namespaces []string) {
	t.Helper()
	had := map[object]bool{}
	for _, o := range before {
		had[o] = true
	}
	for _, o := range everything(t) {
		theirs := slices.Contains(namespaces, cmp.Or(o.Namespace, o.Name))
		if !had[o] && !theirs && !slices.ContainsFunc(kept, func(pattern string) bool { return matches(pattern, o.String()) }) {
			t.Errorf("an uninstalled Drover leaves %s", o)
		}
	}
}

// matches tells whether a text is like a pattern, in which * stands for anything.
func matches(pattern, text string) bool {
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(text, "/", "\x00"))
	return ok && err == nil
}
