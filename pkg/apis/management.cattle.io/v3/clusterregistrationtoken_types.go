package v3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterregistrationtokens,scope=Namespaced
// +kubebuilder:printcolumn:name="Roles",type=string,JSONPath=`.spec.roles`
// +kubebuilder:printcolumn:name="Max Hosts",type=integer,JSONPath=`.spec.maxHosts`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.status.expiresAt`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
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

// Roles that ClusterRegistrationTokenSpec.Roles can have.
const (
	HostRoleEtcd         = "etcd"
	HostRoleControlPlane = "control-plane"
	HostRoleWorker       = "worker"
)

// ClusterRegistrationTokenSpec is the desired state of a ClusterRegistrationToken. The limits of a token can be added
// later, but not changed or removed.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.roles) || has(self.roles) && self.roles == oldSelf.roles",message="roles cannot be changed or removed; create another ClusterRegistrationToken"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.maxHosts) || has(self.maxHosts) && self.maxHosts == oldSelf.maxHosts",message="maxHosts cannot be changed or removed; create another ClusterRegistrationToken"
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

	// Roles are the roles that hosts with this token may have. Absent means all roles. A token with roles or maxHosts
	// is for hosts only, not for agents inside clusters.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=etcd;control-plane;worker
	// +listType=set
	// +optional
	Roles []string `json:"roles,omitempty"`

	// MaxHosts is how many different hosts may register with this token. 1 means that the first host takes the token.
	// A registered host may repeat, and a deleted host still counts. Absent means no limit.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxHosts *int32 `json:"maxHosts,omitempty"`
}

// ClusterRegistrationTokenStatus is the observed state of a ClusterRegistrationToken. Its commands have the placeholder
// `{token}` in place of the token, unless the server runs with --registration-commands=status. The Secret with the
// token has the complete commands.
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

	// Hosts are the hosts that a token with maxHosts has admitted, the first one first. No host is ever removed.
	// +listType=atomic
	// +optional
	Hosts []AdmittedHost `json:"hosts,omitempty"`
}

// AdmittedHost is a host that a ClusterRegistrationToken has admitted.
type AdmittedHost struct {
	// MachineName is the name of the host's Machine, which may be deleted.
	// +required
	MachineName string `json:"machineName"`

	// IdentityDigest is the SHA-256 of the identity that the host generated, in hexadecimal digits.
	// +required
	IdentityDigest string `json:"identityDigest"`
}
