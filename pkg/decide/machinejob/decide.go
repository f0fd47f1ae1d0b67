package machinejob

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/redact"
	"github.com/drover-io/drover/pkg/decide/tenancy"
)

// Reasons of conditions, in addition to those of the API.
const (
	// ReasonBackOff means that the machine's creation waits, because other machines of its pool failed.
	ReasonBackOff = "BackOff"
	// ReasonCredential means that the credential cannot be read.
	ReasonCredential = "CredentialMissing" //nolint:gosec // the name of a condition's reason, no credential
	// ReasonDriver means that the driver cannot be used.
	ReasonDriver = "DriverUnavailable"
	// ReasonState means that the machine exists and its state Secret does not.
	ReasonState = "StateMissing"
	// ReasonUnconfirmed means that Drover cannot find out whether the machine exists.
	ReasonUnconfirmed = "RemovalUnconfirmed"
	// ReasonCreating and ReasonDeleting mean that a Job is running.
	ReasonCreating = "Creating"
	ReasonDeleting = "Deleting"
	// ReasonProtected means that the host stays although its machine is deleted.
	ReasonProtected = "Protected"
	// ReasonPaused means that the machine is deleted, and a user has paused it.
	ReasonPaused = "Paused"
)

// Blocked reports whether, for this reason, a host cannot be created until the user fixes what the message names.
func Blocked(reason string) bool {
	return reason == ReasonCredential || reason == ReasonDriver || reason == ReasonState ||
		reason == tenancy.ReasonAccessDenied
}

const (
	// retry is the interval of checks that no event triggers.
	retry = 15 * time.Second
	// lookAgain is the longest interval at which a machine that waits for its pool's turn checks the turn again.
	lookAgain = time.Minute
	// firstBackoff and maxBackoff bound the delay between attempts to remove a machine. The delay doubles.
	firstBackoff = time.Minute
	maxBackoff   = time.Hour
)

// Decide returns what to do with a machine.
func Decide(s Snapshot) Decision {
	d := Decision{Status: *s.Machine.Status.DeepCopy()}
	provisioned := s.Machine.ProviderID() != ""
	if provisioned {
		d.Status.Initialization.Provisioned = new(true)
	}
	if s.Machine.Deleting {
		return decideDelete(s, d)
	}
	if wait := gate(s); wait != "" {
		d.Wait = wait
		return d
	}
	if !s.Machine.Guarded || s.Machine.CAPIMachineName == "" {
		d.Actions = append(d.Actions, Action{Kind: ActionMark, Name: s.CAPI.Name})
		d.Wait = "the machine's own label and finalizer"
		return d
	}
	if conditions.IsTrue(s.Machine.Status.Conditions, rkev1.ConditionReady) && provisioned {
		d.Actions = append(d.Actions, Action{Kind: ActionTidy})
		return d
	}
	return decideCreate(s, d)
}

// gate returns what a machine still needs before its creation. Each of these wakes the machine when it arrives.
func gate(s Snapshot) string {
	switch {
	case s.CAPI == nil:
		return "the Machine that owns this one"
	case s.Cluster == nil:
		return "the Cluster of the Machine"
	case s.Cluster.Paused || s.Machine.Paused:
		return "the end of the pause"
	case !s.Cluster.InfrastructureReady:
		return "the Cluster's infrastructure"
	case s.CAPI.BootstrapSecret == "":
		return "the Machine's bootstrap data"
	default:
		return ""
	}
}

func decideCreate(s Snapshot, d Decision) Decision {
	create := conditions.Get(s.Machine.Status.Conditions, rkev1.ConditionCreateJob)
	switch {
	case create == nil && s.Machine.ProviderID() != "" && s.State.Written:
		return recall(s, d)
	case create == nil && s.Machine.ProviderID() != "":
		return unknownHost(s, d)
	case create == nil:
		return intendCreate(s, d)
	}
	if s.Machine.Status.FailureReason == rkev1.ReasonCreateError {
		return decideFailed(s, d)
	}
	switch s.Create.Phase {
	case PhaseAbsent:
		return runCreate(s, d)
	case PhaseSucceeded:
		d.Status.JobName = s.Create.Name
		set(&d, s.Now, rkev1.ConditionCreateJob, rkev1.ConditionTrue, "", "")
		set(&d, s.Now, rkev1.ConditionReady, rkev1.ConditionTrue, "", "")
		d.Wait = "the node's provider ID"
		return d
	case PhaseFailed:
		return failCreate(s, d, s.Create.Message)
	default:
		d.Status.JobName = s.Create.Name
		return s.remind(creating(s, d, cmp.Or(s.Create.Message, s.hang(s.Create))), s.Create)
	}
}

