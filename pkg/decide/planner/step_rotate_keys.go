package planner

import (
	"fmt"
	"slices"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// featureKeyRotation is the name of the feature in release data that says that a version can rotate encryption keys.
const featureKeyRotation = "encryption-key-rotation"

// hintRestore is the advice when a rotation of keys fails halfway (docs/wire/planner.md#encryption-key-rotation).
const hintRestore = "servers may disagree about keys, perform an etcd restore"

// Stages of a rotation as the distribution reports them (docs/wire/planner.md#encryption-key-rotation).
const stageFinished = "reencrypt_finished"

// keyCommand is the command that the leader runs in a phase. stages are the stages that may follow it.
type keyCommand struct {
	command string
	stages  []string
}

var keyCommands = map[rkev1.RotateEncryptionKeysPhase]keyCommand{
	rkev1.RotateEncryptionKeysPhasePrepare:   {"prepare", []string{"prepare"}},
	rkev1.RotateEncryptionKeysPhaseRotate:    {"rotate", []string{"rotate"}},
	rkev1.RotateEncryptionKeysPhaseReencrypt: {"reencrypt", []string{"reencrypt_request", "reencrypt_active", stageFinished}},
}

// keyPhases in their order (docs/wire/planner.md#encryption-key-rotation). Each of them can end in Failed.
var keyPhases = []rkev1.RotateEncryptionKeysPhase{
	rkev1.RotateEncryptionKeysPhasePrepare,
	rkev1.RotateEncryptionKeysPhasePostPrepareRestart,
	rkev1.RotateEncryptionKeysPhaseRotate,
	rkev1.RotateEncryptionKeysPhasePostRotateRestart,
	rkev1.RotateEncryptionKeysPhaseReencrypt,
	rkev1.RotateEncryptionKeysPhasePostReencryptRestart,
	rkev1.RotateEncryptionKeysPhaseDone,
}

// stepRotateKeys gives the cluster a new key to encrypt Secrets with (docs/wire/planner.md#encryption-key-rotation).
// One server, the leader, runs the commands. After each command all servers restart, one after the other, to learn the
// result.
func stepRotateKeys(p *pass) verdict {
	o := &operation{pass: p, kind: kindKeys, setFailed: func() { p.status.RotateEncryptionKeysPhase = rkev1.RotateEncryptionKeysPhaseFailed }}
	request, status := p.s.ControlPlane.Spec.RotateEncryptionKeys, &p.status
	phase := status.RotateEncryptionKeysPhase
	if request == nil {
		o.cancel()
		status.RotateEncryptionKeys, status.RotateEncryptionKeysPhase, status.RotateEncryptionKeysLeader = nil, "", ""
		return goOn("no rotation of encryption keys is asked for")
	}
	if i := slices.Index(keyPhases[:len(keyPhases)-1], phase); i >= 0 && p.isRunning(kindKeys) {
		return o.rotateKeys(phase, keyPhases[i+1])
	}
	switch {
	case p.keysEnded():
		return goOn("the rotation of encryption keys that is asked for has ended: " + string(phase))
	case request.Generation <= 0:
		return goOn("no rotation of encryption keys is asked for")
	}
	if why := p.keysNotNow(); why != "" {
		return goOn("a rotation of encryption keys is asked for, " + why)
	}
	status.RotateEncryptionKeys, status.RotateEncryptionKeysLeader = request.DeepCopy(), ""
	status.RotateEncryptionKeysPhase = rkev1.RotateEncryptionKeysPhasePrepare
	return o.start(request)
}

// keysEnded reports that the requested rotation is done or has failed.
func (p *pass) keysEnded() bool {
	request, last, phase := p.s.ControlPlane.Spec.RotateEncryptionKeys, p.status.RotateEncryptionKeys, p.status.RotateEncryptionKeysPhase
	return last != nil && *last == *request && (phase == rkev1.RotateEncryptionKeysPhaseDone || phase == rkev1.RotateEncryptionKeysPhaseFailed)
}

// keysNotNow is why a rotation cannot start now. Every server must follow each step, so all must be in order.
func (p *pass) keysNotNow() string {
	switch {
	case !p.initialized():
		return "but the cluster is not up"
	case !conditions.IsTrue(p.status.Conditions, rkev1.ConditionReady):
		return "it waits for the cluster to be ready"
	}
	return p.rotatesLater(kindKeys)
}

// knowsKeys reports that the cluster's version can rotate encryption keys, as far as is known.
func (p *pass) knowsKeys() bool {
	features := p.s.Release.Features
	return len(features) == 0 || features[featureKeyRotation] != ""
}

// rotateKeys works on one phase.
func (o *operation) rotateKeys(phase, then rkev1.RotateEncryptionKeysPhase) verdict {
	if phase == keyPhases[0] && !o.knowsKeys() {
		return o.fail("version " + o.s.ControlPlane.Spec.KubernetesVersion + " cannot rotate encryption keys")
	}
	if v := o.pause(); v != nil {
		return *v
	}
	leader, v := o.keyLeader(phase)
	if v != nil {
		return *v
	}
	if phase != keyPhases[0] || render.OperationOf(leader.Plan.State.Plan) != "" {
		o.hint = hintRestore
	}
	if command, ok := keyCommands[phase]; ok {
		v = o.runKeyCommand(phase, command, leader)
	} else {
		v = o.restartForKeys(phase, leader)
	}
	if v != nil {
		return *v
	}
	o.status.RotateEncryptionKeysPhase = then
	if then == rkev1.RotateEncryptionKeysPhaseDone {
		o.status.RotateEncryptionKeysLeader = ""
		return o.succeed("")
	}
	return o.next(string(phase) + " is done")
}

// keyLeader is the machine that runs the commands: the init node if it has an API server, else the first ready server.
// It is chosen once, because only the leader knows the results of its commands.
func (o *operation) keyLeader(phase rkev1.RotateEncryptionKeysPhase) (*machine, *verdict) {
	name := o.status.RotateEncryptionKeysLeader
	servers := o.keyServers()
	if i := slices.IndexFunc(servers, func(m *machine) bool { return m.Name == name }); i >= 0 {
		return servers[i], nil
	}
	if name != "" {
		v := o.fail(fmt.Sprintf("leader %s is gone in phase %s", name, phase))
		return nil, &v
	}
	leader := o.electKeyLeader()
	if leader == nil {
		v := o.await("Prepare: leader", stepDeadline, "waiting for a control plane machine that can be leader", WakeMachine, WakePlanSecret)
		return nil, &v
	}
	o.status.RotateEncryptionKeysLeader = leader.Name
	v := o.next(fmt.Sprintf("elected %s as control plane leader for encryption key rotation", leader.Name))
	return nil, &v
}

// keyServers are the control-plane machines that take part and have a node.
func (p *pass) keyServers() []*machine {
	return p.collect(isControlPlane, takesPart, func(m *machine) bool { return m.HasNode })
}

// electKeyLeader is the machine that would become leader now, nil when there is none.
func (p *pass) electKeyLeader() *machine {
	servers := slices.DeleteFunc(p.keyServers(), func(m *machine) bool { return m.Health.Failing || m.Health.NotReady })
	if len(servers) == 0 {
		return nil
	}
	return servers[max(0, slices.IndexFunc(servers, func(m *machine) bool { return m.marks.InitNode }))]
}

// runKeyCommand runs one command on the leader, and checks its effect.
func (o *operation) runKeyCommand(phase rkev1.RotateEncryptionKeysPhase, command keyCommand, leader *machine) *verdict {
	attempt := o.attempt() + "/" + string(phase)
	step := string(phase) + ": " + leader.Name
	t := task{m: leader, plan: o.work(leader, o.node(leader).SecretsEncryptWork(command.command, command.stages, attempt)), attempts: commandAttempts}
	if v := o.judge(step, stepDeadline, o.assign(t)); v != nil {
		return v
	}
	stage := leader.rotationStage(attempt)
	var v verdict
	switch {
	case stage == "":
		v = o.await(step, stepDeadline, step+": waiting for encryption key rotation status", WakePlanSecret)
	case !slices.Contains(command.stages, stage):
		v = o.fail(fmt.Sprintf("%s: rotation is at stage %s after %s", step, stage, command.command))
	case phase == rkev1.RotateEncryptionKeysPhaseReencrypt && stage != stageFinished &&
		render.RotationStage(leader.output(render.SecretsEncryptStatus), attempt) != stageFinished:
		v = o.await(step+" stage", restartDeadline, step+": waiting for encryption key rotation stage to be finished", WakePlanSecret)
	default:
		return nil
	}
	return &v
}

// rotationStage is the stage that the machine printed in its last run of the plan for an attempt.
func (m *machine) rotationStage(attempt string) string {
	return render.RotationStage(string(m.Plan.State.Output[render.SecretsEncryptStatus]), attempt)
}

// restartForKeys restarts the servers one after the other: the servers that the leader depends on, the leader, and the
// followers. Each follower must reach the leader's stage.
func (o *operation) restartForKeys(phase rkev1.RotateEncryptionKeysPhase, leader *machine) *verdict {
	before, followers := o.aroundLeader(leader)
	attempt := o.attempt() + "/" + string(phase)
	v := o.oneByOne(string(phase), append(before, leader), func(m *machine) (task, string) { return o.keyRestart(m, phase, "", attempt), "" })
	if v != nil {
		return v
	}
	stage := leader.rotationStage(attempt)
	if stage == "" {
		v := o.await(string(phase)+": stage", stepDeadline, string(phase)+": "+leader.Name+": waiting for encryption key rotation status", WakePlanSecret)
		return &v
	}
	return o.oneByOne(string(phase), followers, func(m *machine) (task, string) {
		t := o.keyRestart(m, phase, stage, attempt)
		if own := m.rotationStage(attempt); own != "" && own != stage {
			return t, fmt.Sprintf("rotation is at stage %s, on leader %s it is at %s", own, leader.Name, stage)
		}
		return t, ""
	})
}

// aroundLeader are the servers that restart before the leader, and those that restart after it, in order.
func (p *pass) aroundLeader(leader *machine) (before, followers []*machine) {
	if !leader.marks.InitNode {
		before = p.collect(takesPart, func(m *machine) bool { return m.marks.InitNode && m.roles.Server() })
		before = append(before, p.collect(takesPart, notInit, func(m *machine) bool { return m.roles.OnlyETCD() })...)
	}
	return before, p.collect(takesPart, isControlPlane, notInit, func(m *machine) bool { return m != leader })
}

func (o *operation) keyRestart(m *machine, phase rkev1.RotateEncryptionKeysPhase, stage, attempt string) task {
	work := o.node(m).RestartForKeysWork(m.roles, string(phase), stage, attempt)
	return task{m: m, plan: o.work(m, work), attempts: restartAttempts, disrupts: true, proves: true}
}
