package capi

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// quiet is a recorder without the normal Events of the core that repeat Events of Drover. Drover reports the same
// changes of its clusters on the provisioning Cluster, once for all machines that take a step together (package
// observe/events). Warnings stay, and so do all Events of clusters of other providers.
type quiet struct{ record.EventRecorder }

// Event implements record.EventRecorder.
func (q quiet) Event(object runtime.Object, kind, reason, message string) {
	if !repeats(object, kind, reason) {
		q.EventRecorder.Event(object, kind, reason, message)
	}
}

// Eventf implements record.EventRecorder.
func (q quiet) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	if !repeats(object, kind, reason) {
		q.EventRecorder.Eventf(object, kind, reason, format, args...)
	}
}

// AnnotatedEventf implements record.EventRecorder.
func (q quiet) AnnotatedEventf(object runtime.Object, annotations map[string]string, kind, reason, format string,
	args ...any) {
	if !repeats(object, kind, reason) {
		q.EventRecorder.AnnotatedEventf(object, annotations, kind, reason, format, args...)
	}
}

// Reasons of the core's Events that Drover repeats, by the kind of their object.
var (
	// ofMachine: NodeRegistered on the Cluster.
	ofMachine = []string{"SuccessfulSetNodeRef"}
	// ofMachineSet: MachineCreated, MachineDeleting and MachineRemoved on the Cluster.
	ofMachineSet = []string{"SuccessfulCreate", "SuccessfulDelete"}
	// ofDeployment: MachineCreated and PoolRollOut on the Cluster. A MachineDeployment creates MachineSets.
	ofDeployment = []string{"SuccessfulCreate"}
	// ofCluster: SpecApplied and ClusterConnected on the Cluster.
	ofCluster = []string{string(clusterv1.ClusterPhasePending), string(clusterv1.ClusterPhaseProvisioning),
		string(clusterv1.ClusterPhaseProvisioned), "InfrastructureReady", "ControlPlaneInitialized"}
)

// repeats reports whether an Event of the core says what an Event of Drover says.
func repeats(object runtime.Object, kind, reason string) bool {
	if kind != corev1.EventTypeNormal {
		return false
	}
	group, reasons := "", []string(nil)
	switch of := object.(type) {
	case *clusterv1.Machine:
		group, reasons = of.Spec.Bootstrap.ConfigRef.APIGroup, ofMachine
	case *clusterv1.MachineSet:
		group, reasons = of.Spec.Template.Spec.Bootstrap.ConfigRef.APIGroup, ofMachineSet
	case *clusterv1.MachineDeployment:
		group, reasons = of.Spec.Template.Spec.Bootstrap.ConfigRef.APIGroup, ofDeployment
	case *clusterv1.Cluster:
		group, reasons = of.Spec.ControlPlaneRef.APIGroup, ofCluster
	}
	return group == rkev1.SchemeGroupVersion.Group && slices.Contains(reasons, reason)
}
