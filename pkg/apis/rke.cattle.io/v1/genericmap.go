package v1

import (
	"encoding/json"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// GenericMap is a JSON object of any form. It is written as that bare object, or as null when it is nil; both forms are
// read. Whole numbers are int64 and others float64 after reading JSON; a map that was created in Go may contain any
// number type.
//
// +kubebuilder:validation:Type=object
// +kubebuilder:pruning:PreserveUnknownFields
type GenericMap struct {
	// Data is the object itself.
	Data map[string]any `json:"-"`
}

// MarshalJSON writes the bare object, or null.
func (m GenericMap) MarshalJSON() ([]byte, error) {
	return json.Marshal(m.Data)
}

// UnmarshalJSON reads a bare object, or null.
func (m *GenericMap) UnmarshalJSON(data []byte) error {
	m.Data = nil
	return utiljson.Unmarshal(data, &m.Data)
}

// IsZero reports whether there is no object, so that an unset map is omitted in the JSON. An empty object is
// not unset and is kept.
func (m GenericMap) IsZero() bool {
	return m.Data == nil
}

// DeepCopyInto copies the object with its content. Numbers and lists get the types that the JSON decoder
// uses.
func (m *GenericMap) DeepCopyInto(out *GenericMap) {
	out.Data = nil
	if m.Data == nil {
		return
	}
	out.Data = make(map[string]any, len(m.Data))
	for key, item := range m.Data {
		out.Data[key] = copyValue(item)
	}
}

// copyValue copies a JSON value and turns Go's other number and list types into those of decoded JSON.
func copyValue(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[key] = copyValue(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = copyValue(item)
		}
		return out
	case []string:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = item
		}
		return out
	case int:
		return int64(v)
	case int32:
		return int64(v)
	case float32:
		return float64(v)
	default:
		return v
	}
}
