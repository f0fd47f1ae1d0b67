package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWriteChartCRDs(t *testing.T) {
	const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  annotations: {example.com/a: "1"}
  labels: {example.com/l: "true"}
  name: things.example.com
spec:
  group: example.com
  versions: [{name: v1, schema: {openAPIV3Schema: {description: "a {{ .variable }} here"}}}]
`
	source, target := t.TempDir(), filepath.Join(t.TempDir(), "templates")
	if err := os.WriteFile(filepath.Join(source, "things.yaml"), []byte(definition), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeChartCRDs(source, target, "pkg/things", ".Values.things"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(target, "stale.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeChartCRDs(source, target, "pkg/things", ".Values.things"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(target, "things.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{{- /* Written by scripts/generate from pkg/things; do not edit. */ -}}
{{- if .Values.things }}
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  annotations:
    helm.sh/resource-policy: keep
    example.com/a: "1"
    {{- with .Values.commonAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  labels:
    example.com/l: "true"
    {{- include "drover-crd.labels" . | nindent 4 }}
  name: things.example.com
spec:
  group: example.com
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        description: a {{ "{{" }} .variable }} here
{{- end }}
`
	if string(got) != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if left, err := os.ReadDir(target); err != nil || len(left) != 1 {
		t.Errorf("want one file, and nothing of a kind that is gone: %v, error %v", left, err)
	}
}

func TestWriteChartCRDs_Refuses(t *testing.T) {
	source := t.TempDir()
	if err := writeChartCRDs(source, t.TempDir(), "x", ""); err == nil || !strings.Contains(err.Error(), "no CRDs") {
		t.Errorf("an empty directory: got %v", err)
	}
	if err := os.WriteFile(filepath.Join(source, "a.yaml"), []byte("kind: ConfigMap\nmetadata: {name: a}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeChartCRDs(source, t.TempDir(), "x", ""); err == nil ||
		!strings.Contains(err.Error(), "not a CustomResourceDefinition") {
		t.Errorf("another kind: got %v", err)
	}
}
