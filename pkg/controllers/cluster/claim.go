package cluster

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// reasonNameTaken means that the requested identifier cannot be used.
const reasonNameTaken = "ManagementNameTaken"

// maxDraws limits the attempts to draw an unused random name. More attempts mean a bug.
const maxDraws = 10

// identify gives the cluster the permanent name of its management cluster. It writes a drawn name before anything uses
// it, and a requested name after claiming it.
func (h *handler) identify(cluster *provv1.Cluster) (*provv1.Cluster, error) {
	if cluster.Status.ClusterName != "" {
		return cluster, nil
	}
	name, err := h.chooseName(cluster)
	if err != nil {
		return h.report(cluster, nil, err)
	}
	named := cluster.DeepCopy()
	named.Status.ClusterName = name
	named.Status.FleetWorkspaceName = topology.Workspace(cluster)
	updated, err := h.Clusters.UpdateStatus(named)
	if err != nil {
		return cluster, fmt.Errorf("name management cluster of %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return updated, nil
}

func (h *handler) chooseName(cluster *provv1.Cluster) (string, error) {
	if asked := cluster.Annotations[provv1.ManagementClusterNameAnnotation]; asked != "" {
		return asked, h.claim(cluster, asked)
	}
	// A control plane that exists before its cluster has a name was moved here with the cluster, without the status.
	moved, err := clients.Optional(h.controlPlanes.Get(cluster.Namespace, cluster.Name))
	if err != nil {
		return "", fmt.Errorf("read control plane %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	if moved != nil && moved.Spec.ManagementClusterName != "" {
		return moved.Spec.ManagementClusterName, h.claim(cluster, moved.Spec.ManagementClusterName)
	}
	for range maxDraws {
		token, err := h.Token()
		if err != nil {
			return "", err
		}
		name := naming.ManagementCluster(token)
		existing, err := clients.Optional(h.management.Get(name))
		if err != nil {
			return "", fmt.Errorf("read management cluster %s: %w", name, err)
		}
		if used, err := h.used(name); err != nil || existing == nil && !used {
			return name, err
		}
	}
	return "", errors.New("no unused name for a management cluster was drawn")
}

// claim creates the management cluster with a requested name before the name is recorded. The create decides which
// Cluster gets the name. Two Clusters that request one name at the same time do not see each other in the caches. They
// would share a management cluster, which is deleted with the first of them.
func (h *handler) claim(cluster *provv1.Cluster, name string) error {
	used, err := h.used(name)
	if err != nil {
		return err
	}
	if used || !mayBeAskedFor(name) {
		return refusedName(name)
	}
	existing, err := clients.Optional(h.management.Get(name))
	if err != nil {
		return fmt.Errorf("read management cluster %s: %w", name, err)
	}
	if existing == nil {
		// The namespace with that name belongs to the cluster and is deleted with it. An existing one belongs to
		// another owner.
		namespace, err := clients.Optional(h.Namespaces.Get(name, metav1.GetOptions{}))
		if err != nil {
			return fmt.Errorf("read namespace %s: %w", name, err)
		}
		if namespace != nil && !applyset.Marked(namespace, handlerName, clusterKind, cluster.Namespace, cluster.Name) {
			return refusedName(name)
		}
		if existing, err = h.createClaim(cluster, name); err != nil {
			return err
		}
	}
	if !applyset.Marked(existing, handlerName, clusterKind, cluster.Namespace, cluster.Name) {
		return refusedName(name)
	}
	return nil
}

// createClaim returns the management cluster with the name, whichever Cluster created it. If it already exists,
// createClaim reads it from the API server, because the cache was behind.
func (h *handler) createClaim(cluster *provv1.Cluster, name string) (*mgmtv3.Cluster, error) {
	named := cluster.DeepCopy()
	named.Status.ClusterName = name
	wanted := topology.ManagementCluster(named, h.Registry)
	if err := applyset.Mark(wanted, handlerName, clusterKind, cluster.Namespace, cluster.Name); err != nil {
		return nil, err
	}
	created, err := h.ManagementClusters.Create(wanted)
	if apierrors.IsAlreadyExists(err) {
		created, err = h.ManagementClusters.Get(name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("claim management cluster %s for %s/%s: %w", name, cluster.Namespace, cluster.Name, err)
	}
	return created, nil
}

func refusedName(name string) error {
	return outcome.Stall(reasonNameTaken, "Annotation "+provv1.ManagementClusterNameAnnotation+", or the RKEControlPlane, asks for "+name+
		", which another cluster has or which is no name of a namespace that starts with "+naming.ManagementClusterPrefix+
		"; remove the annotation or choose another name")
}

// mayBeAskedFor reports whether a user may choose a name. The namespace with that name belongs to the cluster and is
// deleted with it. A user must therefore not choose a name like kube-system.
func mayBeAskedFor(name string) bool {
	return strings.HasPrefix(name, naming.ManagementClusterPrefix) && len(validation.IsDNS1123Label(name)) == 0
}

// used reports whether a Cluster already has the name. A Cluster that is still being named has none.
func (h *handler) used(name string) (bool, error) {
	clusters, err := h.clusters.GetByIndex(provv1.IndexByCluster, name)
	if err != nil {
		return false, fmt.Errorf("find clusters of management cluster %s: %w", name, err)
	}
	return len(clusters) > 0, nil
}
