package topology

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// former maps kinds to finalizers that Rancher's controllers added and removed. An adopted cluster still has them.
// Drover removes them when it removes the object. Drover adds one of them itself, to CustomMachines: every manager and
// every earlier release removes it. (docs/wire/names.md#finalizers.)
var former = map[schema.GroupKind][]string{
	provv1.SchemeGroupVersion.WithKind("Cluster").GroupKind(): {
		provv1.CloudConfigSecretFinalizer, "auth.cattle.io/capi-resources-cleanup",
	},
	mgmtv3.SchemeGroupVersion.WithKind("Cluster").GroupKind(): {
		mgmtv3.ManagementClusterFinalizer, "controller.cattle.io/cluster-agent-controller-cleanup",
		"controller.cattle.io/cluster-provisioner-controller", "controller.cattle.io/cluster-scoped-gc",
		"controller.cattle.io/mgmt-cluster-rbac-remove",
	},
	{Kind: "Namespace"}: {"controller.cattle.io/namespace-auth"},
	rkev1.SchemeGroupVersion.WithKind("CustomMachine").GroupKind(): {rkev1.UnmanagedMachineFinalizer},
}

// FormerFinalizers returns the finalizers of a former manager that an object of a kind has. Drover may remove them from
// an object of its own clusters, after the work that they stood for is done. It never removes another finalizer.
func FormerFinalizers(kind schema.GroupKind, object metav1.Object) []string {
	var found []string
	for _, finalizer := range object.GetFinalizers() {
		if slices.Contains(former[kind], finalizer) {
			found = append(found, finalizer)
		}
	}
	return found
}

// removers maps a finalizer to the program that removes it, and to what that program waits for.
var removers = map[string]string{
	provv1.RKEClusterFinalizer:          "Drover (provisioningcluster), when the Cluster API objects are deleted",
	provv1.ProvisioningClusterFinalizer: "Drover (provisioningcluster), when it has deleted the management Cluster",
	rkev1.PlanControlPlaneFinalizer:     "Drover (rkecontrolplane), when the servers of the cluster are deleted",
	rkev1.BootstrapEtcdRemovalFinalizer: "Drover (bootstrap), when the etcd member has left",
	rkev1.MachineProvisionFinalizer:     "Drover (machineprovision), when the host is removed",
	clusterv1.ClusterFinalizer: "Cluster API's core, when machines, infrastructure and control plane are " +
		"deleted",
	clusterv1.MachineFinalizer: "Cluster API's core, when the node is drained, and host and bootstrap " +
		"data are deleted",
	clusterv1.MachineSetFinalizer:        "Cluster API's core, when its Machines are deleted",
	clusterv1.MachineDeploymentFinalizer: "Cluster API's core, when its MachineSets are deleted",
	metav1.FinalizerDeleteDependents:     "Kubernetes' garbage collector, when the object's dependents are deleted",
	metav1.FinalizerOrphanDependents:     "Kubernetes' garbage collector, when the object's dependents are orphans",
}

// FinalizerRemover returns the program that removes a finalizer, and what that program waits for. known is false for a
// finalizer that neither Drover nor a program that Drover works with removes.
func FinalizerRemover(finalizer string) (remover string, known bool) {
	if remover, known = removers[finalizer]; known {
		return remover, true
	}
	switch {
	case finalizer == rkev1.UnmanagedMachineFinalizer:
		return "Drover (unmanaged), when the host is cleaned or cannot be", true
	case isFormer(finalizer):
		return "Drover (provisioningcluster), at the end of the cluster's deletion", true
	}
	domain, _, _ := strings.Cut(finalizer, "/")
	return "another program, which has set it for " + domain + " and must remove it: Drover never does", false
}

func isFormer(finalizer string) bool {
	for _, finalizers := range former {
		if slices.Contains(finalizers, finalizer) {
			return true
		}
	}
	return false
}
