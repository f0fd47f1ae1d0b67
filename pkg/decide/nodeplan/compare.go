package nodeplan

import (
	"maps"
	"slices"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// Change classifies the difference between two plans for one node (docs/wire/plan.md#kinds-of-change).
type Change string

const (
	// ChangeNone means that the node does not need the new plan.
	ChangeNone Change = "none"
	// ChangeMinor means that only minor files were added, removed or changed, and that other files changed at most in
	// their permissions. The plan may be delivered at any time, even when the limit of unavailable machines is reached.
	ChangeMinor Change = "minor"
	// ChangeMajor means any other change. Delivery counts against the limit of unavailable machines.
	ChangeMajor Change = "major"
)

// Compare classifies the change from a stored plan to a desired one. Nil and empty slices are equal, and the order of
// files counts. Of files, only action, content, path, permissions, dynamic and minor count.
func Compare(stored, desired plan.NodePlan) Change {
	rest := stored.Error == desired.Error &&
		slices.EqualFunc(stored.Instructions, desired.Instructions, func(a, b plan.OneTimeInstruction) bool {
			return a.SaveOutput == b.SaveOutput && equalCommon(a.CommonInstruction, b.CommonInstruction)
		}) &&
		slices.EqualFunc(stored.PeriodicInstructions, desired.PeriodicInstructions,
			func(a, b plan.PeriodicInstruction) bool {
				return a.PeriodSeconds == b.PeriodSeconds && a.SaveStderrOutput == b.SaveStderrOutput &&
					equalCommon(a.CommonInstruction, b.CommonInstruction)
			}) &&
		maps.Equal(stored.Probes, desired.Probes)
	switch {
	case rest && slices.EqualFunc(stored.Files, desired.Files, equalFile):
		return ChangeNone
	case rest && minorFiles(stored.Files, desired.Files):
		return ChangeMinor
	default:
		return ChangeMajor
	}
}

// Equal reports whether two plans mean the same to a node.
func Equal(a, b plan.NodePlan) bool { return Compare(a, b) == ChangeNone }

// minorFiles reports whether only minor files were added, removed or changed, and other files changed at most in their
// permissions, which restart nothing. A mere change of order is not minor, nor is a change of other hints.
func minorFiles(stored, desired []plan.File) bool {
	before := byPath(stored)
	after := byPath(desired)
	differs := false
	for path, file := range before {
		if _, ok := after[path]; !ok {
			if !file.Minor {
				return false
			}
			differs = true
		}
	}
	for path, file := range after {
		old, ok := before[path]
		if ok && equalFile(old, file) {
			continue
		}
		if old.Permissions = file.Permissions; !file.Minor && !equalFile(old, file) || ok &&
			old.Dynamic != file.Dynamic {
			return false
		}
		differs = true
	}
	return differs
}

func byPath(files []plan.File) map[string]plan.File {
	out := make(map[string]plan.File, len(files))
	for _, file := range files {
		out[file.Path] = file
	}
	return out
}

func equalFile(a, b plan.File) bool {
	return a.Action == b.Action && a.Content == b.Content && a.Path == b.Path && a.Permissions == b.Permissions &&
		a.Dynamic == b.Dynamic && a.Minor == b.Minor
}

func equalCommon(a, b plan.CommonInstruction) bool {
	return a.Name == b.Name && a.Image == b.Image && a.Command == b.Command && a.Script == b.Script &&
		slices.Equal(a.Env, b.Env) && slices.Equal(a.Args, b.Args)
}
