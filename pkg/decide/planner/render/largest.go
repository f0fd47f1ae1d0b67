package render

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// largePart is the minimum size in bytes of a part that Largest reports.
const largePart = 16 << 10

// Largest returns the largest parts of a plan with their sizes, by the fields of the cluster's spec that they come
// from.
func Largest(spec *rkev1.RKEControlPlaneSpec, p plan.NodePlan, most int) []string {
	sizes := map[string]int{}
	for _, file := range p.Files {
		sizes[fieldOfFile(spec, file)] += len(file.Content)
	}
	for _, instruction := range p.Instructions {
		for _, env := range instruction.Env {
			sizes["spec.agentEnvVars"] += len(env)
		}
	}
	fields := make([]string, 0, len(sizes))
	for field := range sizes {
		fields = append(fields, field)
	}
	slices.SortFunc(fields, func(a, b string) int {
		return cmp.Or(cmp.Compare(sizes[b], sizes[a]), strings.Compare(a, b))
	})
	var out []string
	for _, field := range fields[:min(most, len(fields))] {
		if sizes[field] >= largePart {
			out = append(out, fmt.Sprintf("%s (%d KiB)", field, sizes[field]>>10))
		}
	}
	return out
}

// fieldOfFile is the field that a file's content comes from, or the file itself when Drover generates it.
func fieldOfFile(spec *rkev1.RKEControlPlaneSpec, file plan.File) string {
	if field := selectedField(spec, file.Path); field != "" {
		return field
	}
	switch name := path.Base(file.Path); {
	case IsSnapshotMetadata(file):
		return "the copy of the Cluster's spec for snapshots"
	case name == "addons.yaml":
		return "spec.rkeConfig.additionalManifest"
	case name == "managed-chart-config.yaml":
		return "spec.rkeConfig.chartValues"
	case name == "registries.yaml":
		return "spec.rkeConfig.registries"
	case name == "50-rancher.yaml":
		return fieldGlobal + " with " + fieldSelector
	}
	return "file " + file.Path
}

// selectedField is the entry of machineSelectorFiles that writes a file. Of several, the last one wins.
func selectedField(spec *rkev1.RKEControlPlaneSpec, file string) string {
	field := ""
	for i, entry := range spec.MachineSelectorFiles {
		for j, source := range entry.FileSources {
			for kind, object := range map[string]rkev1.K8sObjectFileSource{"secret": source.Secret,
				"configMap": source.ConfigMap} {
				for k, item := range object.Items {
					if item.Path == file && object.Name != "" { // a source with two names has no plan
						field = fmt.Sprintf("spec.rkeConfig.machineSelectorFiles[%d].fileSources[%d].%s.items[%d]", i,
							j, kind, k)
					}
				}
			}
		}
	}
	return field
}
