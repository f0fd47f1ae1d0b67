package planner

import (
	"fmt"
	"slices"
	"strings"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// OperationOutlook is an operation that is asked for and has not ended: one that runs, or has to begin yet.
type OperationOutlook struct {
	// Field of rkeConfig that asks for it, and what it is called.
	Field, Title string
	// Request is all that is asked for. Another request is another operation.
	Request string
	// Class is what it does to each of its machines: InPlace or Restart.
	Class Class
	// Stages in their order. A machine may be in several of them.
	Stages []OperationStage
	// Running is true when it has begun. Stages are what is left of it then.
	Running bool
	// Held says why it does not begin now, Problem why it would fail before it touches a machine, and Stuck why it cannot go on after it has.
	Held, Problem, Stuck string
}

// OperationStage are machines that have the same part in an operation, in their order.
type OperationStage struct {
	Name, Pace string
	Machines   []string
}

// Touches reports that a machine takes part.
func (o OperationOutlook) Touches(machine string) bool {
	return slices.ContainsFunc(o.Stages, func(s OperationStage) bool { return slices.Contains(s.Machines, machine) })
}

// Fields of rkeConfig that ask for operations.
const (
	fieldCreate       = "etcdSnapshotCreate"
	fieldRestore      = "etcdSnapshotRestore"
	fieldCertificates = "rotateCertificates"
	fieldKeys         = "rotateEncryptionKeys"
)

// OperationFields are the fields of rkeConfig that ask for operations.
var OperationFields = []string{fieldCreate, fieldRestore, fieldCertificates, fieldKeys}

// OperationKind is what objects call a kind of operation, and what it is called to users.
type OperationKind struct {
	// Field of rkeConfig that asks for it.
	Field string
	// Record is the name of its record in RKEControlPlane.status.operations, Condition is True or False there when it has ended.
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

// OperationKinds are all of them.
func OperationKinds() []OperationKind {
	return []OperationKind{SnapshotOperation, RestoreOperation, CertificatesOperation, KeysOperation}
}

// Paces of operations.
const (
	paceAtOnce = "all at once"
	paceOne    = "one at a time"
	paceTiers  = "tier by tier"
)

// operationsOf are the operations that a snapshot asks for, in the order in which the planner looks at them. It walks a pass of its own, for
// operations come before anything else is decided.
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

// stageOf is a stage of the machines, none when there are none.
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

// restoreStages are those of a restore on a machine, from the stopping of machines on.
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

// restoreLeft tells what a restore still does that has begun to stop machines. The snapshot is looked at until it is back on a machine, and no check keeps the others
// from being stopped until then.
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

// beforeStart reports that a restore, in a phase after the data are back, has not started all machines again.
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

// keysOutlook tells of one of the restarts, which are all alike.
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
