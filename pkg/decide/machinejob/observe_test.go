package machinejob_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/testkit/packed"
)

func pod(name string, age time.Duration, phase corev1.PodPhase, state corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))},
		Status:     corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{State: state}}},
	}
}

func terminated(code int32, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message,
		Reason: "Error"}}
}

func ended(kind batchv1.JobConditionType) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "j", Annotations: map[string]string{machinejob.AttemptAnnotation: "2"}},
		Status: batchv1.JobStatus{Failed: 1, Conditions: []batchv1.JobCondition{
			{Type: kind, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded",
				Message: "Job was active longer than specified deadline", LastTransitionTime: metav1.NewTime(now)},
		}},
	}
}

func TestObserve(t *testing.T) {
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff",
		Message: "not found"}}
	active := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Status: batchv1.JobStatus{Active: 1}}
	for name, test := range map[string]struct {
		job  *batchv1.Job
		pods []*corev1.Pod
		want machinejob.JobState
	}{
		"no Job": {nil, nil, machinejob.JobState{}},
		"just created": {&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}}, nil,
			machinejob.JobState{Name: "j", Phase: machinejob.PhaseRunning}},
		"its pod unknown": {active, nil, machinejob.JobState{Name: "j", Phase: machinejob.PhaseRunning, Started: true}},
		"its image is missing": {
			active, []*corev1.Pod{pod("a", 0, corev1.PodPending, waiting)},
			machinejob.JobState{Name: "j", Phase: machinejob.PhaseRunning, Message: "ImagePullBackOff: not found"},
		},
		"its container is being created": {
			active, []*corev1.Pod{pod("a", 0, corev1.PodPending,
				corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}})},
			machinejob.JobState{Name: "j", Phase: machinejob.PhaseRunning},
		},
		"it runs": {
			active, []*corev1.Pod{pod("a", 0, corev1.PodRunning,
				corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})},
			machinejob.JobState{Name: "j", Phase: machinejob.PhaseRunning, Started: true},
		},
		"it succeeded": {
			ended(batchv1.JobComplete), nil, machinejob.JobState{Name: "j", Phase: machinejob.PhaseSucceeded,
				Attempt: 2, Started: true, Ended: now},
		},
		"the newest pod has the reason of the failure": {
			ended(batchv1.JobFailed), []*corev1.Pod{pod("b", 0, corev1.PodFailed, terminated(1, " newest \n")),
				pod("a", time.Hour, corev1.PodFailed, terminated(1, "oldest"))},
			machinejob.JobState{Name: "j", Phase: machinejob.PhaseFailed, Attempt: 2, Started: true, Ended: now,
				Message: "newest", Interrupted: true},
		},
		"the check before creation failed": {
			ended(batchv1.JobFailed), []*corev1.Pod{pod("a", 0, corev1.PodFailed, terminated(3, "no such zone"))},
			machinejob.JobState{
				Name: "j", Phase: machinejob.PhaseFailed, Attempt: 2, Started: true, Ended: now,
				Message:     "the driver's check before creation failed, and nothing was created: no such zone",
				Interrupted: true,
			},
		},
		"it failed without a message": {
			ended(batchv1.JobFailed), []*corev1.Pod{pod("a", 0, corev1.PodFailed, terminated(137, ""))},
			machinejob.JobState{Name: "j", Phase: machinejob.PhaseFailed, Attempt: 2, Started: true, Ended: now,
				Message: "Error, exit status 137", Interrupted: true},
		},
		"its pods were deleted": {
			ended(batchv1.JobFailed), nil,
			machinejob.JobState{
				Name: "j", Phase: machinejob.PhaseFailed, Attempt: 2, Started: true, Ended: now,
				Message: "the driver did not end before the deadline of its Job, so the driver or the cloud hangs; check " +
					"that the cloud answers (DeadlineExceeded)",
				Interrupted: true,
			},
		},
		"the last pod succeeded after all": {
			ended(batchv1.JobFailed), []*corev1.Pod{pod("a", 0, corev1.PodSucceeded, terminated(0, "fine"))},
			machinejob.JobState{Name: "j", Phase: machinejob.PhaseSucceeded, Attempt: 2, Started: true, Ended: now},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, machinejob.Observe(test.job, test.pods)); diff != "" {
				t.Errorf("observed (-want +got):\n%s", diff)
			}
		})
	}
}

