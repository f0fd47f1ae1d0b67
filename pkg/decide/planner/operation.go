package planner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// Deadlines of steps. An operation fails when a machine has not done its part by then.
const (
	stepDeadline    = 20 * time.Minute // for one machine, or several at once
	restoreDeadline = time.Hour        // for fetching and unpacking a snapshot
	restartDeadline = time.Hour        // for one tier after a restore; etcd members start one after the other
)

// Conditions of an RKEControlPlane about the last operation of a kind: Unknown while it runs, then True, or False with
// the reason. They stay when the cluster is in order again.
const (
	ConditionSnapshotCreated     = "ETCDSnapshotCreated"
	ConditionSnapshotRestored    = "ETCDSnapshotRestored"
	ConditionCertificatesRotated = "CertificatesRotated"
	ConditionKeysRotated         = "EncryptionKeysRotated"
)

// ReasonCancelled on these conditions means that the request was removed while the operation ran.
const ReasonCancelled = "Cancelled"

// status is what the functions of a kind read and write.
type status = rkev1.RKEControlPlaneStatus

// kind is a kind of operation.
type kind struct {
	OperationKind
	noun  string // names a request in the trace
	cause disruption.Cause
	class Class                     // effect on each of its machines
	of    func(*operation) operator // the operation as one of this kind
	// setFailed sets the phase to failed, for kinds that have a phase. forget removes the request.
	setFailed, forget func(*status)
	// setDone stores that the requested generation is done, for kinds that store it.
	setDone func(*operation)
}

var (
	kindCreate = &kind{
		OperationKind: OperationKind{
			"etcdSnapshotCreate", "etcd-snapshot-create", ConditionSnapshotCreated, "etcd snapshot",
		},
		noun: "snapshot", cause: disruption.CommandSnapshot, class: ClassInPlace,
		of:        func(o *operation) operator { return snapshotCreation{o} },
		setFailed: func(s *status) { s.ETCDSnapshotCreatePhase = rkev1.ETCDSnapshotPhaseFailed },
		forget:    func(s *status) { s.ETCDSnapshotCreate, s.ETCDSnapshotCreatePhase = nil, "" },
	}
	kindRestore = &kind{
		OperationKind: OperationKind{"etcdSnapshotRestore", "etcd-restore", ConditionSnapshotRestored, "etcd restore"},
		noun:          "restore", cause: disruption.CommandRestore, class: ClassRestart,
		of:        func(o *operation) operator { return restore{o} },
		setFailed: func(s *status) { s.ETCDSnapshotRestorePhase = rkev1.ETCDSnapshotPhaseFailed },
		forget:    func(s *status) { s.ETCDSnapshotRestore, s.ETCDSnapshotRestorePhase = nil, "" },
	}
	kindCertificates = &kind{
		OperationKind: OperationKind{
			"rotateCertificates", "rotate-certificates", ConditionCertificatesRotated, "certificate rotation",
		},
		noun: "rotation of certificates", cause: disruption.CommandRotateCertificates, class: ClassRestart,
		of:     func(o *operation) operator { return certificateRotation{o} },
		forget: func(*status) {}, // its record holds the request
		setDone: func(o *operation) {
			request, _ := certificateRotation{o}.last()
			o.status.CertificateRotationGeneration = request.Generation
		},
	}
	kindKeys = &kind{
		OperationKind: OperationKind{
			"rotateEncryptionKeys", "rotate-encryption-keys", ConditionKeysRotated, "encryption key rotation",
		},
		noun: "rotation of encryption keys", cause: disruption.CommandRotateKeys, class: ClassRestart,
		of:        func(o *operation) operator { return keyRotation{o} },
		setFailed: func(s *status) { s.RotateEncryptionKeysPhase = rkev1.RotateEncryptionKeysPhaseFailed },
		forget: func(s *status) {
			s.RotateEncryptionKeys, s.RotateEncryptionKeysPhase, s.RotateEncryptionKeysLeader = nil, "", ""
		},
	}
	// kinds are all kinds, in the order of their steps.
	kinds = []*kind{kindCreate, kindRestore, kindCertificates, kindKeys}
)

// recordIn is the record of the kind in a status, empty when the kind never ran.
func (k *kind) recordIn(s *status) rkev1.OperationRecord {
	for _, record := range s.Operations {
		if record.Name == k.Record {
			return record
		}
	}
	return rkev1.OperationRecord{Name: k.Record}
}

func (k *kind) runsIn(s *status) bool { return k.recordIn(s).State == rkev1.OperationStateRunning }

// operation is one operation of a pass. Its record and the phase in the status are the planner's memory. Both are
// stored in the same write, so every later pass knows of an operation that was started.
type operation struct {
	*pass
	*kind
	// hint is the advice for the user after a failure.
	hint string
}

