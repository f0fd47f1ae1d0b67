package machinenodelookup

import (
	"errors"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// wait looks again later, at the earliest when the lookout allows it. The
// kubeconfig of a cluster comes with an event, but a host's own way to clusters does not. There is no status to write: what the machine waits for is in the planner's conditions.
func (h *handler) wait(bootstrap *rkev1.RKEBootstrap, s snapshot, again time.Duration, err error) {
	log := h.Log.WithField("controller", handlerName).WithField("namespace", s.machine.Namespace).WithField("machine", s.machine.Name).
		WithField("cluster", s.machine.Spec.ClusterName)
	if err != nil {
		log.WithError(err).Debug("Looked for the node of a machine in vain")
	} else {
		log.Debug("Machine has no ready node with a provider ID yet")
	}
	if errors.Is(err, proxy.ErrNotAvailable) {
		again = rarely
	}
	h.Bootstraps.EnqueueAfter(bootstrap.Namespace, bootstrap.Name, waitFor(again, h.Now().Sub(s.machine.CreationTimestamp.Time)))
}
