package main

import (
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        description: Thing is something. It has a size.
        type: object
        x-kubernetes-validations: [{rule: "has(self.spec)", message: give it a spec}]
        properties:
          metadata: {type: object}
          spec:
            description: Spec is what is wanted.
            type: object
            required: [size]
            properties:
              size: {description: Size <of> it | or more., type: string, enum: [small, large], default: small}
              counts: {description: Counts of parts., type: array, items: {type: integer, format: int32, minimum: -1000000000}}
              tolerate:
                description: Tolerate taints.
                type: array
                items: {type: object, properties: {effect: {type: string}, key: {type: string}, operator: {type: string}, tolerationSeconds: {type: integer}, value: {type: string}}}
`

// TestCRDAPI_ListsFieldsAndChecks: each field, value and check has its own line, so that the record can keep each of
// them.
func TestCRDAPI_ListsFieldsAndChecks(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "things.yaml", definition)
	lines, err := crdAPI(dir)
	got := strings.ReplaceAll(strings.Join(lines, "\n"), "kind example.com/v1 Thing, ", "")
	want := `. must satisfy has(self.spec)
.spec object
.spec.counts list of integer (int32)
.spec.counts must be at least -1000000000, each item
.spec.size default "small"
.spec.size must be one of its values
.spec.size must be set
.spec.size string
.spec.size value "large"
.spec.size value "small"
.spec.tolerate list of object
.spec.tolerate[].effect string
.spec.tolerate[].key string
.spec.tolerate[].operator string
.spec.tolerate[].tolerationSeconds integer
.spec.tolerate[].value string
namespaced things`
	if err != nil || got != want {
		t.Errorf("error %v, got\n%s\nwant\n%s", err, got, want)
	}
}

// TestCRDReference_TellsAllOfAField: the reference has the type, meaning, values, default, checks and rules of a field,
// and names Kubernetes objects.
func TestCRDReference_TellsAllOfAField(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "things.yaml", definition)
	definitions, err := readDefinitions(dir)
	if err != nil {
		t.Fatal(err)
	}
	page := crdPage(definitions[0], &definitions[0].Spec.Versions[0])
	for _, want := range []string{
		"# Thing\n\n`example.com/v1`, namespaced, resource `things`.\n\nThing is something. It has a size.\n",
		"| `spec.size` | string | Size &lt;of&gt; it \\| or more. Required. Default: `\"small\"`. One of " +
			"`\"small\"`, `\"large\"`. |\n",
		"| `spec.counts` | list of integer (int32) | Counts of parts. Must be at least -1000000000, each item. |\n",
		"| `spec.tolerate` | list of Toleration | Tolerate taints. |\n",
		"* `.`: give it a spec\n\n  ```\n  has(self.spec)\n  ```\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q; it is\n%s", want, page)
		}
	}
	if strings.Contains(page, "tolerationSeconds") || strings.Contains(page, "`metadata`") {
		t.Errorf("the page tells what Kubernetes' own reference does:\n%s", page)
	}
}

// TestCLIAPI_ReadsThePagesOfCommands: the record has the commands and flags that the reference shows to users.
func TestCLIAPI_ReadsThePagesOfCommands(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "drover_roll.md", "## drover roll\n\nRoll --not-this.\n\n```\n"+
		"      --dry-run                  only say it\n  -f, --filename file or URL     file\n      --release-data "+
		"file or URL\n```\n")
	lines, err := cliAPI(dir)
	want := `command drover roll
command drover roll --dry-run
command drover roll --filename VALUE
command drover roll --release-data VALUE
command drover roll -f for --filename`
	if got := strings.Join(lines, "\n"); err != nil || got != want {
		t.Errorf("error %v, got\n%s\nwant\n%s", err, got, want)
	}
}

// TestDefinitions_DescribeEveryField: the reference and `kubectl explain` have a description of every field.
func TestDefinitions_DescribeEveryField(t *testing.T) {
	definitions, err := readDefinitions("../pkg/crds/yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range definitions {
		for i := range crd.Spec.Versions {
			ofKubernetes := func(schema *apiextv1.JSONSchemaProps) bool { return kubernetesType(schema) != "" }
			for _, f := range fields(crd.Spec.Versions[i].Schema.OpenAPIV3Schema, ofKubernetes) {
				if f.schema.Description == "" && !ofKubernetes(f.schema) {
					t.Errorf("%s: field %s has no description: comment it in pkg/apis", crd.Name, f.path)
				}
			}
		}
	}
}
