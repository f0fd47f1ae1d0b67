package render

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
)

// Marks on the install instruction of a plan that carries an operation.
const (
	envOperation = "DROVER_OPERATION"
	// envAttempt makes plans of two attempts different: what an agent reports about one is never taken for the other.
	envAttempt = "DROVER_ATTEMPT"
)

// Operations by which plans are recognised, see [OperationOf]. Those of a restore are in etcdrestore.go.
const (
	OperationSnapshot     = "etcd-snapshot-create"
	OperationCertificates = "rotate-certificates"
	OperationKeys         = "rotate-encryption-keys"
	// OperationStart makes good what an operation left behind that ended half-way.
	OperationStart = "start"
)

// Work is what an operation wants of a node.
type Work struct {
	// Operation is a name by which the plan is recognised, see [OperationOf].
	Operation string
	// Attempt tells the runs of one operation apart.
	Attempt string
	// Files the instructions need, all of them below [Node.OperationDir].
	Files        []plan.File
	Instructions []plan.OneTimeInstruction
	Periodic     []plan.PeriodicInstruction
	// Down is true when the distribution does not run once the work is done: there is nothing to probe.
	Down bool
}

// Operation is the plan that a node has, with work in the place of what installs the distribution. Nothing about the node's
// configuration or version changes: the files stay, and the install instruction is kept with its stamps but does nothing, so
// that the next real change is recognised, rolled out and drained for like any other.
func (n Node) Operation(have plan.NodePlan, work Work) plan.NodePlan {
	out := n.withoutOperation(have)
	if !slices.ContainsFunc(out.Files, func(f plan.File) bool { return f.Path == n.idempotentScript().Path }) {
		out.Files = append(out.Files, n.idempotentScript())
	}
	out.Instructions = []plan.OneTimeInstruction{n.parked(have)}
	return n.extend(out, work)
}

// Extend is a plan that installs the distribution as it is meant to be, with work to be done after that.
func (n Node) Extend(desired plan.NodePlan, work Work) plan.NodePlan {
	desired.Files = slices.Clone(desired.Files)
	desired.PeriodicInstructions = slices.Clone(desired.PeriodicInstructions)
	desired.Instructions = slices.Clone(desired.Instructions)
	return n.extend(desired, work)
}

// extend adds work to a plan that shares no slices with others.
func (n Node) extend(p plan.NodePlan, work Work) plan.NodePlan {
	for i, instruction := range p.Instructions {
		if instruction.Name == InstallInstruction {
			p.Instructions[i].Env = append(slices.Clone(instruction.Env), envOperation+"="+work.Operation, envAttempt+"="+sha256Hex(work.Attempt))
		}
	}
	p.Files = append(p.Files, work.Files...)
	p.Instructions = append(p.Instructions, work.Instructions...)
	p.PeriodicInstructions = append(p.PeriodicInstructions, work.Periodic...)
	if work.Down {
		p.Probes = nil
	}
	return p
}

// Kept is a desired plan with all that restarts the distribution as it is in the plan that a node has, which may carry an operation that is over.
// Files that restart nothing come and change as desired, those that the node alone has stay where they are.
func (n Node) Kept(have, desired plan.NodePlan) plan.NodePlan {
	out := n.withoutOperation(have)
	for _, file := range desired.Files {
		at := slices.IndexFunc(out.Files, func(f plan.File) bool { return f.Path == file.Path })
		switch {
		case !file.Dynamic:
		case at < 0:
			out.Files = append(out.Files, file)
		case out.Files[at].Dynamic:
			out.Files[at] = file
		}
	}
	if OperationOf(have) == "" {
		return out
	}
	out.Probes, out.Instructions = desired.Probes, slices.Clone(desired.Instructions)
	for i := range out.Instructions {
		if out.Instructions[i].Name == InstallInstruction {
			out.Instructions[i].Env = installEnv(have)
		}
	}
	return out
}

// parked is an install instruction that installs nothing. It tells what the node has.
func (n Node) parked(have plan.NodePlan) plan.OneTimeInstruction {
	instruction := plan.OneTimeInstruction{CommonInstruction: plan.CommonInstruction{
		Name: InstallInstruction, Command: "/bin/sh", Args: []string{"-c", "exit 0"},
	}}
	if n.Windows {
		instruction.Command, instruction.Args = "powershell.exe", []string{"-Command", "exit 0"}
	}
	instruction.Env = installEnv(have)
	return instruction
}

// withoutOperation drops files and periodic instructions of an operation, and shares no slices with the plan it is made of.
func (n Node) withoutOperation(p plan.NodePlan) plan.NodePlan {
	p.Files = slices.DeleteFunc(slices.Clone(p.Files), func(f plan.File) bool { return n.OfOperation(f.Path) })
	p.PeriodicInstructions = slices.DeleteFunc(slices.Clone(p.PeriodicInstructions),
		func(i plan.PeriodicInstruction) bool { return i.Name == SecretsEncryptStatus })
	return p
}

