package topology

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// Ownership is which manager owns a Cluster.
type Ownership int

const (
	// Foreign clusters belong to another manager. Drover reads them and never writes to them.
	Foreign Ownership = iota
	// Unclaimed clusters are new: they have no children, no management name and no mark. Drover claims them unless
	// another manager runs in this management cluster.
	Unclaimed
	// Ours means that the Cluster has this instance's mark.
	Ours
)

// Owner decides by its mark which manager owns a Cluster. A Cluster without a mark is Foreign in these cases. It has
// children or a management name, because Drover gives neither without a mark. It was released, because it is moving to
// another management cluster and its children follow it. It was created from its management cluster, or it is being
// deleted, so that Drover has nothing to create. Two managers never write to the same cluster.
func Owner(cluster *provv1.Cluster, instanceID string, hasChildren bool) Ownership {
	switch {
	case IsOurs(cluster, instanceID):
		return Ours
	case cluster.Annotations[rkev1.InstanceAnnotation] != "" || hasChildren ||
		cluster.Annotations[rkev1.ReleasedByAnnotation] != "":
		return Foreign
	case cluster.Status.ClusterName != "" || !HasOwnManagement(cluster) || cluster.DeletionTimestamp != nil:
		return Foreign
	default:
		return Unclaimed
	}
}

// IsOurs reports whether a Cluster has this instance's mark. Nil has none. Use Owner to decide whether to claim a
// Cluster.
func IsOurs(cluster *provv1.Cluster, instanceID string) bool {
	return cluster != nil && instanceID != "" && cluster.Annotations[rkev1.InstanceAnnotation] == instanceID
}

// ByManagementCluster is the key function of an index that finds Clusters by their management clusters' names.
func ByManagementCluster(cluster *provv1.Cluster) ([]string, error) {
	if cluster.Status.ClusterName == "" {
		return nil, nil
	}
	return []string{cluster.Status.ClusterName}, nil
}

// OwnerReference is the owner reference to a Cluster.
func OwnerReference(cluster *provv1.Cluster, controller bool) metav1.OwnerReference {
	ref := metav1.OwnerReference{APIVersion: provisioningGroup, Kind: "Cluster", Name: cluster.Name, UID: cluster.UID}
	if controller {
		yes := true
		ref.Controller, ref.BlockOwnerDeletion = &yes, &yes
	}
	return ref
}

// Belongs reports whether an object belongs to this Cluster, and not to a former one of the same name. A move to
// another management cluster creates the objects with references to the new Cluster. An object without such a reference
// belongs to the Cluster with the name.
func Belongs(object metav1.Object, cluster *provv1.Cluster) bool {
	return !slices.ContainsFunc(object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.APIVersion == provisioningGroup && ref.Kind == "Cluster" && ref.UID != cluster.UID
	})
}

// CAPIOwner returns the name of the object of a kind of Cluster API that owns an object. It prefers the controller
// reference, but Cluster API does not always set that flag. The version of the reference does not matter.
func CAPIOwner(references []metav1.OwnerReference, kind string) string {
	found := ""
	for _, reference := range references {
		group := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind).Group
		if group != clusterv1.GroupVersion.Group || reference.Kind != kind {
			continue
		}
		if reference.Controller != nil && *reference.Controller {
			return reference.Name
		}
		found = cmp.Or(found, reference.Name)
	}
	return found
}

// IsPaused reports whether a CAPI Cluster is paused, or one of its objects. The Cluster may be nil.
func IsPaused(cluster *clusterv1.Cluster, objects ...metav1.Object) bool {
	if cluster != nil && cluster.Spec.Paused != nil && *cluster.Spec.Paused {
		return true
	}
	return slices.ContainsFunc(objects, func(object metav1.Object) bool {
		_, paused := object.GetAnnotations()[clusterv1.PausedAnnotation]
		return paused
	})
}

// TakeConfig makes a cluster the owner of a machine config. It returns a changed copy, or nil when the cluster already
// owns the config. It returns an error for a config with another cluster or controller as its owner, because clusters
// never share one. (docs/wire/machines.md#from-flags-to-kinds.)
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

// Authorizes reports whether the annotations of a Secret or ConfigMap list the cluster as a user of the object:
// NAME, NAMESPACE/NAME or NAMESPACE/*. The object is in the cluster's namespace.
func Authorizes(annotations map[string]string, cluster *provv1.Cluster) bool {
	return naming.ListsCluster(annotations[rkev1.AuthorizedObjectAnnotation], cluster.Namespace, cluster.Name) ||
		naming.ListsCluster(annotations[rkev1.AuthorizedSecretAnnotation], cluster.Namespace, cluster.Name)
}
