package admission

import (
	"fmt"
	"maps"
	"slices"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// warnAboutKeys warns about configuration that the release is not known to understand, and about fields without effect.
// Drover passes unknown configuration on. Neither is an error. Condition ConfigurationUnderstood says the same later.
func warnAboutKeys(r Request, a *Answer) error {
	before, after, err := decodeBoth[provv1.Cluster](r)
	if err != nil {
		return err
	}
	if !isChecked(r.Facts, before, after) {
		return nil
	}
	for _, text := range keyWarnings(r.Facts, after) {
		a.warn(text)
	}
	for _, ignored := range topology.WithoutEffect(after) {
		a.warn(ignored.String())
	}
	return nil
}

func keyWarnings(facts Facts, cluster *provv1.Cluster) []string {
	if cluster.Spec.RKEConfig == nil || cluster.Spec.KubernetesVersion == "" {
		return nil
	}
	release := facts.Releases.Release(cluster.Spec.KubernetesVersion)
	if release.Empty() {
		return nil
	}
	config := cluster.Spec.RKEConfig
	out := keysOf(release, "spec.rkeConfig.machineGlobalConfig", config.MachineGlobalConfig.Data)
	for i, entry := range config.MachineSelectorConfig {
		out = append(out, keysOf(release, fmt.Sprintf("spec.rkeConfig.machineSelectorConfig[%d].config", i),
			entry.Config.Data)...)
	}
	return out
}

func keysOf(release distro.Release, at string, config map[string]any) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if _, known := release.Arg(key, true); known {
			continue
		}
		text := fmt.Sprintf("%s.%s: key %s is unknown in release %s, and Drover passes it to the machines unchanged",
			at, key, key, release.Version)
		if meant := naming.Nearest(key, slices.Concat(slices.Collect(maps.Keys(release.ServerArgs)),
			slices.Collect(maps.Keys(release.AgentArgs)))); meant != "" {
			text += "; did you mean " + meant + "?"
		}
		out = append(out, text)
	}
	return out
}
