package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// field is a field of a kind from its schema.
type field struct {
	// path begins with a dot. "[]" stands for the items of a list and "{}" for the values of a map.
	path   string
	schema *apiextv1.JSONSchemaProps
	// required reports whether the object that contains the field must have it.
	required bool
}

// readDefinitions reads every CRD of a directory, in the order of the files' names.
func readDefinitions(dir string) ([]*apiextv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no CRDs in %s", dir)
	}
	var out []*apiextv1.CustomResourceDefinition
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		crd := &apiextv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, crd); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, crd)
	}
	return out, nil
}

// fields lists the fields of a schema, each before its own fields, without the fields that every object has. A field
// for which closed returns true is listed without its content.
func fields(schema *apiextv1.JSONSchemaProps, closed func(*apiextv1.JSONSchemaProps) bool) []field {
	var out []field
	var inside func(path string, schema *apiextv1.JSONSchemaProps)
	inside = func(path string, schema *apiextv1.JSONSchemaProps) {
		if closed(schema) {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			if path == "" && (name == "apiVersion" || name == "kind" || name == "metadata") {
				continue
			}
			property := schema.Properties[name]
			out = append(out,
				field{path: path + "." + name, schema: &property, required: slices.Contains(schema.Required, name)})
			inside(path+"."+name, &property)
		}
		if schema.Items != nil && schema.Items.Schema != nil {
			inside(path+"[]", schema.Items.Schema)
		}
		if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
			inside(path+"{}", schema.AdditionalProperties.Schema)
		}
	}
	inside("", schema)
	return out
}

// typeOf describes the type of a schema's values.
func typeOf(schema *apiextv1.JSONSchemaProps) string {
	switch {
	case schema.XIntOrString:
		return "integer or string"
	case schema.Type == "array" && schema.Items != nil && schema.Items.Schema != nil:
		return "list of " + typeOf(schema.Items.Schema)
	case schema.Type == "object" && schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		return "map of " + typeOf(schema.AdditionalProperties.Schema)
	case schema.Type == "":
		return "any"
	case schema.Format != "":
		return schema.Type + " (" + schema.Format + ")"
	default:
		return schema.Type
	}
}

// musts returns the checks of a schema's values beyond the type, without CEL rules. Each is the rest of a sentence
// after "must".
func musts(schema *apiextv1.JSONSchemaProps) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if len(schema.Enum) > 0 {
		say("be one of its values")
	}
	if schema.Pattern != "" {
		say("match `%s`", schema.Pattern)
	}
	for _, bound := range []struct {
		format string
		value  *int64
	}{
		{"have at least %d characters", schema.MinLength},
		{"have at most %d characters", schema.MaxLength},
		{"have at least %d items", schema.MinItems},
		{"have at most %d items", schema.MaxItems},
		{"have at least %d fields", schema.MinProperties},
		{"have at most %d fields", schema.MaxProperties},
	} {
		if bound.value != nil {
			say(bound.format, *bound.value)
		}
	}
	if schema.Minimum != nil {
		say("be at least %s", strconv.FormatFloat(*schema.Minimum, 'f', -1, 64))
	}
	if schema.Maximum != nil {
		say("be at most %s", strconv.FormatFloat(*schema.Maximum, 'f', -1, 64))
	}
	return out
}

// rules returns the CEL rules of a schema and of the items of a list.
func rules(schema *apiextv1.JSONSchemaProps) apiextv1.ValidationRules {
	out := schema.XValidations
	if schema.Items != nil && schema.Items.Schema != nil {
		out = slices.Concat(out, schema.Items.Schema.XValidations)
	}
	return out
}
