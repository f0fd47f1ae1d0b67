package nodeplan

import (
	"maps"
	"slices"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// Change says how two plans for one node differ (spec/02 §3.5).
type Change string

const (
	// ChangeNone means that the node need not hear of the new plan.
	ChangeNone Change = "none"
	// ChangeMinor means that only minor files were added or got new content. The plan may be delivered at any time, also when the limit of
	// unavailable machines is used up.
	ChangeMinor Change = "minor"
	// ChangeMajor means anything else. Delivery counts against the limit of unavailable machines.
	ChangeMajor Change = "major"
)

// Compare classifies the step from a stored plan to a desired one. Nil and empty slices are equal, the order of files
// counts, and of files only content, path, permissions, dynamic and minor are looked at.
func Compare(stored, desired plan.NodePlan) Change {
	rest := stored.Error == desired.Error &&
		slices.EqualFunc(stored.Instructions, desired.Instructions, func(a, b plan.OneTimeInstruction) bool {
			return a.SaveOutput == b.SaveOutput && equalCommon(a.CommonInstruction, b.CommonInstruction)
		}) &&
		slices.EqualFunc(stored.PeriodicInstructions, desired.PeriodicInstructions, func(a, b plan.PeriodicInstruction) bool {
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

// Equal tells whether two plans mean the same to a node.
func Equal(a, b plan.NodePlan) bool { return Compare(a, b) == ChangeNone }

// minorFiles tells whether the files differ in minor ones alone: what disappeared was minor, what is new or has new content
// is minor, and there is something new. A removal or a change of permissions alone is not minor, nor is another order.
func minorFiles(stored, desired []plan.File) bool {
	before := byPath(stored)
	after := byPath(desired)
	for path, file := range before {
		if _, ok := after[path]; !ok && !file.Minor {
			return false
		}
	}
	news := false
	for path, file := range after {
		old, ok := before[path]
		switch {
		case ok && equalFile(old, file):
		case ok && old.Content == file.Content:
			return false // only permissions or hints changed
		case !file.Minor:
			return false
		default:
			news = true
		}
	}
	return news
}

func byPath(files []plan.File) map[string]plan.File {
	out := make(map[string]plan.File, len(files))
	for _, file := range files {
		out[file.Path] = file
	}
	return out
}

func equalFile(a, b plan.File) bool {
	return a.Content == b.Content && a.Path == b.Path && a.Permissions == b.Permissions && a.Dynamic == b.Dynamic && a.Minor == b.Minor
}

func equalCommon(a, b plan.CommonInstruction) bool {
	return a.Name == b.Name && a.Image == b.Image && a.Command == b.Command && a.Script == b.Script &&
		slices.Equal(a.Env, b.Env) && slices.Equal(a.Args, b.Args)
}
