package machinejob

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// decideDelete removes the virtual machine and then releases the object. It needs neither the Machine nor the
// NodeDriver.
func decideDelete(s Snapshot, d Decision) Decision {
	last := lastOf(s.Removes)
	switch {
	case !s.Machine.Guarded:
		return d
	case s.Machine.Forced, last.Phase == PhaseSucceeded, s.withoutHost(last):
		return release(d, Action{})
	case s.protected():
		return hold(s, d)
	case s.paused():
		return holdPaused(s, d)
	case s.Create.Phase == PhaseRunning:
		return endCreate(s, d)
	case s.nothingMade():
		return release(d, Action{Name: CreateJobName(s.Machine.Name), StateSecret: s.Machine.StateSecretName()})
	case !s.State.Exists:
		return lostState(s, d)
	case !s.State.Holds && !running(last):
		return release(d, Action{StateSecret: s.Machine.StateSecretName()})
	case s.unfindable() && !running(last):
		return unfindable(s, d)
	default:
		return decideRemove(s, d, last)
	}
}

// nothingMade reports whether there is no host. The intent comes first, then the Secret, then the Job. A machine with a
// provider ID and neither intent nor Secret was created elsewhere.
func (s Snapshot) nothingMade() bool {
	if conditions.Get(s.Machine.Status.Conditions, rkev1.ConditionCreateJob) == nil {
		return !s.State.Holds && (s.State.Exists || s.Machine.ProviderID() == "")
	}
	return !s.State.Exists && s.Machine.Status.JobName == ""
}

// paused reports whether the machine or its whole cluster is paused.
func (s Snapshot) paused() bool { return s.Machine.Paused || s.Cluster != nil && s.Cluster.Kept }

// protected reports whether the host must stay. The machine itself is protected, or it is deleted only because its
// protected cluster is. A machine that is scaled down, replaced or repaired is not protected by its cluster.
func (s Snapshot) protected() bool {
	own := s.Machine.Protection
	if own == "" && s.CAPI != nil {
		own = s.CAPI.Protection
	}
	return own == "true" || own != "false" && s.Protected
}

// hold keeps the host of a machine that was deleted past the policies that protect it.
func hold(s Snapshot, d Decision) Decision {
	message := removalText + describe(s.Machine) + " waits: it is protected by annotation " + rkev1.ProtectAnnotation +
		" of the machine or its cluster"
	set(&d, s.Now, rkev1.ConditionReady, rkev1.ConditionFalse, ReasonProtected, message)
	d.Wait, d.After = "the end of the protection", retry
	return d
}

// holdPaused leaves a paused machine alone, as all providers do. This includes a move to another management cluster. It
// reports only the machine's own pause, because users see the pause of a cluster at the cluster.
func holdPaused(s Snapshot, d Decision) Decision {
	if s.Machine.Paused {
		message := removalText + describe(s.Machine) + " waits: it is paused. Remove annotation " +
			clusterv1.PausedAnnotation + " of " + s.Machine.Kind + " " + s.Machine.Name
		set(&d, s.Now, rkev1.ConditionReady, rkev1.ConditionFalse, ReasonPaused, message)
	}
	d.Wait, d.After = "the end of the pause", retry // no event finds a host whose Machine is gone
	return d
}

// endCreate waits for a started Job to end, because the driver may be about to record a virtual machine. It deletes a
// Job whose pod never ran. A driver that hangs ends with the deadline of its Job.
func endCreate(s Snapshot, d Decision) Decision {
	if !s.Create.Started && !s.Create.Deleting {
		d.Actions = append(d.Actions, Action{Kind: ActionTakeBack, Name: s.Create.Name})
	}
	message := removalText + describe(s.Machine) + startsAfter
	if limit := s.Settings.CreateDeadline; limit > 0 {
		message += fmt.Sprintf(", which runs for at most %d minutes", int64(limit.Round(time.Minute)/time.Minute))
	}
	if hang := s.hang(s.Create); hang != "" {
		message += ": " + hang
	}
	set(&d, s.Now, rkev1.ConditionReady, rkev1.ConditionFalse, ReasonDeleting, message)
	d.Wait = "the end of the Job that creates the machine"
	return s.remind(d, s.Create)
}

