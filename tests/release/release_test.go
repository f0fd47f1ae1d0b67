package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/crds"
)

const (
	root = "../.."
	tag  = "v0.1.7"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// written returns the objects of each provider in a release, with variables as clusterctl replaces them.
func written(t *testing.T) map[string][]*unstructured.Unstructured {
	t.Helper()
	out := filepath.Join(t.TempDir(), "release")
	check(t, write(root, out, tag))
	all := map[string][]*unstructured.Unstructured{}
	for i := range providers {
		p := &providers[i]
		text, err := os.ReadFile(filepath.Join(out, "assets", p.File))
		check(t, err)
		local, err := os.ReadFile(filepath.Join(out, "repository", p.Label, tag, p.File))
		check(t, err)
		if !bytes.Equal(text, local) {
			t.Errorf("%s differs in the local repository", p.File)
		}
		given := func(variable string) (string, error) {
			if variable != "DROVER_SERVER_URL" {
				return "", fmt.Errorf("%s is not set", variable)
			}
			return "https://drover.example.com", nil
		}
		replaced, err := yamlprocessor.NewSimpleProcessor().Process(text, given)
		check(t, err)
		for document := range bytes.SplitSeq(replaced, []byte("\n---\n")) {
			object := &unstructured.Unstructured{}
			check(t, yaml.UnmarshalStrict(document, &object.Object))
			all[p.Label] = append(all[p.Label], object)
		}
	}
	return all
}

// TestComponents: each provider has one Namespace, and objects in no other. Each object names one provider, and nothing
// of Helm.
func TestComponents(t *testing.T) {
	seen := map[string]string{}
	for label, objects := range written(t) {
		var namespaces []string
		for _, object := range objects {
			id := object.GetKind() + " " + object.GetName()
			if other := seen[id]; other != "" {
				t.Errorf("%s belongs to %s and %s", id, other, label)
			}
			seen[id] = label
			if object.GetLabels()[providerLabel] != label {
				t.Errorf("%s of %s has labels %v", id, label, object.GetLabels())
			}
			if object.GetKind() == "Namespace" {
				namespaces = append(namespaces, object.GetName())
			}
			if text := fmt.Sprint(object.GetLabels(), object.GetAnnotations()); strings.Contains(text, "helm") {
				t.Errorf("%s has metadata for Helm: %s", id, text)
			}
		}
		if len(namespaces) != 1 {
			t.Fatalf("%s has namespaces %v, want 1", label, namespaces)
		}
		for _, object := range objects {
			if in := object.GetNamespace(); in != "" && in != namespaces[0] {
				t.Errorf("%s %s of %s is in namespace %s", object.GetKind(), object.GetName(), label, in)
			}
		}
	}
}

// TestComponents_HaveAllDefinitions: the definitions are Drover's, with their content and no other core's.
func TestComponents_HaveAllDefinitions(t *testing.T) {
	want, got := map[string]any{}, map[string]any{}
	all, err := crds.All()
	check(t, err)
	for _, definition := range all {
		if !strings.HasSuffix("."+definition.Spec.Group, ".cluster.x-k8s.io") {
			want[definition.Name] = definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Description
		}
	}
	for _, objects := range written(t) {
		for _, object := range objects {
			if object.GetKind() != "CustomResourceDefinition" {
				continue
			}
			versions, _, err := unstructured.NestedSlice(object.Object, "spec", "versions")
			check(t, err)
			text, _, err := unstructured.NestedString(versions[0].(map[string]any), "schema", "openAPIV3Schema",
				"description")
			check(t, err)
			got[object.GetName()] = text
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("definitions (-want +got):\n%s", diff)
	}
}

// TestComponents_Server: the server has the container's name that clusterctl requires, the version's image, the user's
// address, and no core of its own.
func TestComponents_Server(t *testing.T) {
	for _, object := range written(t)["infrastructure-drover"] {
		if object.GetKind() != "Deployment" {
			continue
		}
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		check(t, err)
		server := containers[0].(map[string]any)
		if server["name"] != "manager" || server["image"] != "docker.io/drover-io/drover:"+tag {
			t.Errorf("the container is %v with image %v", server["name"], server["image"])
		}
		for _, want := range []string{"--server-url=https://drover.example.com", "--capi=external", "--crds=host",
			"--log-level=info"} {
			if args := server["args"].([]any); !slices.Contains(args, any(want)) {
				t.Errorf("the arguments %v lack %s", args, want)
			}
		}
		return
	}
	t.Error("there is no Deployment")
}

// TestComponents_Roles: `clusterctl delete` deletes the roles, and each binding is to a role of the components.
func TestComponents_Roles(t *testing.T) {
	const kind = "ClusterRole"
	roles, bound := map[string]bool{}, map[string]bool{}
	for _, object := range written(t)["infrastructure-drover"] {
		if !strings.HasPrefix(object.GetKind(), kind) {
			continue
		}
		if !strings.HasPrefix(object.GetName(), "drover-system-") { // as in clusterctl's providerComponents.Delete
			t.Errorf("%s %s stays after clusterctl delete", object.GetKind(), object.GetName())
		}
		if object.GetKind() == kind {
			roles[object.GetName()] = true
			continue
		}
		name, _, err := unstructured.NestedString(object.Object, "roleRef", "name")
		check(t, err)
		bound[name] = true
	}
	if len(bound) == 0 {
		t.Error("there is no ClusterRoleBinding")
	}
	for name := range bound {
		if !roles[name] {
			t.Errorf("a ClusterRoleBinding names ClusterRole %s, and the components have %v", name, roles)
		}
	}
}

// TestConfiguration: clusterctl can read the URLs of the configuration.
func TestConfiguration(t *testing.T) {
	config := struct {
		Providers []struct{ Name, Type, URL string }
	}{}
	check(t, yaml.UnmarshalStrict(configuration("/releases", tag), &config))
	var got []string
	for _, p := range config.Providers {
		got = append(got, p.Name+" "+p.Type+" "+p.URL)
	}
	const in = "/releases/repository/"
	want := []string{
		"drover BootstrapProvider " + in + "bootstrap-drover/v0.1.7/bootstrap-components.yaml",
		"drover ControlPlaneProvider " + in + "control-plane-drover/v0.1.7/control-plane-components.yaml",
		"drover InfrastructureProvider " + in + "infrastructure-drover/v0.1.7/infrastructure-components.yaml",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

// TestWrite_BadVersion: clusterctl could not use a release with such a version.
func TestWrite_BadVersion(t *testing.T) {
	for version, want := range map[string]string{
		"":           `version "" must be a semantic version`,
		"0.1.0":      `version "0.1.0" must be a semantic version with v`,
		"31a6b5b4":   `version "31a6b5b4" must be a semantic version`,
		"v0.1":       `version "v0.1" must be a semantic version`,
		"v7.8.9":     "metadata.yaml has no entry for version 7.8; add it",
		"v0.1.0-rc1": "",
	} {
		t.Run(version, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "release")
			err := write(root, out, version)
			if want == "" {
				check(t, err)
				return
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, want %s", err, want)
			}
			if _, err := os.Stat(out); !os.IsNotExist(err) {
				t.Error("files were written")
			}
		})
	}
}

// TestCheckVariables: text of the charts must not look like a variable.
func TestCheckVariables(t *testing.T) {
	for text, wrong := range map[string]bool{
		serverURL + " " + serviceType: false, "costs $5": false, "$(NAME)": false, "${HOME}": true, "${open": true,
	} {
		if err := checkVariables(text); (err != nil) != wrong {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestMetadata_MatchesTheDefinitions: the contract of metadata.yaml is a version that the definitions support.
func TestMetadata_MatchesTheDefinitions(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, metadataFile))
	check(t, err)
	known := struct {
		ReleaseSeries []struct{ Contract string }
	}{}
	check(t, yaml.Unmarshal(text, &known))
	for _, object := range written(t)["bootstrap-drover"] {
		for _, series := range known.ReleaseSeries {
			if label := "cluster.x-k8s.io/" + series.Contract; object.GetKind() == "CustomResourceDefinition" &&
				object.GetLabels()[label] == "" {
				t.Errorf("%s has no label %s", object.GetName(), label)
			}
		}
	}
}
