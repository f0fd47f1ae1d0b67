package v3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:nonNamespaced
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=dynamicschemas,scope=Cluster
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// DynamicSchema describes an object whose fields are known only at run time, such as the configuration of a node
// driver. It has no status subresource.
type DynamicSchema struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the schema.
	// +required
	Spec DynamicSchemaSpec `json:"spec"`

	// Status is a placeholder.
	// +optional
	Status DynamicSchemaStatus `json:"status,omitzero"`
}

// DynamicSchemaSpec is a schema. Provisioning uses only its resource fields. Its JSON is the value of
// `machinePools[].dynamicSchemaSpec` of a Cluster.
type DynamicSchemaSpec struct {
	// SchemaName is the name of the schema.
	// +optional
	SchemaName string `json:"schemaName,omitempty"`

	// Embed makes the schema a part of another schema.
	// +optional
	Embed bool `json:"embed,omitempty"`

	// EmbedType is the schema that contains this schema.
	// +optional
	EmbedType string `json:"embedType,omitempty"`

	// PluralName is the plural of the schema's name.
	// +optional
	PluralName string `json:"pluralName,omitempty"`

	// ResourceMethods are the HTTP methods of one object.
	// +optional
	ResourceMethods []string `json:"resourceMethods,omitempty"`

	// ResourceFields are the fields by name.
	// +optional
	ResourceFields map[string]Field `json:"resourceFields,omitempty"`

	// ResourceActions are the actions on one object.
	// +optional
	ResourceActions map[string]Action `json:"resourceActions,omitempty"`

	// CollectionMethods are the HTTP methods of a list.
	// +optional
	CollectionMethods []string `json:"collectionMethods,omitempty"`

	// CollectionFields are the fields of a list.
	// +optional
	CollectionFields map[string]Field `json:"collectionFields,omitempty"`

	// CollectionActions are the actions on a list.
	// +optional
	CollectionActions map[string]Action `json:"collectionActions,omitempty"`

	// CollectionFilters are the filters on a list.
	// +optional
	CollectionFilters map[string]Filter `json:"collectionFilters,omitempty"`

	// IncludeableLinks are links whose targets can be included in an answer.
	// +optional
	IncludeableLinks []string `json:"includeableLinks,omitempty"`

	// DynamicSchemaVersion changes with the schema.
	// +optional
	DynamicSchemaVersion string `json:"dynamicSchemaVersion,omitempty"`
}

// Field describes one field.
type Field struct {
	// Type such as `string`, `password`, `boolean`, `int`, `array[string]` or `map[string]`.
	// +optional
	Type string `json:"type,omitempty"`

	// Default is the value of an absent field.
	// +optional
	Default Values `json:"default,omitzero"`

	// Unique makes the value unique among all objects.
	// +optional
	Unique bool `json:"unique,omitempty"`

	// Nullable allows null.
	// +optional
	Nullable bool `json:"nullable,omitempty"`

	// Create allows the field in a new object.
	// +optional
	Create bool `json:"create,omitempty"`

	// Required refuses objects without the field.
	// +optional
	Required bool `json:"required,omitempty"`

	// Update allows changes of the field.
	// +optional
	Update bool `json:"update,omitempty"`

	// MinLength of a string.
	// +optional
	MinLength int64 `json:"minLength,omitempty"`

	// MaxLength of a string.
	// +optional
	MaxLength int64 `json:"maxLength,omitempty"`

	// Min of a number.
	// +optional
	Min int64 `json:"min,omitempty"`

	// Max of a number.
	// +optional
	Max int64 `json:"max,omitempty"`

	// Options are the allowed values.
	// +optional
	Options []string `json:"options,omitempty"`

	// ValidChars are the only characters that are allowed.
	// +optional
	ValidChars string `json:"validChars,omitempty"`

	// InvalidChars are characters that are refused. ValidChars overrides it.
	// +optional
	InvalidChars string `json:"invalidChars,omitempty"`

	// Description of the field.
	// +optional
	Description string `json:"description,omitempty"`

	// DynamicField marks a field that is known only at run time.
	// +optional
	DynamicField bool `json:"dynamicField,omitempty"`
}

// Values is the default of a field. The field's type selects the member.
type Values struct {
	// StringValue for `string` and `password`.
	// +optional
	StringValue string `json:"stringValue"`

	// IntValue for `int`.
	// +optional
	IntValue int `json:"intValue"`

	// BoolValue for `boolean`.
	// +optional
	BoolValue bool `json:"boolValue"`

	// StringSliceValue for `array[string]`.
	// +nullable
	// +optional
	StringSliceValue []string `json:"stringSliceValue"`
}

// IsZero reports whether there is no default.
func (v Values) IsZero() bool {
	return v.StringValue == "" && v.IntValue == 0 && !v.BoolValue && v.StringSliceValue == nil
}

// Action is an action on an object or a list.
type Action struct {
	// Input is the schema of the action's input.
	// +optional
	Input string `json:"input,omitempty"`

	// Output is the schema of the action's output.
	// +optional
	Output string `json:"output,omitempty"`
}

// Filter is a filter on a list.
type Filter struct {
	// Modifiers of the filter.
	// +optional
	Modifiers []string `json:"modifiers,omitempty"`
}

// DynamicSchemaStatus is a placeholder that keeps the field known.
type DynamicSchemaStatus struct {
	// Fake has no meaning.
	// +optional
	Fake string `json:"fake,omitempty"`
}
