package plansecret

import (
	"context"
	"sync"
	"time"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	corev1 "k8s.io/api/core/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	rkecontrollers "github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/kube/planstore"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// handlerName is persisted, do not change.
const handlerName = "plan-secret"

// Deps holds the controller's dependencies and settings.
type Deps struct {
	// InstanceID marks the clusters of this instance. The controller ignores all others.
	InstanceID string

	Secrets              corecontrollers.SecretController
	Machines             capicontrollers.MachineController
	ControlPlanes        rkecontrollers.RKEControlPlaneCache
	ProvisioningClusters provcontrollers.ClusterCache
	// Taken is a controller of Clusters. It wakes the plan Secrets of a Cluster that gets this instance's mark. Nil
	// wakes none.
	Taken wakeup.Source

	// MachineStore writes to Machines. Sharing it with the planner avoids conflicts. Nil makes a new one.
	MachineStore *planstore.Machines
	// Now defaults to the clock.
	Now func() time.Time
}

type handler struct {
	Deps
	plans *planstore.Plans
	// marks holds the instance mark last seen on each Cluster, by UID.
	marks sync.Map
	// copies lets the copies of applied plans wait.
	copies *ownwrites.Patience
	// written remembers the replaced versions of plan Secrets.
	written *ownwrites.Statuses
	// atOnce means that nothing waits.
	atOnce bool
}

// copyWaits is how long the copy of an applied plan waits for the probes of the plan.
const copyWaits = 3 * time.Second

// Register starts reading reports, until ctx ends.
func Register(ctx context.Context, d Deps) error {
	h := newHandler(d)
	h.copies = ownwrites.NewPatience(copyWaits)
	d.Secrets.OnChange(clients.Only(ctx, isPlan), handlerName, h.onChange)
	if err := wakeup.On(ctx, d.Secrets, planstore.WakePlanSecret, d.Machines); err != nil || d.Taken == nil {
		return err
	}
	d.Machines.Cache().AddIndexer(planstore.ByCluster, planstore.IndexByCluster)
	return wakeup.On(ctx, d.Secrets, h.ofTaken, d.Taken)
}

func isPlan(secret *corev1.Secret) bool { return secret.Type == rkev1.SecretTypeMachinePlan }

func newHandler(d Deps) *handler {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.MachineStore == nil {
		d.MachineStore = planstore.NewMachines(d.Machines)
	}
	d.Machines.Cache().AddIndexer(planstore.ByPlanSecret, planstore.IndexByPlanSecret)
	return &handler{Deps: d, plans: planstore.NewPlans(d.Secrets.Cache(), d.Secrets), written: ownwrites.NewStatuses()}
}

// ofTaken returns the plan Secrets of a Cluster whose mark has just become this instance's, because their reports are
// still unread. It ignores all other events of Clusters.
func (h *handler) ofTaken(cluster *provv1.Cluster) []wakeup.Key {
	if cluster.DeletionTimestamp != nil {
		h.marks.Delete(cluster.UID)
		return nil
	}
	mark := cluster.Annotations[rkev1.InstanceAnnotation]
	if before, _ := h.marks.Swap(cluster.UID, mark); before == mark || mark != h.InstanceID {
		return nil
	}
	machines, err := planstore.MachinesOf(h.Machines.Cache(), cluster.Namespace, cluster.Name)
	if err != nil {
		return nil // the index is registered above
	}
	var keys []wakeup.Key
	for _, machine := range machines {
		keys = append(keys, planstore.WakePlanSecret(machine)...)
	}
	return keys
}

// Rehearse runs the handler once for a plan Secret. With Deps from a stage (package rehearsal), it only lists what it
// would write.
func Rehearse(d Deps, secret *corev1.Secret) error {
	h := newHandler(d)
	h.atOnce = true
	_, err := h.onChange("", secret)
	return err
}

// onChange reconciles one plan Secret.
func (h *handler) onChange(_ string, secret *corev1.Secret) (*corev1.Secret, error) {
	if secret == nil || secret.DeletionTimestamp != nil || !isPlan(secret) || len(secret.Data) == 0 ||
		h.written.Behind(secret, h.Now()) {
		return secret, nil
	}
	v, err := h.gather(secret)
	if err != nil || v == nil {
		return secret, err
	}
	return secret, h.act(secret, v, decide(v))
}
