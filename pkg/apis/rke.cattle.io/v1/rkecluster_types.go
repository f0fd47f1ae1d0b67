package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=rkeclusters,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels={"cluster.x-k8s.io/v1beta2=v1","auth.cattle.io/cluster-indexed=true"}
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RKECluster is the infrastructure cluster of the Cluster API contract. It represents no real infrastructure: all
// infrastructure belongs to machines.
type RKECluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +required
	Spec RKEClusterSpec `json:"spec"`

	// Status is the observed state.
	// +optional
	Status RKEClusterStatus `json:"status,omitzero"`
}

// RKEClusterSpec is the desired state of an RKECluster.
type RKEClusterSpec struct {
	// ControlPlaneEndpoint satisfies the contract. The real endpoints are those of the servers. If it is empty, Drover
	// fills in `localhost:6443`.
	// +optional
	ControlPlaneEndpoint *clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty"`
}

// RKEClusterStatus is the observed state of an RKECluster.
type RKEClusterStatus struct {
	// Initialization tells Cluster API that the infrastructure exists.
	// +optional
	Initialization RKEClusterInitialization `json:"initialization,omitzero"`

	// Ready exists only for stored objects and is no longer written.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// Conditions exist only for stored objects and are no longer written.
	// +optional
	Conditions []GenericCondition `json:"conditions,omitempty"`
}

// RKEClusterInitialization is the part of the status that Cluster API reads.
//
// +kubebuilder:validation:MinProperties=1
type RKEClusterInitialization struct {
	// Provisioned is true when Cluster API may create machines.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}