// A program that did not end by itself may have done more than its state says.
func TestObserve_Interrupted(t *testing.T) {
	failed := ended(batchv1.JobFailed)
	failed.Status.Conditions[0].Reason = batchv1.JobReasonBackoffLimitExceeded
	for name, test := range map[string]struct {
		job  *batchv1.Job
		pods []*corev1.Pod
		want bool
	}{
		"the program failed": {failed, []*corev1.Pod{pod("a", 0, corev1.PodFailed, terminated(1, ""))}, false},
		"the driver crashed": {failed, []*corev1.Pod{pod("a", 0, corev1.PodFailed, terminated(1, "error creating "+
			"machine: error in driver during machine creation: unexpected EOF"))}, true},
		"the program was killed": {failed, []*corev1.Pod{pod("a", 0, corev1.PodFailed, terminated(137, ""))}, true},
		"its node was lost":      {failed, []*corev1.Pod{pod("a", 0, corev1.PodFailed, corev1.ContainerState{})}, true},
		"its pod is gone":        {failed, nil, true},
		"the deadline": {ended(batchv1.JobFailed), []*corev1.Pod{pod("a", 0, corev1.PodFailed, terminated(1, ""))},
			true},
		"success": {ended(batchv1.JobComplete), nil, false},
	} {
		if got := machinejob.Observe(test.job, test.pods).Interrupted; got != test.want {
			t.Errorf("%s: interrupted %v, want %v", name, got, test.want)
		}
	}
}

// Kubernetes deletes a Job before its pods have ended.
func TestObservePods(t *testing.T) {
	running := pod("a", 0, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	waiting := pod("a", 0, corev1.PodPending, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}})
	for name, test := range map[string]struct {
		pods []*corev1.Pod
		want machinejob.JobState
	}{
		"no pod":       {nil, machinejob.JobState{}},
		"an ended pod": {[]*corev1.Pod{pod("a", 0, corev1.PodFailed, terminated(143, ""))}, machinejob.JobState{}},
		"a running pod": {[]*corev1.Pod{running},
			machinejob.JobState{Name: "j", Phase: machinejob.PhaseRunning, Started: true, Deleting: true}},
		"a waiting pod": {[]*corev1.Pod{waiting},
			machinejob.JobState{Name: "j", Phase: machinejob.PhaseRunning, Deleting: true}},
	} {
		if diff := cmp.Diff(test.want, machinejob.ObservePods("j", test.pods)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func archive(names ...string) []byte {
	files := map[string]string{}
	for _, name := range names {
		files[name] = "{}"
	}
	return packed.Archive(files)
}

func TestStateHolds(t *testing.T) {
	made := archive("/home/machine/.docker/machine/machines/m1/id_rsa",
		"/home/machine/.docker/machine/machines/m1/config.json")
	for name, test := range map[string]struct {
		content []byte
		want    bool
	}{
		"never written":       {nil, false},
		"removed":             {archive(), false},
		"made":                {made, true},
		"only other files":    {archive("/home/machine/.docker/machine/certs/config.json"), false},
		"not an archive":      {[]byte("broken"), true},
		"a truncated archive": {made[:len(made)/2], true},
	} {
		if got := machinejob.StateHolds(test.content); got != test.want {
			t.Errorf("%s: contains a machine %v, want %v", name, got, test.want)
		}
	}
}

func TestStateIdentifies(t *testing.T) {
	const config = "/home/machine/.docker/machine/machines/m1/config.json"
	for name, test := range map[string]struct {
		content []byte
		want    bool
	}{
		"nothing": {nil, true},
		"a driver that was ended while it created the host": {stateOf(t, config,
			`{"DriverName":"vmwarevsphere","Driver":{"MachineName":"m1","MachineId":""}}`), false},
		"a driver that never wrote the field": {stateOf(t, config, `{"DriverName":"amazonec2","Driver":{}}`), false},
		"a driver that created the host": {stateOf(t, config,
			`{"DriverName":"vmwarevsphere","Driver":{"MachineId":"42"}}`), true},
		"a number that was never set": {stateOf(t, config, `{"DriverName":"digitalocean","Driver":{"DropletID":0}}`),
			false},
		"a number": {stateOf(t, config, `{"DriverName":"digitalocean","Driver":{"DropletID":7}}`),
			true},
		"a driver that finds hosts by name": {stateOf(t, config, `{"DriverName":"azure","Driver":{}}`), true},
		"another file":                      {stateOf(t, "/certs/config.json", `{"DriverName":"amazonec2"}`), true},
		"a broken configuration":            {stateOf(t, config, "{"), true},
	} {
		if got := machinejob.StateIdentifies(test.content); got != test.want {
			t.Errorf("%s: identifies the host %v, want %v", name, got, test.want)
		}
	}
}
