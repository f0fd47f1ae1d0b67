package planner

import (
	"slices"
	"strings"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// withdraw adds to a plan the removal of files from the previous plan that the new plan no longer has. The plan in the
// Secret is the only memory. Therefore a removal is repeated in every plan until the node has applied it. After that it
// stays as long as there is nothing else to deliver. A plan without any files does not manage files.
func withdraw(node render.Node, state *nodeplan.State, desired plan.NodePlan) plan.NodePlan {
	if len(desired.Files) == 0 {
		return desired
	}
	named := make(map[string]bool, len(desired.Files))
	for _, file := range desired.Files {
		named[file.Path] = true
	}
	var fresh, repeated []plan.File
	for _, file := range slices.Backward(state.Plan.Files) { // the last of several is on the node
		if named[file.Path] || file.Directory || node.OfOperation(file.Path) {
			continue
		}
		named[file.Path] = true
		removal := plan.File{Path: file.Path, Action: plan.FileActionDelete, Dynamic: file.Dynamic, Minor: file.Minor}
		if file.Action == plan.FileActionDelete {
			repeated = append(repeated, removal)
		} else {
			fresh = append(fresh, removal)
		}
	}
	if full := without(desired, slices.Concat(fresh, repeated)); !state.InSync ||
		nodeplan.Equal(render.WithoutEtcdProof(state.Plan), full) {
		return full
	}
	return without(desired, fresh)
}

// without puts removals before everything else in a plan, because a former file may be a directory now.
func without(desired plan.NodePlan, removals []plan.File) plan.NodePlan {
	slices.SortFunc(removals, func(a, b plan.File) int { return strings.Compare(a.Path, b.Path) })
	desired.Files = slices.Concat(removals, desired.Files)
	return desired
}
