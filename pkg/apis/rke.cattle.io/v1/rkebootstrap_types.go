package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=rkebootstraps,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels={"cluster.x-k8s.io/v1beta2=v1","auth.cattle.io/cluster-indexed=true"}
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RKEBootstrap is the bootstrap configuration of one machine in the Cluster API contract. Drover creates from it the
// machine's plan Secret, its credentials and the script that installs its agent.
type RKEBootstrap struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +required
	Spec RKEBootstrapSpec `json:"spec"`

	// Status is the observed state.
	// +optional
	Status RKEBootstrapStatus `json:"status,omitzero"`
}

// RKEBootstrapSpec is the desired state of an RKEBootstrap.
type RKEBootstrapSpec struct {
	// ClusterName is the name of the Cluster API cluster.
	// +optional
	ClusterName string `json:"clusterName,omitempty"`

	// Userdata is merged into the bootstrap data.
	// +nullable
	// +optional
	Userdata *UserdataSpec `json:"userdata,omitempty"`
}

// RKEBootstrapStatus is the observed state of an RKEBootstrap.
type RKEBootstrapStatus struct {
	// Initialization tells Cluster API that the bootstrap data exist.
	// +optional
	Initialization RKEBootstrapInitialization `json:"initialization,omitzero"`

	// DataSecretName is the name of the Secret with the bootstrap data.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DataSecretName *string `json:"dataSecretName,omitempty"`

	// Conditions of the bootstrap data. Cluster API shows Ready as BootstrapConfigReady of the Machine.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Ready exists only for stored objects and is no longer written.
	// +optional
	Ready bool `json:"ready,omitempty"`
}

// RKEBootstrapInitialization is the part of the status that Cluster API reads.
//
// +kubebuilder:validation:MinProperties=1
type RKEBootstrapInitialization struct {
	// DataSecretCreated is true when the Secret that dataSecretName names exists.
	// +optional
	DataSecretCreated *bool `json:"dataSecretCreated,omitempty"`
}

// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=rkebootstraptemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels={"cluster.x-k8s.io/v1beta2=v1","auth.cattle.io/cluster-indexed=true"}
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RKEBootstrapTemplate is the template from which Cluster API clones an RKEBootstrap for every new machine.
type RKEBootstrapTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the template.
	// +required
	Spec RKEBootstrapTemplateSpec `json:"spec"`
}

// RKEBootstrapTemplateSpec is the content of an RKEBootstrapTemplate.
type RKEBootstrapTemplateSpec struct {
	// ClusterName is the name of the Cluster API cluster.
	// +optional
	ClusterName string `json:"clusterName,omitempty"`

	// Template is a complete RKEBootstrap. Cluster API clones its metadata and spec.
	// +required
	Template RKEBootstrap `json:"template"`
}