// unfindable reports whether the driver would not find the host, although there may be one. The driver was ended while
// it created the host, before its state had the identifier of the host.
func (s Snapshot) unfindable() bool {
	return s.State.Unidentified && !Made(s.Machine.Status) && (s.Create.Phase == PhaseAbsent || s.Create.Interrupted)
}

// withoutHost reports whether a removal failed only because there is no host: the driver failed by itself before it had
// created one.
func (s Snapshot) withoutHost(last JobState) bool {
	text, known := withoutHost[s.Driver.Name]
	return known && s.State.Unidentified && !Made(s.Machine.Status) && s.Create.Phase == PhaseFailed &&
		!s.Create.Interrupted && last.Phase == PhaseFailed && strings.Contains(last.Message, text)
}

// withoutHost are the errors of drivers whose removals fail, forever, if there is no host.
var withoutHost = map[string]string{
	"digitalocean": "dropletID is invalid because cannot be less than 1",
}

// unfindable handles such a host. The driver would report the removal as a success and leave the host.
func unfindable(s Snapshot, d Decision) Decision {
	return failRemove(s, d, ReasonUnconfirmed, "the driver was ended while it created the host, and its state does "+
		"not have the identifier of the host, so it cannot remove it: remove the host "+naming.Instance(s.Machine.Name)+
		" in the cloud if it exists, then set annotation "+rkev1.ForceMachineRemoveAnnotation+" to true")
}

// lostState handles a machine that was or may have been created, and whose state, with which the driver finds it, is
// lost.
func lostState(s Snapshot, d Decision) Decision {
	cause := "Secret " + s.Machine.StateSecretName() +
		" is missing, so the driver cannot find the machine: remove it in the cloud, " +
		"then set annotation " + rkev1.ForceMachineRemoveAnnotation + " to true"
	d.Actions = append(d.Actions, Action{Kind: ActionConfirmGone, StateSecret: s.Machine.StateSecretName()})
	failed := failRemove(s, d, ReasonUnconfirmed, cause)
	failed.After = 4 * retry // the Secret may return without an owner
	return failed
}

func decideRemove(s Snapshot, d Decision, last JobState) Decision {
	switch last.Phase {
	case PhaseRunning:
		return complete(s, removing(s, d, last), last)
	case PhaseFailed:
		return retryRemove(s, d, last)
	default:
		return startRemove(s, d, 1)
	}
}

// startRemove stores the intent in one pass and creates the Job in the next, as for creation. An attempt that is
// already recorded continues with the Job at once.
func startRemove(s Snapshot, d Decision, attempt int) Decision {
	if s.CredentialError != "" {
		failed := failRemove(s, d, s.credentialReason(), s.CredentialError)
		failed.After = retry
		return failed
	}
	if conditions.Get(s.Machine.Status.Conditions, rkev1.ConditionDeleteJob) == nil {
		set(&d, s.Now, rkev1.ConditionDeleteJob, rkev1.ConditionUnknown, ReasonDeleting, "")
		return removing(s, d, JobState{})
	}
	objects := RenderRemove(s.removeInput(), attempt)
	d.Actions = append(d.Actions,
		Action{Kind: ActionEnsure, Objects: objects},
		Action{Kind: ActionRun, Name: objects.Job.Name, Objects: objects})
	d.Status.JobName = objects.Job.Name
	set(&d, s.Now, rkev1.ConditionDeleteJob, rkev1.ConditionUnknown, ReasonDeleting, "")
	return removing(s, d, JobState{})
}

func removing(s Snapshot, d Decision, job JobState) Decision {
	if job.Name != "" {
		d.Status.JobName = job.Name
	}
	if d.Status.FailureReason == rkev1.ReasonCreateError { // a failure of the creation no longer matters
		d.Status.FailureReason, d.Status.FailureMessage = "", ""
	}
	reason, message, blocked := ReasonDeleting, removalText+describe(s.Machine), ": "
	if last := conditions.Get(d.Status.Conditions, rkev1.ConditionReady); last != nil &&
		last.Reason == rkev1.ReasonDeleteError { // keep the failure, or each attempt would be news to the Cluster
		reason, message = last.Reason, failureText(s.Machine, d.Status.FailureMessage)
		blocked = ". The next attempt has a problem: "
	}
	if blocker := cmp.Or(s.unrestorable(job), job.Message, s.hang(job)); blocker != "" {
		message += blocked + blocker
	}
	set(&d, s.Now, rkev1.ConditionReady, rkev1.ConditionFalse, reason, message)
	d.Wait = "the end of the Job that removes the machine"
	return s.remind(d, job)
}

