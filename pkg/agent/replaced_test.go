package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// state returns a version of the Secret with a plan.
func state(version, plan string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u1",
		ResourceVersion: version}, Data: secretData(plan)}
}

// A replaced plan continues for a while and is then aborted, so that it cannot block the plan that repairs it.
func TestRemote_ReplacedPlanThatDoesNotEndIsStopped(t *testing.T) {
	for name, tc := range map[string]struct {
		patience  time.Duration
		next      func(plan string) *corev1.Secret
		brokenOff bool
	}{
		"another plan arrived long ago": {0, func(string) *corev1.Secret { return state("2", echoPlan) }, true},
		"another plan arrived recently": {time.Hour, func(string) *corev1.Secret { return state("2", echoPlan) },
			false},
		"another key changed":    {0, func(plan string) *corev1.Secret { return state("2", plan) }, false},
		"the plan was removed":   {0, func(string) *corev1.Secret { return state("2", "") }, false},
		"the secret was deleted": {0, func(string) *corev1.Secret { return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			mark := filepath.Join(t.TempDir(), "mark")
			script := fmt.Sprintf("touch %[1]s; while [ ! -e %[1]s.go ]; do sleep 0.02; done; touch %[1]s.end", mark)
			plan := fmt.Sprintf(`{"instructions":[{"name":"a","command":"sh","args":["-c",%q]}]}`, script)
			r, _ := newTestRemote(t, secretData(plan))
			r.updates, r.patience, r.applied = make(chan *corev1.Secret), tc.patience, "of the plan before"
			type outcome struct {
				result result
				ok     bool
			}
			done := make(chan outcome, 1)
			checksum := nodeplan.Checksum([]byte(plan))
			go func() {
				res, ok := r.applyUnlessReplaced(t.Context(), []byte(plan),
					applyInput{checksum: checksum, apply: true, attempt: 1})
				done <- outcome{res, ok}
			}()
			waitFor(t, func() bool { return exists(mark) })
			next := tc.next(plan)
			r.updates <- next
			if !tc.brokenOff {
				r.updates <- next // receiving this one proves that the first was handled
				if err := os.WriteFile(mark+".go", nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := <-done
			if ended := exists(mark + ".end"); got.ok == tc.brokenOff || got.result.succeeded == tc.brokenOff ||
				ended == tc.brokenOff {
				t.Errorf("reported %v, succeeded %v, ended by itself %v; want stopped %v", got.ok, got.result.succeeded,
					ended, tc.brokenOff)
			}
			if (r.applied == "") != tc.brokenOff {
				t.Errorf("the agent records plan %q", r.applied)
			}
			if len(r.held) == 0 {
				t.Error("updates during the pass are lost")
			}
		})
	}
}

// Versions that arrive during an apply are accepted afterwards, and the newest plan is next.
func TestRemote_UpdatesDuringAPassAreUsed(t *testing.T) {
	r, _ := newTestRemote(t, secretData(echoPlan))
	r.held = []*corev1.Secret{state("2", "{}"), state("3", `{"files":[]}`)}
	if !r.acceptHeld(t.Context()) || string(r.current.Data[nodeplan.KeyPlan]) != `{"files":[]}` || len(r.held) != 0 {
		t.Errorf("the plan is %s, %d states are held", r.current.Data[nodeplan.KeyPlan], len(r.held))
	}
	r.held = []*corev1.Secret{state("3", `{"files":[]}`)}
	if r.acceptHeld(t.Context()) {
		t.Error("a known state requests a pass")
	}
	r.held = []*corev1.Secret{state("4", "{}"), nil}
	if r.acceptHeld(t.Context()) || r.current != nil {
		t.Error("a deleted secret requests a pass")
	}
}
