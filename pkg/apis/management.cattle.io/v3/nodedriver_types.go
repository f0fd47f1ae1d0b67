package v3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// +genclient
// +genclient:nonNamespaced
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodedrivers,scope=Cluster
// +kubebuilder:printcolumn:name="Activated",type=boolean,JSONPath=`.spec.active`
// +kubebuilder:printcolumn:name="Binary URL",type=string,JSONPath=`.spec.url`
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NodeDriver is a program that creates machines in one kind of cloud. Its name is the name of the driver. It has no
// status subresource: the status is written with the object.
type NodeDriver struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +optional
	Spec NodeDriverSpec `json:"spec,omitzero"`

	// Status is the observed state.
	// +optional
	Status NodeDriverStatus `json:"status,omitzero"`
}

// NodeDriverSpec is the desired state of a NodeDriver.
type NodeDriverSpec struct {
	// Active makes the driver usable: Drover downloads it, reads its flags and creates its kinds.
	// +required
	Active bool `json:"active"`

	// AddCloudCredential creates the schema of a cloud credential from the driver's flags.
	// +optional
	AddCloudCredential bool `json:"addCloudCredential,omitempty"`

	// Builtin marks a driver that came with the product.
	// +optional
	Builtin bool `json:"builtin,omitempty"`

	// Checksum of the download in hexadecimal: SHA-256 or SHA-512. Drover also accepts an MD5, a SHA-1 or no checksum
	// if the administrator permits insecure node drivers.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^$|^[a-fA-F0-9]{32,128}$`
	// +kubebuilder:validation:XValidation:rule="self.size() in [0, 32, 40, 64, 128]",message="checksum must be the hexadecimal MD5, SHA-1, SHA-256 or SHA-512 of the driver: 32, 40, 64 or 128 digits"
	Checksum string `json:"checksum,omitempty"`

	// Description of the driver.
	// +optional
	Description string `json:"description,omitempty"`

	// DisplayName is the name of the driver in kinds and for users.
	// +optional
	// +kubebuilder:validation:MaxLength=57
	DisplayName string `json:"displayName,omitempty"`

	// ExternalID is accepted and has no effect.
	// +optional
	ExternalID string `json:"externalId,omitempty"`

	// UIURL is the URL of the driver's user interface.
	// +optional
	UIURL string `json:"uiUrl,omitempty"`

	// URL is the https address of the driver, or `local://` for a driver in the machine image. Drover also accepts http
	// if the administrator permits insecure node drivers.
	// +required
	URL string `json:"url"`

	// WhitelistDomains are hosts to which requests of a user interface may be proxied. `*` and `%` match a part of the
	// name.
	// +optional
	WhitelistDomains []string `json:"whitelistDomains,omitempty"`
}

// NodeDriverStatus is the observed state of a NodeDriver.
type NodeDriverStatus struct {
	// AppliedURL is the URL of the driver that is in use.
	// +optional
	AppliedURL string `json:"appliedURL,omitempty"`

	// AppliedChecksum is the checksum of the driver that is in use.
	// +optional
	AppliedChecksum string `json:"appliedChecksum,omitempty"`

	// AppliedDockerMachineVersion is the version of the machine program that last read the driver's flags.
	// +optional
	AppliedDockerMachineVersion string `json:"appliedDockerMachineVersion,omitempty"`

	// Conditions of the driver: Downloaded, Installed, Active, Inactive.
	// +optional
	Conditions []rkev1.GenericCondition `json:"conditions,omitempty"`
}
