package admission

import (
	"fmt"
	"maps"
	"slices"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
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
		if meant := nearest(key, slices.Concat(slices.Collect(maps.Keys(release.ServerArgs)),
			slices.Collect(maps.Keys(release.AgentArgs)))); meant != "" {
			text += "; did you mean " + meant + "?"
		}
		out = append(out, text)
	}
	return out
}

// nearest returns the name that a mistyped one most likely stands for, or "" if none is near. At most a third of the
// letters, and at most three, may be wrong.
func nearest(typed string, names []string) string {
	best, fewest := "", min(3, len(typed)/3)
	for _, name := range slices.Sorted(slices.Values(names)) {
		if d := distance(typed, name); d <= fewest && (best == "" || d < fewest) {
			best, fewest = name, d
		}
	}
	return best
}

// distance returns the number of letters to insert, remove, swap or change to turn one text into the other (optimal
// string alignment). Names of keys are ASCII.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			changed := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				changed++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, changed)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
