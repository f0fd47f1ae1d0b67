package machinejob

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Phase is the progress of a Job.
type Phase string

// The phases of a Job.
const (
	// PhaseAbsent means that the Job does not exist.
	PhaseAbsent Phase = ""
	// PhaseRunning means that the Job has neither succeeded nor failed yet.
	PhaseRunning Phase = "Running"
	// PhaseSucceeded means that the Job's command succeeded.
	PhaseSucceeded Phase = "Succeeded"
	// PhaseFailed means that Kubernetes does not retry the Job.
	PhaseFailed Phase = "Failed"
)

// deadlineExceeded is the reason of a Job that Kubernetes ended at its deadline.
const deadlineExceeded = batchv1.JobReasonDeadlineExceeded

// exitSignal is the first exit status of a program that a signal ended.
const exitSignal = 128

// crashed matches what rancher-machine reports when the process of the driver ended while it created the host: the
// errors of Go's package net/rpc.
var crashed = regexp.MustCompile(`in driver during machine creation: (unexpected EOF|connection is shut down)`)

// exitPreCreate is rancher-machine's exit status when the driver's check before creation fails. Nothing was created
// then.
const exitPreCreate = 3

// JobState is the observed state of one Job.
type JobState struct {
	Name  string
	Phase Phase
	// Attempt is the number of a removal's attempt, from 1.
	Attempt int
	// Started is true when a container of the Job has run, or may have run.
	Started bool
	// Deleting is true while the Job is being deleted.
	Deleting bool
	// Message is why the Job failed, or why its pod does not start. Empty when neither applies.
	Message string
	// Began is when the Job began, and Ended when it succeeded or failed.
	Began, Ended time.Time
	// Interrupted is true when the Job failed and its program did not end by itself, or may not have.
	Interrupted bool
}

// Observe reads a Job and its pods. Both may be nil.
func Observe(job *batchv1.Job, pods []*corev1.Pod) JobState {
	if job == nil {
		return JobState{}
	}
	pods = slices.Clone(pods)
	slices.SortFunc(pods, ByAge)
	phase, end := End(job)
	state := JobState{Name: job.Name, Phase: phase, Ended: end.LastTransitionTime.Time,
		Deleting: job.DeletionTimestamp != nil, Started: started(job, pods)}
	state.Attempt, _ = strconv.Atoi(job.Annotations[AttemptAnnotation])
	if job.Status.StartTime != nil {
		state.Began = job.Status.StartTime.Time
	}
	if phase == PhaseFailed {
		state.Message, state.Interrupted = failure(pods, end), interrupted(pods, end)
	}
	if state.Phase == PhaseFailed && len(pods) > 0 && pods[len(pods)-1].Status.Phase == corev1.PodSucceeded {
		state.Phase, state.Message, state.Interrupted = PhaseSucceeded, "", false
	}
	if state.Phase == PhaseRunning {
		state.Message = blocker(pods)
	}
	return state
}

// ObservePods returns the state of a Job that is gone, from its pods. Kubernetes deletes a Job first and then ends its
// pods, so a pod may still run.
func ObservePods(job string, pods []*corev1.Pod) JobState {
	for _, pod := range pods {
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			return JobState{Name: job, Phase: PhaseRunning, Deleting: true,
				Started: started(&batchv1.Job{}, []*corev1.Pod{pod})}
		}
	}
	return JobState{}
}

// End returns the phase of a Job, and the condition that ended it. The condition is empty while the Job runs.
func End(job *batchv1.Job) (phase Phase, end batchv1.JobCondition) {
	phase = PhaseRunning
	for _, condition := range job.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch condition.Type { //nolint:exhaustive // the others say nothing about the end
		case batchv1.JobComplete:
			phase, end = PhaseSucceeded, condition
		case batchv1.JobFailed:
			phase, end = PhaseFailed, condition
		}
	}
	return phase, end
}

// ByAge compares pods by the time of their creation, and then by name.
func ByAge(a, b *corev1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// started is false only when every pod of the Job is known to be waiting. A Job that counts an ended pod that is gone
// has run.
func started(job *batchv1.Job, pods []*corev1.Pod) bool {
	if job.Status.Succeeded > 0 || job.Status.Failed > 0 || int(job.Status.Active) > len(pods) {
		return true
	}
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		return pod.Status.Phase != corev1.PodPending || slices.ContainsFunc(pod.Status.ContainerStatuses,
			func(s corev1.ContainerStatus) bool {
				return s.State.Waiting == nil
			})
	})
}

// interrupted is false only when the program of the newest pod ended by itself.
func interrupted(pods []*corev1.Pod, end batchv1.JobCondition) bool {
	if end.Reason == deadlineExceeded || len(pods) == 0 {
		return true
	}
	for _, status := range pods[len(pods)-1].Status.ContainerStatuses {
		if ended := status.State.Terminated; ended != nil && ended.ExitCode < exitSignal {
			return crashed.MatchString(ended.Message)
		}
	}
	return true
}

// failure prefers the program's last output, which the kubelet keeps, to the reason that Kubernetes gives for the Job.
func failure(pods []*corev1.Pod, condition batchv1.JobCondition) string {
	if len(pods) > 0 {
		for _, status := range pods[len(pods)-1].Status.ContainerStatuses {
			if ended := status.State.Terminated; ended != nil && ended.ExitCode != 0 {
				return exitText(ended)
			}
		}
	}
	if condition.Reason == deadlineExceeded {
		return "the driver did not end before the deadline of its Job, so the driver or the cloud hangs; check that " +
			"the cloud answers (" + condition.Reason + ")"
	}
	return strings.TrimSpace(condition.Reason + ": " + condition.Message)
}

func exitText(ended *corev1.ContainerStateTerminated) string {
	text := strings.TrimSpace(ended.Message)
	if ended.ExitCode == exitPreCreate {
		return strings.TrimSpace("the driver's check before creation failed, and nothing was created: " + text)
	}
	if text == "" {
		return fmt.Sprintf("%s, exit status %d", cmp.Or(ended.Reason, "Error"), ended.ExitCode)
	}
	return text
}

// blocker is what keeps the newest pod from starting: an image that cannot be pulled, a missing Secret, or a lack of
// resources.
func blocker(pods []*corev1.Pod) string {
	if len(pods) == 0 {
		return ""
	}
	pod := pods[len(pods)-1]
	for _, status := range pod.Status.ContainerStatuses {
		if waiting := status.State.Waiting; waiting != nil && waiting.Reason != "" &&
			waiting.Reason != "ContainerCreating" {
			return strings.TrimSpace(waiting.Reason + ": " + waiting.Message)
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return strings.TrimSpace(condition.Reason + ": " + condition.Message)
		}
	}
	return ""
}
