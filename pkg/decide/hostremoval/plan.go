package hostremoval

import (
	_ "embed" // the scripts that hosts run
	"slices"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
)

//go:embed clean.sh
var cleanScript string

//go:embed leave.sh
var leaveScript string

// Names of the instructions of the last plan. They identify it, so a later release must keep them.
const (
	cleanInstruction = "remove-distribution"
	leaveInstruction = "remove-agent"
)

// optionArgs counts the arguments of an instruction before those of its script.
const optionArgs = 3

// Attempts is how often an agent tries the last plan.
const Attempts = 3

// Home is where a host has its distribution and its agent.
type Home struct {
	Runtime distro.Runtime
	Dirs    distro.Dirs
}

// Plan returns the last plan of a host. The agent first runs the uninstall scripts of the distribution. When they have
// succeeded, it removes itself from outside its own control group, after it has reported.
func Plan(home Home) plan.NodePlan {
	script := func(name, text string, env []string, args ...string) plan.OneTimeInstruction {
		return plan.OneTimeInstruction{CommonInstruction: plan.CommonInstruction{
			Name: name, Command: "/bin/sh", Args: append([]string{"-c", text, name}, args...), Env: env,
		}}
	}
	return plan.NodePlan{Instructions: []plan.OneTimeInstruction{
		script(cleanInstruction, cleanScript, []string{home.Runtime.EnvPrefix() + "_DATA_DIR=" + home.Dirs.Data},
			string(home.Runtime), home.Dirs.Data, home.Dirs.Provisioning),
		script(leaveInstruction, leaveScript, nil, home.Dirs.SystemAgent),
	}}
}

// IsLast reports whether a plan is the last one of a host. Only its instructions count, because another release may
// have delivered it.
func IsLast(p plan.NodePlan) bool {
	return slices.ContainsFunc(p.Instructions, func(i plan.OneTimeInstruction) bool {
		return i.Name == leaveInstruction
	})
}

// HomeOf reads from the last plan of a host where the host has its programs; false for other plans.
func HomeOf(p plan.NodePlan) (Home, bool) {
	var args []string
	for _, instruction := range p.Instructions {
		switch instruction.Name {
		case cleanInstruction, leaveInstruction:
			args = append(args, instruction.Args[min(len(instruction.Args), optionArgs):]...)
		}
	}
	if !IsLast(p) || len(args) != 4 {
		return Home{}, false
	}
	return Home{Runtime: distro.Runtime(args[0]),
		Dirs: distro.Dirs{Data: args[1], Provisioning: args[2], SystemAgent: args[3]}}, true
}

// ByHand returns the commands that clean a host.
func (h Home) ByHand() string {
	uninstall := string(h.Runtime) + "-uninstall.sh"
	if h.Runtime == distro.K3s {
		uninstall += " (k3s-agent-uninstall.sh on a worker)"
	}
	agent := "rancher-system-agent-uninstall.sh"
	if h.Dirs.SystemAgent != distro.DefaultSystemAgentDir {
		agent = "CATTLE_AGENT_VAR_DIR=" + h.Dirs.SystemAgent + " " + agent
	}
	return agent + ", " + uninstall + ", rm -rf " + h.Dirs.Provisioning
}
