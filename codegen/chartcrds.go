package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// chartHeader names the origin of a template of the chart.
const chartHeader = "{{- /* Written by scripts/generate from %s; do not edit. */ -}}\n"

// chartMetadata is what the chart adds to a CRD. CRDs stay when the chart is removed. Otherwise all objects of their
// kinds would be deleted, and machines with them.
const chartMetadata = `metadata:
  annotations:
    helm.sh/resource-policy: keep
    {{- with .Values.commonAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  labels:
    {{- include "drover-crd.labels" . | nindent 4 }}
`

// writeChartCRDs writes the CRDs in a directory as templates of the chart drover-crd. If condition is not empty, it is
// the value that enables them. origin is the name of the directory in the templates.
func writeChartCRDs(source, target, origin, condition string) error {
	files, err := filepath.Glob(filepath.Join(source, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no CRDs in %s", source)
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		definition, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		template, err := chartTemplate(definition, origin, condition)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(filepath.Join(target, filepath.Base(file)), template, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// chartTemplate converts a CRD into a template. It escapes the CRD's own text, because descriptions may contain braces.
func chartTemplate(definition []byte, origin, condition string) ([]byte, error) {
	var crd map[string]any
	if err := yaml.Unmarshal(definition, &crd); err != nil {
		return nil, err
	}
	metadata, _ := crd["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if name == "" || crd["kind"] != "CustomResourceDefinition" {
		return nil, errors.New("not a CustomResourceDefinition with a name")
	}
	header, err := chartMetadataOf(metadata)
	if err != nil {
		return nil, err
	}
	spec, err := yaml.Marshal(map[string]any{"spec": crd["spec"]})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, chartHeader, origin)
	if condition != "" {
		fmt.Fprintf(&out, "{{- if %s }}\n", condition)
	}
	fmt.Fprintf(&out, "apiVersion: %s\nkind: CustomResourceDefinition\n%s  name: %s\n%s", crd["apiVersion"], header,
		name, literal(spec))
	if condition != "" {
		out.WriteString("{{- end }}\n")
	}
	return out.Bytes(), nil
}

// chartMetadataOf returns chartMetadata with the CRD's own annotations and labels.
func chartMetadataOf(metadata map[string]any) (string, error) {
	out := chartMetadata
	for key, after := range map[string]string{
		"annotations": "    helm.sh/resource-policy: keep\n", "labels": "  labels:\n",
	} {
		own, _ := metadata[key].(map[string]any)
		if len(own) == 0 {
			continue
		}
		lines, err := yaml.Marshal(own)
		if err != nil {
			return "", err
		}
		indented := "    " + strings.ReplaceAll(strings.TrimSuffix(literal(lines), "\n"), "\n", "\n    ") + "\n"
		out = strings.Replace(out, after, after+indented, 1)
	}
	return out, nil
}

// literal escapes the text that Helm would treat as actions.
func literal(text []byte) string { return strings.ReplaceAll(string(text), "{{", `{{ "{{" }}`) }
