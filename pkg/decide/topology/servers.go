package topology

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// Servers says which roles of servers there are machines for.
type Servers struct {
	Etcd, ControlPlane bool
}

// And are the roles of either.
func (s Servers) And(other Servers) Servers {
	return Servers{Etcd: s.Etcd || other.Etcd, ControlPlane: s.ControlPlane || other.ControlPlane}
}

// PooledServers are the roles that the pools of a cluster have machines for.
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

// LacksServers reports whether the pools of a cluster alone make no working
// cluster. One without pools is made of machines that register themselves, and
// lacks nothing before they do.
func LacksServers(cluster *provv1.Cluster) bool {
	return cluster.Spec.RKEConfig != nil && len(pools(cluster)) > 0 && PooledServers(cluster) != Servers{Etcd: true, ControlPlane: true}
}

// CountsRegistered reports whether machines of no pool matter to what is made of
// a cluster: as its servers, or as members of etcd beside those of pools that are
// replaced when they are not well, or are deleted before others take their place.
func CountsRegistered(cluster *provv1.Cluster) bool {
	return LacksServers(cluster) || cluster.Spec.RKEConfig != nil && (len(checkedEtcd(cluster)) > 0 || DeletesFirst(cluster))
}

// validateServers refuses what is no cluster: without etcd it has no data, and
// without a control plane nobody can reach it. Scaling the last of them away
// would lose them.
func validateServers(in Input, at *field.Path) field.ErrorList {
	if !LacksServers(in.Cluster) {
		return nil
	}
	found := PooledServers(in.Cluster)
	var errs field.ErrorList
	if !found.Etcd && !in.Registered.Etcd {
		errs = append(errs, field.Required(at, "no pool has machines with etcd, which hold the cluster's data: "+
			"set etcdRole to true for a pool with a quantity of at least 1; 3 machines survive the loss of one"))
	}
	if !found.ControlPlane && !in.Registered.ControlPlane {
		errs = append(errs, field.Required(at, "no pool has machines with a control plane, which serve the cluster's API: "+
			"set controlPlaneRole to true for a pool with a quantity of at least 1"))
	}
	return errs
}
