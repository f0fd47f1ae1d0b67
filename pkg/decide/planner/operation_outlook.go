package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// OperationOutlook is an operation that was requested and has not ended: it runs, or has not begun yet.
type OperationOutlook struct {
	// Field is the field of rkeConfig that requests it. Title is its name.
	Field, Title string
	// Request is the whole request. Another request is another operation.
	Request string
	// Class is the effect on each of its machines: InPlace or Restart.
	Class Class
	// Stages in their order. A machine may be in several stages.
	Stages []OperationStage
	// Running is true when it has begun. Stages are then what is left.
	Running bool
	// Held says why it does not begin now. Problem says why it would fail before it changes a machine. Stuck says why
	// it cannot go on after it has begun.
	Held, Problem, Stuck string
}

// OperationStage is a group of machines with the same part in an operation, in their order.
type OperationStage struct {
	Name, Pace string
	Machines   []string
}

// Touches reports that a machine takes part.
func (o OperationOutlook) Touches(machine string) bool {
	return slices.ContainsFunc(o.Stages, func(s OperationStage) bool { return slices.Contains(s.Machines, machine) })
}

// OperationFields are the fields of rkeConfig that request operations.
var OperationFields = []string{kindCreate.Field, kindRestore.Field, kindCertificates.Field, kindKeys.Field}

// OperationKind holds the names of a kind of operation, in objects and for users.
type OperationKind struct {
	// Field is the field of rkeConfig that requests it.
	Field string
	// Record is the name of its record in RKEControlPlane.status.operations, in tickets and on the CAPI cluster.
	// Condition is the condition of the RKEControlPlane that is True or False when it has ended.
	Record, Condition string
	Title             string
}

// The kinds of operations.
var (
	SnapshotOperation     = kindCreate.OperationKind
	RestoreOperation      = kindRestore.OperationKind
	CertificatesOperation = kindCertificates.OperationKind
	KeysOperation         = kindKeys.OperationKind
)

// OperationKinds returns all kinds of operations.
func OperationKinds() []OperationKind {
	return []OperationKind{SnapshotOperation, RestoreOperation, CertificatesOperation, KeysOperation}
}

// Paces of operations.
const (
	paceAtOnce = "all at once"
	paceOne    = "one at a time"
	paceTiers  = "tier by tier"
)

// operationsOf are the requested operations of a snapshot, in the planner's order. It uses its own pass, because
// operations come before all other decisions.
func operationsOf(s *Snapshot) []OperationOutlook {
	p := newPass(s)
	var out []OperationOutlook
	for _, k := range kinds {
		if o := k.of(newOperation(p, k)).outlook(); o != nil {
			o.Held = strings.TrimPrefix(o.Held, "but ")
			out = append(out, *o)
		}
	}
	return out
}

// requested is the outlook of a requested operation, without stages.
func (o *operation) requested(request any, runs bool) *OperationOutlook {
	return &OperationOutlook{Field: o.Field, Title: o.Title, Request: encoded(request), Class: o.class, Running: runs}
}

// stage is a stage with the machines, or no stage when there are none.
func (o *operation) stage(what, pace string, machines []*machine) []OperationStage {
	if len(machines) == 0 {
		return nil
	}
	stage := OperationStage{Name: o.Title + what, Pace: pace}
	for _, m := range machines {
		stage.Machines = append(stage.Machines, m.Name)
	}
	return []OperationStage{stage}
}

func (o snapshotCreation) outlook() *OperationOutlook {
	if o.spec().ETCDSnapshotCreate == nil || o.hasEnded() {
		return nil
	}
	out := o.requested(o.spec().ETCDSnapshotCreate, o.isRunning())
	out.Stages = o.stage("", paceAtOnce, o.members())
	if !out.Running {
		out.Held = o.heldUp()
	}
	return out
}

