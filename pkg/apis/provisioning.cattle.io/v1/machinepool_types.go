package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// RKEMachinePool is a group of equal machines of a cluster. At least one of its roles has to be true.
//
// A stored null counts as absent in the rules on autoscaling.
//
// +kubebuilder:validation:XValidation:rule="(has(self.etcdRole) && self.etcdRole) || (has(self.controlPlaneRole) && self.controlPlaneRole) || (has(self.workerRole) && self.workerRole)",message="at least one role of etcd, control-plane or worker must be assigned: set etcdRole, controlPlaneRole or workerRole to true"
// +kubebuilder:validation:XValidation:rule="!(has(self.controlPlaneRole) && self.controlPlaneRole) || !has(self.autoscalingMinSize) || dyn(self.autoscalingMinSize) == null || self.autoscalingMinSize > 0",message="AutoscalingMinSize must be greater than 0 when ControlPlaneRole is true"
// +kubebuilder:validation:XValidation:rule="!(has(self.etcdRole) && self.etcdRole) || !has(self.autoscalingMinSize) || dyn(self.autoscalingMinSize) == null || self.autoscalingMinSize > 0",message="AutoscalingMinSize must be greater than 0 when EtcdRole is true"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscalingMinSize) || dyn(self.autoscalingMinSize) == null || !has(self.autoscalingMaxSize) || dyn(self.autoscalingMaxSize) == null || self.autoscalingMinSize <= self.autoscalingMaxSize",message="AutoscalingMinSize must be less than or equal to AutoscalingMaxSize when both are non-nil"
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

	// Quantity is how many machines the pool has. Absent leaves the number to Cluster API, or to an autoscaler. All pools together
	// need at least one machine with etcd and one with a control plane.
	// +nullable
	// +optional
	// +kubebuilder:validation:Minimum=0
	Quantity *int32 `json:"quantity,omitempty"`

	// RollingUpdate limits how machines are replaced when their machine config was changed.
	// +nullable
	// +optional
	RollingUpdate *RKEMachinePoolRollingUpdate `json:"rollingUpdate,omitempty"`

	// Paused keeps changes from the machines of the pool: none is replaced because its template changed, and none gets a changed plan. Machines are made
	// and removed all the same.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// DrainBeforeDelete drains the node of a machine that is removed.
	// +optional
	DrainBeforeDelete bool `json:"drainBeforeDelete,omitempty"`

	// DrainBeforeDeleteTimeout ends such a drain. Absent or 0 waits without limit.
	// +nullable
	// +optional
	DrainBeforeDeleteTimeout *metav1.Duration `json:"drainBeforeDeleteTimeout,omitempty"`

	// MachineDeploymentLabels are put on the MachineDeployment alone.
	// +nullable
	// +optional
	MachineDeploymentLabels map[string]string `json:"machineDeploymentLabels,omitempty"`

	// MachineDeploymentAnnotations are put on the MachineDeployment alone.
	// +nullable
	// +optional
	MachineDeploymentAnnotations map[string]string `json:"machineDeploymentAnnotations,omitempty"`

	// NodeStartupTimeout is how long a machine may take to become a node before it is unhealthy. It has no effect without
	// unhealthyNodeTimeout.
	// +nullable
	// +optional
	NodeStartupTimeout *metav1.Duration `json:"nodeStartupTimeout,omitempty"`

	// UnhealthyNodeTimeout is how long a node may be unready before its machine is replaced. Absent or 0 never replaces. Pools
	// with the etcd role are looked after together, with the longest of their times.
	// +nullable
	// +optional
	UnhealthyNodeTimeout *metav1.Duration `json:"unhealthyNodeTimeout,omitempty"`

	// MaxUnhealthy stops replacing when more machines than this number or percentage are unhealthy. Whatever it is, machines
	// with etcd are replaced only while the others are a majority.
	// +nullable
	// +optional
	MaxUnhealthy *string `json:"maxUnhealthy,omitempty"`

	// UnhealthyRange replaces only while the number of unhealthy machines is in this range, for example `[3-5]`.
	// +nullable
	// +optional
	UnhealthyRange *string `json:"unhealthyRange,omitempty"`

	// MachineOS is `linux`, also when empty. `windows` is refused: there is no agent for such machines yet.
	// +nullable
	// +optional
	MachineOS string `json:"machineOS,omitempty"`

	// DynamicSchemaSpec is the schema of the machine config when the pool was made, as JSON. It is filled in when it is
	// empty, and it keeps a newer driver from replacing machines.
	// +nullable
	// +optional
	DynamicSchemaSpec string `json:"dynamicSchemaSpec,omitempty"`

	// HostnameLengthLimit is the longest host name that the machines may get.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=63
	HostnameLengthLimit int `json:"hostnameLengthLimit,omitempty"`

	// AutoscalingMinSize is the fewest machines that an autoscaler may leave.
	// +nullable
	// +optional
	AutoscalingMinSize *int32 `json:"autoscalingMinSize,omitempty"`

	// AutoscalingMaxSize is the most machines that an autoscaler may make.
	// +nullable
	// +optional
	AutoscalingMaxSize *int32 `json:"autoscalingMaxSize,omitempty"`

	// Userdata is merged into the bootstrap data of the machines. It is used with an infrastructureRef only.
	// +nullable
	// +optional
	Userdata *rkev1.UserdataSpec `json:"userdata,omitempty"`
}

// RKEMachinePoolRollingUpdate limits how machines of a pool are replaced.
type RKEMachinePoolRollingUpdate struct {
	// MaxUnavailable is how many machines, or which percentage, may be missing meanwhile.
	// +nullable
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// MaxSurge is how many machines, or which percentage, may exist beyond the quantity meanwhile.
	// +nullable
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
}

// RKEMachinePoolDefaults apply to all pools of a cluster.
type RKEMachinePoolDefaults struct {
	// HostnameLengthLimit is the longest host name that machines may get.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=63
	HostnameLengthLimit int `json:"hostnameLengthLimit,omitempty"`
}