// intendCreate records in the status that the machine is about to be created, and what its removal will need. It does
// nothing else in this pass. The Job may be created only after the intent is stored.
func intendCreate(s Snapshot, d Decision) Decision {
	if blocked, ok := inputs(s, d); !ok {
		return blocked
	}
	if !s.BootstrapReady {
		d.Wait = "the bootstrap object's data"
		return d
	}
	if wait := s.PoolTurn.Sub(s.Now); s.PoolFailures > 0 && wait > 0 {
		set(&d, s.Now, rkev1.ConditionReady, rkev1.ConditionFalse, ReasonBackOff, fmt.Sprintf(
			"Creating %s waits until %s: the creation of the last %s of its pool failed%s. The delay grows with each "+
				"failure, and failing pools of a namespace take turns",
			describe(s.Machine), s.PoolTurn.UTC().Format(time.RFC3339), machines(s.PoolFailures), because(s.PoolCause)))
		d.Wait, d.After = "the end of the delay after failures", min(wait, lookAgain)
		return d
	}
	d.Status.DriverURL, d.Status.DriverHash = s.Driver.URL, s.Driver.SHA256
	d.Status.CloudCredentialSecretName = s.Machine.CredentialReference()
	set(&d, s.Now, rkev1.ConditionCreateJob, rkev1.ConditionUnknown, ReasonCreating, "")
	return creating(s, d, "")
}

func because(cause string) string {
	if cause == "" {
		return ""
	}
	return ": " + strings.TrimSuffix(explained(cause, Shown(cause)), ".")
}

// longestOutput is how much of a driver's output users see, in bytes.
const longestOutput = 200

// Shown is what users see of a driver's output: its end, in one line, without what looks like a secret.
func Shown(output string) string { return redact.Tail([]byte(output), longestOutput, nil) }

// ShownIn returns the message of a condition with the output in it as users see it.
func ShownIn(message, output string) string {
	if output == "" || !strings.Contains(message, output) {
		return Shown(message)
	}
	return strings.Replace(message, output, Shown(output), 1)
}

func machines(count int) string {
	if count == 1 {
		return "machine"
	}
	return fmt.Sprintf("%d machines", count)
}

// Made reports whether the Job that creates the machine succeeded.
func Made(status rkev1.RKEMachineStatus) bool {
	return conditions.IsTrue(status.Conditions, rkev1.ConditionCreateJob)
}

// InDoubt reports whether the Job that creates the machine may have failed. The status records a failure, or it records
// the Job and no success. Drover may be replacing such a machine.
func InDoubt(status rkev1.RKEMachineStatus) bool {
	return status.FailureReason == rkev1.ReasonCreateError ||
		conditions.Get(status.Conditions, rkev1.ConditionCreateJob) != nil && !Made(status)
}

// recall restores the status of an existing machine whose status was lost, for example by a move to another management
// cluster. Only the distribution sets a provider ID, and only the driver writes the state. Creating the machine again
// would make a second one.
func recall(s Snapshot, d Decision) Decision {
	if blocked, ok := inputs(s, d); !ok {
		return blocked
	}
	d.Status.DriverURL, d.Status.DriverHash = s.Driver.URL, s.Driver.SHA256
	d.Status.CloudCredentialSecretName = s.Machine.CredentialReference()
	d.Status.JobName = CreateJobName(s.Machine.Name)
	set(&d, s.Now, rkev1.ConditionCreateJob, rkev1.ConditionTrue, "", "")
	set(&d, s.Now, rkev1.ConditionReady, rkev1.ConditionTrue, "", "")
	return d
}

// unknownHost handles a machine that has a provider ID, so that it exists, but whose status and state were lost.
// Creating it again would make a second one, and without the state Drover cannot remove it.
func unknownHost(s Snapshot, d Decision) Decision {
	message := fmt.Sprintf("%s exists, its provider ID is %s, but Secret %s, with which the driver finds it, is "+
		"missing or empty: restore the Secret from a backup, or "+
		"delete the Machine and remove the host in the cloud", describe(s.Machine), s.Machine.ProviderID(),
		s.Machine.StateSecretName())
	set(&d, s.Now, rkev1.ConditionReady, rkev1.ConditionFalse, ReasonState, message)
	d.Wait, d.After = "the Secret with the state of the machine", retry
	return d
}

