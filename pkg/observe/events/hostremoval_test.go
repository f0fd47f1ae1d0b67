package events

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/hostremoval"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

func TestHostThatLeaves(t *testing.T) {
	cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	state := func(status, reason, message string) rkev1.CustomMachine {
		machine := rkev1.CustomMachine{ObjectMeta: metav1.ObjectMeta{Name: "custom-1"}}
		if status != "" {
			machine.Status.Conditions = []rkev1.GenericCondition{{Type: "HostCleaned", Status: status, Reason: reason,
				Message: message}}
		}
		return machine
	}
	none, cleaning := state("", "", ""), state("Unknown", "HostCleaning", "The agent removes k3s")
	cleaned, failed := state("True", "HostCleaned", "gone"), state("False", "HostNotCleaned", "run as root: x")
	for name, tc := range map[string]struct {
		before, after rkev1.CustomMachine
		want          []string
	}{
		"it begins": {none, cleaning, []string{
			"Cluster demo Normal HostCleaning The host of machine custom-1 is cleaned: The agent removes k3s"}},
		"nothing changes": {cleaning, cleaning, nil},
		"it is clean": {cleaning, cleaned, []string{
			"Cluster demo Normal HostCleaned The host of machine custom-1 is clean and can register again"}},
		"it is not clean": {cleaning, failed, []string{
			"Cluster demo Warning HostNotCleaned The host of machine custom-1 is not clean: run as root: x"}},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, CustomMachineChanged(cluster, &tc.before, &tc.after), tc.want...)
		})
	}
}

func TestHostThatWasAway(t *testing.T) {
	cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", Annotations: map[string]string{
		rkev1.DeleteMissingCustomMachinesAfterAnnotation: "1h"}}}
	before := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "custom-1"},
		Spec: clusterv1.MachineSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: "rke.cattle.io", Kind: "CustomMachine", Name: "custom-1"}},
		Status: clusterv1.MachineStatus{Conditions: []metav1.Condition{{Type: clusterv1.MachineNodeReadyCondition,
			Status: "Unknown", Reason: clusterv1.MachineNodeReadyUnknownReason,
			LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))}}}}
	after := *before.DeepCopy()
	after.DeletionTimestamp = new(metav1.NewTime(noon))
	expect(t, MachineChanged(cluster, &before, &after), "Cluster demo Warning HostMissing Machine custom-1 is "+
		"removed, because its host was away for longer than annotation "+
		"rke.cattle.io/delete-missing-custom-machines-after allows: cause health-host-missing")
}

func TestLastPlanIsNoOrdinaryPlan(t *testing.T) {
	last, err := nodeplan.Encode(hostremoval.Plan(hostremoval.Home{Runtime: distro.K3s}))
	if err != nil {
		t.Fatal(err)
	}
	with := func(plan string) *corev1.Secret {
		return &corev1.Secret{
			Type: rkev1.SecretTypeMachinePlan,
			Data: map[string][]byte{nodeplan.KeyPlan: []byte(plan)},
		}
	}
	expect(t, PlanChanged(&provv1.Cluster{}, &clusterv1.Machine{}, nil, with("{}"), with(string(last))))
}
