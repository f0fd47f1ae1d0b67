package processkubelet

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons that this node reports. Reasons that real kubelets also have use the same text.
const (
	reasonUnknownImage      = "UnknownImage"
	reasonBadImage          = "InvalidImage"
	reasonUnsupported       = "Unsupported"
	reasonStartError        = "StartError"
	reasonLost              = "ContainerLost"
	reasonCompleted         = "Completed"
	reasonError             = "Error"
	reasonContainerCreating = "ContainerCreating"
	reasonPodInitializing   = "PodInitializing"
	reasonNetwork           = "NetworkNotReady"
	reasonVolumes           = "VolumesNotReady"
	reasonConfigError       = "CreateContainerConfigError"
	reasonCrashLoop         = "CrashLoopBackOff"
)

// containerState is the state of one container. Exactly one of waiting, running and ended is set.
type containerState struct {
	waiting *corev1.ContainerStateWaiting
	running *corev1.ContainerStateRunning
	ended   *corev1.ContainerStateTerminated
	// final: the container will not start again.
	final bool
	// last is the end of the previous attempt. attempt counts from 0.
	last    *corev1.ContainerStateTerminated
	attempt int
	image   string // the image of the container
	// unready: the container runs but is not ready yet.
	unready bool
}

// failed reports whether the container ended with an error.
func (s containerState) failed() bool { return s.ended != nil && s.ended.ExitCode != 0 }

// podState is the input for a pod's status.
type podState struct {
	// failureReason, if set, is the reason why the pod as a whole failed.
	failureReason  string
	failureMessage string
	started        metav1.Time
	containers     map[string]containerState
}

// podStatus computes the status of a pod. The previous status supplies transition times and fields of other writers.
func podStatus(pod *corev1.Pod, state podState, node nodeFacts, now time.Time) corev1.PodStatus {
	previous := pod.Status
	status := corev1.PodStatus{
		Phase:     phase(pod, state),
		Reason:    state.failureReason,
		Message:   state.failureMessage,
		StartTime: &state.started,
		HostIP:    node.Address,
		HostIPs:   []corev1.HostIP{{IP: node.Address}},
		PodIP:     node.PodAddress,
		QOSClass:  previous.QOSClass,
	}
	if node.PodAddress != "" {
		status.PodIPs = []corev1.PodIP{{IP: node.PodAddress}}
	}
	status.InitContainerStatuses = containerStatuses(pod, pod.Spec.InitContainers, state)
	status.ContainerStatuses = containerStatuses(pod, pod.Spec.Containers, state)
	ready := len(status.ContainerStatuses) > 0
	for _, container := range status.ContainerStatuses {
		ready = ready && container.Ready
	}
	initialized := true
	for _, container := range status.InitContainerStatuses {
		initialized = initialized && container.Ready
	}
	for _, condition := range []struct {
		kind  corev1.PodConditionType
		holds bool
	}{
		{corev1.PodScheduled, true}, {corev1.PodReadyToStartContainers, !waitsForStart(state)},
		{corev1.PodInitialized, initialized}, {corev1.ContainersReady, ready}, {corev1.PodReady, ready},
	} {
		status.Conditions = append(status.Conditions, podCondition(previous.Conditions, condition.kind, condition.holds,
			now))
	}
	return status
}

func waitsForStart(state podState) bool {
	for _, container := range state.containers {
		if container.waiting == nil {
			return false
		}
	}
	return true
}

func podCondition(previous []corev1.PodCondition, kind corev1.PodConditionType, holds bool,
	now time.Time) corev1.PodCondition {
	condition := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now)}
	if holds {
		condition.Status = corev1.ConditionTrue
	}
	for _, old := range previous {
		if old.Type == kind && old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
	}
	return condition
}

// phase follows the rules of the Pod API: failed when a container finally failed, succeeded when all succeeded.
func phase(pod *corev1.Pod, state podState) corev1.PodPhase {
	if state.failureReason != "" {
		return corev1.PodFailed
	}
	if initFailed(pod, state) {
		return corev1.PodFailed
	}
	allFinal, anyStarted, anyFailed := true, false, false
	for _, container := range pod.Spec.Containers {
		current := state.containers[container.Name]
		allFinal = allFinal && current.final
		anyStarted = anyStarted || current.waiting == nil || current.last != nil
		anyFailed = anyFailed || current.failed()
	}
	switch {
	case allFinal && anyFailed:
		return corev1.PodFailed
	case allFinal:
		return corev1.PodSucceeded
	case anyStarted:
		return corev1.PodRunning
	}
	return corev1.PodPending
}

func initFailed(pod *corev1.Pod, state podState) bool {
	for _, container := range pod.Spec.InitContainers {
		current := state.containers[container.Name]
		if current.final && current.failed() {
			return true
		}
	}
	return false
}

func containerStatuses(pod *corev1.Pod, containers []corev1.Container, state podState) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for _, container := range containers {
		current := state.containers[container.Name]
		started := current.running != nil
		status := corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, RestartCount: int32(current.attempt),
			State: corev1.ContainerState{Waiting: current.waiting, Running: current.running,
				Terminated: current.ended},
			Started: &started,
			Ready: started && !current.unready || isInit(pod, container.Name) && current.final &&
				current.ended != nil && current.ended.ExitCode == 0,
		}
		if current.last != nil {
			status.LastTerminationState.Terminated = current.last
		}
		if current.waiting == nil {
			status.ImageID = current.image
			status.ContainerID = containerID(pod, container.Name, current.attempt)
		}
		out = append(out, status)
	}
	return out
}

func isInit(pod *corev1.Pod, name string) bool {
	for _, container := range pod.Spec.InitContainers {
		if container.Name == name {
			return true
		}
	}
	return false
}

func containerID(pod *corev1.Pod, container string, attempt int) string {
	return fmt.Sprintf("process://%s/%s/%d", pod.UID, container, attempt)
}

// terminated converts an exit record into a container state. message is the container's termination message.
func terminated(exit exitRecord, id, message string) *corev1.ContainerStateTerminated {
	reason := exit.Reason
	if reason == "" {
		reason = reasonCompleted
		if exit.ExitCode != 0 {
			reason = reasonError
		}
	}
	if exit.Message != "" {
		message = exit.Message
	}
	return &corev1.ContainerStateTerminated{
		ExitCode: int32(exit.ExitCode), Signal: int32(exit.Signal), Reason: reason, Message: message, ContainerID: id,
		StartedAt: seconds(exit.StartedAt), FinishedAt: seconds(exit.FinishedAt),
	}
}

// seconds truncates to whole seconds, the precision of the API. Otherwise an unchanged state would differ after a round
// trip.
func seconds(nanoseconds int64) metav1.Time {
	return metav1.NewTime(time.Unix(0, nanoseconds).Truncate(time.Second))
}

// restarts reports whether the restart policy restarts a container that ended with this code.
func restarts(policy corev1.RestartPolicy, init bool, code int) bool {
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return code != 0
	case corev1.RestartPolicyAlways:
	}
	return !init || code != 0
}
