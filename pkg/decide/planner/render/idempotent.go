package render

import (
	_ "embed" // the scripts that nodes run
	"fmt"
	"strings"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/naming"
)

//go:embed scripts/idempotent.sh
var idempotentShell string

// Node is the facts about a node that an operation's instructions depend on.
type Node struct {
	Runtime distro.Runtime
	Dirs    distro.Dirs
	// Server is true when the node runs the server unit.
	Server bool
	// Loopback is the host by which the node reaches itself.
	Loopback string
}

// NodeOf reads a Node from the input of a plan.
func NodeOf(in Input) Node {
	runtime := distro.RuntimeOf(in.ControlPlane.Spec.KubernetesVersion)
	return Node{
		Runtime:  runtime,
		Dirs:     distro.DirsFor(runtime, in.ControlPlane.Spec.DataDirectories),
		Server:   in.Machine.Roles.Server(),
		Loopback: distro.LoopbackHost(in.ControlPlane.Spec.Networking),
	}
}

// Unit is the systemd unit of the distribution on the node.
func (n Node) Unit() string {
	if n.Server {
		return n.Runtime.ServerUnit()
	}
	return n.Runtime.AgentUnit()
}

// Command is a command of an operation.
type Command struct {
	// Name is the program, and Args are its arguments. Secrets belong into Env, never into Args, because arguments are
	// visible on the node.
	Name string
	Args []string
	// Env are additional NAME=VALUE pairs.
	Env []string
	// Image contains the program, empty when it is already on the node.
	Image string
	// SaveOutput keeps the output for the planner.
	SaveOutput bool
}

// Idempotent wraps a command so that it succeeds at most once for each identifier, value and command on a node. This
// holds when the plan is delivered again, the agent restarts or the command was killed. identifier names the command
// within its operation. value identifies the request, for example by its generation. Arguments and environment do not
// count: two commands of one request that differ only in these need different identifiers.
func (n Node) Idempotent(identifier, value string, command Command) plan.OneTimeInstruction {
	target, hash, key := naming.SHA256(value), naming.SHA256(command.Name), strings.ToLower(identifier)
	instruction := plan.OneTimeInstruction{
		CommonInstruction: plan.CommonInstruction{
			Name:    "idempotent-" + identifier + "-" + target + "-" + hash,
			Image:   command.Image,
			Env:     command.Env,
			Command: "/bin/sh",
			Args:    []string{"-x", n.Dirs.IdempotentScript(), key, target, hash, command.Name, n.Dirs.Provisioning},
		},
		SaveOutput: command.SaveOutput,
	}
	instruction.Args = append(instruction.Args, command.Args...)
	return instruction
}

// Restart restarts the distribution once, even if its unit failed before.
func (n Node) Restart(identifier, value string) []plan.OneTimeInstruction {
	unit := n.Unit()
	return []plan.OneTimeInstruction{
		n.Idempotent(identifier+"-reset-failed", value, Command{Name: "/bin/sh", Args: []string{
			"-c", fmt.Sprintf("if [ $(systemctl is-failed %s) = failed ]; then systemctl reset-failed %s; fi", unit,
				unit),
		}}),
		n.Idempotent(identifier+"-restart", value, Command{Name: "systemctl", Args: []string{"restart", unit}}),
	}
}

// Stop stops the distribution once. Pods keep running.
func (n Node) Stop(identifier, value string) plan.OneTimeInstruction {
	return n.Idempotent(identifier+"-stop", value, Command{Name: "systemctl", Args: []string{"stop", n.Unit()}})
}

// Forget removes the node's records of an operation, so that the same request can run again.
func (n Node) Forget(identifier string) plan.OneTimeInstruction {
	return plan.OneTimeInstruction{CommonInstruction: plan.CommonInstruction{
		Name:    "remove idempotency tracking",
		Command: "/bin/sh",
		Args:    []string{"-c", "rm -rf " + n.Dirs.Provisioning + "/idempotence/" + strings.ToLower(identifier)},
	}}
}
