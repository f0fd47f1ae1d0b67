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

// kept are the objects outside clusters that remain without Drover, as docs/install.md describes: identities that
// machines and users know, CRDs with the objects that describe drivers, and namespaces.
var kept = []string{
	"Secret drover-system/drover-ca", "Secret drover-system/drover-grants", "Secret drover-system/proxy-token-*",
	"* drover-system/drover-settings-*", "Lease drover-system/drover", "Lease drover-system/drover-replica-*",
	"CustomResourceDefinition /*", "APIService /*", "NodeDriver /*", "DynamicSchema /*",
	"Namespace /drover-system", "Namespace /cattle-global-data", "Namespace /fleet-default",
	"ConfigMap */kube-root-ca.crt", "ServiceAccount */default",
}

// object is an object of the management cluster.
type object struct{ Kind, Namespace, Name string }

func (o object) String() string { return fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name) }

// everything lists all objects of the management cluster except Events.
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

// expectOnlyClusters fails for objects that did not exist before Drover's installation, unless they are in the
// namespaces of these clusters or are kept.
func expectOnlyClusters(t *testing.T, before []object, namespaces []string) {
	t.Helper()
	had := map[object]bool{}
	for _, o := range before {
		had[o] = true
	}
	for _, o := range everything(t) {
		theirs := slices.Contains(namespaces, cmp.Or(o.Namespace, o.Name))
		if !had[o] && !theirs && !slices.ContainsFunc(kept, func(pattern string) bool {
			return matches(pattern, o.String())
		}) {
			t.Errorf("the uninstalled Drover leaves %s", o)
		}
	}
}

// matches reports whether a text matches a pattern in which * stands for any text.
func matches(pattern, text string) bool {
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(text, "/", "\x00"))
	return ok && err == nil
}
