package driverjob

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/decide/redact"
)

// maxReason bounds the text of a pod in a condition.
const maxReason = 512

// State is the observed state of one Job.
type State struct {
	Name string
	UID  types.UID
	// Key is the question that the Job asks, Attempt its number.
	Key     string
	Attempt int
	Phase   machinejob.Phase
	// Deleting is true while the Job is being deleted.
	Deleting bool
	// Ended is when the Job succeeded or failed.
	Ended time.Time
	// Download and Flags are the results of the containers, empty while unknown.
	Download, Flags string
	// Downloaded is true when the download succeeded.
	Downloaded bool
	// Message is why the Job failed, or why its pod does not start.
	Message string
}

// Owned reports whether an object belongs to a NodeDriver. An object of an earlier NodeDriver of the same name does
// not.
func Owned(references []metav1.OwnerReference, driver *mgmtv3.NodeDriver) bool {
	return slices.ContainsFunc(references, func(owner metav1.OwnerReference) bool { return owner.UID == driver.UID })
}

// Observe reads a Job and its pods. It ignores pods of other Jobs, whatever their labels say.
func Observe(job *batchv1.Job, pods []*corev1.Pod) State {
	phase, end := machinejob.End(job)
	s := State{Name: job.Name, UID: job.UID, Key: job.Annotations[keyAnnotation], Phase: phase,
		Ended: end.LastTransitionTime.Time, Deleting: job.DeletionTimestamp != nil}
	s.Attempt, _ = strconv.Atoi(job.Annotations[machinejob.AttemptAnnotation])
	pod := podOf(job, pods)
	if pod != nil {
		s.read(pod)
	}
	if s.Phase == machinejob.PhaseFailed && s.Message == "" {
		s.Message = "the Job failed: " + public(strings.Trim(end.Reason+": "+end.Message, ": "))
	}
	return s
}

// podOf returns the newest pod of a Job.
func podOf(job *batchv1.Job, pods []*corev1.Pod) *corev1.Pod {
	own := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool {
		return pod.Namespace != job.Namespace || !metav1.IsControlledBy(pod, job)
	})
	if len(own) == 0 {
		return nil
	}
	return slices.MaxFunc(own, machinejob.ByAge)
}

func (s *State) read(pod *corev1.Pod) {
	var failed string
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		failed = cmp.Or(failed, problem(status))
		ended := status.State.Terminated
		switch {
		case ended == nil || ended.ExitCode != 0:
		case status.Name == DownloadContainer:
			s.Downloaded, s.Download = true, ended.Message
		case status.Name == FlagsContainer:
			s.Flags = ended.Message
		}
	}
	for _, condition := range pod.Status.Conditions {
		if failed == "" && condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			failed = notStarted(condition.Reason)
		}
	}
	if s.Phase != machinejob.PhaseSucceeded {
		s.Message = failed
	}
}

// problem is why a container failed or does not start, "" if neither applies.
func problem(status corev1.ContainerStatus) string {
	ended, waiting := status.State.Terminated, status.State.Waiting
	switch {
	case waiting != nil && blocks(waiting.Reason):
		return notStarted(waiting.Reason)
	case ended != nil && ended.ExitCode != 0:
		return cmp.Or(public(ended.Message), fmt.Sprintf("container %s ended with exit status %d: %s", status.Name,
			ended.ExitCode, public(cmp.Or(ended.Reason, "Error"))))
	default:
		return ""
	}
}

// notStarted says why a pod does not start, without details that change: numbers of nodes, and the two reasons of an
// image that cannot be pulled, which alternate.
func notStarted(why string) string {
	if why == "ErrImagePull" {
		why = "ImagePullBackOff"
	}
	return "its pod does not start: " + public(why) + "; see the pods in Drover's namespace"
}

// blocks reports whether a container does not start by itself. Other reasons are the normal course.
func blocks(reason string) bool {
	return reason != "" && reason != "ContainerCreating" && reason != "PodInitializing"
}

// public returns a text of another program for a condition: without secrets, short and stable.
func public(text string) string {
	return outcome.Stable(redact.Clip(redact.Text(clip(text, maxReason*2)), maxReason))
}
