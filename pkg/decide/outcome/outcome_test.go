package outcome

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// TestConclude_EdgeStatusIsDiscardedOnError covers wrangler's status handlers, which discard the returned status when
// the handler fails.
func TestConclude_EdgeStatusIsDiscardedOnError(t *testing.T) {
	broken := errors.New("list machines: refused")
	unstable := errors.New("read tcp 10.0.0.1:53412->10.0.0.2:443: connection reset")
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "clusters"}, "c", errors.New("modified"))
	for name, tc := range map[string]struct {
		err       error
		want      conditions.Condition
		wantRetry Retry
	}{
		"success is true": {want: conditions.Condition{Status: "True"}},
		"a wait is Unknown and no error, and keeps its timer": {
			err:       fmt.Errorf("plan: %w", WaitFor("", "Waiting for machine m", "Machine", time.Minute)),
			want:      conditions.Condition{Status: "Unknown", Reason: "Waiting", Message: "Waiting for machine m"},
			wantRetry: Retry{After: time.Minute},
		},
		"a wait may have its own reason": {
			err: Wait("WaitingForKubeconfig", "Waiting for kubeconfig", "Secret"),
			want: conditions.Condition{Status: "Unknown", Reason: "WaitingForKubeconfig",
				Message: "Waiting for kubeconfig"},
		},
		"a stall is False and is not retried": {
			err: Stall("", "spec.kubernetesVersion: must be a version of RKE2 or K3s"),
			want: conditions.Condition{Status: "False", Reason: "Error",
				Message: "spec.kubernetesVersion: must be a version of RKE2 or K3s"},
		},
		"an error is False and is retried": {
			err:       broken,
			want:      conditions.Condition{Status: "False", Reason: "Error", Message: "list machines: refused"},
			wantRetry: Retry{Err: broken},
		},
		"a changing error is reported without its changing parts": {
			err: unstable, wantRetry: Retry{Err: unstable},
			want: conditions.Condition{Status: "False", Reason: "Error",
				Message: "read tcp 10.0.0.1->10.0.0.2:443: connection reset"},
		},
		"a conflict is retried and not reported": {
			err:       conflict,
			want:      conditions.Condition{Status: "True"},
			wantRetry: Retry{Err: conflict},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, retry := Conclude("Ready", tc.err)
			tc.want.Type = "Ready"
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantRetry, retry, cmpopts.EquateErrors()); diff != "" {
				t.Errorf("retry (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWait_WithoutWakeUpPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a wait needs a wake-up")
		}
	}()
	_ = Wait("Waiting", "Waiting for ever", "")
}

func TestCheckStable_EdgeUnstableTextBypassesBackOff(t *testing.T) {
	for message, wantStable := range map[string]bool{
		"Waiting for machines a, b and 3 more":                               true,
		"Machine pool-1-abcde is at version v1.36.2+rke2r1, want v1.36.3":    true,
		"spec.rkeConfig.machinePools[0].quantity: must not be negative":      true,
		"Connection to 198.18.0.10:6443 was refused":                         true,
		"Waiting, saw resourceVersion 4711":                                  false,
		"Last tried at 2026-08-01T12:00:00Z":                                 false,
		"Took 1.5s":                                                          false,
		"No answer for 2m30s":                                                false,
		"Attempt 4 failed":                                                   false,
		"read tcp 10.0.0.1:53412->10.0.0.2:6443: connection reset":           false,
		"object 0xc000123456 is gone":                                        false,
		"Operation cannot be fulfilled: generation 1234567890 is not latest": false,
		"Denied, request id: 9d4f6a3e-77aa-4b1c":                             false,
		"UID 9d4f6a3e-77aa-4b1c-8f00-0123456789ab does not match":            false,
	} {
		if err := CheckStable(message); (err == nil) != wantStable {
			t.Errorf("CheckStable(%q) = %v, want stable %v", message, err, wantStable)
		}
		if stable := Stable(message); CheckStable(stable) != nil || wantStable && stable != message {
			t.Errorf("Stable(%q) = %q", message, stable)
		}
	}
}

func TestStable(t *testing.T) {
	for text, want := range map[string]string{
		`failed calling webhook "w": Post "https://w.ns.svc:443/?timeout=10s": read tcp 10.0.0.1:53412->10.0.0.2:443: connection reset`: `failed calling webhook "w": Post "https://w.ns.svc:443/?timeout=10s": read tcp 10.0.0.1->10.0.0.2:443: connection reset`,
		"read tcp [fd00::1]:53412->[fd00::2]:443: i/o timeout":                                                                          "read tcp [fd00::1]->[fd00::2]:443: i/o timeout",
		"certificate has expired: current time 2026-08-01T12:00:00.5+02:00 is after 2025-01-01T00:00:00Z":                               "certificate has expired: current time … is after …",
		"throttled for 1h2m3.5s, then for 1m30s, then for 250ms, attempt 7":                                                             "throttled for …, then for …, then for …, attempt …",
		"status code: 403, request id: 9d4f6a3e-77aa-4b1c-8f00-0123456789ab":                                                            "status code: 403, request id: …",
		"the object at 0xc000123456 has resourceVersion 4711":                                                                           "the object at … has resourceVersion …",
	} {
		if diff := cmp.Diff(want, Stable(text)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestRecord_ARepeatedFailureWritesNothing(t *testing.T) {
	began := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "clusters"}, "c", errors.New("modified"))
	for name, tc := range map[string]struct {
		first, then error
		after       time.Duration
		wantWritten bool
		wantMessage string
	}{
		"the same failure": {first: errors.New("a"), then: errors.New("a"), after: time.Hour,
			wantMessage: "a"},
		"another text, soon": {first: errors.New("a"), then: errors.New("b"),
			after: 59 * time.Second, wantMessage: "a"},
		"another text, later": {first: errors.New("a"), then: errors.New("b"), after: time.Minute,
			wantWritten: true, wantMessage: "b"},
		"another text, with the clock set back": {first: errors.New("a"), then: errors.New("b"), after: -time.Hour,
			wantWritten: true, wantMessage: "b"},
		"success at once":           {first: errors.New("a"), wantWritten: true},
		"a failure after a success": {then: errors.New("a"), wantWritten: true, wantMessage: "a"},
		"a user must act now": {first: errors.New("a"), then: Stall("", "b"), wantWritten: true,
			wantMessage: "b"},
		"a user must act on another failure": {first: Stall("", "a"), then: Stall("", "b"), wantWritten: true,
			wantMessage: "b"},
		"a conflict after a failure": {first: errors.New("a"), then: conflict, after: time.Hour, wantMessage: "a"},
		"a conflict after a success": {then: conflict, after: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			var list []rkev1.GenericCondition
			condition, retry := Conclude("Ready", tc.first)
			if !Record(&list, condition, retry, began) {
				t.Fatal("the first condition was not written")
			}
			condition, retry = Conclude("Ready", tc.then)
			if written := Record(&list, condition, retry, began.Add(tc.after)); written != tc.wantWritten {
				t.Errorf("written: %v", written)
			}
			if list[0].Message != tc.wantMessage {
				t.Errorf("message %q, want %q", list[0].Message, tc.wantMessage)
			}
		})
	}
}
