package v3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterregistrationtokens,scope=Namespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterRegistrationToken lets hosts and agents register with a cluster. It lives in the namespace that has the name
// of the management cluster.
type ClusterRegistrationToken struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +required
	Spec ClusterRegistrationTokenSpec `json:"spec"`

	// Status is the observed state.
	// +optional
	Status ClusterRegistrationTokenStatus `json:"status,omitzero"`
}

// ClusterRegistrationTokenSpec is the desired state of a ClusterRegistrationToken.
type ClusterRegistrationTokenSpec struct {
	// ClusterName is the name of the management cluster.
	// +required
	ClusterName string `json:"clusterName"`

	// TTL is the lifetime of the token in minutes. 0 or less means no limit. Absent means the setting's value.
	// +optional
	TTL *int64 `json:"ttl,omitempty"`

	// GracePeriod is how many minutes the previous token is still accepted.
	// +optional
	GracePeriod *int64 `json:"gracePeriod,omitempty"`
}

// ClusterRegistrationTokenStatus is the observed state of a ClusterRegistrationToken. Its commands have the placeholder
// `{token}` in place of the token.
type ClusterRegistrationTokenStatus struct {
	// Command imports a cluster.
	// +optional
	Command string `json:"command,omitempty"`

	// InsecureCommand imports a cluster without a check of certificates.
	// +optional
	InsecureCommand string `json:"insecureCommand,omitempty"`

	// NodeCommand registers a Linux host.
	// +optional
	NodeCommand string `json:"nodeCommand,omitempty"`

	// InsecureNodeCommand registers a Linux host without a check of certificates.
	// +optional
	InsecureNodeCommand string `json:"insecureNodeCommand,omitempty"`

	// WindowsNodeCommand registers a Windows host.
	// +optional
	WindowsNodeCommand string `json:"windowsNodeCommand,omitempty"`

	// InsecureWindowsNodeCommand registers a Windows host without a check of certificates.
	// +optional
	InsecureWindowsNodeCommand string `json:"insecureWindowsNodeCommand,omitempty"`

	// ManifestURL is the URL of the manifest that imports a cluster.
	// +optional
	ManifestURL string `json:"manifestUrl,omitempty"`

	// Token exists only for stored objects. The token is in the Secret that tokenSecretName names.
	// +optional
	Token string `json:"token,omitempty"`

	// TokenSecretName is the name of the Secret with the token.
	// +optional
	TokenSecretName string `json:"tokenSecretName,omitempty"`

	// ExpiresAt is the time at which the token is replaced, in RFC 3339.
	// +optional
	ExpiresAt string `json:"expiresAt,omitempty"`

	// GracePeriodExpiresAt is the time until which the previous token is accepted, in RFC 3339.
	// +optional
	GracePeriodExpiresAt string `json:"gracePeriodExpiresAt,omitempty"`
}
