package driverschema

import (
	"encoding/json"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
)

// ConfigDefaults are the values that the API server sets in a machine config for absent fields.
func ConfigDefaults(spec mgmtv3.DynamicSchemaSpec) map[string]any {
	fields, _ := properties(spec.ResourceFields, true)
	out := map[string]any{}
	for name, property := range fields {
		if property.Default == nil {
			continue
		}
		var value any
		if err := json.Unmarshal(property.Default.Raw, &value); err == nil {
			out[name] = value
		}
	}
	return out
}
