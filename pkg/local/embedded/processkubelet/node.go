package processkubelet

import (
	"maps"
	"os"
	"runtime"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/version"
)

// nodeObject returns the Node to register.
func (k *kubelet) nodeObject() *corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname: k.config.NodeName, corev1.LabelOSStable: runtime.GOOS,
		corev1.LabelArchStable: runtime.GOARCH,
	}
	maps.Copy(labels, k.config.Labels)
	kubeletVersion := k.config.Version
	if kubeletVersion == "" {
		kubeletVersion = version.Get().GitVersion
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory(), resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(1000, resource.DecimalSI),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: k.config.NodeName, Labels: labels, Annotations: k.config.Annotations},
		Spec:       corev1.NodeSpec{Taints: k.config.Taints, ProviderID: k.config.ProviderID},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Addresses: append([]corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: k.config.Address},
				{Type: corev1.NodeHostName, Address: k.config.NodeName},
			}, k.config.ExtraAddresses...),
			DaemonEndpoints: corev1.NodeDaemonEndpoints{
				KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(k.config.Port)}},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: firstLine("/etc/machine-id"), BootID: firstLine("/proc/sys/kernel/random/boot_id"),
				KernelVersion: firstLine("/proc/sys/kernel/osrelease"), OSImage: osName(),
				ContainerRuntimeVersion: "process://1",
				KubeletVersion:          kubeletVersion, OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
			},
			Conditions: []corev1.NodeCondition{
				nodeCondition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
				nodeCondition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "NotMeasured"),
				nodeCondition(corev1.NodeDiskPressure, corev1.ConditionFalse, "NotMeasured"),
				nodeCondition(corev1.NodePIDPressure, corev1.ConditionFalse, "NotMeasured"),
			},
		},
	}
}

func nodeCondition(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
	now := metav1.Now()
	return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, LastHeartbeatTime: now,
		LastTransitionTime: now}
}

func firstLine(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(content), "\n")
	return line
}

func osName() string {
	content, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// memory returns the machine's memory in bytes.
func memory() int64 {
	content, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			fields := strings.Fields(value)
			quantity, err := resource.ParseQuantity(fields[0] + "Ki")
			if err == nil {
				return quantity.Value()
			}
		}
	}
	return 0
}
