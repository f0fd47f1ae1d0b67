package v1

import (
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// EnvVar is an environment variable with a plain value.
type EnvVar struct {
	// Name of the variable.
	// +optional
	Name string `json:"name,omitempty"`

	// Value of the variable.
	// +nullable
	// +optional
	Value string `json:"value,omitempty"`
}

// LocalClusterAuthEndpoint lets users reach the cluster's own API server directly, without Drover. Users have the same
// identity as in the management cluster, with tokens that Drover issues for that cluster.
type LocalClusterAuthEndpoint struct {
	// Enabled turns the endpoint on.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// FQDN is the host to which users connect, for example a load balancer.
	// +nullable
	// +optional
	FQDN string `json:"fqdn,omitempty"`

	// CACerts is PEM of the authority that signs the certificate of the FQDN.
	// +nullable
	// +optional
	CACerts string `json:"caCerts,omitempty"`
}

// UserdataSpec is cloud-init configuration of the user for machines of an infrastructure provider other than Drover's.
type UserdataSpec struct {
	// InlineUserdata is a cloud-config that is merged into the bootstrap data.
	// +optional
	InlineUserdata string `json:"inlineUserdata,omitempty"`
}

// GenericCondition is the condition of all kinds of these groups. Its times are text in RFC 3339.
type GenericCondition struct {
	// Type of the condition.
	// +required
	Type string `json:"type"`

	// Status is `True`, `False` or `Unknown`.
	// +required
	Status string `json:"status"`

	// LastUpdateTime is the time of the last write of the condition.
	// +optional
	LastUpdateTime string `json:"lastUpdateTime,omitempty"`

	// LastTransitionTime is the time of the last change of the status.
	// +optional
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`

	// Reason is one word for machines.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Message is a sentence for users.
	// +optional
	Message string `json:"message,omitempty"`
}

// RKECommonNodeConfig is the configuration that a machine pool gives to every machine, with any driver: the field
// `spec.common` of the generated infrastructure kinds.
type RKECommonNodeConfig struct {
	// Labels of the node.
	// +nullable
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Taints of the node.
	// +nullable
	// +optional
	Taints []corev1.Taint `json:"taints,omitempty"`

	// CloudCredentialSecretName names the Secret with the credential of the cloud: `cattle-global-data:NAME`, or a name
	// in the namespace of the cluster.
	// +nullable
	// +optional
	// +kubebuilder:validation:MaxLength=317
	CloudCredentialSecretName string `json:"cloudCredentialSecretName,omitempty"`
}

// MachineInitialization is the part of an infrastructure machine's status that tells Cluster API that the machine
// exists.
//
// +kubebuilder:validation:MinProperties=1
type MachineInitialization struct {
	// Provisioned is true when the machine exists.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// RKEMachineStatus is the status of the infrastructure machine of every node driver, and of CustomMachine in part.
type RKEMachineStatus struct {
	// Conditions of the machine: Ready, CreateJob, DeleteJob.
	// +optional
	Conditions []GenericCondition `json:"conditions,omitempty"`

	// JobName is the Job that last created or deleted the machine.
	// +optional
	JobName string `json:"jobName,omitempty"`

	// Ready is true when the machine exists and has joined.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// Initialization tells Cluster API that the machine exists.
	// +optional
	Initialization MachineInitialization `json:"initialization,omitzero"`

	// DriverHash is the checksum of the driver that created the machine.
	// +optional
	DriverHash string `json:"driverHash,omitempty"`

	// DriverURL is the URL of the driver that created the machine.
	// +optional
	DriverURL string `json:"driverUrl,omitempty"`

	// CloudCredentialSecretName is the credential with which the machine was created. The removal uses it when the
	// specification no longer has a credential.
	// +optional
	CloudCredentialSecretName string `json:"cloudCredentialSecretName,omitempty"`

	// FailureReason is `CreateError` or `DeleteError`.
	// +optional
	FailureReason string `json:"failureReason,omitempty"`

	// FailureMessage describes the failure.
	// +optional
	FailureMessage string `json:"failureMessage,omitempty"`

	// Addresses of the machine.
	// +optional
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`
}
