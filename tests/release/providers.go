package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-io/drover/tests/charts"
)

// provider is a provider in the sense of clusterctl.
type provider struct {
	// Type is its type in clusterctl's configuration.
	Type string
	// Label is its value of providerLabel, and its directory in a local repository.
	Label string
	// File is the name of the file with its components.
	File string
	// Namespace is the namespace of its components, and of clusterctl's record of it.
	Namespace string
	// Kinds are names of definitions. The last provider has all definitions that no other provider has.
	Kinds []string
}

const (
	// name is the name of all providers for `clusterctl init`.
	name = "drover"
	// providerLabel names the provider of an object. clusterctl sets it, too.
	providerLabel = "cluster.x-k8s.io/provider"
)

// providers are in the order in which clusterctl installs them. The last one has the server, which needs the
// definitions of all.
var providers = []provider{
	{
		Type: "BootstrapProvider", Label: "bootstrap-drover", File: "bootstrap-components.yaml",
		Namespace: "drover-bootstrap-system",
		Kinds:     []string{"rkebootstraps.rke.cattle.io", "rkebootstraptemplates.rke.cattle.io"},
	},
	{
		Type: "ControlPlaneProvider", Label: "control-plane-drover", File: "control-plane-components.yaml",
		Namespace: "drover-control-plane-system",
		Kinds:     []string{"etcdsnapshots.rke.cattle.io", "rkecontrolplanes.rke.cattle.io"},
	},
	{
		Type: "InfrastructureProvider", Label: "infrastructure-drover", File: "infrastructure-components.yaml",
		Namespace: charts.SystemNamespace,
	},
}

// components returns the components of each provider by its label, for a version of Drover. The charts are in root.
func components(root, version string) (map[string][]*unstructured.Unstructured, error) {
	release := charts.Release{Version: version}
	definitions, err := charts.Objects(filepath.Join(root, "charts", "drover-crd"), release,
		map[string]any{"clusterAPI": false})
	if err != nil {
		return nil, err
	}
	server, err := charts.Objects(filepath.Join(root, "charts", "drover"), release, values())
	if err != nil {
		return nil, err
	}
	out := map[string][]*unstructured.Unstructured{}
	for i := range providers {
		p := &providers[i]
		out[p.Label] = append(out[p.Label], namespace(p.Namespace))
	}
	for _, definition := range definitions {
		p := owner(definition.GetName())
		out[p.Label] = append(out[p.Label], definition)
	}
	for i := range providers[:len(providers)-1] {
		if p := &providers[i]; len(out[p.Label]) != 1+len(p.Kinds) {
			return nil, fmt.Errorf("the chart drover-crd has not all definitions of %s: %v", p.Label, p.Kinds)
		}
	}
	last := providers[len(providers)-1].Label
	for _, object := range server {
		if !isHook(object) {
			out[last] = append(out[last], object)
		}
	}
	for i := range providers {
		if err := adaptAll(out[providers[i].Label], &providers[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// owner returns the provider of a definition.
func owner(definition string) *provider {
	for i := range providers {
		if slices.Contains(providers[i].Kinds, definition) {
			return &providers[i]
		}
	}
	return &providers[len(providers)-1]
}

// isHook reports whether an object exists only for a command of Helm.
func isHook(object *unstructured.Unstructured) bool {
	_, found := object.GetAnnotations()["helm.sh/hook"]
	return found
}

func namespace(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("v1")
	object.SetKind("Namespace")
	object.SetName(name)
	object.SetLabels(map[string]string{"app.kubernetes.io/part-of": "drover"})
	return object
}

func adaptAll(objects []*unstructured.Unstructured, p *provider) error {
	for _, object := range objects {
		adaptMetadata(object, p.Label)
		adaptRole(object)
		if err := adaptSpec(object); err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		object.Object = substitute(object.Object).(map[string]any)
	}
	return nil
}

// adaptMetadata labels an object for clusterctl, and removes what is only for Helm.
func adaptMetadata(object *unstructured.Unstructured, label string) {
	labels := object.GetLabels()
	delete(labels, "helm.sh/chart")
	labels["app.kubernetes.io/managed-by"] = "clusterctl"
	labels["clusterctl.cluster.x-k8s.io"] = ""
	labels[providerLabel] = label
	object.SetLabels(labels)
	annotations := object.GetAnnotations()
	for key := range annotations {
		if strings.HasPrefix(key, "helm.sh/") {
			delete(annotations, key)
		}
	}
	object.SetAnnotations(annotations)
}

// rolePrefix begins the names of ClusterRoles and their bindings. `clusterctl delete` leaves all others behind.
const rolePrefix = charts.SystemNamespace + "-"

// adaptRole renames a ClusterRole or ClusterRoleBinding. All bindings of the chart are to roles of the chart.
func adaptRole(object *unstructured.Unstructured) {
	switch object.GetKind() {
	case "ClusterRoleBinding":
		ref := object.Object["roleRef"].(map[string]any)
		ref["name"] = rolePrefix + ref["name"].(string)
		fallthrough
	case "ClusterRole":
		object.SetName(rolePrefix + object.GetName())
	}
}

// adaptSpec changes the Deployment and the Service for machines.
func adaptSpec(object *unstructured.Unstructured) error {
	switch {
	case object.GetKind() == "Deployment":
		return nameContainer(object)
	case object.GetKind() == "Service" && object.GetName() == name:
		return unstructured.SetNestedField(object.Object, serviceType, "spec", "type")
	}
	return nil
}

// container is the name that clusterctl requires for the container of a provider's server.
const container = "manager"

func nameContainer(deployment *unstructured.Unstructured) error {
	at := []string{"spec", "template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(deployment.Object, at...)
	if err != nil {
		return err
	}
	if len(containers) != 1 {
		return fmt.Errorf("has %d containers, want 1", len(containers))
	}
	containers[0].(map[string]any)["name"] = container
	if err := unstructured.SetNestedSlice(deployment.Object, containers, at...); err != nil {
		return err
	}
	return unstructured.SetNestedField(deployment.Object, container, "spec", "template", "metadata", "annotations",
		"kubectl.kubernetes.io/default-container")
}
