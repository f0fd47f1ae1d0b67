// Package airgap says what an installation without a way to the internet has to bring along. It downloads nothing.
package airgap

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// Type is what an item is.
type Type string

// The types of items.
const (
	// Image is one to bring into the private registry.
	Image Type = "image"
	// List is a file in the internet that lists more images, one a line.
	List Type = "list"
	// File is one that the server has to serve to machines.
	File Type = "file"
)

// Item is one thing to bring along.
type Item struct {
	Type Type `json:"type"`
	// Name of the image, URL of the list, or path at the server.
	Name string `json:"name"`
	// For is what needs it.
	For string `json:"for"`
}

// Architectures that nodes may have.
func Architectures() []string { return []string{"amd64", "arm64"} }

// Options say for what a list is.
type Options struct {
	// ServerImage is that of Drover itself, and of the agent inside clusters unless the settings name another.
	ServerImage string
	// Settings are those of the server. Images are named as they will be asked for: with a default registry, in it.
	Settings controllers.Settings
	// KubernetesVersions are those that clusters will have, such as v1.36.2+rke2r1.
	KubernetesVersions []string
	// Architectures of the nodes, and that of the server.
	Architectures      []string
	ServerArchitecture string
}

// version is the full version of a distribution.
var version = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z.-]+)?\+(?:rke2|k3s)[0-9A-Za-z.-]*$`)

// Items lists what is needed. An error names the option that is wrong, and what would be right.
func Items(o Options) ([]Item, error) {
	for _, arch := range o.Architectures {
		if !slices.Contains(Architectures(), arch) {
			return nil, fmt.Errorf("--arch: %q is unknown; use %s", arch, strings.Join(Architectures(), " or "))
		}
	}
	items := []Item{
		{Image, o.ServerImage, "Drover's server, in the management cluster"},
		{Image, naming.ImageIn(o.Settings.SystemDefaultRegistry, cmp.Or(o.Settings.ClusterAgentImage, o.ServerImage)), "Drover's agent, inside clusters"},
		{Image, o.Settings.MachineImage(), "the Jobs that make machines, in the management cluster"},
	}
	for _, v := range o.KubernetesVersions {
		if !version.MatchString(v) {
			return nil, fmt.Errorf("--kubernetes-version: %q must be the full version of a distribution, for example v1.36.2+rke2r1 or v1.36.2+k3s1", v)
		}
		items = append(items, Item{Image, render.InstallerImage(o.Settings.SystemAgentInstallerImage, o.Settings.SystemDefaultRegistry, v), "installing " + v + " on nodes"})
		for _, list := range lists(v, o.Architectures) {
			items = append(items, Item{List, list, "what runs in clusters of " + v})
		}
	}
	for _, arch := range o.Architectures {
		purpose := "the agent on nodes of " + arch + ": the server serves itself"
		if arch != o.ServerArchitecture {
			purpose = "the agent on nodes of " + arch + ": put the program drover of that architecture under this name into --assets-dir"
		}
		items = append(items, Item{File, "/assets/rancher-system-agent-" + arch, purpose})
	}
	return items, nil
}

// lists are where the makers of a distribution say which images a release needs.
func lists(version string, architectures []string) []string {
	escaped := strings.ReplaceAll(version, "+", "%2B")
	if distro.RuntimeOf(version) == distro.K3s {
		return []string{"https://github.com/k3s-io/k3s/releases/download/" + escaped + "/k3s-images.txt"}
	}
	out := make([]string, 0, len(architectures))
	for _, arch := range architectures {
		out = append(out, "https://github.com/rancher/rke2/releases/download/"+escaped+"/rke2-images-all.linux-"+arch+".txt")
	}
	return out
}
