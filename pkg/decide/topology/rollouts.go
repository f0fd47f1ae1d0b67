package topology

import (
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// deletedFirst is how many machines of a pool are deleted before others replace them: as many as may be unavailable. A
// surge does not change that. Cluster API does not wait for the new machines, and deletes so many in the pass in which
// it creates the first new ones. Like Cluster API, it rounds a share of new machines up and a share of deleted machines
// down. When both are zero, one machine is deleted.
func deletedFirst(pool *provv1.RKEMachinePool, machines int) int {
	limits := strategy(pool).RollingUpdate
	surge, err := intstr.GetScaledValueFromIntOrPercent(limits.MaxSurge, machines, true)
	if err != nil {
		return 0 // other checks report unreadable limits
	}
	unavailable, err := intstr.GetScaledValueFromIntOrPercent(limits.MaxUnavailable, machines, false)
	if err != nil {
		return 0
	}
	if surge == 0 {
		unavailable = max(unavailable, 1)
	}
	return min(max(unavailable, 0), machines)
}

// manyMachines is so many that every share of them is at least one machine.
const manyMachines = 100

// DeletesFirst reports whether machines with etcd may be deleted before their replacements work. Then the number of
// other members matters.
func DeletesFirst(cluster *provv1.Cluster) bool {
	for i := range pools(cluster) {
		if pool := &pools(cluster)[i]; pool.EtcdRole && deletedFirst(pool, manyMachines) > 0 {
			return true
		}
	}
	return false
}

// validateRollOuts rejects limits that delete most etcd members before others replace them. One edit may replace all
// pools at once. A member leaves etcd before its host is removed, but the last member cannot. It would wait for another
// member, and Cluster API would wait for it. The safe value deletes no member before others work.
func validateRollOuts(in Input, at *field.Path) field.ErrorList {
	in = KeepRoles(in)
	byPool, most := deletedOfMost(in)
	if !most {
		return nil
	}
	var errs field.ErrorList
	for i, number := range byPool {
		if number > 0 {
			errs = append(errs, field.Invalid(at.Index(i).Child("rollingUpdate", "maxUnavailable"),
				strategy(&pools(in.Cluster)[i]).RollingUpdate.MaxUnavailable.String(),
				"the rollout may delete most etcd members before their replacements are ready: set it to 0 and "+
					"maxSurge to 1, or choose a lower value"))
		}
	}
	return errs.WithOrigin(safeValue)
}

// deletedOfMost is how many etcd members may be deleted first, by pool, and whether they are the majority of all
// members.
func deletedOfMost(in Input) (byPool []int, most bool) {
	all, deleted := in.RegisteredMembers, 0
	byPool = make([]int, len(pools(in.Cluster)))
	for i := range pools(in.Cluster) {
		if pool := &pools(in.Cluster)[i]; pool.EtcdRole {
			number := members(in, pool)
			byPool[i] = deletedFirst(pool, number)
			all, deleted = all+number, deleted+byPool[i]
		}
	}
	if in.alone && in.Registered.Etcd && in.RegisteredMembers == 0 {
		return byPool, false // the number of other members is unknown
	}
	return byPool, 2*deleted > all
}
