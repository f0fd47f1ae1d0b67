package machinedrain

import (
	"context"
	"time"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/planstore"
	"github.com/drover-io/drover/pkg/kube/wakeup"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// handlerName is persisted, do not change.
const handlerName = "machine-drain"

// Deps holds the controller's dependencies and settings.
type Deps struct {
	// InstanceID marks the clusters of this instance. The controller ignores all others.
	InstanceID string

	Secrets              corecontrollers.SecretController
	Machines             capicontrollers.MachineController
	ProvisioningClusters provcontrollers.ClusterCache
	Downstream           proxy.ClientGetter

	// Now defaults to the clock.
	Now func() time.Time
}

type handler struct {
	Deps
	jobs *jobs
}

// Register starts draining nodes, until ctx ends.
func Register(ctx context.Context, d Deps) error {
	if d.Now == nil {
		d.Now = time.Now
	}
	h := &handler{Deps: d, jobs: newJobs(ctx, d.Now)}
	d.Machines.Cache().AddIndexer(planstore.ByPlanSecret, planstore.IndexByPlanSecret)
	d.Secrets.OnChange(clients.Only(ctx, isRequested), handlerName, h.onChange)
	return wakeup.On(ctx, d.Secrets, planstore.WakePlanSecret, d.Machines)
}

func keyOf(secret *corev1.Secret) string { return secret.Namespace + "/" + secret.Name }

// isRequested reports whether the planner requests that the node of a plan Secret is drained or uncordoned.
func isRequested(secret *corev1.Secret) bool {
	return secret.Type == rkev1.SecretTypeMachinePlan &&
		secret.Annotations[rkev1.DrainAnnotation]+secret.Annotations[rkev1.UncordonAnnotation] != ""
}

// onChange reconciles one plan Secret.
func (h *handler) onChange(key string, secret *corev1.Secret) (*corev1.Secret, error) {
	if secret == nil || secret.DeletionTimestamp != nil {
		h.jobs.forget(key)
		return secret, nil
	}
	if !isRequested(secret) {
		h.jobs.forget(key)
		return secret, nil
	}
	machine, err := h.machineOf(secret)
	if err != nil || machine == nil {
		return secret, err
	}
	v, failed := h.gather(secret, machine)
	if v.deleting {
		h.jobs.forget(key)
		return secret, nil
	}
	return secret, h.act(secret, machine, decide(v), failed)
}
