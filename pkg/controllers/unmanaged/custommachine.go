package unmanaged

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/planstore"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// surroundings are the objects around a CustomMachine, nil where they do not exist.
type surroundings struct {
	machine      *clusterv1.Machine
	capi         *clusterv1.Cluster
	provisioning *provv1.Cluster
}

func (h *handler) onCustomMachine(_ string, custom *rkev1.CustomMachine) (*rkev1.CustomMachine, error) {
	if custom == nil || h.written.Behind(custom, h.Now()) {
		return custom, nil
	}
	s, act, err := h.gatherSurroundings(custom)
	if err != nil || !act {
		return custom, err // an event of the CustomMachine, its CAPI Cluster or its Cluster requeues it
	}
	if custom.DeletionTimestamp != nil {
		return h.leave(custom, s)
	}
	if custom, err = h.guard(custom, s); err != nil {
		return custom, err
	}
	if custom, err = h.report(custom); err != nil {
		return custom, err
	}
	return custom, h.removeIfMissing(custom, s)
}

// gatherSurroundings reads caches only. It returns false for machines of clusters of other instances, and while the
// machine or its cluster is paused. A cluster without a provisioning Cluster belongs to every instance.
func (h *handler) gatherSurroundings(custom *rkev1.CustomMachine) (s surroundings, act bool, err error) {
	name := clusterLabel(custom)
	if topology.IsPaused(nil, custom) || name == "" {
		return s, false, nil
	}
	if s.capi, err = clients.Optional(h.capiClusters.Get(custom.Namespace, name)); err != nil {
		return s, false, fmt.Errorf("read Cluster API's Cluster %s/%s: %w", custom.Namespace, name, err)
	}
	if topology.IsPaused(s.capi) {
		return s, false, nil
	}
	if s.provisioning, err = clients.Optional(h.clusters.Get(custom.Namespace, name)); err != nil {
		return s, false, fmt.Errorf("read Cluster %s/%s: %w", custom.Namespace, name, err)
	}
	if owner := topology.CAPIOwner(custom.OwnerReferences, "Machine"); owner != "" {
		if s.machine, err = clients.Optional(h.machines.Get(custom.Namespace, owner)); err != nil {
			return s, false, fmt.Errorf("read Machine %s/%s: %w", custom.Namespace, owner, err)
		}
	}
	return s, s.provisioning == nil || topology.IsOurs(s.provisioning, h.InstanceID), nil
}

// guard adds the finalizer with which Drover cleans the host before its credential ends.
func (h *handler) guard(custom *rkev1.CustomMachine, s surroundings) (*rkev1.CustomMachine, error) {
	if s.provisioning == nil || slices.Contains(custom.Finalizers, rkev1.UnmanagedMachineFinalizer) {
		return custom, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": custom.ResourceVersion,
		"finalizers":      append(slices.Clone(custom.Finalizers), rkev1.UnmanagedMachineFinalizer),
	}})
	if err != nil {
		return custom, fmt.Errorf("encode patch: %w", err)
	}
	updated, err := h.CustomMachines.Patch(custom.Namespace, custom.Name, types.MergePatchType, patch)
	if isStale(err) {
		return custom, nil
	}
	if err != nil {
		return custom, fmt.Errorf("guard CustomMachine %s/%s: %w", custom.Namespace, custom.Name, err)
	}
	h.written.Replaced(custom.UID, custom.ResourceVersion, h.Now())
	return updated, nil
}

// customMachinesOf returns the CustomMachines of a cluster.
func (h *handler) customMachinesOf(namespace, cluster string) []wakeup.Key {
	return wakeup.Found(h.customMachines, indexCustomMachines, namespace+"/"+cluster)
}

// hostOf returns the CustomMachine of a Machine.
func hostOf(machine *clusterv1.Machine) []wakeup.Key {
	if !registration.IsHost(machine) {
		return nil
	}
	return []wakeup.Key{{Namespace: machine.Namespace, Name: machine.Spec.InfrastructureRef.Name}}
}

// hostOfPlan returns the CustomMachine of a host that leaves and reports on its last plan.
func (h *handler) hostOfPlan(secret *corev1.Secret) []wakeup.Key {
	if secret.Type != rkev1.SecretTypeMachinePlan {
		return nil
	}
	machines, err := h.machines.GetByIndex(planstore.ByPlanSecret, secret.Namespace+"/"+secret.Name)
	if err != nil {
		return nil // the index is registered with the controller
	}
	var keys []wakeup.Key
	for _, machine := range machines {
		if machine.DeletionTimestamp != nil {
			keys = append(keys, hostOf(machine)...)
		}
	}
	return keys
}

// isStale reports that an object was changed or deleted meanwhile. Its event follows.
func isStale(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }
