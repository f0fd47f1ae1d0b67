package nodeplan

import (
	"encoding/base64"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// Check finds the errors that make an agent reject a plan without a report: all agents retry such plans silently. The
// error names the field, for example files[2].permissions, and says what would be right. It contains no content.
// Renderers call it in their tests, and the planner before each delivery.
func Check(p plan.NodePlan) error {
	if mostValues(p) > MaxPlanValues {
		return fmt.Errorf("the plan has %w", errPlanEntries)
	}
	for i, file := range p.Files {
		if field, err := checkFile(file); err != nil {
			return fmt.Errorf("files[%d].%s: %w", i, field, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Probes)) {
		if p.Probes[name].HTTPGetAction.URL == "" {
			return fmt.Errorf("probes[%q]: %w", name, errEmptyProbe)
		}
	}
	return nil
}

// mostValues is an upper bound on the JSON values of a plan, see CountValues.
func mostValues(p plan.NodePlan) int {
	const fields = 16 // of the largest entry, with its own brackets
	count := fields * (1 + len(p.Files) + len(p.Instructions) + len(p.PeriodicInstructions) + len(p.Probes))
	for _, one := range p.Instructions {
		count += len(one.Args) + len(one.Env)
	}
	for _, one := range p.PeriodicInstructions {
		count += len(one.Args) + len(one.Env)
	}
	return count
}

func checkFile(f plan.File) (field string, err error) {
	if !path.IsAbs(f.Path) {
		return "path", errNoPath
	}
	if f.Action != "" && f.Action != plan.FileActionDelete {
		return "action", errBadAction
	}
	if f.Permissions != "" {
		if _, err := strconv.ParseUint(f.Permissions, 8, 12); err != nil {
			return "permissions", errNotOctal
		}
	}
	if !f.Directory {
		if _, err := base64.StdEncoding.DecodeString(f.Content); err != nil {
			return "content", errNotBase64
		}
	}
	return "", nil
}
