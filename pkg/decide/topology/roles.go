package topology

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// RolesOf returns the server roles in the labels of a machine or of a machine template.
func RolesOf(labels map[string]string) Servers {
	return Servers{Etcd: labels[rkev1.EtcdRoleLabel] == roleMarked,
		ControlPlane: labels[rkev1.ControlPlaneRoleLabel] == roleMarked}
}

// ChangesRoles reports whether a MachineDeployment's pool was edited to have other server roles than its machines.
func ChangesRoles(cluster *provv1.Cluster, deployment *clusterv1.MachineDeployment) bool {
	had := RolesOf(deployment.Spec.Template.Labels)
	return slices.ContainsFunc(pools(cluster), func(pool provv1.RKEMachinePool) bool {
		return naming.MachineDeployment(cluster.Name, pool.Name) == deployment.Name &&
			had != Servers{Etcd: pool.EtcdRole, ControlPlane: pool.ControlPlaneRole}
	})
}

// anotherPool is the advice to move the servers to another pool.
const anotherPool = "; add another pool with the new roles, and remove this pool when the new machines are ready"

// validateKeptRoles rejects a change of the server roles of existing machines. A member leaves etcd only when its
// machine is deleted. Without the role, the member would be stopped on its machine and would count toward the quorum
// forever. Therefore a role, once given, could not be removed again. Machines that were only nodes before would be
// mistaken for members. And API servers would stop before others serve. Labels and taints of workers can change at any
// time. The safe value is the roles of the machines.
func validateKeptRoles(in Input, pool *provv1.RKEMachinePool, deployment string, at *field.Path) field.ErrorList {
	had, machines := in.Roles[deployment]
	if !machines {
		return nil
	}
	var errs field.ErrorList
	for _, role := range []struct {
		field        string
		had, wanted  bool
		taken, given string
	}{
		{
			"etcdRole", had.Etcd, pool.EtcdRole,
			"machines of the pool are etcd members, and a member leaves only when its machine is deleted: set it " +
				"back to true",
			"existing machines of the pool cannot become etcd members, because they could not leave etcd again: set " +
				"it back to false",
		},
		{
			"controlPlaneRole", had.ControlPlane, pool.ControlPlaneRole,
			"machines of the pool serve the cluster's API, and they would stop before others serve it: set it back " +
				"to true",
			"existing machines of the pool cannot get this role, because they could not lose it again: set it back " +
				"to false",
		},
	} {
		switch {
		case role.had && !role.wanted:
			errs = append(errs, field.Forbidden(at.Child(role.field), role.taken+anotherPool))
		case role.wanted && !role.had:
			errs = append(errs, field.Forbidden(at.Child(role.field), role.given+anotherPool))
		}
	}
	return errs.WithOrigin(safeValue)
}
