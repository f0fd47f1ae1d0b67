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

	"github.com/drover-io/drover/pkg/conditions"
)

// wrangler's status handlers throw the returned status away when the handler fails.
func TestConclude_EdgeStatusIsDiscardedOnError(t *testing.T) {
	broken := errors.New("list machines: refused")
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "clusters"}, "c", errors.New("modified"))
	for name, tc := range map[string]struct {
		err       error
		want      conditions.Condition
		wantRetry Retry
	}{
		"success is true": {want: conditions.Condition{Status: "True"}},
		"a wait is unknown, is no error, and keeps its timer": {
			err:       fmt.Errorf("plan: %w", WaitFor("", "Waiting for machine m", "Machine", time.Minute)),
			want:      conditions.Condition{Status: "Unknown", Reason: "Waiting", Message: "Waiting for machine m"},
			wantRetry: Retry{After: time.Minute},
		},
		"a wait may give its own reason": {
			err:  Wait("WaitingForKubeconfig", "Waiting for kubeconfig", "Secret"),
			want: conditions.Condition{Status: "Unknown", Reason: "WaitingForKubeconfig", Message: "Waiting for kubeconfig"},
		},
		"a stall is false and is not tried again": {
			err:  Stall("", "spec.kubernetesVersion: must be a version of RKE2 or K3s"),
			want: conditions.Condition{Status: "False", Reason: "Error", Message: "spec.kubernetesVersion: must be a version of RKE2 or K3s"},
		},
		"an error is false and is tried again": {
			err:       broken,
			want:      conditions.Condition{Status: "False", Reason: "Error", Message: "list machines: refused"},
			wantRetry: Retry{Err: broken},
		},
		"a conflict is tried again and tells users nothing": {
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
			t.Error("a wait that nothing ends must not exist")
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
	} {
		if err := CheckStable(message); (err == nil) != wantStable {
			t.Errorf("CheckStable(%q) = %v, want stable %v", message, err, wantStable)
		}
	}
}
