package v1

import (
	corev1 "k8s.io/api/core/v1"
)

// AgentDeploymentCustomization changes how an agent is deployed.
type AgentDeploymentCustomization struct {
	// AppendTolerations are added to the built-in tolerations.
	// +nullable
	// +optional
	AppendTolerations []corev1.Toleration `json:"appendTolerations,omitempty"`

	// OverrideAffinity replaces the built-in affinity.
	// +nullable
	// +optional
	OverrideAffinity *corev1.Affinity `json:"overrideAffinity,omitempty"`

	// OverrideResourceRequirements replaces the built-in requests and limits.
	// +nullable
	// +optional
	OverrideResourceRequirements *corev1.ResourceRequirements `json:"overrideResourceRequirements,omitempty"`

	// SchedulingCustomization gives the agent a priority and a disruption budget.
	// +nullable
	// +optional
	SchedulingCustomization *AgentSchedulingCustomization `json:"schedulingCustomization,omitempty"`
}

// AgentSchedulingCustomization gives an agent a priority and a disruption budget.
type AgentSchedulingCustomization struct {
	// PriorityClass is created for the agent.
	// +nullable
	// +optional
	PriorityClass *PriorityClassSpec `json:"priorityClass,omitempty"`

	// PodDisruptionBudget is created for the agent.
	// +nullable
	// +optional
	PodDisruptionBudget *PodDisruptionBudgetSpec `json:"podDisruptionBudget,omitempty"`
}

// PriorityClassSpec describes a PriorityClass.
type PriorityClassSpec struct {
	// Value is the priority.
	// +optional
	// +kubebuilder:validation:Minimum=-1000000000
	// +kubebuilder:validation:Maximum=1000000000
	Value int `json:"value,omitempty"`

	// PreemptionPolicy is `Never` or `PreemptLowerPriority`.
	// +nullable
	// +optional
	PreemptionPolicy *corev1.PreemptionPolicy `json:"preemptionPolicy,omitempty"`
}

// PodDisruptionBudgetSpec describes a PodDisruptionBudget. One of its values may be set.
type PodDisruptionBudgetSpec struct {
	// MinAvailable is a number or a percentage of pods that must be available.
	// +nullable
	// +optional
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:Pattern=`^((([1-9]|[1-9][0-9]|100)%)|([1-9][0-9]*|0)|)$`
	MinAvailable string `json:"minAvailable,omitempty"`

	// MaxUnavailable is a number or a percentage of pods that may be unavailable.
	// +nullable
	// +optional
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:Pattern=`^((([1-9]|[1-9][0-9]|100)%)|([1-9][0-9]*|0)|)$`
	MaxUnavailable string `json:"maxUnavailable,omitempty"`
}

// WebhookDeploymentCustomization changes how the admission webhook is deployed.
type WebhookDeploymentCustomization struct {
	// ReplicaCount is the number of pods.
	// +nullable
	// +optional
	// +kubebuilder:validation:Minimum=1
	ReplicaCount *int32 `json:"replicaCount,omitempty"`

	// AppendTolerations are added to the built-in tolerations.
	// +nullable
	// +optional
	AppendTolerations []corev1.Toleration `json:"appendTolerations,omitempty"`

	// OverrideAffinity replaces the built-in affinity.
	// +nullable
	// +optional
	OverrideAffinity *corev1.Affinity `json:"overrideAffinity,omitempty"`

	// OverrideResourceRequirements replaces the built-in requests and limits.
	// +nullable
	// +optional
	OverrideResourceRequirements *corev1.ResourceRequirements `json:"overrideResourceRequirements,omitempty"`

	// PodDisruptionBudget is created for the webhook.
	// +nullable
	// +optional
	PodDisruptionBudget *PodDisruptionBudgetSpec `json:"podDisruptionBudget,omitempty"`
}
