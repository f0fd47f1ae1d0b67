package machineprovision

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/disruption"
)

// counted remembers whose removal was counted: one that fails is tried again.
type counted struct {
	mu       sync.Mutex
	machines map[types.UID]bool
}

// maxCounted is how many machines are remembered.
const maxCounted = 10000

func (c *counted) first(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.machines[uid] {
		return false
	}
	if c.machines == nil || len(c.machines) >= maxCounted {
		c.machines = map[types.UID]bool{} // most are gone; to forget one costs at worst that it counts twice
	}
	c.machines[uid] = true
	return true
}

// countUnhealthy counts a machine whose removal was begun because its pool's health check found it unhealthy. Cluster API deletes it, by the
// check that we made. One that could not be made may be found unhealthy, too, before we delete it, and counts once.
func (h *handler) countUnhealthy(obj *unstructured.Unstructured) {
	if obj.GetDeletionTimestamp() == nil {
		return
	}
	machine, err := orNil(h.machines.Get(obj.GetNamespace(), obj.GetLabels()[rkev1.CAPIMachineNameLabel]))
	if err != nil || machine == nil {
		return
	}
	checked := conditions.GetMeta(machine.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition)
	if checked != nil && checked.Status == rkev1.ConditionFalse && h.counted.first(machine.UID) {
		h.Disruptions.Count(disruption.HealthCheckFailed, 1)
	}
}
