package planner

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// A condition shows a failure to carry out a decision until the effects succeed. (docs/invariants.md#weaknesses, W1.)
func TestConcluded_AFailureStaysUntilTheEffectsSucceed(t *testing.T) {
	began := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	conflict := apierrors.NewConflict(gr, "x", errors.New("modified"))
	reset := func(port int) error {
		return fmt.Errorf("read tcp 10.0.0.1:%d->10.0.0.2:443: connection reset", port)
	}
	ready := func(status, message string, at time.Time) []rkev1.GenericCondition {
		var list []rkev1.GenericCondition
		c := conditions.Condition{Type: "Ready", Status: status, Message: message}
		if status == "False" {
			c.Reason = "Error"
		}
		conditions.Set(&list, c, at)
		return list
	}
	const told = "Cannot carry out the decision: read tcp 10.0.0.1->10.0.0.2:443: connection reset"
	later := began.Add(time.Hour)
	for name, tc := range map[string]struct {
		stored []rkev1.GenericCondition
		acted  error
		want   []rkev1.GenericCondition
	}{
		"no failure": {stored: ready("False", told, began),
			want: ready("Unknown", "decided", later)},
		"the first failure": {stored: ready("Unknown", "decided", began), acted: reset(1),
			want: ready("False", told, later)},
		"the same failure, another port": {stored: ready("False", told, began), acted: reset(2),
			want: ready("False", told, began)},
		"a conflict after a failure": {stored: ready("False", told, began), acted: conflict,
			want: ready("False", told, began)},
		"a conflict": {stored: ready("Unknown", "decided", began), acted: conflict,
			want: ready("Unknown", "decided", later)},
		"a conflict and a failure at once": {stored: ready("Unknown", "decided", began),
			acted: errors.Join(conflict, reset(3)), want: ready("False", told, later)},
	} {
		t.Run(name, func(t *testing.T) {
			decided := ready("Unknown", "decided", later)
			if diff := cmp.Diff(tc.want, concluded(decided, tc.stored, tc.acted, later)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(ready("Unknown", "decided", later), decided); diff != "" {
				t.Errorf("the decision has changed: %s", diff)
			}
		})
	}
}

// A condition names a Secret that is too large for the cache. Nothing else is written, and the condition only once.
func TestOnChange_ReportsASecretThatIsNotCached(t *testing.T) {
	f := newFakes(t)
	f.dropped = &clients.SecretDroppedError{Namespace: "ns", Name: "large", Reason: "has 600000 bytes"}
	f.cp.Spec.MachineSelectorFiles = []rkev1.RKEProvisioningFiles{{FileSources: []rkev1.ProvisioningFileSource{{
		Secret: rkev1.K8sObjectFileSource{Name: "large", Items: []rkev1.KeyToPath{{Key: "k", Path: "/k"}}},
	}}}}
	for range 2 {
		after, err := f.handler("ns/demo", f.cp)
		if !errors.As(err, &f.dropped) {
			t.Errorf("error %v", err)
		}
		f.cp = after
	}
	c := conditions.Get(f.cp.Status.Conditions, "Ready")
	if c == nil || c.Status != "False" || c.Reason != "Error" ||
		c.Message != "Cannot use what the cluster refers to: Secret ns/large has 600000 bytes" {
		t.Errorf("condition %+v", c)
	}
	if diff := cmp.Diff([]string{"status"}, f.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}
