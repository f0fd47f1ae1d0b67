package processkubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// change changes the state of one container.
func (w *worker) change(container string, alter func(*containerState)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	state := w.state.containers[container]
	alter(&state)
	w.state.containers[container] = state
}

// waitingAll sets this waiting reason on every container that has not started.
func (w *worker) waitingAll(reason, message string) {
	w.mu.Lock()
	for name, state := range w.state.containers {
		if state.waiting != nil {
			state.waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
			w.state.containers[name] = state
		}
	}
	w.mu.Unlock()
	w.publish()
}

// fail fails the pod as a whole. Containers that never ran get the same reason.
func (w *worker) fail(reason, message string) {
	w.mu.Lock()
	w.state.failureReason, w.state.failureMessage = reason, message
	for name, state := range w.state.containers {
		if state.ended == nil {
			now := time.Now().UnixNano()
			state.waiting, state.running, state.final = nil, nil, true
			state.ended = terminated(exitRecord{ExitCode: 128, Reason: reason, Message: message, StartedAt: now,
				FinishedAt: now}, "", "")
			w.state.containers[name] = state
		}
	}
	w.mu.Unlock()
	w.publish()
}

// publish computes the status and passes it to the pod controller, which writes it if it differs from the last one.
func (w *worker) publish() {
	w.publishing.Lock()
	defer w.publishing.Unlock()
	w.mu.Lock()
	w.current = w.current.DeepCopy()
	w.current.Status = podStatus(w.current, w.state, w.node(), time.Now().Truncate(time.Second))
	pod := w.current.DeepCopy()
	w.mu.Unlock()
	w.kubelet.tell(pod)
}

// snapshot returns the pod with its current status.
func (w *worker) snapshot() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current.DeepCopy()
}

// update copies the labels, annotations and deletion time of a changed pod. It does not change running containers.
func (w *worker) update(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	updated := pod.DeepCopy()
	updated.Status = w.current.Status
	w.current = updated
}
