package topology

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// Servers says for which server roles machines exist.
type Servers struct {
	Etcd, ControlPlane bool
}

// And returns the roles of either.
func (s Servers) And(other Servers) Servers {
	return Servers{Etcd: s.Etcd || other.Etcd, ControlPlane: s.ControlPlane || other.ControlPlane}
}

// PooledServers returns the roles for which a cluster's pools have machines.
func PooledServers(cluster *provv1.Cluster) Servers {
	var found Servers
	for i := range pools(cluster) {
		pool := &pools(cluster)[i]
		if quantity(pool) > 0 {
			found.Etcd = found.Etcd || pool.EtcdRole
			found.ControlPlane = found.ControlPlane || pool.ControlPlaneRole
		}
	}
	return found
}

// LacksServers reports whether a cluster's pools alone do not make a working cluster. A cluster without pools consists
// of machines that register themselves, and lacks nothing before they do.
func LacksServers(cluster *provv1.Cluster) bool {
	return cluster.Spec.RKEConfig != nil && len(pools(cluster)) > 0 &&
		PooledServers(cluster) != Servers{Etcd: true, ControlPlane: true}
}

// CountsRegistered reports whether machines without a pool affect a cluster's objects. They may be its servers. They
// may also be etcd members in addition to pools with a health check, or to pools that delete members first.
func CountsRegistered(cluster *provv1.Cluster) bool {
	return LacksServers(cluster) || cluster.Spec.RKEConfig != nil &&
		(len(checkedEtcd(cluster)) > 0 || DeletesFirst(cluster))
}

// validateServers rejects a cluster without etcd, which would have no data, or without a control plane, which would
// have no API. Scaling down the last of them would lose them.
func validateServers(in Input, at *field.Path) field.ErrorList {
	if !LacksServers(in.Cluster) {
		return nil
	}
	found := PooledServers(in.Cluster)
	var errs field.ErrorList
	if !found.Etcd && !in.Registered.Etcd {
		errs = append(errs, field.Required(at, "no pool has machines with etcd, which store the cluster's data: "+
			"set etcdRole to true for a pool with a quantity of at least 1; 3 machines survive the loss of one"))
	}
	if !found.ControlPlane && !in.Registered.ControlPlane {
		errs = append(errs,
			field.Required(at, "no pool has machines with a control plane, which serve the cluster's API: "+
				"set controlPlaneRole to true for a pool with a quantity of at least 1"))
	}
	return errs
}
