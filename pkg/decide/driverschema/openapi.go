package driverschema

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
)

// properties returns the OpenAPI properties of fields. withDefaults adds the defaults. Only the config kind has them,
// so that a new release of a driver never changes the machines of existing pools.
func properties(fields map[string]mgmtv3.Field, withDefaults bool) (map[string]apiextv1.JSONSchemaProps, []string) {
	out := make(map[string]apiextv1.JSONSchemaProps, len(fields))
	var required []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field := fields[name]
		property := property(field)
		if withDefaults && defaultFits(field) {
			property.Default = defaultOf(field)
		}
		out[name] = property
		if field.Required {
			required = append(required, name)
		}
	}
	return out, required
}

func property(field mgmtv3.Field) apiextv1.JSONSchemaProps {
	schema := typed(field.Type)
	schema.Description = field.Description
	schema.Nullable = schema.Nullable || field.Nullable
	constrain(&schema, field)
	return schema
}

// typed is the schema of a field type. Unknown types are strings: reference[…], enum, hostname and others are strings
// that only user interfaces distinguish.
func typed(fieldType string) apiextv1.JSONSchemaProps {
	if item, ok := inBrackets(fieldType, "array"); ok {
		items := typed(item)
		items.Nullable = false
		return apiextv1.JSONSchemaProps{Type: "array", Nullable: true,
			Items: &apiextv1.JSONSchemaPropsOrArray{Schema: &items}}
	}
	if item, ok := inBrackets(fieldType, "map"); ok {
		items := typed(item)
		items.Nullable = false
		return apiextv1.JSONSchemaProps{
			Type: "object", Nullable: true, AdditionalProperties: &apiextv1.JSONSchemaPropsOrBool{Allows: true,
				Schema: &items},
		}
	}
	switch fieldType {
	case fieldBoolean:
		return apiextv1.JSONSchemaProps{Type: "boolean"}
	case "int":
		return apiextv1.JSONSchemaProps{Type: "integer"}
	case "float":
		return apiextv1.JSONSchemaProps{Type: "number"}
	case "json":
		return apiextv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	case "intOrString":
		return apiextv1.JSONSchemaProps{XIntOrString: true}
	default:
		return apiextv1.JSONSchemaProps{Type: "string", Nullable: true}
	}
}

func inBrackets(fieldType, kind string) (string, bool) {
	inner, ok := strings.CutPrefix(fieldType, kind+"[")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(inner, "]")
}

// constrain translates the limits of a field. Zero means no limit, because the schema of a field has no other value for
// that.
func constrain(schema *apiextv1.JSONSchemaProps, field mgmtv3.Field) {
	if field.Type == fieldString && len(field.Options) > 0 {
		for _, option := range append([]string{""}, field.Options...) {
			schema.Enum = append(schema.Enum, rawJSON(option))
		}
	}
	if schema.Type == "string" {
		schema.MinLength = limit(field.MinLength)
		schema.MaxLength = limit(field.MaxLength)
		schema.Pattern = charPattern(field)
	}
	if schema.Type == "integer" || schema.Type == "number" {
		schema.Minimum = floatLimit(field.Min)
		schema.Maximum = floatLimit(field.Max)
	}
}

func limit(value int64) *int64 {
	if value == 0 {
		return nil
	}
	return &value
}

func floatLimit(value int64) *float64 {
	if value == 0 {
		return nil
	}
	return new(float64(value))
}

// defaultFits is false when a field's default violates the field's limits. The API server would reject the whole kind.
func defaultFits(field mgmtv3.Field) bool {
	length, number := int64(len(field.Default.StringValue)), int64(field.Default.IntValue)
	switch field.Type {
	case fieldString, fieldPassword:
		if len(field.Options) > 0 && field.Default.StringValue != "" &&
			!slices.Contains(field.Options, field.Default.StringValue) {
			return false
		}
		return length >= field.MinLength && (field.MaxLength == 0 || length <= field.MaxLength) && charsFit(field)
	case "int":
		return (field.Min == 0 || number >= field.Min) && (field.Max == 0 || number <= field.Max)
	default:
		return true
	}
}

func charsFit(field mgmtv3.Field) bool {
	pattern := charPattern(field)
	if pattern == "" {
		return true
	}
	compiled, err := regexp.Compile(pattern)
	return err == nil && compiled.MatchString(field.Default.StringValue)
}

func charPattern(field mgmtv3.Field) string {
	switch {
	case field.ValidChars != "":
		return "^[" + field.ValidChars + "]*$"
	case field.InvalidChars != "":
		return "^[^" + field.InvalidChars + "]*$"
	default:
		return ""
	}
}

// defaultOf is the default of a field in the config kind. Strings and booleans always have one, empty or false. An
// object that was stored without the field then reads the same as an object with it.
func defaultOf(field mgmtv3.Field) *apiextv1.JSON {
	switch field.Type {
	case fieldString, fieldPassword:
		return new(rawJSON(field.Default.StringValue))
	case "int":
		return new(rawJSON(field.Default.IntValue))
	case fieldBoolean:
		return new(rawJSON(field.Default.BoolValue))
	case fieldList:
		if field.Default.StringSliceValue == nil {
			return nil
		}
		return new(rawJSON(field.Default.StringSliceValue))
	default:
		return nil
	}
}

func rawJSON(value any) apiextv1.JSON {
	raw, err := json.Marshal(value)
	if err != nil {
		return apiextv1.JSON{Raw: []byte("null")} // strings, numbers, booleans and lists of strings always encode
	}
	return apiextv1.JSON{Raw: raw}
}
