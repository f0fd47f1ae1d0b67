package machinedrain

import (
	"context"
	"time"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/naming"
	"github.com/drover-io/drover/pkg/wakeup"
)

// handlerName is persisted, do not change.
const handlerName = "machine-drain"

// Downstream reaches the clusters that nodes belong to; proxy.Clients does.
type Downstream interface {
	Client(ctx context.Context, cluster types.NamespacedName) (kubernetes.Interface, error)
}

// Deps is what the controller needs.
type Deps struct {
	// InstanceID is our ownership mark: clusters without it belong to somebody else and are left alone.
	InstanceID string

	Secrets              corecontrollers.SecretController
	Machines             capicontrollers.MachineController
	ProvisioningClusters provcontrollers.ClusterCache
	Downstream           Downstream

	// Now defaults to the clock.
	Now func() time.Time
}

type handler struct {
	Deps
	jobs *jobs
}

// indexMachinesBySecret finds the Machine of a plan secret.
const indexMachinesBySecret = "machinedrain-machines-by-plan-secret"

// Register starts draining nodes, until ctx ends.
func Register(ctx context.Context, d Deps) error {
	if d.Now == nil {
		d.Now = time.Now
	}
	h := &handler{Deps: d, jobs: newJobs(ctx, d.Now)}
	d.Machines.Cache().AddIndexer(indexMachinesBySecret, planSecretOf)
	d.Secrets.OnChange(ctx, handlerName, h.onChange)
	return wakeup.On(ctx, d.Secrets, func(m *clusterv1.Machine) []wakeup.Key {
		keys, _ := planSecretOf(m)
		if len(keys) == 0 {
			return nil
		}
		return []wakeup.Key{{Namespace: m.Namespace, Name: naming.PlanSecret(m.Spec.Bootstrap.ConfigRef.Name)}}
	}, d.Machines)
}

// planSecretOf is the key of a Machine's plan secret, if its bootstrap is ours.
func planSecretOf(m *clusterv1.Machine) ([]string, error) {
	ref := m.Spec.Bootstrap.ConfigRef
	if ref.Kind != "RKEBootstrap" || ref.Name == "" {
		return nil, nil
	}
	return []string{m.Namespace + "/" + naming.PlanSecret(ref.Name)}, nil
}

func keyOf(secret *corev1.Secret) string { return secret.Namespace + "/" + secret.Name }

// onChange is one pass over one plan secret.
func (h *handler) onChange(key string, secret *corev1.Secret) (*corev1.Secret, error) {
	if secret == nil || secret.DeletionTimestamp != nil {
		h.jobs.forget(key)
		return secret, nil
	}
	if secret.Type != rkev1.SecretTypeMachinePlan {
		return secret, nil
	}
	if secret.Annotations[rkev1.DrainAnnotation]+secret.Annotations[rkev1.UncordonAnnotation] == "" {
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
