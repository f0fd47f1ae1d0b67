package processkubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// change alters the state of one container.
func (w *worker) change(container string, alter func(*containerState)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	state := w.state.containers[container]
	alter(&state)
	w.state.containers[container] = state
}

// waitingAll shows every container that did not start yet as waiting for this reason.
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

// fail ends the pod as a whole. Containers that never ran say why, too.
func (w *worker) fail(reason, message string) {
	w.mu.Lock()
	w.state.failureReason, w.state.failureMessage = reason, message
	for name, state := range w.state.containers {
		if state.ended == nil {
			now := time.Now().UnixNano()
			state.waiting, state.running, state.final = nil, nil, true
			state.ended = terminated(exitRecord{ExitCode: 128, Reason: reason, Message: message, StartedAt: now, FinishedAt: now}, "", "")
			w.state.containers[name] = state
		}
	}
	w.mu.Unlock()
	w.publish()
}

// publish computes the status and tells the pod controller, which writes it when it differs from the last one.
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

// snapshot is the pod with its present status.
func (w *worker) snapshot() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current.DeepCopy()
}

// update takes over what may change in a pod's description: labels, annotations and the deletion time. Its containers
// run on as they were started.
func (w *worker) update(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	updated := pod.DeepCopy()
	updated.Status = w.current.Status
	w.current = updated
}
