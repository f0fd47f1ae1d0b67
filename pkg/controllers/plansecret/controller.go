package plansecret

import (
	"context"
	"time"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	rkecontrollers "github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/planstore"
	"github.com/drover-io/drover/pkg/wakeup"
)

// handlerName is persisted, do not change.
const handlerName = "plan-secret"

// Deps is what the controller needs.
type Deps struct {
	// InstanceID is our ownership mark: clusters without it belong to somebody else and are left alone.
	InstanceID string

	Secrets              corecontrollers.SecretController
	Machines             capicontrollers.MachineController
	ControlPlanes        rkecontrollers.RKEControlPlaneCache
	ProvisioningClusters provcontrollers.ClusterCache

	// MachineStore writes to Machines. Shared with the other controller that does it spares conflicts; nil makes one.
	MachineStore *planstore.Machines
	// Now defaults to the clock.
	Now func() time.Time
}

type handler struct {
	Deps
	plans *planstore.Plans
}

// indexMachinesBySecret finds the Machine of a plan secret.
const indexMachinesBySecret = "plansecret-machines-by-plan-secret"

// Register starts reading reports, until ctx ends.
func Register(ctx context.Context, d Deps) error {
	h := newHandler(d)
	d.Machines.Cache().AddIndexer(indexMachinesBySecret, planstore.IndexByPlanSecret)
	d.Secrets.OnChange(ctx, handlerName, h.onChange)
	return wakeup.On(ctx, d.Secrets, planstore.WakePlanSecret, d.Machines)
}

func newHandler(d Deps) *handler {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.MachineStore == nil {
		d.MachineStore = planstore.NewMachines(d.Machines)
	}
	return &handler{Deps: d, plans: planstore.NewPlans(d.Secrets.Cache(), d.Secrets)}
}

// onChange is one pass over one plan secret.
func (h *handler) onChange(_ string, secret *corev1.Secret) (*corev1.Secret, error) {
	if secret == nil || secret.DeletionTimestamp != nil || secret.Type != rkev1.SecretTypeMachinePlan || len(secret.Data) == 0 {
		return secret, nil
	}
	v, err := h.gather(secret)
	if err != nil || v == nil {
		return secret, err
	}
	return secret, h.act(secret, v, decide(v))
}
