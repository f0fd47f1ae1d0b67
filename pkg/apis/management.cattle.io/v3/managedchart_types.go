package v3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=managedcharts,scope=Namespaced
// +kubebuilder:printcolumn:name="Chart",type=string,JSONPath=`.spec.chart`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Defined",type=string,JSONPath=`.status.conditions[?(@.type=="Defined")].status`
// +kubebuilder:printcolumn:name="Clusters Ready",type=string,JSONPath=`.status.display.readyClusters`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ManagedChart is a Helm chart that Fleet installs in clusters. Drover downloads the chart and makes a Bundle of it.
type ManagedChart struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +optional
	Spec ManagedChartSpec `json:"spec,omitzero"`

	// Status is the observed state: that of the Bundle, and condition Defined.
	// +optional
	Status ManagedChartStatus `json:"status,omitzero"`
}

// ManagedChartSpec is the desired state of a ManagedChart.
type ManagedChartSpec struct {
	// Paused stops changes of the clusters.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// Chart is the name of the chart in its repository.
	// +optional
	// +kubebuilder:validation:MaxLength=250
	Chart string `json:"chart,omitempty"`

	// Repo is the address of the chart's repository: `https://HOST/PATH` with an index.yaml, or `oci://HOST/PATH` of a
	// registry. The chart is in `oci://HOST/PATH/CHART`.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^$|^(https?|oci)://[^@?#\s]+$`
	Repo string `json:"repo,omitempty"`

	// HelmSecretName is the name of a Secret in the namespace of the ManagedChart with the credential for the
	// repository: keys `username` and `password`, and `cacerts` with authorities in PEM.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	HelmSecretName string `json:"helmSecretName,omitempty"`

	// RepoName is the name of a repository in Rancher. It has no effect: set `repo`.
	// +optional
	RepoName string `json:"repoName,omitempty"`

	// ReleaseName is the name of the Helm release; a name longer than 53 characters is shortened. Fleet chooses one if
	// it is empty.
	// +optional
	ReleaseName string `json:"releaseName,omitempty"`

	// Version of the chart, or a range such as `^1.2`. A range, and an empty version, follow the newest release that
	// matches.
	// +optional
	// +kubebuilder:validation:MaxLength=250
	Version string `json:"version,omitempty"`

	// TimeoutSeconds is how long Helm waits for its operations.
	// +optional
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`

	// Values are the values of the chart.
	// +nullable
	// +optional
	Values rkev1.GenericMap `json:"values,omitzero"`

	// Force makes Helm replace objects that it cannot change.
	// +optional
	Force bool `json:"force,omitempty"`

	// TakeOwnership makes Helm take over objects that exist already.
	// +optional
	TakeOwnership bool `json:"takeOwnership,omitempty"`

	// MaxHistory is the number of revisions that Helm keeps.
	// +optional
	MaxHistory int `json:"maxHistory,omitempty"`

	// DefaultNamespace is the namespace of objects that name none.
	// +optional
	DefaultNamespace string `json:"defaultNamespace,omitempty"`

	// TargetNamespace is the namespace of all objects. Fleet refuses cluster-scoped objects then.
	// +optional
	TargetNamespace string `json:"namespace,omitempty"`

	// ServiceAccount is the service account with which Fleet's agent installs the chart.
	// +optional
	ServiceAccount string `json:"serviceAccount,omitempty"`

	// Diff has Fleet's options for differences to ignore, as in `spec.diff` of a Bundle.
	// +nullable
	// +optional
	Diff rkev1.GenericMap `json:"diff,omitzero"`

	// RolloutStrategy limits how many clusters change at once, as in `spec.rolloutStrategy` of a Bundle.
	// +nullable
	// +optional
	RolloutStrategy rkev1.GenericMap `json:"rolloutStrategy,omitzero"`

	// Targets select clusters in the workspace, as in `spec.targets` of a Bundle.
	// +nullable
	// +optional
	Targets []rkev1.GenericMap `json:"targets,omitempty"`
}

// ManagedChartStatus is the observed state of a ManagedChart. Every field except condition Defined is a copy from the
// status of the Bundle.
type ManagedChartStatus struct {
	// Conditions of the Bundle, and Defined: the Bundle matches the spec.
	// +optional
	Conditions []rkev1.GenericCondition `json:"conditions,omitempty"`

	// Summary counts the clusters by state.
	// +nullable
	// +optional
	Summary rkev1.GenericMap `json:"summary,omitzero"`

	// Display has texts for lists.
	// +nullable
	// +optional
	Display rkev1.GenericMap `json:"display,omitzero"`

	// NewlyCreated is the number of clusters that got the chart in the current pass.
	// +optional
	NewlyCreated int `json:"newlyCreated,omitempty"`

	// Unavailable is the number of clusters without a ready release.
	// +optional
	Unavailable int `json:"unavailable"`

	// UnavailablePartitions is the number of partitions with too many unavailable clusters.
	// +optional
	UnavailablePartitions int `json:"unavailablePartitions"`

	// MaxUnavailable is how many clusters may be unavailable.
	// +optional
	MaxUnavailable int `json:"maxUnavailable"`

	// MaxUnavailablePartitions is how many partitions may be unavailable.
	// +optional
	MaxUnavailablePartitions int `json:"maxUnavailablePartitions"`

	// Partitions are the states of the partitions of a rollout.
	// +nullable
	// +optional
	Partitions []rkev1.GenericMap `json:"partitions,omitempty"`

	// ResourceKey lists the objects of the chart.
	// +nullable
	// +optional
	ResourceKey []rkev1.GenericMap `json:"resourceKey,omitempty"`

	// OCIReference is where Fleet stores the files, if it stores them in a registry.
	// +optional
	OCIReference string `json:"ociReference,omitempty"`

	// ObservedGeneration is the generation of the Bundle that Fleet has seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration"`

	// ResourcesSHA256Sum is Fleet's checksum of the files.
	// +optional
	ResourcesSHA256Sum string `json:"resourcesSha256Sum,omitempty"`
}
