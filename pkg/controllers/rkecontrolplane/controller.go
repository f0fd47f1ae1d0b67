package rkecontrolplane

import (
	"context"
	"fmt"
	"slices"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	rkecontrollers "github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// handlerName is part of the finalizer. It is persisted, do not change.
const handlerName = "rke-control-plane-remove"

const finalizer = rkev1.PlanControlPlaneFinalizer

const defaultDeletionDeadline = 30 * time.Minute

// Deps holds the controller's dependencies and settings.
type Deps struct {
	ControlPlanes rkecontrollers.RKEControlPlaneController
	Machines      capicontrollers.MachineController
	Clusters      provcontrollers.ClusterController
	// InstanceID marks the Clusters of this instance.
	InstanceID string
	// DeletionDeadline is the time after which a machine that still exists is reported as overdue; 0 means 30 minutes.
	DeletionDeadline time.Duration
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

type handler struct {
	Deps
	machines capicontrollers.MachineCache
	clusters provcontrollers.ClusterCache
	written  *ownwrites.Statuses
}

// Register adds the handler and its wake-up. They end with ctx.
func Register(ctx context.Context, d Deps) error {
	h := newHandler(d)
	d.ControlPlanes.OnChange(ctx, handlerName, h.onChange)
	if err := wakeup.On(ctx, d.ControlPlanes, ofMachine, d.Machines); err != nil {
		return fmt.Errorf("watch machines: %w", err)
	}
	if err := wakeup.On(ctx, d.ControlPlanes, wakeup.BySameName[*provv1.Cluster](), d.Clusters); err != nil {
		return fmt.Errorf("watch clusters: %w", err)
	}
	return nil
}

func newHandler(d Deps) *handler {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.DeletionDeadline == 0 {
		d.DeletionDeadline = defaultDeletionDeadline
	}
	return &handler{Deps: d, machines: d.Machines.Cache(), clusters: d.Clusters.Cache(),
		written: ownwrites.NewStatuses()}
}

// Rehearse runs the handler once for a control plane. With Deps from a stage (package rehearsal), it only lists what it
// would write.
func Rehearse(d Deps, controlPlane *rkev1.RKEControlPlane) error {
	_, err := newHandler(d).onChange("", controlPlane)
	return err
}

// ofMachine wakes the control plane of a machine that is being deleted.
func ofMachine(m *clusterv1.Machine) []wakeup.Key {
	if m.DeletionTimestamp.IsZero() {
		return nil
	}
	return []wakeup.Key{{Namespace: m.Namespace, Name: m.Spec.ClusterName}}
}

func (h *handler) onChange(_ string, controlPlane *rkev1.RKEControlPlane) (*rkev1.RKEControlPlane, error) {
	if controlPlane == nil {
		return nil, nil
	}
	if h.written.Behind(controlPlane, h.Now()) {
		return controlPlane, nil // the event of the newer version requeues it
	}
	protected := slices.Contains(controlPlane.Finalizers, finalizer)
	if protected != controlPlane.DeletionTimestamp.IsZero() {
		mine, err := h.mayAct(controlPlane)
		if err != nil || !mine {
			return controlPlane, err
		}
	}
	switch {
	case controlPlane.DeletionTimestamp.IsZero() && !protected:
		return h.protect(controlPlane)
	case !controlPlane.DeletionTimestamp.IsZero() && protected:
		return h.remove(controlPlane)
	default:
		return controlPlane, nil
	}
}
