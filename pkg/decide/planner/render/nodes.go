package render

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
)

// Group and kinds of a node's Cluster API objects in the node's labels.
const (
	capiGroup   = "cluster.x-k8s.io"
	clusterKind = "Cluster"
	machineKind = "Machine"
)

// layerNodeLabels sets the labels with which a node registers: the user's, and those that link Node and Machine.
func (m *machinePlan) layerNodeLabels() error {
	labels := map[string]string{}
	if err := m.readAnnotation(rkev1.LabelsAnnotation, "an object of strings", &labels); err != nil {
		return err
	}
	if labels == nil { // the annotation was null
		labels = map[string]string{}
	}
	labels[rkev1.MachineUIDLabel] = string(m.in.Machine.UID)
	labels[rkev1.PlanClusterGroupLabel] = capiGroup
	labels[rkev1.PlanClusterKindLabel] = clusterKind
	labels[rkev1.PlanClusterNameLabel] = m.spec.ClusterName
	labels[rkev1.PlanMachineGroupLabel] = capiGroup
	labels[rkev1.PlanMachineKindLabel] = machineKind
	labels[rkev1.PlanMachineNameLabel] = m.in.Machine.Name
	list := make([]string, 0, len(labels))
	for key, value := range labels {
		list = append(list, key+"="+value)
	}
	slices.Sort(list)
	m.set("node-label", anyList(list))
	return nil
}

// layerNodeTaints sets the taints with which a node registers: the user's, and those that keep workloads off nodes
// without the worker role.
func (m *machinePlan) layerNodeTaints() error {
	var taints []corev1.Taint
	if err := m.readAnnotation(rkev1.TaintsAnnotation, "a list of taints", &taints); err != nil {
		return err
	}
	taints = append(taints, m.roleTaints()...)
	list := make([]string, 0, len(taints))
	for _, taint := range taints {
		if taint.Key != "" {
			list = append(list, taint.ToString())
		}
	}
	slices.Sort(list)
	if len(list) > 0 {
		m.set("node-taint", anyList(list))
	}
	return nil
}

func (m *machinePlan) roleTaints() []corev1.Taint {
	if m.roles.Worker {
		return nil
	}
	var taints []corev1.Taint
	if m.roles.ETCD && (m.runtime == distro.RKE2 || !m.roles.ControlPlane) {
		taints = append(taints, corev1.Taint{Key: "node-role.kubernetes.io/etcd", Effect: corev1.TaintEffectNoExecute})
	}
	if m.roles.ControlPlane {
		taints = append(taints, corev1.Taint{Key: "node-role.kubernetes.io/control-plane",
			Effect: corev1.TaintEffectNoSchedule})
	}
	return taints
}

// readAnnotation decodes a JSON annotation of the machine's bootstrap object. Without the annotation it leaves out
// unchanged.
func (m *machinePlan) readAnnotation(key, right string, out any) error {
	value := m.in.Machine.Annotations[key]
	if value == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(value), out); err != nil {
		return fmt.Errorf("annotation %s of machine %s/%s must be %s in JSON", key, m.in.Machine.Namespace,
			m.in.Machine.Name, right)
	}
	return nil
}
