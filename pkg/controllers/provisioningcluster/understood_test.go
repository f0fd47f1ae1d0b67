package provisioningcluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// A field without effect is reported with the control plane's message until it is removed, without a write in every
// reconcile.
func TestOnChange_TellsOfFieldsWithoutEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.controlPlane = &rkev1.RKEControlPlane{}
		w.cluster.Spec.DefaultPodSecurityPolicyTemplateName = "old"
	})
	handle := w.register()
	pass := func() *rkev1.GenericCondition {
		w.clock = w.clock.Add(time.Hour)
		w.writes = nil
		if _, err := handle("", w.cluster.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		return conditions.Get(w.cluster.Status.Conditions, "ConfigurationUnderstood")
	}
	const field = "spec.defaultPodSecurityPolicyTemplateName: has no effect"
	if got := pass(); got == nil || got.Status != "False" || got.Reason != "FieldWithoutEffect" ||
		!strings.HasPrefix(got.Message, field) {
		t.Fatalf("condition %+v", got)
	}
	if pass(); slices.Contains(w.writes, "status") {
		t.Errorf("writes %v although nothing has changed", w.writes)
	}
	odd := conditions.Condition{Type: "ConfigurationUnderstood", Status: "False", Reason: "Odd", Message: "look at it"}
	conditions.Set(&w.controlPlane.Status.Conditions, odd, now)
	if got := pass(); got.Reason != "Odd" || !strings.HasPrefix(got.Message, "look at it; "+field) {
		t.Errorf("condition %+v", got)
	}
	w.controlPlane.Status.Conditions = nil
	pass()
	w.cluster.Spec.DefaultPodSecurityPolicyTemplateName = ""
	if got := pass(); got.Status != "True" || got.Message != "" {
		t.Errorf("condition %+v", got)
	}
}

// Tolerated problems stay reported while the access to a Secret is unknown.
func TestOnChange_TellsOfSafeValuesWhileAccessIsNotAnswered(t *testing.T) {
	t.Parallel()
	registry := func(name string) func(*world) {
		return func(w *world) {
			w.cluster.Spec.RKEConfig.MachineGlobalConfig.Data = map[string]any{"system-default-registry": name}
		}
	}
	w := newWorld(t, sharedCredential("fleet-default/*"), registry("https://registry.example.com"), func(w *world) {
		w.controlPlane = &rkev1.RKEControlPlane{}
	})
	pass := func(handle func(string, *provv1.Cluster) (*provv1.Cluster, error)) *rkev1.GenericCondition {
		t.Helper()
		w.clock = w.clock.Add(time.Hour)
		if _, err := handle("", w.cluster.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		return conditions.Get(w.cluster.Status.Conditions, "ConfigurationUnderstood")
	}
	answered := w.register()
	before := pass(answered)
	if before == nil || before.Status != "False" || before.Reason != "SafeValueUsed" {
		t.Fatalf("condition %+v", before)
	}
	w.access = unanswered("the API server does not answer")
	if got := pass(w.register()); got.Status != "False" || got.Reason != "SafeValueUsed" ||
		got.Message != before.Message {
		t.Errorf("condition %+v", got)
	}
	if got := conditions.Get(w.cluster.Status.Conditions, "RKECluster"); got == nil || got.Status != "Unknown" {
		t.Errorf("it does not wait: condition %+v", got)
	}
	registry("registry.example.com")(w)
	if got := pass(w.register()); got.Status != "True" {
		t.Errorf("the field is right: condition %+v", got)
	}
}

// Users wait for a pause, so its text is not held back like others.
func TestOnlyTexts_APauseIsMore(t *testing.T) {
	status := func(message string) provv1.ClusterStatus {
		return provv1.ClusterStatus{Conditions: []rkev1.GenericCondition{{Type: provv1.ConditionReady,
			Status: rkev1.ConditionUnknown, Reason: rkev1.ReasonWaiting, Message: message}}}
	}
	for message, want := range map[string]bool{"draining node": true, planner.PausedMessage: false} {
		next := status(message)
		if got := onlyTexts(&provv1.Cluster{Status: status("configuring")}, &next); got != want {
			t.Errorf("%s: %v", message, got)
		}
	}
}
