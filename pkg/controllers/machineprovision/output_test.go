package machineprovision_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// addPod acts as the Job controller and the kubelet: it makes the ended pod of a Job.
func (w *world) addPod(name string) {
	w.Helper()
	job, err := w.c.Batch.Job().Get(namespace, name, metav1.GetOptions{})
	must(w.T, err)
	template := job.Spec.Template.DeepCopy()
	template.Labels[batchv1.JobNameLabel] = name
	must(w.T, w.api.Add(&corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-x", Labels: template.Labels,
			Annotations: template.Annotations},
		Spec: template.Spec,
		Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "machine", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1,
				Message: "no quota with top-secret"}},
		}}},
	}))
}

// kept returns the kept outputs of machine m1.
func (w *world) kept() map[string]string {
	w.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m1-machine-output"}}
	if found, err := w.api.Get(secret); err != nil || !found {
		return nil
	}
	out := map[string]string{}
	for key, value := range secret.Data {
		out[key] = string(value)
	}
	return out
}

func (w *world) secretWrites() (writes int) {
	for _, entry := range w.api.Writes(manager) {
		if strings.Contains(entry.String(), "m1-machine-output") {
			writes++
		}
	}
	return writes
}

// failWithPods lets the creation of m1 fail with a pod, and removes the pod.
func failWithPods(w *world) {
	w.settings.DeleteFailedAfter = time.Hour
	w.hold = true
	w.addMachine("m1", false)
	w.run()
	w.addPod("m1-machine-provision")
	w.hold, w.fail = false, "limit reached"
	w.run()
	must(w.T, w.c.Core.Pod().Delete(namespace, "m1-machine-provision-x", nil))
	w.run()
}

func TestStory_OutputIsKeptAfterThePodIsGone(t *testing.T) {
	for name, c := range map[string]struct{ log, want string }{
		"the log":                         {"starts\ntoken: abc\nuses top-secret\n", "starts\ntoken: ***\nuses ***\n"},
		"the message if there is no log":  {"", "no quota with ***\n"},
		"the end of a log that is longer": {strings.Repeat("x", machinejob.MostOutput) + "\nend\n", "end\n"},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				w.output = c.log
				w.run()
				failWithPods(w)
				if diff := cmp.Diff(map[string]string{"create": c.want}, w.kept()); diff != "" {
					t.Errorf("kept (-want +got):\n%s", diff)
				}
				if writes := w.secretWrites(); writes != 1 {
					t.Errorf("%d writes of one output", writes)
				}
				w.api.ResetLog()
				w.restart()
				w.sleep(10 * time.Minute)
				if writes := w.api.Writes(manager); len(writes) > 0 {
					t.Errorf("writes to a settled machine: %v", writes)
				}
				w.fail = ""
				must(t, w.c.CAPI.Machine().Delete(namespace, "m1", nil))
				w.run()
				if kept := w.kept(); w.machine("m1") != nil || kept != nil {
					t.Errorf("the machine is %v, its output %v", w.machine("m1"), kept)
				}
			})
		})
	}
}

func TestStory_LastFailedRemovalIsKept(t *testing.T) {
	tell(t, func(w *world) {
		w.run()
		w.addMachine("m1", false)
		w.run()
		w.hold, w.fail = true, "limit reached"
		must(t, w.c.CAPI.Machine().Delete(namespace, "m1", nil))
		for attempt, job := range []string{"m1-machine-provision-remove-1", "m1-machine-provision-remove-2"} {
			w.hold = true
			w.output = job + "\n"
			for range 600 {
				if _, err := w.c.Batch.Job().Get(namespace, job, metav1.GetOptions{}); err == nil {
					break
				}
				w.step()
				w.sleep(time.Second)
			}
			w.addPod(job)
			w.hold = false
			for range 5 {
				w.step()
				w.sleep(time.Second)
			}
			want := map[string]string{machinejob.OutputKey(machinejob.JobState{Attempt: attempt + 1}): job + "\n"}
			if diff := cmp.Diff(want, w.kept()); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		}
		w.fail = ""
		w.sleep(3 * time.Minute)
		w.run()
		if w.machine("m1") != nil || w.kept() != nil {
			t.Errorf("the machine is %v, its output %v", w.machine("m1"), w.kept())
		}
	})
}

func TestStory_OutputIsKeptWhereverTheProcessIsKilled(t *testing.T) {
	crashpoints.SkipRaced(t)
	crashpoints.Each(t, 4, func(t *testing.T, n int) (writes int) {
		t.Helper()
		tell(t, func(w *world) {
			w.output = "a line\n"
			w.run()
			w.api.ResetLog()
			if n > 0 {
				cut := make(chan struct{})
				w.cut = cut
				w.api.CutAfter(manager, n, func() { close(cut) })
			}
			failWithPods(w)
			writes = w.api.Written(manager)
			if diff := cmp.Diff(map[string]string{"create": "a line\n"}, w.kept()); diff != "" {
				t.Errorf("killed after write %d, kept (-want +got):\n%s", n, diff)
			}
		})
		return writes
	})
}
