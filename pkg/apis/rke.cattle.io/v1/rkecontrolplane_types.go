package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=rkecontrolplanes,scope=Namespaced,shortName=rcp,categories=cluster-api
// +kubebuilder:metadata:labels={"cluster.x-k8s.io/v1beta2=v1","auth.cattle.io/cluster-indexed=true"}
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Initialized",type=string,JSONPath=`.status.initialized`
// +kubebuilder:printcolumn:name="API Server Available",type=boolean,JSONPath=`.status.initialization.controlPlaneInitialized`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.kubernetesVersion`
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RKEControlPlane is the control plane of the Cluster API contract: the configuration of a whole cluster, and the state
// of every operation on it. Its machines belong to MachineDeployments, so it has no replicas.
type RKEControlPlane struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +optional
	Spec RKEControlPlaneSpec `json:"spec,omitzero"`

	// Status is the observed state, and the progress of operations.
	// +optional
	Status RKEControlPlaneStatus `json:"status,omitzero"`
}

// RKEControlPlaneSpec is the desired state of a cluster.
type RKEControlPlaneSpec struct {
	ClusterConfiguration `json:",inline"`

	// AgentEnvVars is the environment of the agents on the nodes.
	// +nullable
	// +optional
	AgentEnvVars []EnvVar `json:"agentEnvVars,omitempty"`

	// LocalClusterAuthEndpoint configures direct access to the cluster for users.
	// +optional
	LocalClusterAuthEndpoint LocalClusterAuthEndpoint `json:"localClusterAuthEndpoint,omitzero"`

	// ETCDSnapshotCreate requests a snapshot.
	// +nullable
	// +optional
	ETCDSnapshotCreate *ETCDSnapshotCreate `json:"etcdSnapshotCreate,omitempty"`

	// ETCDSnapshotRestore requests a restore.
	// +nullable
	// +optional
	ETCDSnapshotRestore *ETCDSnapshotRestore `json:"etcdSnapshotRestore,omitempty"`

	// RotateCertificates requests new certificates.
	// +nullable
	// +optional
	RotateCertificates *RotateCertificates `json:"rotateCertificates,omitempty"`

	// RotateEncryptionKeys requests a new encryption key.
	// +nullable
	// +optional
	RotateEncryptionKeys *RotateEncryptionKeys `json:"rotateEncryptionKeys,omitempty"`

	// KubernetesVersion is the full version of the distribution, for example `v1.36.2+rke2r1`.
	// +nullable
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// ClusterName is the name of the Cluster API cluster.
	// +required
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName"`

	// ManagementClusterName is the name of the management.cattle.io/v3 Cluster.
	// +required
	ManagementClusterName string `json:"managementClusterName"`

	// UnmanagedConfig renders configuration without the parts that Drover manages. No controller sets it.
	// +optional
	UnmanagedConfig bool `json:"unmanagedConfig,omitempty"`
}

// RKEControlPlaneStatus is the observed state of a cluster, and the progress of its operations.
type RKEControlPlaneStatus struct {
	// Conditions of the cluster. The message of `Ready` shows users the progress.
	// +optional
	Conditions []GenericCondition `json:"conditions,omitempty"`

	// ObservedGeneration is the generation of the spec that this status belongs to.
	// +required
	ObservedGeneration int64 `json:"observedGeneration"`

	// Initialization tells Cluster API that the API server is reachable.
	// +optional
	Initialization RKEControlPlaneInitialization `json:"initialization,omitzero"`

	// Ready exists only for stored objects and is no longer written.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// Initialized repeats initialization.controlPlaneInitialized for the printer column with that name.
	// +optional
	Initialized bool `json:"initialized,omitempty"`

	// AgentConnected is true after Drover reached the cluster.
	// +optional
	AgentConnected bool `json:"agentConnected,omitempty"`

	// AppliedSpec is the spec that all nodes have applied.
	// +optional
	AppliedSpec *RKEControlPlaneSpec `json:"appliedSpec,omitempty"`

	// ConfigGeneration counts the forced new configurations of all nodes, for example after a restore.
	// +optional
	ConfigGeneration int64 `json:"configGeneration,omitempty"`

	// CertificateRotationGeneration is the generation of the last finished rotation of certificates.
	// +optional
	CertificateRotationGeneration int64 `json:"certificateRotationGeneration,omitempty"`

	// RotateEncryptionKeys is the current or the last rotation of encryption keys.
	// +optional
	RotateEncryptionKeys *RotateEncryptionKeys `json:"rotateEncryptionKeys,omitempty"`

	// RotateEncryptionKeysPhase is the progress of that rotation.
	// +optional
	RotateEncryptionKeysPhase RotateEncryptionKeysPhase `json:"rotateEncryptionKeysPhase,omitempty"`

	// RotateEncryptionKeysLeader is the Machine that runs the commands of that rotation.
	// +optional
	RotateEncryptionKeysLeader string `json:"rotateEncryptionKeysLeader,omitempty"`

	// ETCDSnapshotCreate is the current or the last snapshot.
	// +optional
	ETCDSnapshotCreate *ETCDSnapshotCreate `json:"etcdSnapshotCreate,omitempty"`

	// ETCDSnapshotCreatePhase is the progress of that snapshot.
	// +optional
	// +kubebuilder:validation:Enum=Started;RestartCluster;Finished;Failed
	ETCDSnapshotCreatePhase ETCDSnapshotPhase `json:"etcdSnapshotCreatePhase,omitempty"`

	// ETCDSnapshotRestore is the current or the last restore.
	// +optional
	ETCDSnapshotRestore *ETCDSnapshotRestore `json:"etcdSnapshotRestore,omitempty"`

	// ETCDSnapshotRestorePhase is the progress of that restore.
	// +optional
	// +kubebuilder:validation:Enum=Started;Shutdown;Restore;PostRestorePodCleanup;InitialRestartCluster;PostRestoreNodeCleanup;RestartCluster;Finished;Failed
	ETCDSnapshotRestorePhase ETCDSnapshotPhase `json:"etcdSnapshotRestorePhase,omitempty"`

	// Ticket is the disruptive step that Drover currently performs. Drover writes it with the resource
	// version of its view, before it delivers a plan of that step: a conflict means that the view was
	// stale, and Drover delivers nothing.
	// +optional
	Ticket *DisruptionTicket `json:"ticket,omitempty"`

	// Operations are the records of each kind of operation, sorted by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	Operations []OperationRecord `json:"operations,omitempty"`
}

// RKEControlPlaneInitialization is the part of the status that Cluster API reads.
//
// +kubebuilder:validation:MinProperties=1
type RKEControlPlaneInitialization struct {
	// ControlPlaneInitialized is true after a server answered.
	// +optional
	ControlPlaneInitialized *bool `json:"controlPlaneInitialized,omitempty"`
}

// DisruptionTicket contains the machines that may be disrupted now, and the plans that disrupt them.
type DisruptionTicket struct {
	// Step of the planner that wrote the ticket.
	// +required
	Step string `json:"step"`

	// Cause of the disruption, for users.
	// +optional
	Cause string `json:"cause,omitempty"`

	// Machines that are disrupted, sorted by UID.
	// +optional
	// +listType=map
	// +listMapKey=machineUID
	Machines []TicketMachine `json:"machines,omitempty"`
}

// TicketMachine is one machine of a ticket.
type TicketMachine struct {
	// MachineUID is the UID of the Cluster API Machine.
	// +required
	MachineUID types.UID `json:"machineUID"`

	// PlanChecksum is the checksum of the plan for the machine.
	// +optional
	PlanChecksum string `json:"planChecksum,omitempty"`
}
