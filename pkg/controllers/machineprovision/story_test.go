package machineprovision_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/nodedriver"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// afterJoin lists what remains of a machine that has become a node: the plan channel, the identity and the driver's
// state.
var afterJoin = []string{
	"Secret m1-machine-bootstrap", "Secret m1-machine-bootstrap-token", "Secret m1-machine-plan",
	"Secret m1-machine-state",
	"ServiceAccount m1-machine-bootstrap", "ServiceAccount m1-machine-plan", "Role m1-machine-plan",
	"RoleBinding m1-machine-plan",
}

func TestStory_MachineBecomesANodeAndGoes(t *testing.T) {
	tell(t, func(w *world) {
		w.run() // creates the drivers' kinds
		_, err := w.c.Core.Secret().Create(
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo-kubeconfig"}})
		must(t, err)
		before := w.owned()
		w.api.ResetLog()
		w.addMachine("m1", true)
		w.run()

		status := w.status("m1")
		if !conditions.IsTrue(status.Conditions, rkev1.ConditionReady) ||
			!conditions.IsTrue(status.Conditions, rkev1.ConditionCreateJob) {
			t.Errorf("conditions are %+v", status.Conditions)
		}
		if status.Initialization.Provisioned == nil || !*status.Initialization.Provisioned ||
			len(status.Addresses) != 1 {
			t.Errorf("Cluster API does not learn that the machine exists: %+v", status)
		}
		if diff := cmp.Diff(afterJoin, w.owned()); diff != "" {
			t.Errorf("objects of the machine (-want +got):\n%s", diff)
		}
		w.checkSecrets()
		for _, entry := range w.api.Writes(manager) {
			t.Logf("%d %s", entry.Code, entry)
		}
		t.Logf("%d writes for one machine", len(w.api.Writes(manager)))

		w.api.ResetLog()
		w.sleep(10 * time.Minute)
		if writes := w.api.Writes(manager); len(writes) > 0 {
			t.Errorf("writes to a settled machine: %v", writes)
		}
		w.restart()
		w.sleep(10 * time.Minute)
		if writes := w.api.Writes(manager); len(writes) > 0 {
			t.Errorf("a restart writes: %v", writes)
		}

		w.addMember("m0") // the last member would hold the machine, to keep the data
		must(t, w.c.CAPI.Machine().Delete(namespace, "m1", nil))
		w.leaveEtcd("m1")
		w.run()
		if w.machine("m1") != nil {
			t.Fatalf("the machine is not deleted: %+v", w.status("m1"))
		}
		if w.made["m1"] != 1 || w.removed["m1"] != 1 {
			t.Errorf("created %d times, removed %d times, want once each", w.made["m1"], w.removed["m1"])
		}
		if diff := cmp.Diff(before, w.owned()); diff != "" {
			t.Errorf("left behind (-want +got):\n%s", diff)
		}
	})
}

// leaveEtcd acts as the distribution: when asked on the node, it removes the member.
func (w *world) leaveEtcd(node string) {
	w.Helper()
	for range 60 {
		w.step()
		w.sleep(time.Second)
		found, err := w.nodes.CoreV1().Nodes().Get(w.Context(), node, metav1.GetOptions{})
		must(w.T, err)
		machine, err := w.c.CAPI.Machine().Get(namespace, node, metav1.GetOptions{})
		must(w.T, err)
		asked := found.Annotations[rkev1.RemoveK3sEtcdMemberAnnotation] == "true"
		if machine.Annotations[rkev1.PreTerminateAnnotation] == "" {
			w.Fatal("the machine is released before its etcd member has left")
		}
		if asked {
			found.Annotations[rkev1.RemovedK3sEtcdMemberAnnotation] = node
			_, err = w.nodes.CoreV1().Nodes().Update(w.Context(), found, metav1.UpdateOptions{})
			must(w.T, err)
			return
		}
	}
	w.Fatal("the node is not asked to leave etcd")
}

// checkSecrets checks that secrets exist where needed, and appear nowhere else.
func (w *world) checkSecrets() {
	w.Helper()
	for _, gvk := range []schema.GroupVersionKind{jobKind, machineKind,
		{Group: "rke.cattle.io", Version: "v1", Kind: "RKEBootstrap"}} {
		for _, obj := range w.api.Objects(gvk) {
			if strings.Contains(fmt.Sprint(obj.Object), "top-secret") {
				w.Errorf("the credential is in %s %s", gvk.Kind, obj.GetName())
			}
		}
	}
	data, err := w.c.Core.Secret().Get(namespace, "m1-machine-bootstrap", metav1.GetOptions{})
	must(w.T, err)
	token, err := w.c.Core.Secret().Get(namespace, "m1-machine-bootstrap-token", metav1.GetOptions{})
	must(w.T, err)
	script := string(data.Data["value"])
	for _, want := range []string{"export HTTPS_PROXY='http://proxy:3128'",
		"export CATTLE_SERVER='https://drover.example.org'", "echo install"} {
		if !strings.Contains(script, want) {
			w.Errorf("the script lacks %q:\n%s", want, script)
		}
	}
	if strings.Contains(script, string(token.Data[corev1.ServiceAccountTokenKey])) {
		w.Error("the account's token is in the script")
	}
	if token.Annotations[rkev1.BootstrapTokenInvalidatedAnnotation] != "true" {
		w.Error("the token is still valid although the machine is a node")
	}
	plan, err := w.c.Core.Secret().Get(namespace, "m1-machine-plan", metav1.GetOptions{})
	must(w.T, err)
	// The Secret holds a plan and a report, by the simulated planner and agent.
	if plan.Type != rkev1.SecretTypeMachinePlan || plan.Labels[rkev1.EtcdRoleLabel] != "true" ||
		plan.Labels[rkev1.MachineNameLabel] != "m1" || len(plan.Data) > 2 {
		w.Errorf("plan Secret: type %s, labels %v, %d keys", plan.Type, plan.Labels, len(plan.Data))
	}
}

// TestStory_CutOffAfterEveryWrite: there is one virtual machine, and nothing remains of it at the end, if the process
// is killed after any write and restarted.
func TestStory_CutOffAfterEveryWrite(t *testing.T) {
	total := 0
	const patience = 12 // no timer here is longer
	tell(t, func(w *world) {
		w.patience = patience
		w.run()
		w.api.ResetLog()
		w.live("m1", nil)
		total = w.api.Written(manager)
	})
	if total < 25 {
		t.Fatalf("a whole life takes %d writes: the story is incomplete", total)
	}
	for _, n := range crashpoints.Of(t, total, 60) {
		t.Run(fmt.Sprintf("write %d", n), func(t *testing.T) {
			t.Parallel()
			tell(t, func(w *world) {
				w.patience = patience
				w.run()
				cut := make(chan struct{})
				w.api.CutAfter(manager, n, func() { close(cut) })
				w.live("m1", cut)
			})
		})
	}
}

// live runs the whole life of a machine. When cut is closed, the manager is replaced.
func (w *world) live(name string, cut <-chan struct{}) {
	w.Helper()
	w.addMachine(name, false)
	deleted := false
	for range 600 {
		select {
		case <-cut:
			w.restart()
			cut = nil // kill once
		default:
		}
		w.step()
		w.sleep(500 * time.Millisecond)
		if deleted && w.machine(name) == nil {
			break
		}
		if !deleted && w.settled(name) {
			must(w.T, w.c.CAPI.Machine().Delete(namespace, name, nil))
			deleted = true
		}
	}
	w.run()
	if w.machine(name) != nil {
		w.Fatalf("the machine is not deleted: %+v", w.status(name))
	}
	if w.made[name] != 1 || w.removed[name] != 1 {
		w.Errorf("created %d times, removed %d times, want once each", w.made[name], w.removed[name])
	}
	if left := w.owned(); len(left) > 0 {
		w.Errorf("left behind: %v", left)
	}
}

// settled reports whether the machine has joined and its Job is cleaned up.
func (w *world) settled(name string) bool {
	status := w.status(name)
	return status.Initialization.Provisioned != nil && *status.Initialization.Provisioned &&
		len(w.api.Objects(jobKind)) == 0
}

// The bootstrap data wake a Machine that already shows their name, as happens when two caches fill one after the other.
func TestStory_BootstrapThatComesAfterItsMachineWakesTheMachine(t *testing.T) { tell(t, lateBootstrap) }

func lateBootstrap(w *world) {
	w.Helper()
	w.run()
	w.addMachine("m1", false)
	bootstrap, err := w.c.RKE.RKEBootstrap().Get(namespace, "m1", metav1.GetOptions{})
	must(w.T, err)
	must(w.T, w.c.RKE.RKEBootstrap().Delete(namespace, "m1", nil))
	machine, err := w.c.CAPI.Machine().Get(namespace, "m1", metav1.GetOptions{})
	must(w.T, err)
	machine.Spec.Bootstrap.DataSecretName = new("m1-machine-bootstrap")
	_, err = w.c.CAPI.Machine().Update(machine)
	must(w.T, err)
	w.run()
	if w.made["m1"] != 0 {
		w.Fatal("the machine is created without bootstrap data")
	}
	bootstrap.ResourceVersion, bootstrap.UID, bootstrap.Status = "", "", rkev1.RKEBootstrapStatus{}
	_, err = w.c.RKE.RKEBootstrap().Create(bootstrap)
	must(w.T, err)
	w.run()
	if w.made["m1"] != 1 {
		w.Errorf("created %d times, status %+v", w.made["m1"], w.status("m1"))
	}
}

func TestStory_FailedCreateIsShownAndReplaced(t *testing.T) {
	tell(t, func(w *world) {
		failedCreate(w)
		w.counts(disruption.HealthMachineFailed)
	})
}

func failedCreate(w *world) {
	w.Helper()
	w.settings.DeleteFailedAfter = time.Hour
	w.run()
	w.fail = "no quota for droplets"
	w.addMachine("m1", false)
	w.run()
	status := w.status("m1")
	if status.FailureReason != rkev1.ReasonCreateError || !strings.Contains(status.FailureMessage, "no quota") {
		w.Errorf("failure is %s: %s", status.FailureReason, status.FailureMessage)
	}
	machine, err := w.c.CAPI.Machine().Get(namespace, "m1", metav1.GetOptions{})
	must(w.T, err)
	if machine.DeletionTimestamp != nil {
		w.Error("the Machine is replaced too early")
	}
	w.sleep(time.Hour)
	w.run()
	if w.machine("m1") != nil {
		w.Errorf("the failed machine is not replaced: %+v", w.status("m1"))
	}
}

// A failing driver's message is shown without the credential that it repeats.
func TestStory_FailureDoesNotTellTheCredential(t *testing.T) {
	tell(t, func(w *world) {
		w.settings.DeleteFailedAfter = time.Hour
		w.run()
		w.fail = "POST https://cloud.example.org/droplets?sig=abcdef: 401, token top-secret is not valid in region fra1"
		w.addMachine("m1", false)
		w.run()
		shown := fmt.Sprint(w.status("m1"))
		if !strings.Contains(shown, "401") || !strings.Contains(shown, "fra1") {
			t.Errorf("the failure is not reported: %s", shown)
		}
		for _, secret := range []string{"top-secret", "abcdef"} {
			if strings.Contains(shown, secret) {
				t.Errorf("%s contains: %s", secret, shown)
			}
		}
	})
}

// A rotated credential reaches the removal of a machine that was created with the former one, also after a failure.
func TestStory_RotatedCredentialRemovesMachines(t *testing.T) {
	tell(t, func(w *world) {
		w.run()
		w.addMachine("m1", false)
		w.run()
		w.fail = "401: the token is revoked"
		must(t, w.c.CAPI.Machine().Delete(namespace, "m1", nil))
		w.run()
		credential, err := w.c.Core.Secret().Get("cattle-global-data", credShort, metav1.GetOptions{})
		must(t, err)
		credential.Data["digitaloceancredentialConfig-accessToken"] = []byte("rotated")
		_, err = w.c.Core.Secret().Update(credential)
		must(t, err)
		w.fail = ""
		w.sleep(2 * time.Minute)
		w.run()
		if diff := cmp.Diff([]string{"top-secret", "rotated"}, w.given); diff != "" || w.removed["m1"] != 1 {
			t.Errorf("removed %d times; credentials of the drivers (-want +got):\n%s", w.removed["m1"], diff)
		}
	})
}

func TestStory_FailedRemovalIsRetriedUntilItSucceeds(t *testing.T) {
	tell(t, func(w *world) {
		failedRemoval(w)
		w.counts(disruption.HealthCheckFailed)
	})
}

func failedRemoval(w *world) {
	w.Helper()
	w.run()
	w.addMachine("m1", false)
	w.run()
	w.fail = "forbidden by the cloud"
	machine, err := w.c.CAPI.Machine().Get(namespace, "m1", metav1.GetOptions{})
	must(w.T, err)
	conditions.SetMeta(&machine.Status.Conditions, conditions.Condition{Type: "HealthCheckSucceeded", Status: "False",
		Reason: "NodeUnhealthy"}, 1, time.Now())
	_, err = w.c.CAPI.Machine().UpdateStatus(machine)
	must(w.T, err)
	must(w.T, w.c.CAPI.Machine().Delete(namespace, "m1", nil))
	w.run()
	status := w.status("m1")
	if status.FailureReason != rkev1.ReasonDeleteError ||
		!strings.Contains(status.FailureMessage, "forbidden by the cloud") {
		w.Errorf("failure is %s: %s", status.FailureReason, status.FailureMessage)
	}
	w.fail = ""
	w.sleep(2 * time.Minute)
	w.run()
	if w.machine("m1") != nil || w.removed["m1"] != 1 {
		w.Errorf("removed %d times, machine %v", w.removed["m1"], w.machine("m1"))
	}
}

func TestStory_DeletionDuringCreateWaitsForTheDriver(t *testing.T) { tell(t, deletionDuringCreate) }

func deletionDuringCreate(w *world) {
	w.Helper()
	w.run()
	w.hold = true
	w.addMachine("m1", false)
	w.run()
	job, err := w.c.Batch.Job().Get(namespace, "m1-machine-provision", metav1.GetOptions{})
	must(w.T, err)
	job.Status.Active = 1 // its pod runs
	_, err = w.c.Batch.Job().UpdateStatus(job)
	must(w.T, err)
	must(w.T, w.c.CAPI.Machine().Delete(namespace, "m1", nil))
	w.run()
	if w.machine("m1") == nil {
		w.Fatal("the machine is released while its create Job runs")
	}
	w.hold = false
	w.run()
	if w.machine("m1") != nil || w.made["m1"] != 1 || w.removed["m1"] != 1 {
		w.Errorf("created %d, removed %d, machine %v", w.made["m1"], w.removed["m1"], w.machine("m1"))
	}
}

func TestStory_PodThatNeverStartsIsTakenBack(t *testing.T) { tell(t, podThatNeverStarts) }

func podThatNeverStarts(w *world) {
	w.Helper()
	w.run()
	w.hold = true
	w.addMachine("m1", false)
	w.run()
	must(w.T, w.c.CAPI.Machine().Delete(namespace, "m1", nil))
	w.run()
	if w.machine("m1") != nil || w.made["m1"] != 0 || len(w.owned()) > 0 {
		w.Errorf("created %d, machine %v, left %v", w.made["m1"], w.machine("m1"), w.owned())
	}
}

func TestStory_MissingCredentialIsNamed(t *testing.T) { tell(t, missingCredential) }

func missingCredential(w *world) {
	w.Helper()
	w.run()
	must(w.T, w.c.Core.Secret().Delete("cattle-global-data", credShort, nil))
	w.addMachine("m1", false)
	w.run()
	ready := conditions.Get(w.status("m1").Conditions, rkev1.ConditionReady)
	if ready == nil || !strings.Contains(ready.Message, "cattle-global-data/"+credShort) {
		w.Fatalf("condition is %+v, want one that names the Secret", ready)
	}
	for _, object := range w.owned() {
		if strings.HasPrefix(object, "Job") || strings.Contains(object, "state") || strings.Contains(object, "driver") {
			w.Errorf("%s is created although the credential is missing", object)
		}
	}
	_, err := w.c.Core.Secret().Create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-global-data", Name: credShort,
			Annotations: map[string]string{rkev1.AuthorizedObjectAnnotation: namespace + "/*"}},
		Data: map[string][]byte{"x-accessToken": []byte("y")},
	})
	must(w.T, err)
	w.run()
	if w.made["m1"] != 1 {
		w.Error("the machine is not created with the credential")
	}
}

