package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusters,scope=Namespaced,categories=provisioning
// +kubebuilder:metadata:labels={"auth.cattle.io/cluster-indexed=true","clusterctl.cluster.x-k8s.io/move-hierarchy="}
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.kubernetesVersion`
// +kubebuilder:printcolumn:name="Cluster Name",type=string,JSONPath=`.status.clusterName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Kubeconfig",type=string,JSONPath=`.status.clientSecretName`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !has(self.spec) || !has(self.spec.rkeConfig) || dyn(self.spec.rkeConfig) == null || self.metadata.name.size() <= 63",optionalOldSelf=true,message="metadata.name is too long: the name is a label of the cluster's machines; choose a name of at most 63 characters"
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Cluster is a desired Kubernetes cluster.
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +optional
	Spec ClusterSpec `json:"spec,omitzero"`

	// Status is the observed state.
	// +optional
	Status ClusterStatus `json:"status,omitzero"`
}

// ClusterSpec is the desired state of a cluster. The rules accept objects that were stored before the rules existed.
// Users can correct and delete such objects, and a condition shows the errors.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rkeConfig) || dyn(self.rkeConfig) == null || (has(self.kubernetesVersion) && dyn(self.kubernetesVersion) != null && self.kubernetesVersion.size() != 0) || (oldSelf.hasValue() && (!has(oldSelf.value().kubernetesVersion) || dyn(oldSelf.value().kubernetesVersion) == null || oldSelf.value().kubernetesVersion.size() == 0))",optionalOldSelf=true,fieldPath=".kubernetesVersion",message="kubernetesVersion must be set together with rkeConfig: set the full version of a distribution, for example v1.36.2+rke2r1 or v1.36.2+k3s1"
// +kubebuilder:validation:XValidation:rule="!has(self.rkeConfig) || dyn(self.rkeConfig) == null || !has(self.kubernetesVersion) || dyn(self.kubernetesVersion) == null || self.kubernetesVersion.size() == 0 || self.kubernetesVersion.matches('^v(0|[1-9][0-9]*)([.](0|[1-9][0-9]*)){2}(-[0-9A-Za-z.-]+)?([+][0-9A-Za-z.-]+)?$') || (oldSelf.hasValue() && has(oldSelf.value().kubernetesVersion) && dyn(oldSelf.value().kubernetesVersion) == dyn(self.kubernetesVersion))",optionalOldSelf=true,fieldPath=".kubernetesVersion",message="kubernetesVersion must be v and a semantic version, for example v1.36.2+rke2r1 or v1.36.2+k3s1"
type ClusterSpec struct {
	// CloudCredentialSecretName names the Secret with the credential of the cloud for all machine pools without their
	// own credential: `cattle-global-data:NAME`, or a name in the namespace of the cluster.
	// +nullable
	// +optional
	// +kubebuilder:validation:MaxLength=317
	CloudCredentialSecretName string `json:"cloudCredentialSecretName,omitempty"`

	// KubernetesVersion is the full version of the distribution, for example `v1.36.2+rke2r1` or `v1.36.2+k3s1`. A
	// version with `k3s` in it means K3s, any other RKE2. It is required with rkeConfig.
	// +nullable
	// +optional
	// +kubebuilder:validation:MaxLength=256
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// ClusterAPIConfig is accepted and has no effect.
	// +nullable
	// +optional
	ClusterAPIConfig *ClusterAPIConfig `json:"clusterAPIConfig,omitempty"`

	// RKEConfig describes machines and configuration. A cluster without it is imported and not provisioned.
	// +nullable
	// +optional
	RKEConfig *RKEConfig `json:"rkeConfig,omitempty"`

	// LocalClusterAuthEndpoint lets users reach the cluster's own API server directly.
	// +optional
	LocalClusterAuthEndpoint rkev1.LocalClusterAuthEndpoint `json:"localClusterAuthEndpoint,omitzero"`

	// AgentEnvVars is the environment of the agents on the nodes and in the cluster.
	// +nullable
	// +optional
	AgentEnvVars []rkev1.EnvVar `json:"agentEnvVars,omitempty"`

	// ClusterAgentDeploymentCustomization changes how the agent inside the cluster is deployed.
	// +nullable
	// +optional
	ClusterAgentDeploymentCustomization *AgentDeploymentCustomization `json:"clusterAgentDeploymentCustomization,omitempty"`

	// FleetAgentDeploymentCustomization changes how Fleet's agent is deployed. It has an effect only if Fleet is
	// installed in the management cluster.
	// +nullable
	// +optional
	FleetAgentDeploymentCustomization *AgentDeploymentCustomization `json:"fleetAgentDeploymentCustomization,omitempty"`

	// WebhookDeploymentCustomization changes how another manager's admission webhook inside the cluster is deployed.
	// Drover copies it to the management cluster, and it has no effect on provisioning.
	// +nullable
	// +optional
	WebhookDeploymentCustomization *WebhookDeploymentCustomization `json:"webhookDeploymentCustomization,omitempty"`

	// DefaultPodSecurityAdmissionConfigurationTemplateName is the name of a PodSecurityAdmissionConfigurationTemplate.
	// The API servers of the cluster use it as default for Pod Security admission. It requires Kubernetes v1.23 or
	// newer, and has no effect on an imported cluster.
	// +nullable
	// +optional
	DefaultPodSecurityAdmissionConfigurationTemplateName string `json:"defaultPodSecurityAdmissionConfigurationTemplateName,omitempty"`

	// DefaultClusterRoleForProjectMembers is copied to the management cluster and has no effect.
	// +nullable
	// +optional
	DefaultClusterRoleForProjectMembers string `json:"defaultClusterRoleForProjectMembers,omitempty"`

	// DefaultPodSecurityPolicyTemplateName is accepted for manifests of old releases and has no effect.
	// +nullable
	// +optional
	DefaultPodSecurityPolicyTemplateName string `json:"defaultPodSecurityPolicyTemplateName,omitempty"`

	// EnableNetworkPolicy is copied to the management cluster and has no effect on provisioning: it isolates nothing.
	// +nullable
	// +optional
	EnableNetworkPolicy *bool `json:"enableNetworkPolicy,omitempty"`

	// RedeploySystemAgentGeneration upgrades the agents on the nodes to the server's when it changes.
	// +optional
	RedeploySystemAgentGeneration int64 `json:"redeploySystemAgentGeneration,omitempty"`
}

