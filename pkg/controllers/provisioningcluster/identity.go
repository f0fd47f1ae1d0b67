package provisioningcluster

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-io/drover/pkg/admission"
	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// reasonNameTaken means that the requested identifier cannot be used.
const reasonNameTaken = "ManagementNameTaken"

// waitsForSpec is the message of condition Created while the spec is on hold.
const waitsForSpec = "Waiting until the spec can be applied: see condition " + provv1.ConditionRKECluster

// maxDraws limits the attempts to draw an unused random name. More attempts mean a bug.
const maxDraws = 10

// managementKinds returns the kinds of management objects.
func managementKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		mgmtv3.SchemeGroupVersion.WithKind("Cluster"),
		corev1.SchemeGroupVersion.WithKind("Namespace"),
		mgmtv3.SchemeGroupVersion.WithKind("ClusterRegistrationToken"),
	}
}

// identify gives the cluster a name and makes its management objects. A cluster on hold gets no new name, because a
// refused spec makes no objects. It keeps the name that it has. A cluster that was moved without its status takes the
// name from its control plane, because its machines may be running.
func (h *handler) identify(cluster *provv1.Cluster, facts *Facts, d decision) (*provv1.Cluster, error) {
	if cluster.Status.ClusterName == "" {
		isMoved := facts.controlPlane != nil && facts.controlPlane.Spec.ManagementClusterName != ""
		if d.step == hold && !isMoved {
			return cluster, outcome.Wait("", waitsForSpec, "Cluster")
		}
		named, err := h.name(cluster, facts.controlPlane)
		if err != nil {
			return cluster, err
		}
		cluster = named
	}
	_, err := h.Apply.Apply(h.ctx, managementSet, cluster, applyset.NoOwnerRef, managementKinds(),
		topology.Management(cluster, h.Registry))
	return cluster, err
}

// name gives the cluster the permanent name of its management cluster. It writes a drawn name before anything uses it,
// and a requested name after reserving it. So a crash never leaves two identifiers.
func (h *handler) name(cluster *provv1.Cluster, controlPlane *rkev1.RKEControlPlane) (*provv1.Cluster, error) {
	name, err := h.chooseName(cluster, controlPlane)
	if err != nil {
		return nil, err
	}
	named := cluster.DeepCopy()
	named.Status.ClusterName = name
	named.Status.FleetWorkspaceName = topology.Workspace(cluster)
	updated, err := h.Clusters.UpdateStatus(named)
	if err != nil {
		return nil, fmt.Errorf("name management cluster of %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	h.Statuses.Wrote(cluster, updated, h.Now())
	return updated, nil
}

// chooseName returns the requested name, or draws one. A control plane that exists before its cluster has a name was
// moved here with the cluster, without the status. It keeps its name.
func (h *handler) chooseName(cluster *provv1.Cluster, controlPlane *rkev1.RKEControlPlane) (string, error) {
	if asked := cluster.Annotations[provv1.ManagementClusterNameAnnotation]; asked != "" {
		return asked, h.reserve(cluster, asked)
	}
	if controlPlane != nil && controlPlane.Spec.ManagementClusterName != "" {
		return controlPlane.Spec.ManagementClusterName, h.reserve(cluster, controlPlane.Spec.ManagementClusterName)
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

// reserve creates the management cluster with a requested name before the name is recorded. The create decides which
// Cluster gets the name. Two Clusters that request one name at the same time do not see each other in the caches. They
// would share a management cluster, which is deleted with the first of them.
func (h *handler) reserve(cluster *provv1.Cluster, name string) error {
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
		if namespace != nil && !isManagementOf(cluster, namespace) {
			return refusedName(name)
		}
		if existing, err = h.createManagement(cluster, name); err != nil {
			return err
		}
	}
	if !isManagementOf(cluster, existing) {
		return refusedName(name)
	}
	return nil
}

// isManagementOf reports whether an object is a management object of the cluster.
func isManagementOf(cluster *provv1.Cluster, object metav1.Object) bool {
	return applyset.Marked(object, managementSet, clusterKind, cluster.Namespace, cluster.Name)
}

// createManagement returns the management cluster with the name, whichever Cluster created it. If it already exists,
// createManagement reads it from the API server, because the cache was behind.
func (h *handler) createManagement(cluster *provv1.Cluster, name string) (*mgmtv3.Cluster, error) {
	named := cluster.DeepCopy()
	named.Status.ClusterName = name
	wanted := topology.ManagementCluster(named, h.Registry)
	if err := applyset.Mark(wanted, managementSet, clusterKind, cluster.Namespace, cluster.Name); err != nil {
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
	return outcome.Stall(reasonNameTaken, "Annotation "+provv1.ManagementClusterNameAnnotation+
		", or the RKEControlPlane, asks for "+name+", which another cluster has or which is no name of a namespace "+
		"that starts with "+naming.ManagementClusterPrefix+"; remove the annotation or choose another name")
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

func randomToken() (string, error) { return naming.RandomToken(rand.Reader) }

// removeIdentity ends the connection to the cluster and deletes its management objects.
func (h *handler) removeIdentity(cluster *provv1.Cluster) error {
	if h.Disconnect != nil {
		if err := h.Disconnect(cluster); err != nil {
			return err
		}
	}
	if err := h.unprotect(cluster); err != nil {
		return err
	}
	return h.Apply.PurgeLive(h.ctx, managementSet, clusterKind, cluster.Namespace, cluster.Name, managementKinds())
}

// unprotect removes the copy of the Cluster's protection from the management cluster, which earlier releases made. A
// protection that another program set stays, and with it the management cluster.
func (h *handler) unprotect(cluster *provv1.Cluster) error {
	if cluster.Status.ClusterName == "" {
		return nil
	}
	management, err := clients.Optional(h.management.Get(cluster.Status.ClusterName))
	if err != nil {
		return fmt.Errorf("read management cluster %s: %w", cluster.Status.ClusterName, err)
	}
	if management == nil || management.DeletionTimestamp != nil || !admission.Protected(management.Annotations) {
		return nil
	}
	wanted := topology.ManagementCluster(cluster, h.Registry)
	_, err = h.Apply.Apply(h.ctx, managementSet, cluster, applyset.NoOwnerRef,
		[]schema.GroupVersionKind{wanted.GroupVersionKind()}, []runtime.Object{wanted})
	return err
}
