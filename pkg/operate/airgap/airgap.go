// Package airgap lists what an installation without internet needs. It downloads nothing.
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

// Type is the type of an item.
type Type string

// The types of items.
const (
	// Image is an image for the private registry.
	Image Type = "image"
	// List is the URL of a file that lists more images, one in each line.
	List Type = "list"
	// File is a file that the server serves to machines.
	File Type = "file"
)

// Item is one thing that the installation needs.
type Item struct {
	Type Type `json:"type"`
	// Name is an image's name, a list's URL, or a path on the server.
	Name string `json:"name"`
	// For is the part of the installation that needs the item.
	For string `json:"for"`
}

// Architectures returns the architectures that nodes can have.
func Architectures() []string { return []string{"amd64", "arm64"} }

// Options describe the installation.
type Options struct {
	// ServerImage is Drover's image. The cluster agent uses it too, unless the settings name another image.
	ServerImage string
	// Settings are the server's settings. Image names are the names that clusters request: with a default registry,
	// they include it.
	Settings controllers.Settings
	// KubernetesVersions are the versions of the clusters, for example v1.36.2+rke2r1.
	KubernetesVersions []string
	// Architectures are those of the nodes. ServerArchitecture is the server's.
	Architectures      []string
	ServerArchitecture string
}

// version matches the full version of a distribution.
var version = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z.-]+)?\+(?:rke2|k3s)[0-9A-Za-z.-]*$`)

// Items lists what the installation needs. An error names the wrong option and a correct value.
func Items(o Options) ([]Item, error) {
	for _, arch := range o.Architectures {
		if !slices.Contains(Architectures(), arch) {
			return nil, fmt.Errorf("--arch: %q is unknown; use %s", arch, strings.Join(Architectures(), " or "))
		}
	}
	items := []Item{
		{Image, o.ServerImage, "Drover's server, in the management cluster"},
		{Image, naming.ImageIn(o.Settings.SystemDefaultRegistry, cmp.Or(o.Settings.ClusterAgentImage, o.ServerImage)),
			"Drover's agent, inside clusters"},
		{Image, o.Settings.MachineImage(), "the Jobs that create machines, in the management cluster"},
	}
	for _, v := range o.KubernetesVersions {
		if !version.MatchString(v) {
			return nil, fmt.Errorf(
				"--kubernetes-version: %q must be the full version of a distribution, for example v1.36.2+rke2r1 or "+
					"v1.36.2+k3s1", v)
		}
		items = append(items,
			Item{Image, render.InstallerImage(o.Settings.SystemAgentInstallerImage, o.Settings.SystemDefaultRegistry,
				v), "installing " + v + " on nodes"})
		for _, list := range lists(v, o.Architectures) {
			items = append(items, Item{List, list, "the images of clusters with " + v})
		}
	}
	for _, arch := range o.Architectures {
		purpose := "the agent on nodes with " + arch + ": the server serves its own program"
		if arch != o.ServerArchitecture {
			purpose = "the agent on nodes with " + arch +
				": put the program drover for that architecture into --assets-dir under this name"
		}
		items = append(items, Item{File, "/assets/rancher-system-agent-" + arch, purpose})
	}
	return items, nil
}

// lists are the URLs at which the distribution's project lists the images of a release.
func lists(version string, architectures []string) []string {
	escaped := strings.ReplaceAll(version, "+", "%2B")
	if distro.RuntimeOf(version) == distro.K3s {
		return []string{"https://github.com/k3s-io/k3s/releases/download/" + escaped + "/k3s-images.txt"}
	}
	out := make([]string, 0, len(architectures))
	for _, arch := range architectures {
		out = append(out, "https://github.com/rancher/rke2/releases/download/"+escaped+"/rke2-images-all.linux-"+arch+
			".txt")
	}
	return out
}
