package planner

import (
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

// Fields of rkeConfig that request operations.
const (
	fieldCreate       = "etcdSnapshotCreate"
	fieldRestore      = "etcdSnapshotRestore"
	fieldCertificates = "rotateCertificates"
	fieldKeys         = "rotateEncryptionKeys"
)

// OperationFields are the fields of rkeConfig that request operations.
var OperationFields = []string{fieldCreate, fieldRestore, fieldCertificates, fieldKeys}

// OperationKind holds the names of a kind of operation, in objects and for users.
type OperationKind struct {
	// Field is the field of rkeConfig that requests it.
	Field string
	// Record is the name of its record in RKEControlPlane.status.operations. Condition is the condition of the
	// RKEControlPlane that is True or False when it has ended.
	Record, Condition string
	Title             string
}

// The kinds of operations.
var (
	SnapshotOperation     = kindCreate.known(fieldCreate)
	RestoreOperation      = kindRestore.known(fieldRestore)
	CertificatesOperation = kindCertificates.known(fieldCertificates)
	KeysOperation         = kindKeys.known(fieldKeys)
)

func (k kind) known(field string) OperationKind {
	return OperationKind{field, k.name, k.condition, k.title}
}

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
	for _, of := range []func(*pass) *OperationOutlook{snapshotOutlook, restoreOutlook, certificatesOutlook, keysOutlook} {
		if o := of(p); o != nil {
			o.Held = strings.TrimPrefix(o.Held, "but ")
			out = append(out, *o)
		}
	}
	return out
}

// stageOf is a stage with the machines, or no stage when there are none.
func stageOf(name, pace string, machines []*machine) []OperationStage {
	if len(machines) == 0 {
		return nil
	}
	stage := OperationStage{Name: name, Pace: pace}
	for _, m := range machines {
		stage.Machines = append(stage.Machines, m.Name)
	}
	return []OperationStage{stage}
}

func snapshotOutlook(p *pass) *OperationOutlook {
	request := p.s.ControlPlane.Spec.ETCDSnapshotCreate
	if request == nil || p.snapshotEnded() {
		return nil
	}
	out := &OperationOutlook{Field: fieldCreate, Title: kindCreate.title, Request: encoded(request), Class: ClassInPlace, Running: p.isRunning(kindCreate)}
	out.Stages = stageOf(kindCreate.title, paceAtOnce, p.snapshotMembers())
	if !p.isRunning(kindCreate) {
		out.Held = p.noSnapshotNow()
	}
	return out
}

func restoreOutlook(p *pass) *OperationOutlook {
	o := &operation{pass: p, kind: kindRestore}
	request := restoreAsked(p.s.ControlPlane.Spec.ETCDSnapshotRestore)
	if request == nil || !o.isNews(request) && !o.restores() {
		return nil
	}
	out := &OperationOutlook{Field: fieldRestore, Title: o.title, Request: encoded(request), Class: ClassRestart}
	if o.isNews(request) && !p.record(kindRestore).Stopped {
		out.Held = p.occupied(kindRestore)
	}
	out.Running = !o.isNews(request)
	if phase := p.status.ETCDSnapshotRestorePhase; out.Running && phase != rkev1.ETCDSnapshotPhaseStarted {
		o.restoreLeft(out, phase)
		return out
	}
	p.status.ETCDSnapshotRestore = request.DeepCopy()
	on, problem := o.restoreCheck()
	if problem != "" {
		out.Problem = problem
		return out
	}
	out.Stages = o.restoreStages(p.collect(isLive, stops), on)
	return out
}

// restoreStages are the stages of a restore on a machine, beginning with the stop of machines.
func (o *operation) restoreStages(stop []*machine, on *machine) []OperationStage {
	return slices.Concat(stageOf(o.title+": stop", paceAtOnce, stop), stageOf(o.title+": restore and start", paceOne, []*machine{on}),
		stageOf(o.title+": start", paceTiers, o.byTier(func(m *machine) bool { return m != on && m.Plan.State.PlanExists && (!m.windows || !m.PoolPaused) })))
}

