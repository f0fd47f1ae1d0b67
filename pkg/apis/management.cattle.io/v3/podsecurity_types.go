package v3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:nonNamespaced
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=podsecurityadmissionconfigurationtemplates,scope=Cluster
// +kubebuilder:printcolumn:name="Enforce",type=string,JSONPath=`.configuration.defaults.enforce`
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PodSecurityAdmissionConfigurationTemplate is a configuration of the admission plugin PodSecurity. A Cluster names it
// in `spec.defaultPodSecurityAdmissionConfigurationTemplateName`. An edit restarts the API servers of these clusters.
type PodSecurityAdmissionConfigurationTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Description is for users.
	// +nullable
	// +optional
	Description string `json:"description,omitempty"`

	// Configuration of the plugin.
	// +optional
	Configuration PodSecurityAdmissionConfigurationTemplateSpec `json:"configuration"`
}

// PodSecurityAdmissionConfigurationTemplateSpec is a configuration of the admission plugin PodSecurity. Its JSON is
// part of the file for API servers, so empty fields are omitted there.
type PodSecurityAdmissionConfigurationTemplateSpec struct {
	// Defaults apply to namespaces without the labels of the plugin.
	// +optional
	Defaults PodSecurityAdmissionConfigurationTemplateDefaults `json:"defaults"`

	// Exemptions are requests that the plugin never checks.
	// +optional
	Exemptions PodSecurityAdmissionConfigurationTemplateExemptions `json:"exemptions"`
}

// PodSecurityAdmissionConfigurationTemplateDefaults are the level and the version of each mode. The plugin uses
// `privileged` and `latest` for empty fields.
type PodSecurityAdmissionConfigurationTemplateDefaults struct {
	// Enforce is the level that pods must meet.
	// +optional
	// +kubebuilder:validation:Enum="";privileged;baseline;restricted
	Enforce string `json:"enforce,omitempty"`

	// EnforceVersion is the version of this level: `latest`, or a minor version such as `v1.36`.
	// +optional
	// +kubebuilder:validation:Pattern=`^(latest|v1\.(0|[1-9][0-9]*))?$`
	EnforceVersion string `json:"enforce-version,omitempty"`

	// Audit is the level whose violations the audit log records.
	// +optional
	// +kubebuilder:validation:Enum="";privileged;baseline;restricted
	Audit string `json:"audit,omitempty"`

	// AuditVersion is the version of this level.
	// +optional
	// +kubebuilder:validation:Pattern=`^(latest|v1\.(0|[1-9][0-9]*))?$`
	AuditVersion string `json:"audit-version,omitempty"`

	// Warn is the level whose violations users see as warnings.
	// +optional
	// +kubebuilder:validation:Enum="";privileged;baseline;restricted
	Warn string `json:"warn,omitempty"`

	// WarnVersion is the version of this level.
	// +optional
	// +kubebuilder:validation:Pattern=`^(latest|v1\.(0|[1-9][0-9]*))?$`
	WarnVersion string `json:"warn-version,omitempty"`
}

// PodSecurityAdmissionConfigurationTemplateExemptions are requests that the plugin never checks.
type PodSecurityAdmissionConfigurationTemplateExemptions struct {
	// Usernames are names of users.
	// +nullable
	// +optional
	Usernames []string `json:"usernames,omitempty"`

	// RuntimeClasses are names of RuntimeClasses of pods.
	// +nullable
	// +optional
	RuntimeClasses []string `json:"runtimeClasses,omitempty"`

	// Namespaces are names of namespaces.
	// +nullable
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
}
