package autoscaler

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/autoscaling"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// Facts holds the cached facts about one Cluster. Absent objects are nil.
type Facts struct {
	cluster *provv1.Cluster
	// deployments names the existing MachineDeployments that an autoscaler sizes, and machines are their Machines.
	deployments []string
	machines    []*clusterv1.Machine
	account     *corev1.ServiceAccount
	role        *rbacv1.Role
	secret      *corev1.Secret
	// reachable means that the cluster has, or had, a connection.
	reachable bool
	// registry is the registry of the cluster's images.
	registry string
}

func (f *Facts) name() types.NamespacedName {
	return types.NamespacedName{Namespace: f.cluster.Namespace, Name: f.cluster.Name}
}

// gather returns nil if the Cluster has no autoscaler and had none.
func (h *handler) gather(cluster *provv1.Cluster) (*Facts, error) {
	facts := &Facts{cluster: cluster, registry: h.Settings.Registry}
	var err error
	name := naming.Autoscaler(cluster.Namespace, cluster.Name)
	if facts.account, err = clients.Optional(h.accounts.Get(cluster.Namespace, name)); err != nil {
		return nil, fmt.Errorf("read the account of the autoscaler: %w", err)
	}
	if facts.role, err = clients.Optional(h.roles.Get(cluster.Namespace, name)); err != nil {
		return nil, fmt.Errorf("read the role of the autoscaler: %w", err)
	}
	if facts.secret, err = clients.Optional(h.secrets.Get(cluster.Namespace,
		naming.AutoscalerKubeconfig(cluster.Namespace, cluster.Name))); err != nil {
		return nil, fmt.Errorf("read the kubeconfig of the autoscaler: %w", err)
	}
	if !autoscaling.Wanted(cluster) && facts.account == nil && facts.role == nil && facts.secret == nil &&
		!isDeployed(cluster) {
		return nil, nil
	}
	if err := h.gatherPools(facts); err != nil {
		return nil, err
	}
	return facts, h.gatherManagement(facts)
}

// gatherPools reads what the account may change.
func (h *handler) gatherPools(facts *Facts) error {
	cluster := facts.cluster
	for _, name := range autoscaling.Deployments(cluster) {
		found, err := clients.Optional(h.deployments.Get(cluster.Namespace, name))
		if err != nil {
			return fmt.Errorf("read MachineDeployment %s/%s: %w", cluster.Namespace, name, err)
		}
		if found != nil && autoscaling.Owns(cluster, found) {
			facts.deployments = append(facts.deployments, name)
		}
	}
	all, err := h.machines.List(cluster.Namespace, labels.SelectorFromSet(labels.Set{
		clusterv1.ClusterNameLabel: cluster.Name}))
	if err != nil {
		return fmt.Errorf("list the Machines of the cluster: %w", err)
	}
	for _, machine := range all {
		if autoscaling.Sizes(cluster, machine) {
			facts.machines = append(facts.machines, machine)
		}
	}
	return nil
}

func (h *handler) gatherManagement(facts *Facts) error {
	id := facts.cluster.Status.ClusterName
	if id == "" {
		return nil
	}
	management, err := clients.Optional(h.management.Get(id))
	if err != nil {
		return fmt.Errorf("read management cluster %s: %w", id, err)
	}
	facts.reachable = h.Tunnel != nil && h.Tunnel.Connected(id)
	if management != nil {
		facts.registry = cmp.Or(management.Spec.ClusterSecrets.PrivateRegistryURL, facts.registry)
		facts.reachable = facts.reachable ||
			conditions.IsTrue(management.Status.Conditions, mgmtv3.ClusterConditionConnected)
	}
	return nil
}

// isDeployed reports whether Drover deploys, or has deployed, the autoscaler in a cluster.
func isDeployed(cluster *provv1.Cluster) bool {
	return conditions.Get(cluster.Status.Conditions, provv1.ConditionClusterAutoscalerDeploymentReady) != nil
}

// isAvailable reports whether the condition says that the autoscaler is available.
func isAvailable(cluster *provv1.Cluster) bool {
	return conditions.IsTrue(cluster.Status.Conditions, provv1.ConditionClusterAutoscalerDeploymentReady)
}

// deploys reports whether there is work in the cluster.
func (h *handler) deploys(cluster *provv1.Cluster) bool {
	return topology.IsOurs(cluster, h.InstanceID) && cluster.DeletionTimestamp == nil &&
		(h.Settings.Image != "" && autoscaling.Wanted(cluster) || isDeployed(cluster))
}
