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

// LocalClusterAuthEndpoint lets users reach the cluster's own API server without Drover on the way, as whom the management cluster knows them: with tokens that
// Drover gives out for that cluster.
type LocalClusterAuthEndpoint struct {
	// Enabled turns the endpoint on.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// FQDN is the host that users dial, for example of a load balancer.
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

// GenericCondition is the condition of all kinds of these groups. Its times are RFC 3339 text.
type GenericCondition struct {
	// Type of the condition.
	// +required
	Type string `json:"type"`

	// Status is `True`, `False` or `Unknown`.
	// +required
	Status string `json:"status"`

	// LastUpdateTime is when the condition was last written.
	// +optional
	LastUpdateTime string `json:"lastUpdateTime,omitempty"`

	// LastTransitionTime is when the status last changed.
	// +optional
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`

	// Reason is one word for machines.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Message is a sentence for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// RKECommonNodeConfig is what a machine pool gives to every machine, whatever its driver: the field `spec.common` of the
// generated infrastructure kinds.
type RKECommonNodeConfig struct {
	// Labels of the node.
	// +nullable
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Taints of the node.
	// +nullable
	// +optional
	Taints []corev1.Taint `json:"taints,omitempty"`

	// CloudCredentialSecretName names the Secret with the credential of the cloud: `cattle-global-data:NAME`, or a name in
	// the namespace of the cluster.
	// +nullable
	// +optional
	// +kubebuilder:validation:MaxLength=317
	CloudCredentialSecretName string `json:"cloudCredentialSecretName,omitempty"`
}

// MachineInitialization is the part of an infrastructure machine's status by which Cluster API learns that the machine
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

	// DriverHash is the checksum of the driver that made the machine.
	// +optional
	DriverHash string `json:"driverHash,omitempty"`

	// DriverURL is where the driver that made the machine came from.
	// +optional
	DriverURL string `json:"driverUrl,omitempty"`

	// CloudCredentialSecretName is the credential that the machine was made with. It is used for its removal when the
	// specification names none any more.
	// +optional
	CloudCredentialSecretName string `json:"cloudCredentialSecretName,omitempty"`

	// FailureReason is `CreateError` or `DeleteError`.
	// +optional
	FailureReason string `json:"failureReason,omitempty"`

	// FailureMessage says in words what failed.
	// +optional
	FailureMessage string `json:"failureMessage,omitempty"`

	// Addresses of the machine.
	// +optional
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`
}
