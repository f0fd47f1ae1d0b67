package machinenodelookup

import (
	"errors"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// wait requeues the machine, at the earliest when the lookout allows it. A cluster's kubeconfig has an event, but a
// host program's own connection has none. It writes no status, because the planner's conditions show what the machine
// waits for.
func (h *handler) wait(bootstrap *rkev1.RKEBootstrap, s snapshot, again time.Duration, err error) {
	log := h.Log.WithField("controller", handlerName).WithField("namespace", s.machine.Namespace).WithField("machine",
		s.machine.Name).
		WithField("cluster", s.machine.Spec.ClusterName)
	if err != nil {
		log.WithError(err).Debug("Cannot find the node of a machine")
	} else {
		log.Debug("The machine has no ready node with a provider ID yet")
	}
	if errors.Is(err, proxy.ErrNotAvailable) {
		again = rarely
	}
	h.Bootstraps.EnqueueAfter(bootstrap.Namespace, bootstrap.Name,
		waitFor(again, h.Now().Sub(s.machine.CreationTimestamp.Time)))
}
