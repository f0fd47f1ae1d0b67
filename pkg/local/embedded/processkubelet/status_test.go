package processkubelet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	waits = containerState{waiting: &corev1.ContainerStateWaiting{Reason: reasonContainerCreating}}
	runs  = containerState{running: &corev1.ContainerStateRunning{}}
)

func ended(code int, final bool) containerState {
	return containerState{ended: &corev1.ContainerStateTerminated{ExitCode: int32(code)}, final: final}
}

func TestPhaseAndReadiness(t *testing.T) {
	crashing := containerState{waiting: &corev1.ContainerStateWaiting{Reason: reasonCrashLoop},
		last: &corev1.ContainerStateTerminated{ExitCode: 1}, attempt: 1}
	tests := map[string]struct {
		init      *containerState
		main      []containerState
		failure   string
		wantPhase corev1.PodPhase
		wantReady bool
	}{
		"no container started":  {main: []containerState{waits, waits}, wantPhase: corev1.PodPending},
		"one container started": {main: []containerState{runs, waits}, wantPhase: corev1.PodRunning},
		"all containers run": {main: []containerState{runs, runs}, wantPhase: corev1.PodRunning,
			wantReady: true},
		"one ended, one runs": {main: []containerState{ended(1, true), runs},
			wantPhase: corev1.PodRunning},
		"all succeeded": {main: []containerState{ended(0, true), ended(0, true)},
			wantPhase: corev1.PodSucceeded},
		"all ended, one failed": {main: []containerState{ended(0, true), ended(3, true)},
			wantPhase: corev1.PodFailed},
		"ended, will restart":   {main: []containerState{ended(1, false)}, wantPhase: corev1.PodRunning},
		"waits for its restart": {main: []containerState{crashing}, wantPhase: corev1.PodRunning},
		"init runs": {init: &runs, main: []containerState{waits},
			wantPhase: corev1.PodPending},
		"init failed finally": {init: new(ended(1, true)), main: []containerState{waits},
			wantPhase: corev1.PodFailed},
		"init failed, restarts": {init: new(ended(1, false)), main: []containerState{waits},
			wantPhase: corev1.PodPending},
		"init succeeded, main containers run": {init: new(ended(0, true)), main: []containerState{runs},
			wantPhase: corev1.PodRunning, wantReady: true},
		"the pod itself failed": {main: []containerState{ended(128, true)}, failure: reasonUnknownImage,
			wantPhase: corev1.PodFailed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := podWith(corev1.Container{})
			pod.Spec.Containers = nil
			state := podState{failureReason: test.failure, containers: map[string]containerState{}}
			if test.init != nil {
				pod.Spec.InitContainers = []corev1.Container{{Name: "init"}}
				state.containers["init"] = *test.init
			}
			for i, container := range test.main {
				name := fmt.Sprintf("c%d", i)
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name})
				state.containers[name] = container
			}
			status := podStatus(pod, state, somewhere, time.Unix(100, 0))
			if status.Phase != test.wantPhase || conditionHolds(status, corev1.PodReady) != test.wantReady {
				t.Errorf("phase %s, ready %v; want %s, %v", status.Phase, conditionHolds(status, corev1.PodReady),
					test.wantPhase, test.wantReady)
			}
			if status.Reason != test.failure {
				t.Errorf("reason %q, want %q", status.Reason, test.failure)
			}
			// An unchanged state must give an equal status. Otherwise every sync of a pod would be a write.
			pod.Status = status
			if diff := cmp.Diff(status, podStatus(pod, state, somewhere, time.Unix(200, 0))); diff != "" {
				t.Errorf("the second status differs:\n%s", diff)
			}
		})
	}
}

func conditionHolds(status corev1.PodStatus, kind corev1.PodConditionType) bool {
	for _, condition := range status.Conditions {
		if condition.Type == kind {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func TestConditionKeepsItsTime(t *testing.T) {
	old := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.Unix(5, 0)}}
	if got := podCondition(old, corev1.PodReady, true, time.Unix(9, 0)); got.LastTransitionTime.Unix() != 5 {
		t.Errorf("unchanged condition has time %v", got.LastTransitionTime)
	}
	if got := podCondition(old, corev1.PodReady, false, time.Unix(9, 0)); got.LastTransitionTime.Unix() != 9 {
		t.Errorf("changed condition has time %v", got.LastTransitionTime)
	}
}

func TestRestartPolicy(t *testing.T) {
	tests := map[string]struct {
		policy   corev1.RestartPolicy
		init     bool
		wantGood bool
		wantBad  bool
	}{
		"never":             {policy: corev1.RestartPolicyNever},
		"on failure":        {policy: corev1.RestartPolicyOnFailure, wantBad: true},
		"always":            {policy: corev1.RestartPolicyAlways, wantGood: true, wantBad: true},
		"always, init ends": {policy: corev1.RestartPolicyAlways, init: true, wantBad: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if good, bad := restarts(test.policy, test.init, 0),
				restarts(test.policy, test.init, 1); good != test.wantGood || bad != test.wantBad {
				t.Errorf("restarts after 0: %v, after 1: %v; want %v, %v", good, bad, test.wantGood, test.wantBad)
			}
		})
	}
}

func TestLogTail(t *testing.T) {
	long := strings.Repeat(strings.Repeat("x", 99)+"\n", 2000) // longer than one block
	tests := map[string]struct {
		text    string
		options api.ContainerLogOpts
		want    string
	}{
		"everything":             {text: "a\nb\n", want: "a\nb\n"},
		"last line":              {text: "a\nb\nc\n", options: api.ContainerLogOpts{Tail: 1}, want: "c\n"},
		"last two lines":         {text: "a\nb\nc\n", options: api.ContainerLogOpts{Tail: 2}, want: "b\nc\n"},
		"more lines than exist":  {text: "a\nb\n", options: api.ContainerLogOpts{Tail: 5}, want: "a\nb\n"},
		"line without a newline": {text: "a\nb", options: api.ContainerLogOpts{Tail: 1}, want: "b"},
		"empty":                  {options: api.ContainerLogOpts{Tail: 3}},
		"across blocks":          {text: long, options: api.ContainerLogOpts{Tail: 1000}, want: long[:100*1000]},
		"limited":                {text: "abcdef", options: api.ContainerLogOpts{LimitBytes: 3}, want: "abc"},
		"empty lines count":      {text: "a\n\n\n", options: api.ContainerLogOpts{Tail: 2}, want: "\n\n"},
		"followed to its end":    {text: "a\nb\n", options: api.ContainerLogOpts{Follow: true}, want: "a\nb\n"},
		"followed after the last lines": {text: "a\nb\n", options: api.ContainerLogOpts{Follow: true, Tail: 1},
			want: "b\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			reader, err := openLog(t.Context(), path, test.options, func() bool { return true })
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			if got, err := io.ReadAll(reader); string(got) != test.want || err != nil {
				t.Errorf("read %d bytes, %v; want %d", len(got), err, len(test.want))
			}
		})
	}
}

func TestFollowedLogGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var over atomic.Bool
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	reader, err := openLog(ctx, path, api.ContainerLogOpts{Follow: true}, over.Load)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	got := make(chan string, 1)
	go func() {
		var buffer bytes.Buffer
		_, _ = io.Copy(&buffer, reader)
		got <- buffer.String()
	}()
	for _, text := range []string{"first\n", "second\n"} {
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	over.Store(true)
	if text := <-got; text != "first\nsecond\n" {
		t.Errorf("followed %q", text)
	}
}
