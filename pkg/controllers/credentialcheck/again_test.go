package credentialcheck_test

import (
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/credentialjob"
	"github.com/drover-io/drover/pkg/testkit/build"
)

// TestCheck_AgainAfterAMachineFails: a credential that was valid may have expired. Failures soon after a check cause
// none.
func TestCheck_AgainAfterAMachineFails(t *testing.T) {
	inWorld(t, func(w *world) {
		w.write("accessKey", "secretKey")
		w.pass()
		w.fail("soon")
		w.pass()
		w.expect("True", credentialjob.ReasonAccepted, 1)
		time.Sleep(time.Hour)
		w.answer = credentialjob.Result{Reason: credentialjob.ReasonExpired, Message: "It has expired"}
		w.fail("later")
		w.pass()
		w.expect("False", credentialjob.ReasonExpired, 2)
		time.Sleep(time.Hour)
		w.fail("again")
		w.pass()
		w.expect("False", credentialjob.ReasonExpired, 2)
	})
}

// fail adds a machine whose Job has failed.
func (w *world) fail(name string) { w.machine(name, "False", rkev1.ReasonCreateError) }

func (w *world) machine(name, status, reason string) {
	w.Helper()
	machine := build.Machine("demo", name, "w")
	machine.Spec.InfrastructureRef.Kind = "Amazonec2Machine"
	conditions.SetMeta(&machine.Status.Conditions, conditions.Condition{
		Type: clusterv1.MachineInfrastructureReadyCondition, Status: status, Reason: reason}, 1, time.Now())
	must(w.T, w.api.Add(machine))
}

// TestCheck_AgainWithoutAnotherEvent: the hour ends when nothing else happens.
func TestCheck_AgainWithoutAnotherEvent(t *testing.T) {
	inWorld(t, func(w *world) {
		w.write("accessKey", "secretKey")
		w.pass()
		w.fail("soon")
		w.answer = credentialjob.Result{Reason: credentialjob.ReasonExpired, Message: "It has expired"}
		time.Sleep(time.Hour)
		w.pass()
		w.expect("False", credentialjob.ReasonExpired, 2)
	})
}

// TestCheck_AgainAfterAHostIsMade: the cloud did not know a new access key yet, and the Secret is right.
func TestCheck_AgainAfterAHostIsMade(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answer = credentialjob.Result{Reason: credentialjob.ReasonRejected, Message: "AuthFailure"}
		w.write("accessKey", "secretKey")
		w.pass()
		time.Sleep(2 * time.Hour)
		w.fail("f")
		w.pass()
		w.expect("False", credentialjob.ReasonRejected, 1)
		w.answer = credentialjob.Result{Reason: credentialjob.ReasonAccepted, Message: "Yes"}
		w.machine("m", "True", "Ready")
		w.pass()
		w.expect("True", credentialjob.ReasonAccepted, 2)
	})
}
