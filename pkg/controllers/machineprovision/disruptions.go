package machineprovision

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// counted remembers the machines whose removal was counted, because a failed removal is retried.
type counted struct {
	mu       sync.Mutex
	machines map[types.UID]bool
}

// maxCounted limits the remembered machines.
const maxCounted = 10000

func (c *counted) first(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.machines[uid] {
		return false
	}
	if c.machines == nil || len(c.machines) >= maxCounted {
		c.machines = map[types.UID]bool{} // most no longer exist; forgetting one may count it twice
	}
	c.machines[uid] = true
	return true
}

// countUnhealthy counts a removal that starts because the pool's health check found the machine unhealthy. Cluster API
// deletes such a machine, by the check that Drover made. A machine that failed to be created may also become unhealthy
// before Drover deletes it, and counts once.
func (h *handler) countUnhealthy(obj *unstructured.Unstructured) {
	if obj.GetDeletionTimestamp() == nil {
		return
	}
	machine, err := clients.Optional(h.machines.Get(obj.GetNamespace(), obj.GetLabels()[rkev1.CAPIMachineNameLabel]))
	if err != nil || machine == nil {
		return
	}
	checked := conditions.GetMeta(machine.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition)
	if checked != nil && checked.Status == rkev1.ConditionFalse && h.counted.first(machine.UID) {
		h.Disruptions.Count(disruption.HealthCheckFailed, 1)
	}
}
