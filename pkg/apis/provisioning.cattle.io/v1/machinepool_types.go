package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// RKEMachinePool is a group of equal machines of a cluster. At least one of its roles must be true.
//
// A stored null counts as absent in the rules on autoscaling.
//
// +kubebuilder:validation:XValidation:rule="(has(self.etcdRole) && self.etcdRole) || (has(self.controlPlaneRole) && self.controlPlaneRole) || (has(self.workerRole) && self.workerRole)",message="at least one role of etcd, control-plane or worker must be assigned: set etcdRole, controlPlaneRole or workerRole to true"
// +kubebuilder:validation:XValidation:rule="!(has(self.controlPlaneRole) && self.controlPlaneRole) || !has(self.autoscalingMinSize) || dyn(self.autoscalingMinSize) == null || self.autoscalingMinSize > 0",message="AutoscalingMinSize must be greater than 0 when ControlPlaneRole is true"
// +kubebuilder:validation:XValidation:rule="!(has(self.etcdRole) && self.etcdRole) || !has(self.autoscalingMinSize) || dyn(self.autoscalingMinSize) == null || self.autoscalingMinSize > 0",message="AutoscalingMinSize must be greater than 0 when EtcdRole is true"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscalingMinSize) || dyn(self.autoscalingMinSize) == null || !has(self.autoscalingMaxSize) || dyn(self.autoscalingMaxSize) == null || self.autoscalingMinSize <= self.autoscalingMaxSize",fieldPath=".autoscalingMinSize",message="AutoscalingMinSize must be less than or equal to AutoscalingMaxSize when both are non-nil"
// +kubebuilder:validation:XValidation:rule="(has(self.autoscalingMinSize) && dyn(self.autoscalingMinSize) != null) == (has(self.autoscalingMaxSize) && dyn(self.autoscalingMaxSize) != null)",message="AutoscalingMinSize and AutoscalingMaxSize must both be set if enabling cluster-autoscaling"
type RKEMachinePool struct {
	rkev1.RKECommonNodeConfig `json:",inline"`

	// Name of the pool, unique in the cluster. It becomes part of the names of its machines.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`

	// DisplayName is accepted and has no effect.
	// +nullable
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// EtcdRole makes the machines members of etcd.
	// +optional
	EtcdRole bool `json:"etcdRole,omitempty"`

	// ControlPlaneRole makes the machines run the API server and the controllers.
	// +optional
	ControlPlaneRole bool `json:"controlPlaneRole,omitempty"`

	// WorkerRole makes the machines run workloads.
	// +optional
	WorkerRole bool `json:"workerRole,omitempty"`

	// NodeConfig names the machine config of the pool: a kind of rke-machine-config.cattle.io in the namespace of the
	// cluster, or an infrastructure machine template of another Cluster API provider. Its namespace is ignored.
	// +nullable
	// +required
	NodeConfig *corev1.ObjectReference `json:"machineConfigRef"`

	// Quantity is how many machines the pool has. If it is absent, Cluster API or an autoscaler sets the number. All
	// pools together need at least one machine with etcd and one with a control plane.
	// +nullable
	// +optional
	// +kubebuilder:validation:Minimum=0
	Quantity *int32 `json:"quantity,omitempty"`

	// RollingUpdate limits the replacement of machines after a change of their machine config.
	// +nullable
	// +optional
	RollingUpdate *RKEMachinePoolRollingUpdate `json:"rollingUpdate,omitempty"`

	// Paused stops changes of the pool's machines: Drover replaces no machine after a change of its template, and
	// delivers no changed plan. It still creates and removes machines.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// DrainBeforeDelete drains the node of a machine before its removal.
	// +optional
	DrainBeforeDelete bool `json:"drainBeforeDelete,omitempty"`

	// DrainBeforeDeleteTimeout limits such a drain. Absent or 0 means no limit.
	// +nullable
	// +optional
	DrainBeforeDeleteTimeout *metav1.Duration `json:"drainBeforeDeleteTimeout,omitempty"`

	// MachineDeploymentLabels are labels of the MachineDeployment only.
	// +nullable
	// +optional
	MachineDeploymentLabels map[string]string `json:"machineDeploymentLabels,omitempty"`

	// MachineDeploymentAnnotations are annotations of the MachineDeployment only.
	// +nullable
	// +optional
	MachineDeploymentAnnotations map[string]string `json:"machineDeploymentAnnotations,omitempty"`

	// NodeStartupTimeout is how long a machine may take to become a node before it is unhealthy. It has no effect
	// without unhealthyNodeTimeout.
	// +nullable
	// +optional
	NodeStartupTimeout *metav1.Duration `json:"nodeStartupTimeout,omitempty"`

	// UnhealthyNodeTimeout is how long a node may be unready before its machine is replaced. Absent or 0 means never.
	// Pools with the etcd role share one health check, with the longest of their times.
	// +nullable
	// +optional
	UnhealthyNodeTimeout *metav1.Duration `json:"unhealthyNodeTimeout,omitempty"`

	// MaxUnhealthy stops replacements when more machines than this number or percentage are unhealthy. With any value,
	// machines with etcd are replaced only while the other members are a majority.
	// +nullable
	// +optional
	MaxUnhealthy *string `json:"maxUnhealthy,omitempty"`

	// UnhealthyRange allows replacements only while the number of unhealthy machines is in this range, for example
	// `[3-5]`.
	// +nullable
	// +optional
	UnhealthyRange *string `json:"unhealthyRange,omitempty"`

	// MachineOS is `linux`, also when empty. `windows` is refused, because Drover has no agent for such machines yet.
	// +nullable
	// +optional
	MachineOS string `json:"machineOS,omitempty"`

	// DynamicSchemaSpec is the schema of the machine config at the creation of the pool, as JSON. Drover fills it in
	// when it is empty. With it, a newer driver does not cause the replacement of machines.
	// +nullable
	// +optional
	DynamicSchemaSpec string `json:"dynamicSchemaSpec,omitempty"`

	// HostnameLengthLimit is the maximum length of the machines' host names.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=63
	HostnameLengthLimit int `json:"hostnameLengthLimit,omitempty"`

	// AutoscalingMinSize is the minimum number of machines for an autoscaler.
	// +nullable
	// +optional
	AutoscalingMinSize *int32 `json:"autoscalingMinSize,omitempty"`

	// AutoscalingMaxSize is the maximum number of machines for an autoscaler.
	// +nullable
	// +optional
	AutoscalingMaxSize *int32 `json:"autoscalingMaxSize,omitempty"`

	// Userdata is merged into the bootstrap data of the machines. It is used only with an infrastructureRef.
	// +nullable
	// +optional
	Userdata *rkev1.UserdataSpec `json:"userdata,omitempty"`
}

// RKEMachinePoolRollingUpdate limits the replacement of a pool's machines.
type RKEMachinePoolRollingUpdate struct {
	// MaxUnavailable is the number or percentage of machines that may be unavailable during a replacement.
	// +nullable
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// MaxSurge is the number or percentage of machines that may exist above the quantity during a replacement.
	// +nullable
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
}

// RKEMachinePoolDefaults apply to all pools of a cluster.
type RKEMachinePoolDefaults struct {
	// HostnameLengthLimit is the maximum length of host names.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=63
	HostnameLengthLimit int `json:"hostnameLengthLimit,omitempty"`
}
