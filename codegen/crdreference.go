package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const referenceHeader = "<!-- Written by scripts/generate; do not edit. -->\n\n"

// kubernetesTypes are objects of Kubernetes' own API inside kinds, recognized by their fields. The reference shows
// their names.
var kubernetesTypes = map[string]string{
	"nodeAffinity podAffinity podAntiAffinity":                                "Affinity",
	"effect key operator tolerationSeconds value":                             "Toleration",
	"claims limits requests":                                                  "ResourceRequirements",
	"matchExpressions matchLabels":                                            "LabelSelector",
	"apiVersion fieldPath kind name namespace resourceVersion uid":            "ObjectReference",
	"annotations finalizers labels name namespace":                            "ObjectMeta",
	"lastTransitionTime message observedGeneration reason status type":        "Condition",
	"annotations deletionGracePeriodSeconds finalizers labels name namespace": "ObjectMeta",
}

func kubernetesType(schema *apiextv1.JSONSchemaProps) string {
	return kubernetesTypes[strings.Join(slices.Sorted(maps.Keys(schema.Properties)), " ")]
}

// writeCRDReference writes a page for every CRD in a directory, and an index. It removes pages of kinds that are gone.
func writeCRDReference(source, target string) error {
	definitions, err := readDefinitions(source)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	var index strings.Builder
	index.WriteString(referenceHeader + "# Kinds\n\n" +
		"What the API server accepts, by its schemas. Kinds of node drivers (`<Driver>Config`, `<Driver>Machine`, " +
		"`<Driver>MachineTemplate`) are made\n" +
		"when a driver is registered; `kubectl explain` shows them.\n\n| Kind | API version | What it is " +
		"|\n|---|---|---|\n")
	for _, crd := range definitions {
		for i := range crd.Spec.Versions {
			version := &crd.Spec.Versions[i]
			name := fmt.Sprintf("%s_%s_%s.md", crd.Spec.Group, version.Name, strings.ToLower(crd.Spec.Names.Kind))
			if err := os.WriteFile(filepath.Join(target, name), []byte(crdPage(crd, version)), 0o644); err != nil {
				return err
			}
			fmt.Fprintf(&index, "| [%s](%s) | `%s/%s` | %s |\n", crd.Spec.Names.Kind, name, crd.Spec.Group,
				version.Name,
				cell(firstSentence(version.Schema.OpenAPIV3Schema.Description)))
		}
	}
	return os.WriteFile(filepath.Join(target, "README.md"), []byte(index.String()), 0o644)
}

func crdPage(crd *apiextv1.CustomResourceDefinition, version *apiextv1.CustomResourceDefinitionVersion) string {
	var b strings.Builder
	schema := version.Schema.OpenAPIV3Schema
	fmt.Fprintf(&b, "%s# %s\n\n`%s/%s`, %s, resource `%s`", referenceHeader, crd.Spec.Names.Kind, crd.Spec.Group,
		version.Name,
		strings.ToLower(string(crd.Spec.Scope)), crd.Spec.Names.Plural)
	if len(crd.Spec.Names.ShortNames) > 0 {
		fmt.Fprintf(&b, " (short: `%s`)", strings.Join(crd.Spec.Names.ShortNames, "`, `"))
	}
	fmt.Fprintf(&b, ".\n\n%s\n", schema.Description)
	b.WriteString("\n| Field | Type | What it is |\n|---|---|---|\n")
	var checked strings.Builder
	checked.WriteString(celRules(".", schema))
	for _, f := range fields(schema, func(schema *apiextv1.JSONSchemaProps) bool {
		return kubernetesType(schema) != ""
	}) {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.TrimPrefix(f.path, "."), cell(shownType(f.schema)),
			cell(meaning(f)))
		checked.WriteString(celRules(strings.TrimPrefix(f.path, "."), f.schema))
	}
	if checked.Len() > 0 {
		b.WriteString(
			"\n## Rules\n\nThe API server refuses objects that do not satisfy these expressions (CEL), and answers " +
				"with the sentence.\n" + checked.String())
	}
	return b.String()
}

func celRules(path string, schema *apiextv1.JSONSchemaProps) string {
	var b strings.Builder
	for _, rule := range rules(schema) {
		fmt.Fprintf(&b, "\n* `%s`: %s\n\n  ```\n  %s\n  ```\n", path, oneLine(rule.Message), oneLine(rule.Rule))
	}
	return b.String()
}

// shownType returns the type of a field. For an object of Kubernetes' API it is the name of the object.
func shownType(schema *apiextv1.JSONSchemaProps) string {
	if name := kubernetesType(schema); name != "" {
		return name
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		if name := kubernetesType(schema.Items.Schema); name != "" {
			return "list of " + name
		}
	}
	return typeOf(schema)
}

// meaning returns the description of a field and the checks of its values.
func meaning(f field) string {
	parts := []string{f.schema.Description}
	if f.required {
		parts = append(parts, "Required.")
	}
	if f.schema.Default != nil {
		parts = append(parts, "Default: `"+string(f.schema.Default.Raw)+"`.")
	}
	var values []string
	for _, value := range f.schema.Enum {
		values = append(values, "`"+string(value.Raw)+"`")
	}
	if len(values) > 0 {
		parts = append(parts, "One of "+strings.Join(values, ", ")+".")
	}
	checked := musts(f.schema)
	if f.schema.Items != nil && f.schema.Items.Schema != nil {
		for _, must := range musts(f.schema.Items.Schema) {
			checked = append(checked, must+", each item")
		}
	}
	for _, must := range checked {
		if must != "be one of its values" {
			parts = append(parts, "Must "+must+".")
		}
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
}

func firstSentence(text string) string {
	first, _, cut := strings.Cut(oneLine(text), ". ")
	if cut {
		first += "."
	}
	return first
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// cell escapes a text for a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;").Replace(oneLine(text))
}