// TestStory_DriversBecomeKinds: the four active drivers of a new installation get kinds, and a deactivated driver loses
// them after its machines are gone.
func TestStory_DriversBecomeKinds(t *testing.T) { tell(t, driversBecomeKinds) }

func driversBecomeKinds(w *world) {
	w.Helper()
	must(w.T, nodedriver.Seed(w.c.Management.NodeDriver(), "amd64"))
	w.run()
	want := []string{
		"Amazonec2Config", "Amazonec2Machine", "Amazonec2MachineTemplate", "AzureConfig", "AzureMachine",
		"AzureMachineTemplate",
		"DigitaloceanConfig", "DigitaloceanMachine", "DigitaloceanMachineTemplate", "VmwarevsphereConfig",
		"VmwarevsphereMachine", "VmwarevsphereMachineTemplate",
	}
	if diff := cmp.Diff(want, w.kinds()); diff != "" {
		w.Errorf("kinds (-want +got):\n%s", diff)
	}
	w.addMachine("m1", false)
	w.run()
	w.activate("digitalocean", false)
	w.activate("azure", false)
	w.run()
	without := append(append([]string{}, want[:3]...), want[6:]...)
	if diff := cmp.Diff(without, w.kinds()); diff != "" {
		w.Errorf("kinds after two drivers, one of them in use, were deactivated (-want +got):\n%s", diff)
	}
	must(w.T, w.c.CAPI.Machine().Delete(namespace, "m1", nil))
	w.run()
	w.sleep(2 * time.Minute)
	w.run()
	if diff := cmp.Diff(append(append([]string{}, want[:3]...), want[9:]...), w.kinds()); diff != "" {
		w.Errorf("kinds after the deletion of the last machine (-want +got):\n%s", diff)
	}
	w.activate("azure", true)
	w.run()
	if len(w.kinds()) != 9 {
		w.Errorf("kinds after a driver was activated again: %v", w.kinds())
	}
}

func (w *world) activate(driver string, active bool) {
	w.Helper()
	_, err := w.c.Management.NodeDriver().Patch(driver, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"active":%v}}`, active))
	must(w.T, err)
}

func (w *world) kinds() []string {
	var out []string
	for _, crd := range w.api.Objects(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition"}) {
		if group, _, _ := unstructured.NestedString(crd.Object, "spec", "group"); strings.HasPrefix(group,
			"rke-machine") {
			kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
			out = append(out, kind)
		}
	}
	return out
}
