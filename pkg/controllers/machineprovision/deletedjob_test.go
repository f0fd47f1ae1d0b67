package machineprovision_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A user deletes the Job of a driver that hangs. Its pod still runs for a while, and may create the host.
func TestStory_PodOfADeletedJobIsAwaited(t *testing.T) {
	const job = "m1-machine-provision"
	tell(t, func(w *world) {
		w.run()
		w.hold = true
		w.addMachine("m1", false)
		w.run()
		w.addPod(job)
		pods := w.c.Core.Pod()
		pod, err := pods.Get(namespace, job+"-x", metav1.GetOptions{})
		must(t, err)
		ended := pod.Status
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "machine", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
		pod, err = pods.UpdateStatus(pod)
		must(t, err)
		w.run()
		must(t, w.c.Batch.Job().Delete(namespace, job, nil))
		must(t, w.c.CAPI.Machine().Delete(namespace, "m1", nil))
		w.run()
		if _, err := w.c.Batch.Job().Get(namespace, job+"-remove-1", metav1.GetOptions{}); !apierrors.IsNotFound(err) ||
			w.machine("m1") == nil {
			t.Errorf("the removal did not wait for the pod: %v, machine %v", err, w.machine("m1"))
		}
		pod.Status = ended
		_, err = pods.UpdateStatus(pod)
		must(t, err)
		w.hold = false
		w.run()
		if w.machine("m1") != nil {
			t.Errorf("the machine is left: %+v", w.status("m1"))
		}
	})
}