func newOperation(p *pass, k *kind) *operation { return &operation{pass: p, kind: k} }

// operator is the part of an operation that differs between kinds.
type operator interface {
	state() (state requestState, why string) // of the request in the spec
	begin() any                              // notes the request in the status, and returns it
	work() verdict                           // does what is next while the operation runs
	outlook() *OperationOutlook              // describes the operation, nil when none was requested or it has ended
}

// requestState is how far the request of an operation is.
type requestState int

const (
	requestAbsent   requestState = iota // the spec requests nothing
	requestEmpty                        // the field of the spec is set, and requests nothing
	requestNew                          // the operation has not begun, and the text says what holds it up, if anything
	requestRunning                      // the operation has begun and has not ended
	requestEnded                        // the operation has succeeded or failed, and the text says which
	requestStranded                     // the operation has failed, and the cluster is down until another request
)

// stepOf is the step of a kind of operation.
func stepOf(k *kind) step {
	return step{k.Record, func(p *pass) verdict {
		o := newOperation(p, k)
		return o.walk(k.of(o))
	}}
}

func (o *operation) walk(by operator) verdict {
	switch state, why := by.state(); {
	case state == requestAbsent:
		o.cancel()
		o.forget(&o.status)
		return goOn("no " + o.noun + " is asked for")
	case state == requestEmpty:
		return goOn("no " + o.noun + " is asked for")
	case state == requestNew && why != "":
		return goOn("a " + o.noun + " is asked for, " + why)
	case state == requestNew:
		return o.start(by.begin())
	case state == requestEnded:
		return goOn("the " + o.noun + " that is asked for " + why)
	case state == requestStranded:
		return stopFor(failure(ReasonOperationFailed, o.Title+" failed: "+o.record().Message, WakeControlPlane))
	}
	return by.work()
}

func (o *operation) spec() *rkev1.RKEControlPlaneSpec { return &o.s.ControlPlane.Spec }

func (o *operation) record() rkev1.OperationRecord { return o.recordIn(&o.status) }

func (o *operation) isRunning() bool { return o.runsIn(&o.status) }

func (o *operation) remember(record rkev1.OperationRecord) {
	// The list is shared with the snapshot.
	list := slices.Clone(o.status.Operations)
	list = slices.DeleteFunc(list, func(r rkev1.OperationRecord) bool { return r.Name == o.Record })
	list = append(list, record)
	slices.SortFunc(list, func(a, b rkev1.OperationRecord) int { return strings.Compare(a.Name, b.Name) })
	o.status.Operations = list
}

// otherRuns says which other operation runs, so that this one cannot start. It is empty when none runs. A request waits
// in the spec for its turn.
func (o *operation) otherRuns() string {
	for _, other := range kinds {
		if other != o.kind && other.runsIn(&o.status) {
			return "it waits for the " + other.Title + " to end"
		}
	}
	return ""
}

// start begins an operation. Nothing else happens in this pass: instructions for nodes carry the attempt, so it must be
// stored before the first node gets one.
func (o *operation) start(request any) verdict {
	record := o.record()
	record.Attempt++
	record.Request, record.State, record.Message = encoded(request), rkev1.OperationStateRunning, ""
	record.Step, record.StepStartedAt = "", nil
	o.remember(record)
	o.set(o.Condition, corev1.ConditionUnknown, rkev1.ReasonWaiting, "")
	return o.next("starting")
}

func encoded(request any) string {
	text, err := json.Marshal(request)
	if err != nil {
		return "" // requests are structs of numbers and texts
	}
	return string(text)
}

// attempt identifies the run on nodes. It differs between requests, and between two starts of one request.
func (o *operation) attempt() string {
	record := o.record()
	return fmt.Sprintf("%s#%d", record.Request, record.Attempt)
}

// next ends a pass in which the status has changed. The next phase begins when that is stored.
func (o *operation) next(what string) verdict {
	return stopFor(waitFor(ReasonOperation, o.Title+": "+what, WakeControlPlane))
}

// succeed ends the operation.
func (o *operation) succeed(message string) verdict {
	o.end(rkev1.OperationStateSucceeded, "")
	if o.setDone != nil {
		o.setDone(o)
	}
	o.set(o.Condition, corev1.ConditionTrue, "", message)
	return o.next("done")
}

// fail ends the operation and stores the reason. Deliveries of this pass are dropped.
func (o *operation) fail(message string) verdict {
	o.deliver, o.ticket = nil, nil
	if o.hint != "" {
		message += "; " + o.hint
	}
	o.end(rkev1.OperationStateFailed, message)
	if o.setFailed != nil {
		o.setFailed(&o.status)
	}
	o.set(o.Condition, corev1.ConditionFalse, rkev1.ReasonError, message)
	return stopFor(failure(ReasonOperationFailed, o.Title+" failed: "+message, WakeControlPlane))
}

