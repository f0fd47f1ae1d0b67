package render

import (
	_ "embed" // the scripts that nodes run
	"path"
	"strings"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
)

//go:embed scripts/secrets_encrypt_status.sh
var secretsEncryptStatusScript string

//go:embed scripts/secrets_encrypt_step.sh
var secretsEncryptStepScript string

//go:embed scripts/wait_for.sh
var waitForScript string

// SecretsEncryptStatus is the name of the one-time and periodic instructions that print the status of secrets
// encryption.
const SecretsEncryptStatus = "secrets-encrypt-status"

const (
	// keysKey names the rotation of encryption keys in a node's records and directories. It is part of the wire format
	// (docs/wire/planner.md#encryption-key-rotation).
	keysKey = "encryption-key-rotation"
	// statusPeriod is the period of the periodic instruction, in seconds
	// (docs/wire/planner.md#encryption-key-rotation).
	statusPeriod = 5
	// containerdEndpoint is the address of the distributions' containerd.
	containerdEndpoint = "CONTAINER_RUNTIME_ENDPOINT=unix:///var/run/k3s/containerd/containerd.sock"
)

// SecretsEncryptWork runs one command of a rotation: prepare, rotate or reencrypt
// (docs/wire/planner.md#encryption-key-rotation). reached are the stages that show that it has already succeeded.
func (n Node) SecretsEncryptWork(command string, reached []string, attempt string) Work {
	step := n.script(keysKey, "secrets_encrypt_step.sh", secretsEncryptStepScript)
	args := append([]string{step.Path, n.Runtime.Command(), command}, reached...)
	file, status := n.secretsEncryptStatus(attempt, "")
	return Work{
		Operation: OperationKeys,
		Attempt:   attempt,
		Files:     []plan.File{step, file},
		Instructions: []plan.OneTimeInstruction{
			n.Idempotent(keysKey+"/"+command, attempt,
				Command{Name: "/bin/sh", Args: args, Env: []string{n.dataDirEnv()}}),
			{CommonInstruction: status, SaveOutput: true},
		},
		Periodic: []plan.PeriodicInstruction{{CommonInstruction: status, PeriodSeconds: statusPeriod}},
	}
}

// RestartForKeysWork restarts a server so that it follows the rotation (docs/wire/planner.md#encryption-key-rotation).
// phase distinguishes the restarts of one rotation, and stage is what a follower must reach.
func (n Node) RestartForKeysWork(roles Roles, phase, stage, attempt string) Work {
	wait := n.script(keysKey, "wait_for_systemctl_status.sh", waitForScript)
	work := Work{Operation: OperationKeys, Attempt: attempt, Files: []plan.File{wait}}
	add := func(instructions ...plan.OneTimeInstruction) {
		work.Instructions = append(work.Instructions, instructions...)
	}
	if roles.ETCD {
		add(n.etcdHealthy(keysKey+"/"+phase, attempt))
	}
	if n.Runtime == distro.RKE2 {
		add(n.Idempotent(keysKey+"/manifest-cleanup/"+phase, attempt, n.removeManifests()))
	}
	add(n.boundedRestart(keysKey+"/restart/"+phase, attempt)...)
	add(plan.OneTimeInstruction{CommonInstruction: plan.CommonInstruction{
		Name: "wait-for-systemctl-status", Env: []string{containerdEndpoint},
		Command: "/bin/sh", Args: []string{wait.Path, "systemctl", "is-active", n.Unit()},
	}})
	if roles.ControlPlane {
		file, status := n.secretsEncryptStatus(attempt, stage)
		work.Files = append(work.Files, file)
		add(plan.OneTimeInstruction{CommonInstruction: status, SaveOutput: true})
	}
	return work
}

func (n Node) secretsEncryptStatus(attempt, stage string) (plan.File, plan.CommonInstruction) {
	file := n.script(keysKey, "secrets_encrypt_status.sh", secretsEncryptStatusScript)
	args := []string{path.Clean(file.Path), n.Runtime.Command(), attempt}
	if stage != "" {
		args = append(args, stage)
	}
	return file, plan.CommonInstruction{Name: SecretsEncryptStatus, Command: "/bin/sh", Args: args,
		Env: []string{containerdEndpoint, n.dataDirEnv()}}
}

// RotationStage reads the stage of a rotation from the output of [SecretsEncryptStatus] for an attempt. It is empty
// when the output belongs to another attempt, because agents keep the output of former plans.
func RotationStage(output, attempt string) string {
	mine := false
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if value, ok := strings.CutPrefix(line, "Attempt: "); ok {
			mine = value == attempt
		}
		if stage, ok := strings.CutPrefix(line, "Current Rotation Stage:"); ok && mine {
			return strings.TrimSpace(stage)
		}
	}
	return ""
}