// inputs stops a machine whose driver or credential is unusable, and sets a condition with the reason.
func inputs(s Snapshot, d Decision) (Decision, bool) {
	switch {
	case s.DriverError != "":
		set(&d, s.Now, rkev1.ConditionReady, rkev1.ConditionFalse, ReasonDriver, s.DriverError)
		d.Wait, d.After = s.DriverError, retry
	case s.CredentialError != "":
		set(&d, s.Now, rkev1.ConditionReady, rkev1.ConditionFalse, s.credentialReason(), s.CredentialError)
		d.Wait, d.After = s.CredentialError, retry
	default:
		return d, true
	}
	return d, false
}

// runCreate creates the Job once. A Job that was recorded or that wrote its state is not created again: it would create
// a second virtual machine.
func runCreate(s Snapshot, d Decision) Decision {
	if s.Machine.Status.JobName != "" || s.State.Written {
		d.Actions = append(d.Actions, Action{Kind: ActionConfirmGone, Name: CreateJobName(s.Machine.Name)})
		return failCreate(s, d, "the Job that creates the machine disappeared before it reported a result")
	}
	if blocked, ok := inputs(s, d); !ok {
		return blocked
	}
	objects := RenderCreate(s.input())
	d.Actions = append(d.Actions,
		Action{Kind: ActionEnsure, Objects: objects},
		Action{Kind: ActionRun, Name: objects.Job.Name, Objects: objects})
	d.Status.JobName = objects.Job.Name
	return creating(s, d, "")
}

func creating(s Snapshot, d Decision, blocker string) Decision {
	message := "Creating " + describe(s.Machine)
	if blocker != "" {
		message += ": " + blocker
	}
	set(&d, s.Now, rkev1.ConditionReady, rkev1.ConditionFalse, ReasonCreating, message)
	d.Wait = "the end of the Job that creates the machine"
	return d
}

func failCreate(s Snapshot, d Decision, cause string) Decision {
	message := fmt.Sprintf("Creating %s failed: %s", describe(s.Machine), explained(cause, cause))
	d.Status.JobName = CreateJobName(s.Machine.Name)
	d.Status.FailureReason, d.Status.FailureMessage = rkev1.ReasonCreateError, cause
	set(&d, s.Now, rkev1.ConditionCreateJob, rkev1.ConditionFalse, rkev1.ReasonCreateError, message)
	set(&d, s.Now, rkev1.ConditionReady, rkev1.ConditionFalse, rkev1.ReasonCreateError, message)
	d.Wait = "the replacement of the machine"
	return d
}

// decideFailed keeps a machine whose creation failed for a while, so that the user can examine it. Then it has the
// machine replaced.
func decideFailed(s Snapshot, d Decision) Decision {
	if s.CAPI.Deleting {
		d.Wait = "the deletion of the Machine"
		return d
	}
	if keep := s.Create.Ended.Add(s.Settings.DeleteFailedAfter).Sub(s.Now); !s.Create.Ended.IsZero() && keep > 0 {
		d.Wait, d.After = "the end of the grace period of a failed machine", keep
		return d
	}
	d.Actions = append(d.Actions, Action{Kind: ActionReplace, Name: s.CAPI.Name})
	d.Wait = "the deletion of the Machine"
	return d
}

// credentialReason is the reason for the credential's error.
func (s Snapshot) credentialReason() string {
	if s.CredentialDenied {
		return tenancy.ReasonAccessDenied
	}
	return ReasonCredential
}

func (s Snapshot) input() Input {
	in := Input{Machine: s.Machine, Driver: s.Driver, Credential: s.Credential, PullSecrets: s.PullSecrets,
		Extended: s.Extended, Settings: s.Settings}
	if s.Cluster != nil {
		in.Cluster = s.Cluster.Cluster
	}
	if s.CAPI != nil {
		in.BootstrapSecret = s.CAPI.BootstrapSecret
	}
	return in
}

func describe(m Machine) string {
	text := m.Kind + " " + m.Namespace + "/" + m.Name
	if m.CAPIMachineName != "" && m.CAPIMachineName != m.Name {
		text += " of Machine " + m.CAPIMachineName
	}
	return text
}

func set(d *Decision, now time.Time, kind, status, reason, message string) {
	conditions.Set(&d.Status.Conditions, conditions.Condition{Type: kind, Status: status, Reason: reason,
		Message: message}, now)
}

// StateSecretName is the name of the machine's state Secret.
func (m Machine) StateSecretName() string { return naming.MachineState(m.Name) }