// ClusterAPIConfig names an existing Cluster API cluster.
type ClusterAPIConfig struct {
	// ClusterName is the name of that cluster.
	// +nullable
	// +optional
	ClusterName string `json:"clusterName,omitempty"`
}

// RKEConfig describes the machines of a cluster and the configuration of its distribution.
type RKEConfig struct {
	rkev1.ClusterConfiguration `json:",inline"`

	// ETCDSnapshotCreate requests a snapshot when it changes.
	// +nullable
	// +optional
	ETCDSnapshotCreate *rkev1.ETCDSnapshotCreate `json:"etcdSnapshotCreate,omitempty"`

	// ETCDSnapshotRestore requests a restore when it changes.
	// +nullable
	// +optional
	ETCDSnapshotRestore *rkev1.ETCDSnapshotRestore `json:"etcdSnapshotRestore,omitempty"`

	// RotateCertificates requests new certificates when its generation changes.
	// +nullable
	// +optional
	RotateCertificates *rkev1.RotateCertificates `json:"rotateCertificates,omitempty"`

	// RotateEncryptionKeys requests a new encryption key when its generation changes.
	// +nullable
	// +optional
	RotateEncryptionKeys *rkev1.RotateEncryptionKeys `json:"rotateEncryptionKeys,omitempty"`

	// MachinePools are groups of equal machines. A cluster of hosts that register themselves has none.
	// +nullable
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	MachinePools []RKEMachinePool `json:"machinePools,omitempty"`

	// MachinePoolDefaults apply to every pool without its own value.
	// +optional
	MachinePoolDefaults RKEMachinePoolDefaults `json:"machinePoolDefaults,omitzero"`

	// InfrastructureRef names the infrastructure cluster of another Cluster API provider. With it, Drover creates no
	// RKECluster.
	// +nullable
	// +optional
	InfrastructureRef *corev1.ObjectReference `json:"infrastructureRef,omitempty"`
}

// ClusterStatus is the observed state of a cluster.
type ClusterStatus struct {
	// Ready is true after the cluster was reachable for the first time.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// ClusterName is the name of the management.cattle.io/v3 Cluster.
	// +optional
	ClusterName string `json:"clusterName,omitempty"`

	// FleetWorkspaceName is the Fleet workspace of the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	FleetWorkspaceName string `json:"fleetWorkspaceName,omitempty"`

	// ClientSecretName names the Secret with the kubeconfig of the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClientSecretName string `json:"clientSecretName,omitempty"`

	// AgentDeployed is true once the agent inside the cluster was deployed.
	// +optional
	AgentDeployed bool `json:"agentDeployed,omitempty"`

	// ObservedGeneration is the generation of the spec that this status belongs to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration"`

	// Conditions of the cluster.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []rkev1.GenericCondition `json:"conditions,omitempty"`
}
