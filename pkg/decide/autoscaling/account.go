package autoscaling

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// An account changes single objects of these resources.
const (
	resourceScale    = "machinedeployments/scale"
	resourceMachines = "machines"
)

// Wanted reports whether an autoscaler may size pools of a Cluster. A paused autoscaler keeps its account.
func Wanted(cluster *provv1.Cluster) bool {
	return cluster.DeletionTimestamp == nil && len(Deployments(cluster)) > 0
}

// Deployments returns the names of the MachineDeployments that an autoscaler sizes, sorted. Not all of them need exist.
func Deployments(cluster *provv1.Cluster) []string { return slices.Sorted(maps.Keys(largest(cluster))) }

// Largest returns the largest size of a MachineDeployment that an autoscaler sizes. ok is false for all others.
func Largest(cluster *provv1.Cluster, deployment string) (size int32, ok bool) {
	size, ok = largest(cluster)[deployment]
	return size, ok
}

// largest returns the largest sizes of the MachineDeployments that an autoscaler sizes, by name.
func largest(cluster *provv1.Cluster) map[string]int32 {
	sizes := map[string]int32{}
	if cluster.Spec.RKEConfig == nil {
		return sizes
	}
	for i := range cluster.Spec.RKEConfig.MachinePools {
		if pool := &cluster.Spec.RKEConfig.MachinePools[i]; topology.Autoscaled(pool) {
			sizes[naming.MachineDeployment(cluster.Name, pool.Name)] = *pool.AutoscalingMaxSize
		}
	}
	return sizes
}

// Owns reports whether a MachineDeployment is one that the cluster's autoscaler sizes.
func Owns(cluster *provv1.Cluster, deployment *clusterv1.MachineDeployment) bool {
	return deployment.Spec.ClusterName == cluster.Name && slices.Contains(Deployments(cluster), deployment.Name)
}

// Sizes reports whether an autoscaler sizes the MachineDeployment of a Machine.
func Sizes(cluster *provv1.Cluster, machine *clusterv1.Machine) bool {
	return machine.Labels[clusterv1.ClusterNameLabel] == cluster.Name &&
		slices.Contains(Deployments(cluster), machine.Labels[clusterv1.MachineDeploymentNameLabel])
}

// Account returns the account of a cluster's autoscaler with its permissions. deployments are the existing
// MachineDeployments that it sizes, and machines are their Machines. The pools of two clusters may want one name, and
// the MachineDeployment of that name then belongs to one of the clusters.
//
// RBAC cannot limit a list to the objects of one cluster, so these permissions include the Machines of other clusters
// in the namespace. Drover's server, through which the autoscaler lists, adds the cluster's label to each list. RBAC
// cannot limit a patch to an annotation either: Drover's server does, and the policy drover-autoscaler-account.
func Account(cluster *provv1.Cluster, deployments []string, machines []*clusterv1.Machine) []runtime.Object {
	names := make([]string, 0, len(machines))
	for _, machine := range machines {
		names = append(names, machine.Name)
	}
	slices.Sort(names)
	name := naming.Autoscaler(cluster.Namespace, cluster.Name)
	meta := metav1.ObjectMeta{Namespace: cluster.Namespace, Name: name,
		Labels: map[string]string{rkev1.ClusterNameLabel: cluster.Name}}
	capi := []string{clusterv1.GroupVersion.Group}
	rules := []rbacv1.PolicyRule{
		{APIGroups: capi, Resources: []string{"machinedeployments", "machinepools", "machines", "machinesets"},
			Verbs: []string{"list", "watch"}},
	}
	// Without names, a rule would permit all.
	if len(deployments) > 0 {
		rules = append(rules,
			rbacv1.PolicyRule{APIGroups: capi, Resources: []string{"machinedeployments", resourceScale},
				ResourceNames: deployments, Verbs: []string{"get"}},
			rbacv1.PolicyRule{APIGroups: capi, Resources: []string{resourceScale}, ResourceNames: deployments,
				Verbs: []string{"update", "patch"}})
	}
	if len(names) > 0 {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: capi, Resources: []string{resourceMachines},
			ResourceNames: names, Verbs: []string{"get", "patch"}})
	}
	return []runtime.Object{
		&corev1.ServiceAccount{ObjectMeta: *meta.DeepCopy(), AutomountServiceAccountToken: new(false)},
		&rbacv1.Role{ObjectMeta: *meta.DeepCopy(), Rules: rules},
		&rbacv1.RoleBinding{
			ObjectMeta: *meta.DeepCopy(),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: cluster.Namespace, Name: name}},
		},
	}
}

// PermitsMachine reports whether a Role of Account permits to mark a Machine.
func PermitsMachine(role *rbacv1.Role, machine string) bool {
	return permits(role, resourceMachines, machine)
}

// PermitsDeployment reports whether a Role of Account permits to scale a MachineDeployment.
func PermitsDeployment(role *rbacv1.Role, deployment string) bool {
	return permits(role, resourceScale, deployment)
}

func permits(role *rbacv1.Role, resource, name string) bool {
	return slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Resources, resource) && slices.Contains(rule.ResourceNames, name)
	})
}