// complete restores what the pods of a running removal need and caches lack. When the Job was created, caches may still
// have shown objects that Drover had deleted after the creation of the machine. Without them, no pod starts before the
// deadline of the Job.
func complete(s Snapshot, d Decision, job JobState) Decision {
	switch {
	case !s.Incomplete || job.Deleting:
	case s.CredentialError == "":
		d.Actions = append(d.Actions, Action{Kind: ActionRestore, Objects: RenderRemove(s.removeInput(), job.Attempt)})
	case d.After == 0 || d.After > retry:
		d.After = retry // no event shows the credential
	}
	return d
}

// unrestorable is why Drover cannot restore what the pods of a running removal need, "" if it can.
func (s Snapshot) unrestorable(job JobState) string {
	if !s.Incomplete || job.Deleting || job.Started {
		return ""
	}
	return s.CredentialError
}

// retryRemove reports the failure and retries later with a new Job. The old Job stays until then, because the user
// needs its logs. Condition Ready keeps the failure until the new Job ends.
func retryRemove(s Snapshot, d Decision, last JobState) Decision {
	delay := backoff(last.Attempt)
	if s.rotated() {
		delay = firstBackoff
	}
	if wait := last.Ended.Add(delay).Sub(s.Now); wait > 0 {
		failed := failRemove(s, d, rkev1.ReasonDeleteError, last.Message)
		failed.After = min(wait, firstBackoff) // no event tells that the credential changed
		return failed
	}
	next := startRemove(s, d, last.Attempt+1)
	next.Actions = append(next.Actions, Action{Kind: ActionDeleteJob, Name: last.Name})
	return next
}

// rotated reports whether the credential has changed since the last attempt, which may have failed because of it.
func (s Snapshot) rotated() bool {
	return s.Given != nil && s.CredentialError == "" &&
		!maps.EqualFunc(s.Given, Environment(s.Driver.Name, s.Settings.Proxy, s.Credential), bytes.Equal)
}

// backoff is the delay after an attempt. Attempts count from 1.
func backoff(attempt int) time.Duration {
	delay := firstBackoff
	for range min(max(attempt-1, 0), 10) {
		delay *= 2
	}
	return min(delay, maxBackoff)
}

func failRemove(s Snapshot, d Decision, reason, cause string) Decision {
	message := failureText(s.Machine, cause)
	d.Status.FailureReason, d.Status.FailureMessage = rkev1.ReasonDeleteError, cause
	set(&d, s.Now, rkev1.ConditionDeleteJob, rkev1.ConditionFalse, reason, message)
	set(&d, s.Now, rkev1.ConditionReady, rkev1.ConditionFalse, reason, message)
	d.Wait = "another attempt to remove the machine"
	return d
}

func failureText(m Machine, cause string) string {
	return removalText + describe(m) + " failed: " + refused.after(cause, cause) // a quota stops no removal
}

// release removes the finalizer, under the conditions of the action.
func release(d Decision, action Action) Decision {
	action.Kind = ActionRelease
	d.Actions = append(d.Actions, action)
	return d
}

// running reports whether a removal has not ended. It may still write the state.
func running(job JobState) bool { return job.Phase == PhaseRunning }

func lastOf(jobs []JobState) JobState {
	if len(jobs) == 0 {
		return JobState{}
	}
	return jobs[len(jobs)-1]
}

// removeInput prefers the driver that created the machine, because the NodeDriver may be gone or changed.
func (s Snapshot) removeInput() Input {
	in := s.input()
	if s.Machine.Status.DriverURL != "" {
		in.Driver.URL, in.Driver.SHA256 = s.Machine.Status.DriverURL, s.Machine.Status.DriverHash
	}
	return in
}
