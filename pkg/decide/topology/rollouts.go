package topology

import (
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// deletedFirst is how many machines of a pool are deleted before others have taken
// their place, of so many: as many as may be unavailable. That others are made
// meanwhile changes nothing: Cluster API does not wait for them, and deletes so many
// in the pass in which it makes the first new ones. It reads the limits as Cluster
// API does: a share of new machines is rounded up, one of machines that go is
// rounded down, and when both come to nothing one goes.
func deletedFirst(pool *provv1.RKEMachinePool, machines int) int {
	limits := strategy(pool).RollingUpdate
	surge, err := intstr.GetScaledValueFromIntOrPercent(limits.MaxSurge, machines, true)
	if err != nil {
		return 0 // what cannot be read is said elsewhere
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

// manyMachines are so many that every share of them is a machine.
const manyMachines = 100

// DeletesFirst reports that machines with etcd may be replaced by deleting them
// first. Then it matters how many others there are.
func DeletesFirst(cluster *provv1.Cluster) bool {
	for i := range pools(cluster) {
		if pool := &pools(cluster)[i]; pool.EtcdRole && deletedFirst(pool, manyMachines) > 0 {
			return true
		}
	}
	return false
}

// validateRollOuts refuses that most members of etcd are deleted before others
// take their place. All pools may be replaced at once, after one edit. A member
// leaves etcd before its host goes, but the last one cannot: it would wait for
// another one, and Cluster API for it. Safe is to delete none before others work.
func validateRollOuts(in Input, at *field.Path) field.ErrorList {
	in = KeepRoles(in)
	byPool, most := deletedOfMost(in)
	if !most {
		return nil
	}
	var errs field.ErrorList
	for i, number := range byPool {
		if number > 0 {
			errs = append(errs, field.Invalid(at.Index(i).Child("rollingUpdate", "maxUnavailable"), strategy(&pools(in.Cluster)[i]).RollingUpdate.MaxUnavailable.String(),
				"most members of etcd may be deleted before others take their place: set it to 0, and maxSurge to 1, or let fewer be unavailable"))
		}
	}
	return errs.WithOrigin(safeValue)
}

// deletedOfMost is how many members of etcd may be deleted first, by pool, and
// whether these are most of all.
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
		return byPool, false // nobody has counted how many others there are
	}
	return byPool, 2*deleted > all
}
