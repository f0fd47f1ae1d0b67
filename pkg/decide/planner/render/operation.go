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
	"github.com/drover-io/drover/pkg/decide/naming"
)

// Marks on the install instruction of a plan with an operation.
const (
	envOperation = "DROVER_OPERATION"
	// envAttempt makes the plans of two attempts different, so that an agent's report belongs to one of them.
	envAttempt = "DROVER_ATTEMPT"
)

// Operations that identify plans, see [OperationOf]. Those of a restore are in etcdrestore.go.
const (
	OperationSnapshot     = "etcd-snapshot-create"
	OperationCertificates = "rotate-certificates"
	OperationKeys         = "rotate-encryption-keys"
	// OperationStart repairs a node after an operation that ended halfway.
	OperationStart = "start"
)

// Work is what an operation does on a node.
type Work struct {
	// Operation is the name that identifies the plan, see [OperationOf].
	Operation string
	// Attempt distinguishes the runs of one operation.
	Attempt string
	// Files are the files for the instructions, all below [Node.OperationDir].
	Files        []plan.File
	Instructions []plan.OneTimeInstruction
	Periodic     []plan.PeriodicInstruction
	// Down is true when the distribution does not run after the work, so that there is nothing to probe.
	Down bool
}

// Operation returns the node's plan with work in place of the installation. The node's configuration and version stay.
// The files stay, and the install instruction keeps its stamps but does nothing. The next real change is therefore
// detected, rolled out and drained for like any other.
func (n Node) Operation(have plan.NodePlan, work Work) plan.NodePlan {
	out := n.withoutOperation(have)
	if !slices.ContainsFunc(out.Files, func(f plan.File) bool { return f.Path == n.idempotentScript().Path }) {
		out.Files = append(out.Files, n.idempotentScript())
	}
	out.Instructions = []plan.OneTimeInstruction{n.parked(have)}
	return n.extend(out, work)
}

// Extend returns a plan that installs the distribution as desired and then does the work.
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
			p.Instructions[i].Env = append(slices.Clone(instruction.Env), envOperation+"="+work.Operation, envAttempt+
				"="+naming.SHA256(work.Attempt))
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

// Kept returns a desired plan in which everything that restarts the distribution is as in the node's plan. The node's
// plan may contain a finished operation. Files that restart nothing are added and changed as desired, and files that
// only the node has stay.
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

// parked is an install instruction that installs nothing. It keeps the stamps of the node's installation.
func (n Node) parked(have plan.NodePlan) plan.OneTimeInstruction {
	instruction := plan.OneTimeInstruction{CommonInstruction: plan.CommonInstruction{
		Name: InstallInstruction, Command: "/bin/sh", Args: []string{"-c", "exit 0"},
	}}
	instruction.Env = installEnv(have)
	return instruction
}

// withoutOperation drops an operation's files and periodic instructions. The result shares no slices with the given
// plan.
func (n Node) withoutOperation(p plan.NodePlan) plan.NodePlan {
	p.Files = slices.DeleteFunc(slices.Clone(p.Files), func(f plan.File) bool { return n.OfOperation(f.Path) })
	p.PeriodicInstructions = slices.DeleteFunc(slices.Clone(p.PeriodicInstructions),
		func(i plan.PeriodicInstruction) bool { return i.Name == SecretsEncryptStatus })
	return p
}

// installEnv is the environment of a plan's install instruction, without the marks of an operation.
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

// OperationOf is the name of a plan's operation, empty for an ordinary plan.
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

// SameInstallation reports whether a node with one plan needs no restart for the other, whatever their operations.
func SameInstallation(a, b plan.NodePlan) bool {
	stamps := StampsOf(a)
	return stamps.Restart != "" && slices.Equal(installEnv(a), installEnv(b))
}

// OfOperation reports whether a file belongs to an operation, by its path.
func (n Node) OfOperation(file string) bool { return strings.HasPrefix(file, n.Dirs.Data+"/capr/") }

// OperationDir is the directory of an operation's scripts on a node.
func (n Node) OperationDir(operation string) string {
	return path.Join(n.Dirs.Data, "capr", operation, "bin")
}

// script is a file of an operation.
func (n Node) script(operation, name, content string) plan.File {
	return plan.File{
		Path: path.Join(n.OperationDir(operation), name), Content: base64.StdEncoding.EncodeToString([]byte(content)),
		Dynamic: true,
	}
}

func (n Node) idempotentScript() plan.File {
	return dynamic(n.Dirs.IdempotentScript(), idempotentShell)
}

// bounded limits the time of a program. An agent runs one instruction after the other, so a program that never ends
// would block the node.
func bounded(seconds int, args ...string) Command {
	return Command{Name: "timeout", Args: append([]string{strconv.Itoa(seconds)}, args...)}
}

// Time limits of commands, in seconds.
const (
	restartSeconds = 900
	searchSeconds  = 360 // the distribution itself waits five minutes for S3
	commandSeconds = 600
	restoreSeconds = 3000
)

// boundedRestart restarts the distribution once, and fails if the service does not start in time.
func (n Node) boundedRestart(identifier, value string) []plan.OneTimeInstruction {
	pair := n.Restart(identifier, value)
	pair[len(pair)-1] = n.Idempotent(identifier+"-restart", value,
		bounded(restartSeconds, "systemctl", "restart", n.Unit()))
	return pair
}

// StartWork starts the distribution if it does not run. An operation may stop it and then fail or be withdrawn. The
// node would stay down, because the following plan has the stamp that the node already has.
func (n Node) StartWork(attempt string) Work {
	start := plan.CommonInstruction{Name: "start", Command: "timeout",
		Args: []string{strconv.Itoa(restartSeconds), "systemctl", "start", n.Unit()}}
	return Work{Operation: OperationStart, Attempt: attempt,
		Instructions: []plan.OneTimeInstruction{{CommonInstruction: start}}}
}

// removeManifests removes the manifests of RKE2's charts, so that RKE2 writes them again.
func (n Node) removeManifests() Command {
	return Command{Name: "/bin/sh", Args: []string{"-c", "rm -rf " + n.Dirs.Data + "/server/manifests/rke2-*.yaml"}}
}

// etcdHealthy fails unless the node's etcd can commit, which needs a majority of healthy members. It runs before a
// member is stopped. The server's view may be outdated; the node's is not.
func (n Node) etcdHealthy(identifier, value string) plan.OneTimeInstruction {
	return n.Idempotent(identifier+"/etcd-healthy", value, Command{Name: "/bin/sh", Args: []string{"-c", fmt.Sprintf(
		"for i in $(seq 12); do curl -sf -m 5 http://%s:%d/health && exit 0; sleep 5; done; echo etcd is not "+
			"healthy; exit 1",
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
