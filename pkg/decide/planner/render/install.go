package render

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
)

// InstallInstruction is the name of the instruction that installs and restarts the distribution. Its stamps show
// whether a plan restarts or drains the node.
const InstallInstruction = "install"

const (
	envRestartStamp = "RESTART_STAMP"
	envDrainHash    = "DRAIN_HASH"
)

// Stamps are the two hashes in a plan's install instruction; empty when the plan has none.
type Stamps struct {
	// Restart changes exactly when the node's service has to restart.
	Restart string
	// Drain changes when the node has to be drained first. Another join server causes a restart without a drain.
	Drain string
}

// StampsOf reads the stamps of a plan.
func StampsOf(p plan.NodePlan) Stamps {
	var stamps Stamps
	for _, instruction := range p.Instructions {
		if instruction.Name != InstallInstruction {
			continue
		}
		for _, env := range instruction.Env {
			name, value, _ := strings.Cut(env, "=")
			switch name {
			case envRestartStamp:
				stamps.Restart = value
			case envDrainHash:
				stamps.Drain = value
			}
		}
	}
	return stamps
}

// installerImage is the image with the installer of the Kubernetes version, from the private registry if there is one.
func (m *machinePlan) installerImage() string {
	return InstallerImage(m.in.Settings.InstallerImage, m.privateRegistry().host, m.spec.KubernetesVersion)
}

// InstallerImage is the image with the installer of a Kubernetes version. prefix is that of the settings, and registry
// is a private one; both may be empty.
func InstallerImage(prefix, registry, kubernetesVersion string) string {
	image := cmp.Or(prefix, DefaultInstallerImage) + string(distro.RuntimeOf(kubernetesVersion)) + ":" +
		strings.ReplaceAll(kubernetesVersion, "+", "-")
	return resolveImage(registry, image)
}

// install must run after all files, because its stamps cover them.
func (m *machinePlan) install() error {
	image := m.installerImage()
	stamps := m.stamps(image)
	instruction := plan.OneTimeInstruction{CommonInstruction: plan.CommonInstruction{
		Name: InstallInstruction, Image: image, Command: "sh", Args: []string{"-c", "run.sh"},
		Env: []string{envRestartStamp + "=" + stamps.Restart, envDrainHash + "=" + stamps.Drain},
	}}
	prefix := m.runtime.EnvPrefix()
	for _, env := range m.spec.AgentEnvVars {
		if env.Value != "" {
			instruction.Env = append(instruction.Env, env.Name+"="+env.Value)
		}
	}
	for _, name := range removedVariables(m) {
		instruction.Env = append(instruction.Env, name+"=")
	}
	instruction.Env = append(instruction.Env, prefix+"_DATA_DIR="+m.dirs.Data)
	if m.roles.OnlyWorker() {
		instruction.Env = append(instruction.Env, "INSTALL_"+prefix+"_EXEC=agent")
	}
	m.out.Instructions = append(m.out.Instructions, instruction)
	return nil
}

// stamps hashes what a restart depends on: two generations, the installer image, and path and content of the files that
// are not dynamic, in order. The hashes are part of the wire format: another hash for the same input restarts every
// node.
func (m *machinePlan) stamps(image string) Stamps {
	restart, drain := sha256.New(), sha256.New()
	both := func(text string) {
		restart.Write([]byte(text))
		drain.Write([]byte(text))
	}
	both(strconv.Itoa(m.spec.ProvisionGeneration))
	both(image)
	for _, file := range m.out.Files {
		if file.Dynamic {
			continue
		}
		both(file.Path)
		restart.Write([]byte(file.Content))
		if file.Path == m.runtime.ConfigFile() {
			drain.Write(m.drainConfig)
		} else {
			drain.Write([]byte(file.Content))
		}
	}
	both(strconv.FormatInt(m.in.ControlPlane.ConfigGeneration, 10))
	return Stamps{Restart: hex.EncodeToString(restart.Sum(nil)), Drain: hex.EncodeToString(drain.Sum(nil))}
}

// fileIdempotentScript delivers the script of [Idempotent] instructions before an operation needs it.
func (m *machinePlan) fileIdempotentScript() error {
	m.addFile(NodeOf(m.in).idempotentScript())
	return nil
}
