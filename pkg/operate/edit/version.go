package edit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/operate/preview"
)

// FieldVersion is the field of a Cluster with the Kubernetes version.
const FieldVersion = "spec.kubernetesVersion"

// CheckVersion refuses an impossible version, or a version of another distribution. The build metadata must name the
// distribution. Drover would take a version without it for RKE2, but no such release exists. now may be empty.
func CheckVersion(version, now string) error {
	parsed, ok := parse(version)
	if !ok {
		return fmt.Errorf("%q must be v and a semantic version, for example v1.36.2+rke2r1 or v1.36.2+k3s1", version)
	}
	is := distro.RuntimeOf(version)
	if !strings.HasPrefix(parsed.Metadata(), is.Command()) {
		return fmt.Errorf("%q must name a distribution behind +, for example v1.36.2+rke2r1 or v1.36.2+k3s1", version)
	}
	if was := distro.RuntimeOf(now); now != "" && was != is {
		return fmt.Errorf("%q is a version of %s, and the cluster is one of %s", version, is, was)
	}
	return nil
}

func parse(version string) (*semver.Version, bool) {
	number, hasPrefix := strings.CutPrefix(version, "v")
	parsed, err := semver.StrictNewVersion(number)
	return parsed, err == nil && hasPrefix
}

// Releases are facts about Kubernetes versions.
type Releases interface {
	// Release describes a version.
	Release(kubernetesVersion string) distro.Release
	// Minors returns the known minors of a distribution, from the oldest to the newest.
	Minors(runtime distro.Runtime) []string
}

// CheckRelease refuses a version that CheckVersion refuses, or whose minor the release data do not have. The error
// lists the minors.
func CheckRelease(version, now string, releases Releases) error {
	runtime := distro.RuntimeOf(version)
	if now != "" {
		runtime = distro.RuntimeOf(now)
	}
	known := fmt.Sprintf("the release data have %s %s", runtime, strings.Join(releases.Minors(runtime), ", "))
	if err := CheckVersion(version, now); err != nil {
		return fmt.Errorf("%w; %s", err, known)
	}
	if !releases.Release(version).Known {
		return fmt.Errorf("%q is unknown: %s; --release-data names newer data", version, known)
	}
	return nil
}

// Upgrade changes the Kubernetes version.
func Upgrade(cluster *provv1.Cluster, version string, releases Releases) (Change, error) {
	c := Change{Before: cluster, After: cluster.DeepCopy()}
	if err := editable(cluster); err != nil {
		return c, err
	}
	was := cluster.Spec.KubernetesVersion
	if err := CheckRelease(version, was, releases); err != nil {
		return c, err
	}
	if version == was {
		return c, nil
	}
	c.After.Spec.KubernetesVersion = version
	c.steps = []step{{"add", "/spec/kubernetesVersion", version}}
	c.warn(was, version)
	return c, nil
}

// warn adds a warning about a step that Kubernetes does not support.
func (c *Change) warn(was, version string) {
	old, known := parse(was)
	next, _ := parse(version)
	message := ""
	switch {
	case !known || old.Major() != next.Major():
	case next.Minor() < old.Minor():
		message = "Kubernetes supports no downgrade to an earlier minor; restore a snapshot with that version instead"
	case next.Minor() > old.Minor()+1:
		message = fmt.Sprintf("Kubernetes supports no upgrade over several minors; upgrade to 1.%d first",
			old.Minor()+1)
	}
	if message != "" {
		c.Warnings = append(c.Warnings, preview.Warning{Field: FieldVersion, Message: message})
	}
}

// Offered returns the beginnings of the versions that a cluster can have next: those of its minor, and of the minor
// after it. For an unknown version, it returns those of all minors.
func Offered(now string, releases Releases) []string {
	was, ok := parse(now)
	var out []string
	for _, minor := range releases.Minors(distro.RuntimeOf(now)) {
		isNext := !ok || slices.Contains([]string{
			fmt.Sprintf("%d.%d", was.Major(), was.Minor()), fmt.Sprintf("%d.%d", was.Major(), was.Minor()+1)}, minor)
		if isNext {
			out = append(out, "v"+minor+".")
		}
	}
	return out
}
