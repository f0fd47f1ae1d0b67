package planner

import (
	"fmt"
	"slices"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

const (
	// featureKeyRotation is a feature in release data: the version can rotate encryption keys.
	featureKeyRotation = "encryption-key-rotation"
	// hintRestore is the advice when a rotation fails halfway (docs/wire/planner.md#encryption-key-rotation).
	hintRestore = "servers may disagree about keys, perform an etcd restore"
	// stageFinished is the last stage that the distribution reports.
	stageFinished = "reencrypt_finished"

	msgNoLeader = "waiting for a control plane machine that can be leader"
	msgNoStage  = "waiting for encryption key rotation status"
)

// keyPhase is a phase of a rotation of keys.
type keyPhase struct {
	name    rkev1.RotateEncryptionKeysPhase
	command string   // what the leader runs, empty in a phase in which the servers restart
	stages  []string // that may follow the command
}

// keyPhases in their order (docs/wire/planner.md#encryption-key-rotation). Done follows. Each can end in Failed.
var keyPhases = []keyPhase{
	{rkev1.RotateEncryptionKeysPhasePrepare, "prepare", []string{"prepare"}},
	{name: rkev1.RotateEncryptionKeysPhasePostPrepareRestart},
	{rkev1.RotateEncryptionKeysPhaseRotate, "rotate", []string{"rotate"}},
	{name: rkev1.RotateEncryptionKeysPhasePostRotateRestart},
	{rkev1.RotateEncryptionKeysPhaseReencrypt, "reencrypt", []string{
		"reencrypt_request", "reencrypt_active", stageFinished,
	}},
	{name: rkev1.RotateEncryptionKeysPhasePostReencryptRestart},
}

// keyRotation gives the cluster a new key to encrypt Secrets with (docs/wire/planner.md#encryption-key-rotation). One
// server, the leader, runs the commands. After each command all servers restart, one after the other, to learn the
// result.
type keyRotation struct{ *operation }

func (o keyRotation) state() (requestState, string) {
	switch {
	case o.spec().RotateEncryptionKeys == nil:
		return requestAbsent, ""
	case o.isRunning() && o.phase() >= 0:
		return requestRunning, ""
	case o.hasEnded():
		return requestEnded, "has ended: " + string(o.status.RotateEncryptionKeysPhase)
	case o.spec().RotateEncryptionKeys.Generation <= 0:
		return requestEmpty, ""
	}
	return requestNew, o.heldUp()
}

func (o keyRotation) begin() any {
	o.status.RotateEncryptionKeys, o.status.RotateEncryptionKeysLeader = o.spec().RotateEncryptionKeys.DeepCopy(), ""
	o.status.RotateEncryptionKeysPhase = keyPhases[0].name
	return o.spec().RotateEncryptionKeys
}

// phase is the index of the current phase, -1 when there is none.
func (o keyRotation) phase() int {
	return slices.IndexFunc(keyPhases, func(p keyPhase) bool { return p.name == o.status.RotateEncryptionKeysPhase })
}

// hasEnded reports that the requested rotation is done or has failed.
func (o keyRotation) hasEnded() bool {
	last, phase := o.status.RotateEncryptionKeys, o.status.RotateEncryptionKeysPhase
	return last != nil && *last == *o.spec().RotateEncryptionKeys &&
		(phase == rkev1.RotateEncryptionKeysPhaseDone || phase == rkev1.RotateEncryptionKeysPhaseFailed)
}

// heldUp is why a rotation cannot start now. Every server must follow each step, so all must be in order.
func (o keyRotation) heldUp() string {
	switch {
	case !o.initialized():
		return "but the cluster is not up"
	case !conditions.IsTrue(o.status.Conditions, rkev1.ConditionReady):
		return "it waits for the cluster to be ready"
	}
	return o.rotationHeldUp()
}

// problem is why the cluster's version cannot rotate encryption keys, empty when it can, as far as is known.
func (o keyRotation) problem() string {
	if features := o.s.Release.Features; len(features) == 0 || features[featureKeyRotation] != "" {
		return ""
	}
	return "version " + o.spec().KubernetesVersion + " cannot rotate encryption keys"
}

// work works on one phase.
func (o keyRotation) work() verdict {
	if !o.restartsIn(&o.status) {
		return o.finish()
	}
	i := o.phase()
	phase := keyPhases[i]
	if problem := o.problem(); i == 0 && problem != "" {
		return o.fail(problem)
	}
	if v := o.pause(); v.stop {
		return v
	}
	leader, v := o.leader(phase)
	if v.stop {
		return v
	}
	if i > 0 || render.OperationOf(leader.Plan.State.Plan) != "" {
		o.hint = hintRestore
	}
	if phase.command != "" {
		v = o.runCommand(phase, leader)
	} else {
		v = o.restart(phase, leader)
	}
	switch {
	case v.stop:
		return v
	case i < len(keyPhases)-1:
		o.status.RotateEncryptionKeysPhase = keyPhases[i+1].name
		return o.next(string(phase.name) + " is done")
	}
	return o.finish()
}

// finish ends the rotation when the nodes of the servers are ready.
func (o keyRotation) finish() verdict {
	v, unready := o.awaitNodes(o.collect(takesPart, func(m *machine) bool { return m.roles.Server() }))
	if v.stop {
		return v
	}
	o.status.RotateEncryptionKeysPhase, o.status.RotateEncryptionKeysLeader = rkev1.RotateEncryptionKeysPhaseDone, ""
	return o.succeed(unready)
}

// leader is the machine that runs the commands: the init node if it has an API server, else the first ready server. It
// is chosen once, because only the leader knows the results of its commands.
func (o keyRotation) leader(phase keyPhase) (*machine, verdict) {
	leader, name := o.elected(), o.status.RotateEncryptionKeysLeader
	switch {
	case leader != nil:
		return leader, verdict{}
	case name != "":
		return nil, o.fail(fmt.Sprintf("leader %s is gone in phase %s", name, phase.name))
	}
	if leader = o.candidate(); leader == nil {
		return nil, o.await("Prepare: leader", stepDeadline, msgNoLeader, WakeMachine, WakePlanSecret)
	}
	o.status.RotateEncryptionKeysLeader = leader.Name
	return nil, o.next(fmt.Sprintf("elected %s as control plane leader for encryption key rotation", leader.Name))
}

// elected is the leader, nil when it was not chosen yet or is gone.
func (o keyRotation) elected() *machine {
	for _, m := range o.servers() {
		if m.Name == o.status.RotateEncryptionKeysLeader {
			return m
		}
	}
	return nil
}

// servers are the control-plane machines that take part and have a node.
func (o keyRotation) servers() []*machine {
	return o.collect(isControlPlane, takesPart, func(m *machine) bool { return m.HasNode })
}

// candidate is the machine that would become leader now, nil when there is none.
func (o keyRotation) candidate() *machine {
	servers := slices.DeleteFunc(o.servers(), func(m *machine) bool { return m.Health.Failing || m.Health.NotReady })
	if len(servers) == 0 {
		return nil
	}
	return servers[max(0, slices.IndexFunc(servers, func(m *machine) bool { return m.marks.InitNode }))]
}

// runCommand runs the command of a phase on the leader, and checks its effect.
func (o keyRotation) runCommand(phase keyPhase, leader *machine) verdict {
	attempt, step := o.attemptOf(phase), string(phase.name)+": "+leader.Name
	work := o.node(leader).SecretsEncryptWork(phase.command, phase.stages, attempt)
	r := o.assign(task{m: leader, plan: o.withWork(leader, work), attempts: commandAttempts})
	if v := o.judge(step, stepDeadline, r); v.stop {
		return v
	}
	stage := leader.rotationStage(attempt)
	switch {
	case stage == "":
		return o.await(step, stepDeadline, step+": "+msgNoStage, WakePlanSecret)
	case !slices.Contains(phase.stages, stage):
		return o.fail(fmt.Sprintf("%s: rotation is at stage %s after %s", step, stage, phase.command))
	case phase.name == rkev1.RotateEncryptionKeysPhaseReencrypt && stage != stageFinished &&
		render.RotationStage(leader.output(render.SecretsEncryptStatus), attempt) != stageFinished:
		message := step + ": waiting for encryption key rotation stage to be finished"
		return o.await(step+" stage", restartDeadline, message, WakePlanSecret)
	}
	return verdict{}
}

// attemptOf identifies the run of a phase on nodes.
func (o keyRotation) attemptOf(phase keyPhase) string { return o.attempt() + "/" + string(phase.name) }

// rotationStage is the stage that the machine printed in its last run of the plan for an attempt.
func (m *machine) rotationStage(attempt string) string {
	return render.RotationStage(string(m.Plan.State.Output[render.SecretsEncryptStatus]), attempt)
}

// restart restarts the servers one after the other: the servers that the leader depends on, the leader, and the
// followers. Each follower must reach the leader's stage.
func (o keyRotation) restart(phase keyPhase, leader *machine) verdict {
	before, followers := o.aroundLeader(leader)
	name := string(phase.name)
	v := o.oneByOne(name, append(before, leader), func(m *machine) task { return o.restartTask(m, phase, "") })
	if v.stop {
		return v
	}
	stage := leader.rotationStage(o.attemptOf(phase))
	if stage == "" {
		return o.await(name+": stage", stepDeadline, name+": "+leader.Name+": "+msgNoStage, WakePlanSecret)
	}
	return o.oneByOne(name, followers, func(m *machine) task {
		t := o.restartTask(m, phase, stage)
		if own := m.rotationStage(o.attemptOf(phase)); own != "" && own != stage {
			t.problem = fmt.Sprintf("rotation is at stage %s, on leader %s it is at %s", own, leader.Name, stage)
		}
		return t
	})
}

// aroundLeader are the servers that restart before the leader, and those that restart after it, in order.
func (o keyRotation) aroundLeader(leader *machine) (before, followers []*machine) {
	if !leader.marks.InitNode {
		before = o.collect(takesPart, func(m *machine) bool { return m.marks.InitNode && m.roles.Server() })
		before = append(before, o.collect(takesPart, notInit, func(m *machine) bool { return m.roles.OnlyETCD() })...)
	}
	return before, o.collect(takesPart, isControlPlane, notInit, func(m *machine) bool { return m != leader })
}

func (o keyRotation) restartTask(m *machine, phase keyPhase, stage string) task {
	work := o.node(m).RestartForKeysWork(m.roles, string(phase.name), stage, o.attemptOf(phase))
	return task{m: m, plan: o.withWork(m, work), attempts: restartAttempts, disrupts: true, proves: true}
}
