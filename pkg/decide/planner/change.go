package planner

import (
	"slices"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// onlyEndsOperation reports that the machine only has to replace the plan of an operation, which changes nothing that
// runs.
func (m *machine) onlyEndsOperation() bool {
	return render.OperationOf(m.Plan.State.Plan) != "" && restartFree(&m.Plan.State, m.desired)
}

// restartFree reports that a change reaches the node without a restart: the instructions stay the same. They contain a
// stamp over all files that need a restart. The upgrade of the agent restarts only the agent.
func restartFree(state *nodeplan.State, desired plan.NodePlan) bool {
	if render.OperationOf(state.Plan) != "" {
		return render.SameInstallation(state.Plan, desired)
	}
	before, after := render.WithoutEtcdProof(state.Plan), render.WithoutEtcdProof(desired)
	return slices.EqualFunc(render.WithoutAgentStep(before.Instructions), render.WithoutAgentStep(after.Instructions),
		sameInstruction)
}

func sameInstruction(a, b plan.OneTimeInstruction) bool {
	return a.SaveOutput == b.SaveOutput && a.Name == b.Name && a.Image == b.Image && a.Command == b.Command &&
		a.Script == b.Script && slices.Equal(a.Env, b.Env) && slices.Equal(a.Args, b.Args)
}
