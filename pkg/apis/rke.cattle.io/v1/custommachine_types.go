package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=custommachines,scope=Namespaced
// +kubebuilder:metadata:labels={"cluster.x-k8s.io/v1beta2=v1","auth.cattle.io/cluster-indexed=true"}
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// CustomMachine is the infrastructure machine of a host that a user created and registered.
type CustomMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +optional
	Spec CustomMachineSpec `json:"spec,omitzero"`

	// Status is the observed state.
	// +optional
	Status CustomMachineStatus `json:"status,omitzero"`
}

// CustomMachineSpec is the desired state of a CustomMachine.
type CustomMachineSpec struct {
	// ProviderID is the provider ID of the node, set once the node is known.
	// +nullable
	// +optional
	ProviderID string `json:"providerID,omitempty"`
}

// CustomMachineStatus is the observed state of a CustomMachine.
type CustomMachineStatus struct {
	// Conditions of the machine.
	// +optional
	Conditions []GenericCondition `json:"conditions,omitempty"`

	// Ready repeats initialization.provisioned for readers of older contracts.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// Initialization tells Cluster API that the machine exists: true once the provider ID is set.
	// +optional
	Initialization MachineInitialization `json:"initialization,omitzero"`

	// Addresses of the node.
	// +optional
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`
}