// cancel ends an operation whose request was removed. A rotation that only waits for its nodes has done its work.
func (o *operation) cancel() {
	c := conditions.Get(o.status.Conditions, o.Condition)
	if o.isRunning() && !o.restartsIn(&o.status) {
		o.succeed(msgNotAwaited)
	} else if o.isRunning() {
		o.end(rkev1.OperationStateCancelled, "")
		o.set(o.Condition, corev1.ConditionFalse, ReasonCancelled, "The request was removed while the operation ran")
	} else if c != nil && c.Status == rkev1.ConditionUnknown {
		o.set(o.Condition, corev1.ConditionFalse, ReasonCancelled, "The request was removed before the operation began")
	}
}

func (o *operation) end(state rkev1.OperationState, message string) {
	record := o.record()
	record.State, record.Message, record.StepStartedAt = state, message, nil
	o.remember(record)
}

// await is the wait for a step of the operation. Its deadline begins with the step, so no machine can hold up an
// operation, and with it the cluster, forever.
func (o *operation) await(step string, deadline time.Duration, message string, wake Wake, more ...Wake) verdict {
	left := o.leftOf(step, deadline)
	if left <= 0 {
		return o.fail(fmt.Sprintf("%s for %s", message, deadline))
	}
	wait := waitFor(ReasonOperation, o.Title+": "+message, wake, append(more, WakeControlPlane)...)
	wait.After = min(left, deadline)
	return stopFor(wait)
}

// leftOf is the time until the deadline of a step. It begins the step if another one is recorded.
func (o *operation) leftOf(step string, deadline time.Duration) time.Duration {
	record := o.record()
	if record.Step != step || record.StepStartedAt == nil {
		now := metav1.NewTime(o.s.Now.Truncate(time.Second))
		record.Step, record.StepStartedAt = step, &now
		o.remember(record)
	}
	return deadline - o.s.Now.Sub(record.StepStartedAt.Time)
}

// pause makes sure that the CAPI cluster is paused, and waits for it. An existing pause keeps its owner. A pause that a
// user has ended is not set again.
func (o *operation) pause() verdict {
	if o.s.Cluster.Paused || o.s.Cluster.PausedBy != "" {
		return verdict{}
	}
	o.first = append(o.first, PauseCluster{Operation: o.Record})
	return o.await("pausing the CAPI cluster", stepDeadline, "pausing the CAPI cluster", WakeCluster)
}

// needsPause reports that a running operation relies on Cluster API leaving machines alone.
func needsPause(p *pass) bool {
	spec, s := &p.s.ControlPlane.Spec, &p.status
	restores := s.ETCDSnapshotRestorePhase == rkev1.ETCDSnapshotPhaseRestore ||
		s.ETCDSnapshotRestorePhase == rkev1.ETCDSnapshotPhasePostRestorePodCleanup
	return kindRestore.runsIn(s) && restores ||
		kindCertificates.restartsIn(s) && spec.RotateCertificates != nil ||
		kindKeys.restartsIn(s) && spec.RotateEncryptionKeys != nil
}

// isForRollout reports that machines have what an operation wants, and wait for changes of their own.
func (w *Wait) isForRollout() bool {
	pending := []Reason{ReasonChangePending, ReasonPoolPaused, ReasonLeftOut, ReasonEtcdUnhealthy}
	return slices.Contains(pending, w.Reason)
}

// stopped reports that a restore has stopped the distribution on a machine and removed its etcd data.
func (m *machine) stopped() bool { return m.Plan != nil && m.Plan.stopped() }

func (s *PlanSecret) stopped() bool { return render.OperationOf(s.State.Plan) == render.OperationStop }

// restored reports that the machine's plan restores the etcd data, or has done so. Nothing runs there yet.
func (m *machine) restored() bool { return m.Plan != nil && m.Plan.restored() }

func (s *PlanSecret) restored() bool {
	return render.OperationOf(s.State.Plan) == render.OperationRestore
}

// down reports that nothing runs on a machine, because a restore has stopped it. No plan can disrupt anything there.
func (m *machine) down() bool { return m.stopped() || m.restored() }

// etcdStarting reports that m has etcd and the member of another machine is starting. Members start one after the
// other, and the restored one is the first.
func (r *rollOut) etcdStarting(m *machine) bool {
	return m.roles.ETCD && len(r.collect(isEtcd, isLive, hasPlan, func(o *machine) bool {
		return o != m && (o.getsPlan || o.restored() || !o.stopped() && r.progress.of(o) != "")
	})) > 0
}
