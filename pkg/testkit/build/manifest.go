package build

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Manifest reads the objects of a file of YAML documents as strictly as an API server. A duplicate key is an error, and
// whole numbers are int64.
func Manifest(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		asJSON, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		object := map[string]any{}
		if err := utiljson.Unmarshal(asJSON, &object); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, &unstructured.Unstructured{Object: object})
	}
}
