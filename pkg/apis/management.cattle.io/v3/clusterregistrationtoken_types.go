package v3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterregistrationtokens,scope=Namespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterRegistrationToken lets hosts and agents register with a cluster. It lives in the namespace that has the name of
// the management cluster.
type ClusterRegistrationToken struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is wanted.
	// +required
	Spec ClusterRegistrationTokenSpec `json:"spec"`

	// Status is what was observed.
	// +optional
	Status ClusterRegistrationTokenStatus `json:"status,omitzero"`
}

// ClusterRegistrationTokenSpec is what is wanted of a ClusterRegistrationToken.
type ClusterRegistrationTokenSpec struct {
	// ClusterName is the name of the management cluster.
	// +required
	ClusterName string `json:"clusterName"`

	// TTL is after how many minutes the token is replaced. 0 or less means never, absent the setting's value.
	// +optional
	TTL *int64 `json:"ttl,omitempty"`

	// GracePeriod is for how many minutes the token before is still accepted.
	// +optional
	GracePeriod *int64 `json:"gracePeriod,omitempty"`
}

// ClusterRegistrationTokenStatus is what was observed of a ClusterRegistrationToken. Its commands have the placeholder
// `{token}` where the token goes.
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

	// ManifestURL is where the manifest that imports a cluster is.
	// +optional
	ManifestURL string `json:"manifestUrl,omitempty"`

	// Token is kept for stored objects. The token is in the Secret that tokenSecretName names.
	// +optional
	Token string `json:"token,omitempty"`

	// TokenSecretName names the Secret that holds the token.
	// +optional
	TokenSecretName string `json:"tokenSecretName,omitempty"`

	// ExpiresAt is when the token is replaced, in RFC 3339.
	// +optional
	ExpiresAt string `json:"expiresAt,omitempty"`

	// GracePeriodExpiresAt is until when the token before is accepted, in RFC 3339.
	// +optional
	GracePeriodExpiresAt string `json:"gracePeriodExpiresAt,omitempty"`
}
