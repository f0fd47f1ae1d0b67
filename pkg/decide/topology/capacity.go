package topology

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// Annotations of a MachineDeployment that tell an autoscaler about new nodes. It needs the first two to grow a pool
// from zero machines. (docs/wire/capi.md#autoscaling.)
const (
	capacityPrefix   = "capacity.cluster-autoscaler.kubernetes.io/"
	CPUAnnotation    = capacityPrefix + "cpu"
	MemoryAnnotation = capacityPrefix + "memory"
	labelsAnnotation = capacityPrefix + "labels"
	taintsAnnotation = capacityPrefix + "taints"
)

// memoryUnits are the units of the field memorySize, by kind of machine template. Machine configs of the other drivers
// name an instance type, whose capacity only the cloud knows.
var memoryUnits = map[string]string{"VmwarevsphereMachineTemplate": "Mi", "HarvesterMachineTemplate": "Gi"}

// capacity returns the annotations about new nodes of a pool that an autoscaler sizes. template is the machine
// template, nil for one of another provider.
func capacity(pool *provv1.RKEMachinePool, template *unstructured.Unstructured) map[string]string {
	annotations := map[string]string{}
	if !Autoscaled(pool) {
		return annotations
	}
	if labels := pairs(pool.Labels); labels != "" {
		annotations[labelsAnnotation] = labels
	}
	if taints := taintList(pool.Taints); taints != "" {
		annotations[taintsAnnotation] = taints
	}
	if template == nil {
		return annotations
	}
	unit := memoryUnits[template.GetKind()]
	cpu, memory := number(template, "cpuCount"), number(template, "memorySize")
	if unit != "" && cpu > 0 && memory > 0 {
		annotations[CPUAnnotation] = strconv.FormatInt(cpu, 10)
		annotations[MemoryAnnotation] = strconv.FormatInt(memory, 10) + unit
	}
	return annotations
}

// number returns a positive number in a field of a machine template, or 0. Drivers store numbers as text, too.
func number(template *unstructured.Unstructured, field string) int64 {
	value, _, _ := unstructured.NestedFieldNoCopy(template.Object, "spec", "template", "spec", field)
	parsed, err := strconv.ParseInt(fmt.Sprint(value), 10, 32)
	if err != nil {
		return 0
	}
	return max(0, parsed)
}

func pairs(labels map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, key+"="+labels[key])
	}
	return strings.Join(out, ",")
}

func taintList(taints []corev1.Taint) string {
	var out []string
	for _, taint := range taints {
		out = append(out, taint.Key+"="+taint.Value+":"+string(taint.Effect))
	}
	return strings.Join(out, ",")
}
