package v3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// +genclient
// +genclient:nonNamespaced
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=fleetworkspaces,scope=Cluster
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// FleetWorkspace is a namespace for clusters and for what Fleet deploys to them. Drover creates the namespace with the
// name of the FleetWorkspace, and deletes it with the FleetWorkspace. It does neither if the namespace existed before,
// or if annotation `provisioning.cattle.io/managed` is `false`.
type FleetWorkspace struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Status is the observed state.
	// +optional
	Status FleetWorkspaceStatus `json:"status,omitzero"`
}

// FleetWorkspaceStatus is the observed state of a FleetWorkspace.
type FleetWorkspaceStatus struct {
	// Conditions of the workspace.
	// +optional
	Conditions []rkev1.GenericCondition `json:"conditions,omitempty"`
}
