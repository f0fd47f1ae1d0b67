package capi

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Of the core's Events, only normal ones that Drover repeats are dropped, and only for Drover's own clusters.
func TestQuiet(t *testing.T) {
	const own, other = "rke.cattle.io", "bootstrap.cluster.x-k8s.io"
	spec := func(group string) clusterv1.MachineSpec {
		return clusterv1.MachineSpec{Bootstrap: clusterv1.Bootstrap{
			ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "Config", Name: "a"}}}
	}
	machine := func(group string) runtime.Object { return &clusterv1.Machine{Spec: spec(group)} }
	set := func(group string) runtime.Object {
		return &clusterv1.MachineSet{Spec: clusterv1.MachineSetSpec{
			Template: clusterv1.MachineTemplateSpec{Spec: spec(group)}}}
	}
	deployment := func(group string) runtime.Object {
		return &clusterv1.MachineDeployment{Spec: clusterv1.MachineDeploymentSpec{
			Template: clusterv1.MachineTemplateSpec{Spec: spec(group)}}}
	}
	cluster := func(group string) runtime.Object {
		return &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{
			ControlPlaneRef: clusterv1.ContractVersionedObjectReference{APIGroup: group}}}
	}
	for name, tc := range map[string]struct {
		object func(group string) runtime.Object
		kind   string
		reason string
		// stays is for clusters of Drover. Those of others keep all Events.
		stays bool
	}{
		"a machine's node":                 {machine, corev1.EventTypeNormal, "SuccessfulSetNodeRef", false},
		"a drained node":                   {machine, corev1.EventTypeNormal, "SuccessfulDrainNode", true},
		"a failed drain":                   {machine, corev1.EventTypeWarning, "FailedDrainNode", true},
		"a warning with a repeated reason": {machine, corev1.EventTypeWarning, "SuccessfulSetNodeRef", true},
		"a new machine of a set":           {set, corev1.EventTypeNormal, "SuccessfulCreate", false},
		"a removed machine of a set":       {set, corev1.EventTypeNormal, "SuccessfulDelete", false},
		"an adopted machine":               {set, corev1.EventTypeNormal, "SuccessfulAdopt", true},
		"a failed creation":                {set, corev1.EventTypeWarning, "FailedCreate", true},
		"a new set":                        {deployment, corev1.EventTypeNormal, "SuccessfulCreate", false},
		"a scaled set":                     {deployment, corev1.EventTypeNormal, "SuccessfulScale", true},
		"a cluster's phase":                {cluster, corev1.EventTypeNormal, "Provisioned", false},
		"a cluster's infrastructure":       {cluster, corev1.EventTypeNormal, "InfrastructureReady", false},
		"a deleted cluster":                {cluster, corev1.EventTypeNormal, "Deleted", true},
		"a failed cluster":                 {cluster, corev1.EventTypeNormal, "Failed", true},
	} {
		t.Run(name, func(t *testing.T) {
			for group, want := range map[string]bool{own: tc.stays, other: true, "": true} {
				fake := record.NewFakeRecorder(3)
				recorder := quiet{fake}
				recorder.Event(tc.object(group), tc.kind, tc.reason, "text")
				recorder.Eventf(tc.object(group), tc.kind, tc.reason, "text %d", 1)
				recorder.AnnotatedEventf(tc.object(group), nil, tc.kind, tc.reason, "text %d", 2)
				if got := len(fake.Events); got != 0 && got != 3 || got > 0 != want {
					t.Errorf("group %q: %d of 3 events are recorded", group, got)
				}
			}
		})
	}
}