// installEnv is the environment of a plan's install instruction, without the mark of an operation.
func installEnv(p plan.NodePlan) []string {
	for _, instruction := range p.Instructions {
		if instruction.Name == InstallInstruction {
			return slices.DeleteFunc(slices.Clone(instruction.Env), func(env string) bool {
				return strings.HasPrefix(env, envOperation+"=") || strings.HasPrefix(env, envAttempt+"=")
			})
		}
	}
	return nil
}

// OperationOf is the name of the operation that a plan carries, empty when it is an ordinary one.
func OperationOf(p plan.NodePlan) string {
	for _, instruction := range p.Instructions {
		for _, env := range instruction.Env {
			if name, ok := strings.CutPrefix(env, envOperation+"="); ok && instruction.Name == InstallInstruction {
				return name
			}
		}
	}
	return ""
}

// SameInstallation reports that a node with one plan needs no restart for the other, whatever operations they carry.
func SameInstallation(a, b plan.NodePlan) bool {
	stamps := StampsOf(a)
	return stamps.Restart != "" && slices.Equal(installEnv(a), installEnv(b))
}

// OfOperation reports that a file belongs to an operation, by where it lies.
func (n Node) OfOperation(file string) bool { return strings.HasPrefix(file, n.Dirs.Data+"/capr/") }

// OperationDir is where an operation keeps its scripts on a node.
func (n Node) OperationDir(operation string) string {
	return path.Join(n.Dirs.Data, "capr", operation, "bin")
}

// script is a file of an operation.
func (n Node) script(operation, name, content string) plan.File {
	return plan.File{
		Path: path.Join(n.OperationDir(operation), name), Content: base64.StdEncoding.EncodeToString([]byte(content)), Dynamic: true,
	}
}

func (n Node) idempotentScript() plan.File {
	file := plan.File{Path: n.Dirs.IdempotentScript(), Content: base64.StdEncoding.EncodeToString([]byte(idempotentShell)), Dynamic: true, Minor: true}
	if n.Windows {
		file.Path, file.Content = distro.WindowsIdempotentScript, base64.StdEncoding.EncodeToString([]byte(idempotentPowerShell))
	}
	return file
}

// bounded runs a program for a limited time: an agent does one thing after the other, so what never ends blocks the node.
func bounded(seconds int, args ...string) Command {
	return Command{Name: "timeout", Args: append([]string{strconv.Itoa(seconds)}, args...)}
}

// Limits of commands, in seconds.
const (
	restartSeconds = 900
	commandSeconds = 600
	restoreSeconds = 3000
)

// boundedRestart restarts the distribution once, and gives up on a service that does not come up.
func (n Node) boundedRestart(identifier, value string) []plan.OneTimeInstruction {
	pair := n.Restart(identifier, value)
	if !n.Windows {
		pair[len(pair)-1] = n.Idempotent(identifier+"-restart", value, bounded(restartSeconds, "systemctl", "restart", n.Unit()))
	}
	return pair
}

// StartWork starts the distribution where it does not run. An operation that stops it and then fails, or is taken back, would
// leave the node down for good: the plan that follows has the stamp that the node knows already.
func (n Node) StartWork(attempt string) Work {
	start := plan.CommonInstruction{Name: "start", Command: "timeout", Args: []string{strconv.Itoa(restartSeconds), "systemctl", "start", n.Unit()}}
	if n.Windows {
		start.Command, start.Args = "powershell.exe", []string{"-Command", "start-service " + distro.WindowsService}
	}
	return Work{Operation: OperationStart, Attempt: attempt, Instructions: []plan.OneTimeInstruction{{CommonInstruction: start}}}
}

// removeManifests takes away the manifests of charts that come with RKE2, so that it writes them anew.
func (n Node) removeManifests() Command {
	return Command{Name: "/bin/sh", Args: []string{"-c", "rm -rf " + n.Dirs.Data + "/server/manifests/rke2-*.yaml"}}
}

// etcdHealthy fails unless the node's etcd can commit, for which a majority of members must be well. It comes before what
// stops a member: the server's view may be old, the node's is not.
func (n Node) etcdHealthy(identifier, value string) plan.OneTimeInstruction {
	return n.Idempotent(identifier+"/etcd-healthy", value, Command{Name: "/bin/sh", Args: []string{"-c", fmt.Sprintf(
		"for i in $(seq 12); do curl -sf -m 5 http://%s:%d/health && exit 0; sleep 5; done; echo etcd is not healthy; exit 1",
		n.Loopback, distro.EtcdHealthPort)}})
}

// configOf is the main configuration in a plan, nil when it has none.
func (n Node) configOf(p plan.NodePlan) map[string]any {
	var config map[string]any
	for _, file := range p.Files {
		if file.Path == n.Runtime.ConfigFile() && json.Unmarshal(decoded(file.Content), &config) != nil {
			return nil
		}
	}
	return config
}
