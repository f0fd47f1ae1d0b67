package machinenodelookup

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// snapshot is a machine whose node must be found.
type snapshot struct {
	machine *clusterv1.Machine
	// kind and infra name the infrastructure machine, which act writes to.
	kind       schema.GroupVersionKind
	infra      string
	conditions []rkev1.GenericCondition
	providerID string
}

// hasData reports whether the bootstrap data exist.
func hasData(bootstrap *rkev1.RKEBootstrap) bool {
	created := bootstrap.Status.Initialization.DataSecretCreated
	return created != nil && *created && bootstrap.Status.DataSecretName != nil
}

// gather reads caches only. It returns false while there is no node to look for.
func (h *handler) gather(bootstrap *rkev1.RKEBootstrap) (snapshot, bool, error) {
	if !hasData(bootstrap) {
		return snapshot{}, false, nil
	}
	machine, err := h.machineOf(bootstrap)
	if err != nil || machine == nil || machine.Spec.ProviderID != "" || machine.DeletionTimestamp != nil {
		return snapshot{}, false, err
	}
	s := snapshot{machine: machine, infra: machine.Spec.InfrastructureRef.Name}
	if mayAct, err := h.mayAct(s, bootstrap); err != nil || !mayAct {
		return s, false, err
	}
	found, err := h.gatherInfra(&s)
	if err != nil || !found {
		return s, false, err
	}
	// Before the machine is ready, a change of its object would disturb its creation. Its event requeues it.
	if !conditions.IsTrue(s.conditions, rkev1.ConditionReady) || s.providerID != "" {
		return s, false, nil
	}
	reported, err := h.reported(bootstrap) // the event of the plan Secret requeues it
	return s, reported, err
}

// cluster returns the name of the machine's cluster.
func (s snapshot) cluster() types.NamespacedName {
	return types.NamespacedName{Namespace: s.machine.Namespace, Name: s.machine.Spec.ClusterName}
}

// mayAct returns false for clusters of other instances and while the cluster or the machine is paused. A cluster
// without a provisioning Cluster belongs to every instance.
func (h *handler) mayAct(s snapshot, bootstrap *rkev1.RKEBootstrap) (bool, error) {
	if topology.IsPaused(nil, bootstrap, s.machine) {
		return false, nil
	}
	name := s.cluster()
	if h.capiClusters != nil {
		cluster, err := clients.Optional(h.capiClusters.Get(name.Namespace, name.Name))
		if err != nil {
			return false, fmt.Errorf("read Cluster API's Cluster %s: %w", name, err)
		}
		if topology.IsPaused(cluster) {
			return false, nil
		}
	}
	if h.clusters == nil {
		return true, nil
	}
	cluster, err := clients.Optional(h.clusters.Get(name.Namespace, name.Name))
	if err != nil {
		return false, fmt.Errorf("read Cluster %s: %w", name, err)
	}
	return cluster == nil || topology.IsOurs(cluster, h.InstanceID), nil
}

// gatherInfra reads the infrastructure machine. Other providers find their nodes themselves, so their machines are not
// found here.
func (h *handler) gatherInfra(s *snapshot) (bool, error) {
	ref := s.machine.Spec.InfrastructureRef
	switch {
	case ref.APIGroup == driverschema.MachineGroup:
		s.kind = schema.GroupVersionKind{Group: ref.APIGroup, Version: driverschema.Version, Kind: ref.Kind}
		return h.gatherDriverMachine(s)
	case registration.IsHost(s.machine):
		s.kind = rkev1.SchemeGroupVersion.WithKind(ref.Kind)
		return h.gatherCustomMachine(s)
	default:
		return false, nil
	}
}

func (h *handler) machineOf(bootstrap *rkev1.RKEBootstrap) (*clusterv1.Machine, error) {
	owner := topology.CAPIOwner(bootstrap.OwnerReferences, "Machine")
	if owner == "" {
		return nil, nil
	}
	machine, err := clients.Optional(h.machines.Get(bootstrap.Namespace, owner))
	if err != nil {
		return nil, fmt.Errorf("read Machine %s/%s: %w", bootstrap.Namespace, owner, err)
	}
	return machine, nil
}

func (h *handler) gatherDriverMachine(s *snapshot) (bool, error) {
	obj, err := h.Dynamic.Get(s.kind, s.machine.Namespace, s.infra)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s %s/%s: %w", s.kind.Kind, s.machine.Namespace, s.infra, err)
	}
	var status rkev1.RKEMachineStatus
	raw, err := json.Marshal(obj.Object["status"])
	if err == nil {
		err = json.Unmarshal(raw, &status)
	}
	if err != nil {
		return false, fmt.Errorf("read status of %s %s/%s: %w", s.kind.Kind, s.machine.Namespace, s.infra, err)
	}
	s.conditions = status.Conditions
	s.providerID, _, err = unstructured.NestedString(obj.Object, "spec", "providerID")
	if err != nil {
		return false, fmt.Errorf("read spec of %s %s/%s: %w", s.kind.Kind, s.machine.Namespace, s.infra, err)
	}
	return true, nil
}

func (h *handler) gatherCustomMachine(s *snapshot) (bool, error) {
	custom, err := clients.Optional(h.customMachines.Get(s.machine.Namespace, s.infra))
	if err != nil {
		return false, fmt.Errorf("read CustomMachine %s/%s: %w", s.machine.Namespace, s.infra, err)
	}
	if custom == nil {
		return false, nil
	}
	s.conditions, s.providerID = custom.Status.Conditions, custom.Spec.ProviderID
	return true, nil
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