func (o restore) outlook() *OperationOutlook {
	state, held := o.state()
	if o.request() == nil || state != requestNew && state != requestRunning {
		return nil
	}
	out := o.requested(o.request(), state == requestRunning)
	if out.Held = held; out.Running && o.phase().data != dataInUse {
		o.describeRest(out)
		return out
	}
	o.status.ETCDSnapshotRestore = o.request().DeepCopy()
	on, problem := o.check()
	isHeld := problem == problemNoTarget
	if isHeld {
		problem = ""
	}
	switch problem = cmp.Or(problem, o.configurationProblem()); {
	case problem != "":
		out.Problem = problem
	case isHeld:
		out.Held = problemNoTarget
	default:
		out.Stages = o.stages(o.toStop(), on)
	}
	return out
}

// stages are the stages of a restore on a machine, beginning with the stop of machines.
func (o restore) stages(stop []*machine, on *machine) []OperationStage {
	others := o.byTier(func(m *machine) bool { return m != on && hasPlan(m) })
	return slices.Concat(o.stage(": stop", paceAtOnce, stop), o.stage(": restore and start", paceOne, []*machine{on}),
		o.stage(": start", paceTiers, others))
}

// byTier are the machines in the order in which a restore starts them.
func (o restore) byTier(is func(*machine) bool) []*machine {
	return slices.Concat(o.collect(isLive, isEtcd, is),
		o.collect(isLive, func(m *machine) bool { return m.roles.OnlyControlPlane() }, is),
		o.collect(isLive, func(m *machine) bool { return m.roles.OnlyWorker() }, is))
}

// describeRest describes what a restore still does after it has begun to stop machines. Drover checks the snapshot
// until it is restored on a machine. A failed check does not prevent the stop of the other machines.
func (o restore) describeRest(out *OperationOutlook) {
	phase := o.phase()
	if phase.data == dataGivenUp {
		stop := only(o.toStop(), func(m *machine) bool { return !m.down() })
		on, problem := o.check()
		if problem != "" {
			out.Stuck, out.Stages = problem, o.stage(": stop", paceAtOnce, stop)
			return
		}
		out.Stages = o.stages(stop, on)
		return
	}
	if o.dataLost() {
		out.Stuck = problemDataLost
		return
	}
	out.Stages = o.stage(": start", paceTiers, o.byTier(func(m *machine) bool {
		return hasPlan(m) && m.down()
	}))
	if len(out.Stages) == 0 && phase.name == rkev1.ETCDSnapshotPhasePostRestoreNodeCleanup {
		out.Class = ClassInPlace
		isInit := func(m *machine) bool { return m.Marks.InitNode }
		out.Stages = o.stage(": clean up", paceOne, o.collect(isLive, isInit, hasPlan))
	}
}

func (o certificateRotation) outlook() *OperationOutlook {
	request := o.spec().RotateCertificates
	if request == nil || o.ending() != "" {
		return nil
	}
	out := o.requested(request, o.isRunning())
	if !out.Running {
		out.Held, out.Problem = o.heldUp(), o.problem(*request)
	}
	if out.Problem == "" {
		out.Stages = o.stage("", paceOne, o.order(*request))
	}
	return out
}

// outlook describes one of the restarts, which are all alike.
func (o keyRotation) outlook() *OperationOutlook {
	request := o.spec().RotateEncryptionKeys
	if request == nil || request.Generation <= 0 || o.hasEnded() {
		return nil
	}
	out := o.requested(request, o.isRunning())
	if !out.Running {
		out.Held, out.Problem = o.heldUp(), o.problem()
	}
	if out.Problem != "" {
		return out
	}
	leader := cmp.Or(o.elected(), o.candidate())
	if leader == nil {
		out.Held = msgNoLeader
		return out
	}
	before, followers := o.aroundLeader(leader)
	restarts := 0
	for _, phase := range keyPhases {
		restarts += btoi(phase.command == "")
	}
	pace := fmt.Sprintf("%s, %d times", paceOne, restarts)
	out.Stages = o.stage("", pace, slices.Concat(before, []*machine{leader}, followers))
	return out
}