// byTier are the machines in the order in which a restore starts them.
func (o *operation) byTier(is func(*machine) bool) []*machine {
	started := []*machine{}
	for _, tier := range []func(*machine) bool{isEtcd, func(m *machine) bool { return m.roles.OnlyControlPlane() }, func(m *machine) bool { return m.roles.OnlyWorker() }} {
		started = append(started, o.collect(isLive, tier, is)...)
	}
	return started
}

// restoreLeft describes what a restore still does after it has begun to stop machines. Drover checks the snapshot until
// it is restored on a machine. A failed check does not prevent the stop of the other machines.
func (o *operation) restoreLeft(out *OperationOutlook, phase rkev1.ETCDSnapshotPhase) {
	if slices.Index(restorePhases, phase) <= slices.Index(restorePhases, rkev1.ETCDSnapshotPhaseRestore) {
		stop := o.collect(isLive, stops, func(m *machine) bool { return !m.down() })
		on, problem := o.restoreCheck()
		if problem != "" {
			out.Stuck, out.Stages = problem, stageOf(o.title+": stop", paceAtOnce, stop)
			return
		}
		out.Stages = o.restoreStages(stop, on)
		return
	}
	if o.dataLost() {
		out.Stuck = problemDataLost
		return
	}
	out.Stages = stageOf(o.title+": start", paceTiers, o.byTier(func(m *machine) bool {
		return m.Plan.State.PlanExists && (m.down() || m.windows && !m.PoolPaused && beforeStart(phase))
	}))
	if len(out.Stages) == 0 && phase == rkev1.ETCDSnapshotPhasePostRestoreNodeCleanup {
		out.Class = ClassInPlace
		out.Stages = stageOf(o.title+": clean up", paceOne, o.collect(isLive, func(m *machine) bool { return m.Marks.InitNode && m.Plan.State.PlanExists }))
	}
}

// beforeStart reports that a restore, in a phase after the data are restored, has not started all machines again.
func beforeStart(phase rkev1.ETCDSnapshotPhase) bool {
	return phase == rkev1.ETCDSnapshotPhasePostRestorePodCleanup || phase == rkev1.ETCDSnapshotPhaseInitialRestartCluster
}

func certificatesOutlook(p *pass) *OperationOutlook {
	request := p.s.ControlPlane.Spec.RotateCertificates
	if request == nil || p.certificatesEnded() != "" {
		return nil
	}
	out := &OperationOutlook{Field: fieldCertificates, Title: kindCertificates.title, Request: encoded(request), Class: ClassRestart, Running: p.isRunning(kindCertificates)}
	if !p.isRunning(kindCertificates) {
		out.Held, out.Problem = p.certificatesNotNow(), p.certificatesProblem(*request)
	}
	if out.Problem == "" {
		out.Stages = stageOf(kindCertificates.title, paceOne, p.certificateOrder(*request))
	}
	return out
}

// keysOutlook describes one of the restarts, which are all alike.
func keysOutlook(p *pass) *OperationOutlook {
	request := p.s.ControlPlane.Spec.RotateEncryptionKeys
	if request == nil || request.Generation <= 0 || p.keysEnded() {
		return nil
	}
	out := &OperationOutlook{Field: fieldKeys, Title: kindKeys.title, Request: encoded(request), Class: ClassRestart, Running: p.isRunning(kindKeys)}
	if !p.isRunning(kindKeys) {
		out.Held = p.keysNotNow()
	}
	if !p.knowsKeys() && !p.isRunning(kindKeys) {
		out.Problem = "version " + p.s.ControlPlane.Spec.KubernetesVersion + " cannot rotate encryption keys"
		return out
	}
	servers := p.keyServers()
	leader := p.electKeyLeader()
	if i := slices.IndexFunc(servers, func(m *machine) bool { return m.Name == p.status.RotateEncryptionKeysLeader }); i >= 0 {
		leader = servers[i]
	}
	if leader == nil {
		out.Held = "waiting for a control plane machine that can be leader"
		return out
	}
	before, followers := p.aroundLeader(leader)
	restarts := 0
	for _, phase := range keyPhases[:len(keyPhases)-1] {
		if _, command := keyCommands[phase]; !command {
			restarts++
		}
	}
	out.Stages = stageOf(kindKeys.title, fmt.Sprintf("%s, %d times", paceOne, restarts), slices.Concat(before, []*machine{leader}, followers))
	return out
}
