package v3

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// +genclient
// +genclient:nonNamespaced
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusters,scope=Cluster
// +kubebuilder:pruning:PreserveUnknownFields
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Cluster is the management side of a cluster: the object to which a larger server attaches users, projects and the
// connection to the cluster on. Its schema is open; the fields here are those that provisioning reads or writes. A
// writer that does not own the object patches it, so that fields unknown here stay.
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec ClusterSpec `json:"spec,omitzero"`

	// Status is the observed state.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Status ClusterStatus `json:"status,omitzero"`
}

// ClusterSpec is the desired state of a management cluster.
type ClusterSpec struct {
	// DisplayName is the name of the provisioning cluster.
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// Description is a text for users.
	// +optional
	Description string `json:"description,omitempty"`

	// Internal marks the cluster of the management plane itself.
	// +optional
	Internal bool `json:"internal,omitempty"`

	// ImportedConfig is set, and empty, on every cluster that has a provisioning cluster.
	// +optional
	ImportedConfig *ImportedConfig `json:"importedConfig,omitempty"`

	// FleetWorkspaceName is the namespace of the provisioning cluster.
	// +optional
	FleetWorkspaceName string `json:"fleetWorkspaceName,omitempty"`

	// LocalClusterAuthEndpoint lets users reach the cluster's own API server directly.
	// +optional
	LocalClusterAuthEndpoint rkev1.LocalClusterAuthEndpoint `json:"localClusterAuthEndpoint,omitzero"`

	// AgentEnvVars is the environment of the agent inside the cluster.
	// +optional
	AgentEnvVars []corev1.EnvVar `json:"agentEnvVars,omitempty"`

	// DefaultPodSecurityAdmissionConfigurationTemplateName names the template of the cluster's pod security admission.
	// +optional
	DefaultPodSecurityAdmissionConfigurationTemplateName string `json:"defaultPodSecurityAdmissionConfigurationTemplateName,omitempty"`

	// DefaultClusterRoleForProjectMembers is copied from the provisioning cluster.
	// +optional
	DefaultClusterRoleForProjectMembers string `json:"defaultClusterRoleForProjectMembers,omitempty"`

	// EnableNetworkPolicy is copied from the provisioning cluster.
	// +optional
	EnableNetworkPolicy *bool `json:"enableNetworkPolicy,omitempty"`

	// DesiredAgentImage is the image of the agent inside the cluster.
	// +optional
	DesiredAgentImage string `json:"desiredAgentImage,omitempty"`

	// DesiredAuthImage is the image of the program behind localClusterAuthEndpoint.
	// +optional
	DesiredAuthImage string `json:"desiredAuthImage,omitempty"`

	// DesiredAssetsImage is the image with the charts.
	// +optional
	DesiredAssetsImage string `json:"desiredAssetsImage,omitempty"`

	// ClusterSecrets names Secrets of the cluster.
	// +optional
	ClusterSecrets ClusterSecrets `json:"clusterSecrets,omitzero"`

	// ClusterAgentDeploymentCustomization changes how the agent inside the cluster is deployed.
	// +optional
	ClusterAgentDeploymentCustomization *provv1.AgentDeploymentCustomization `json:"clusterAgentDeploymentCustomization,omitempty"`

	// FleetAgentDeploymentCustomization changes how Fleet's agent is deployed.
	// +optional
	FleetAgentDeploymentCustomization *provv1.AgentDeploymentCustomization `json:"fleetAgentDeploymentCustomization,omitempty"`

	// WebhookDeploymentCustomization changes how the admission webhook is deployed.
	// +optional
	WebhookDeploymentCustomization *provv1.WebhookDeploymentCustomization `json:"webhookDeploymentCustomization,omitempty"`
}

// ImportedConfig marks a cluster that the management side did not create.
type ImportedConfig struct{}

// ClusterSecrets names Secrets of a cluster.
type ClusterSecrets struct {
	// PrivateRegistrySecret names the Secret with the credential of the private registry.
	// +optional
	PrivateRegistrySecret string `json:"privateRegistrySecret,omitempty"`

	// PrivateRegistryURL is the private registry.
	// +optional
	PrivateRegistryURL string `json:"privateRegistryURL,omitempty"`
}

// ClusterStatus is the observed state of a management cluster.
type ClusterStatus struct {
	// Conditions of the cluster.
	// +optional
	Conditions []rkev1.GenericCondition `json:"conditions,omitempty"`

	// Driver is the distribution of the cluster.
	// +optional
	Driver string `json:"driver,omitempty"`

	// Provider is the distribution in the form for user interfaces.
	// +optional
	Provider string `json:"provider,omitempty"`

	// ReadyReconciling is true while the control plane is not stable, so that readiness follows it.
	// +optional
	ReadyReconciling bool `json:"readyReconciling,omitempty"`

	// NodeCount is the number of nodes of an imported cluster.
	// +optional
	NodeCount int `json:"nodeCount,omitempty"`

	// Version is the version of an imported cluster, as its API server reports it.
	// +optional
	Version ClusterVersion `json:"version,omitzero"`

	// Info sums up the cluster for lists.
	// +optional
	Info ClusterInfo `json:"info,omitzero"`
}

// ClusterVersion is the version of Kubernetes of a cluster.
type ClusterVersion struct {
	// GitVersion is the complete version, such as `v1.36.2+k3s1`.
	// +optional
	GitVersion string `json:"gitVersion,omitempty"`

	// Major is the first number of the version.
	// +optional
	Major string `json:"major,omitempty"`

	// Minor is the second number of the version.
	// +optional
	Minor string `json:"minor,omitempty"`
}

// ClusterInfo sums up a cluster.
type ClusterInfo struct {
	// MachineProvider is the driver of the machines.
	// +optional
	MachineProvider string `json:"machineProvider,omitempty"`

	// KubernetesVersion of the cluster.
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// NodeCount is the number of nodes.
	// +optional
	NodeCount int `json:"nodeCount,omitempty"`

	// Arch is the architecture of the nodes, or `mixed`.
	// +optional
	Arch string `json:"arch,omitempty"`

	// ProvisioningClusterRef names the provisioning cluster.
	// +optional
	ProvisioningClusterRef *corev1.ObjectReference `json:"provisioningClusterRef,omitempty"`
}
