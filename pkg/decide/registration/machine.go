package registration

import (
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// drainSeconds is how long Cluster API drains the node of a host whose Machine is deleted. No pool sets it for a host.
// Without it, a pod that cannot leave would keep the Machine forever.
const drainSeconds int32 = 600

// nodeDeletionSeconds is how long the deletion may take, including the drain, the departure from etcd and the last plan
// of the host, before Cluster API gives up the Node. Cluster API's default of ten seconds is too short for that.
const nodeDeletionSeconds = drainSeconds + 900

// Machine is a host in the management cluster: three objects of one name. (docs/wire/endpoints.md#register-a-host.)
type Machine struct {
	Bootstrap *rkev1.RKEBootstrap
	Custom    *rkev1.CustomMachine
	Machine   *clusterv1.Machine
}

// IsHost reports whether a Machine is a host that registers itself. Machines that Drover creates have their own tokens.
func IsHost(machine *clusterv1.Machine) bool {
	ref := machine.Spec.InfrastructureRef
	return ref.APIGroup == rkev1.SchemeGroupVersion.Group && ref.Kind == "CustomMachine"
}

// NodeUID returns the UID by which the node of a Machine knows it: the one of the Machine's first plan. It is rendered
// into plans. A Machine that was moved or restored to another management cluster has another UID there.
func NodeUID(machine *clusterv1.Machine) types.UID {
	if first := machine.Annotations[rkev1.MachineUIDAnnotation]; first != "" {
		return types.UID(first)
	}
	return machine.UID
}

// MachineName is the name of a host's objects and of its request.
func (h *Host) MachineName() string { return naming.MachineRequest(naming.MachineRequestCustom, h.ID) }

// Machine returns the host as a machine of a cluster. The host's description counts only when the objects are created.
func (h *Host) Machine(namespace, cluster string) (Machine, error) {
	annotations, err := h.annotations()
	if err != nil {
		return Machine{}, err
	}
	labels := h.labels(cluster)
	meta := func(annotations map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: h.MachineName(), Labels: maps.Clone(labels),
			Annotations: maps.Clone(annotations)}
	}
	taints := map[string]string{}
	if value := annotations[rkev1.TaintsAnnotation]; value != "" {
		taints[rkev1.TaintsAnnotation] = value
	}
	reference := func(kind string) clusterv1.ContractVersionedObjectReference {
		return clusterv1.ContractVersionedObjectReference{APIGroup: rkev1.SchemeGroupVersion.Group, Kind: kind,
			Name: h.MachineName()}
	}
	guarded := meta(taints)
	guarded.Finalizers = []string{rkev1.UnmanagedMachineFinalizer}
	drain, deletion := drainSeconds, nodeDeletionSeconds
	return Machine{
		Bootstrap: &rkev1.RKEBootstrap{ObjectMeta: meta(annotations),
			Spec: rkev1.RKEBootstrapSpec{ClusterName: cluster}},
		Custom: &rkev1.CustomMachine{ObjectMeta: guarded},
		Machine: &clusterv1.Machine{ObjectMeta: meta(taints), Spec: clusterv1.MachineSpec{
			ClusterName:       cluster,
			Bootstrap:         clusterv1.Bootstrap{ConfigRef: reference("RKEBootstrap")},
			InfrastructureRef: reference("CustomMachine"),
			Deletion: clusterv1.MachineDeletionSpec{NodeDrainTimeoutSeconds: &drain,
				NodeDeletionTimeoutSeconds: &deletion},
		}},
	}, nil
}

// labels are the user's labels. The labels by which Drover and Cluster API identify the machine override them.
func (h *Host) labels(cluster string) map[string]string {
	labels := map[string]string{rkev1.CattleOSLabel: "linux"}
	maps.Copy(labels, h.Labels)
	labels[clusterv1.ClusterNameLabel], labels[rkev1.ClusterNameLabel], labels[rkev1.MachineIDLabel] = cluster, cluster,
		h.ID
	for label, has := range map[string]bool{
		rkev1.EtcdRoleLabel: h.Etcd, rkev1.ControlPlaneRoleLabel: h.ControlPlane, rkev1.WorkerRoleLabel: h.Worker,
		clusterv1.MachineControlPlaneLabel: h.ControlPlane,
	} {
		if has {
			labels[label] = rkev1.RoleLabelValue
		}
	}
	if h.NodeName != "" {
		labels[rkev1.NodeNameLabel] = h.NodeName
	}
	return labels
}

func (h *Host) annotations() (map[string]string, error) {
	annotations := map[string]string{}
	for key, value := range map[string]string{rkev1.AddressAnnotation: h.Address,
		rkev1.InternalAddressAnnotation: h.InternalAddress} {
		if value != "" {
			annotations[key] = value
		}
	}
	if len(h.Labels) > 0 {
		encoded, err := json.Marshal(h.Labels)
		if err != nil {
			return nil, err
		}
		annotations[rkev1.LabelsAnnotation] = string(encoded)
	}
	if len(h.Taints) > 0 {
		encoded, err := json.Marshal(h.Taints)
		if err != nil {
			return nil, err
		}
		annotations[rkev1.TaintsAnnotation] = string(encoded)
	}
	return annotations, nil
}

// saidAnnotations are the annotations with a host's description. Other annotations come from other programs or users.
var saidAnnotations = []string{rkev1.AddressAnnotation, rkev1.InternalAddressAnnotation, rkev1.LabelsAnnotation,
	rkev1.TaintsAnnotation}

// Correction returns a merge patch that makes an existing object match wanted and removes what its host said before.
// All labels become those of wanted, because a host may set almost any. The patch applies only to this version of the
// object. It is nil when there is nothing to correct.
func Correction(there, wanted metav1.Object) ([]byte, error) {
	labels := changes(there.GetLabels(), wanted.GetLabels())
	said := map[string]string{}
	for _, key := range saidAnnotations {
		if value, says := there.GetAnnotations()[key]; says {
			said[key] = value
		}
	}
	annotations := changes(said, wanted.GetAnnotations())
	if len(labels) == 0 && len(annotations) == 0 {
		return nil, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": there.GetResourceVersion(), "labels": labels, "annotations": annotations,
	}})
	if err != nil {
		return nil, fmt.Errorf("encode the answer for %s/%s: %w", there.GetNamespace(), there.GetName(), err)
	}
	return patch, nil
}

// changes are the entries of a merge patch that turn one map into another: nil removes a key.
func changes(from, to map[string]string) map[string]any {
	out := map[string]any{}
	for key := range from {
		if _, stays := to[key]; !stays {
			out[key] = nil
		}
	}
	for key, value := range to {
		if had, has := from[key]; !has || had != value {
			out[key] = value
		}
	}
	return out
}
