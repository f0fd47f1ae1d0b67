package topology

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Ownership says whose a Cluster is.
type Ownership int

const (
	// Foreign clusters are another manager's: they are observed and never
	// written to.
	Foreign Ownership = iota
	// Unclaimed clusters are new: nobody has made, named or marked anything of them. They become ours unless another manager runs here.
	Unclaimed
	// Ours carries our mark.
	Ours
)

// Owner decides whose a Cluster is: the mark on it says so. Without a mark, it
// is another manager's when it has children, or a name on the management side,
// which we give none without a mark; one that was let go of is on its way to
// another management cluster, where its children come after it; one whose
// management side came first, or that goes already, leaves us nothing to make.
// Two managers never fight over one cluster.
func Owner(cluster *provv1.Cluster, instanceID string, hasChildren bool) Ownership {
	switch mark := cluster.Annotations[rkev1.InstanceAnnotation]; {
	case mark != "" && mark == instanceID:
		return Ours
	case mark != "" || hasChildren || cluster.Annotations[rkev1.ReleasedByAnnotation] != "":
		return Foreign
	case cluster.Status.ClusterName != "" || !HasOwnManagement(cluster) || cluster.DeletionTimestamp != nil:
		return Foreign
	default:
		return Unclaimed
	}
}

// ByManagementCluster is the key of an index that finds Clusters by the names of their management clusters.
func ByManagementCluster(cluster *provv1.Cluster) ([]string, error) {
	if cluster.Status.ClusterName == "" {
		return nil, nil
	}
	return []string{cluster.Status.ClusterName}, nil
}

// OwnerReference is the reference by which an object belongs to a Cluster.
func OwnerReference(cluster *provv1.Cluster, controller bool) metav1.OwnerReference {
	ref := metav1.OwnerReference{APIVersion: provisioningGroup, Kind: "Cluster", Name: cluster.Name, UID: cluster.UID}
	if controller {
		yes := true
		ref.Controller, ref.BlockOwnerDeletion = &yes, &yes
	}
	return ref
}

// Belongs reports that an object is that of a Cluster, and not of one before it that had its name. Whoever moves a
// Cluster to another management cluster makes its objects there with references to the new Cluster; one that refers to
// none belongs to whichever has the name.
func Belongs(object metav1.Object, cluster *provv1.Cluster) bool {
	return !slices.ContainsFunc(object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.APIVersion == provisioningGroup && ref.Kind == "Cluster" && ref.UID != cluster.UID
	})
}

// TakeConfig makes a machine config belong to a cluster. It returns a changed
// copy, or nil when the config belongs to the cluster already. A config that
// belongs to another cluster or has another controller is an error: two
// clusters never share one. (docs/wire/machines.md#from-flags-to-kinds.)
func TakeConfig(cluster *provv1.Cluster, config *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	for _, owner := range config.GetOwnerReferences() {
		if owner.APIVersion == provisioningGroup && owner.Kind == "Cluster" {
			if owner.Name == cluster.Name {
				return nil, nil
			}
			return nil, fmt.Errorf("can not use %s/%s [%s] because it is already owned by cluster %s",
				config.GetNamespace(), config.GetName(), config.GroupVersionKind(), owner.Name)
		}
		if owner.Controller != nil && *owner.Controller {
			return nil, fmt.Errorf("can not use %s/%s [%s] because it is already owned by %s %s",
				config.GetNamespace(), config.GetName(), config.GroupVersionKind(), owner.Kind, owner.Name)
		}
	}
	taken := config.DeepCopy()
	taken.SetOwnerReferences(append(taken.GetOwnerReferences(), OwnerReference(cluster, true)))
	return taken, nil
}
