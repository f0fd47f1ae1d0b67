package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The files in pkg/kube/capi/crds match the Cluster API version that the root module pins.
func TestCAPICRDs_AreThoseOfThePinnedVersion(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api")
	list.Dir = ".."
	source, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	fresh := t.TempDir()
	if err := writeCAPICRDs(strings.TrimSpace(string(source)), fresh); err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]string{{fresh, "../pkg/kube/capi/crds"}, {"../pkg/kube/capi/crds", fresh}} {
		entries, err := os.ReadDir(pair[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			left, err := os.ReadFile(filepath.Join(pair[0], entry.Name()))
			if err != nil {
				t.Fatal(err)
			}
			right, err := os.ReadFile(filepath.Join(pair[1], entry.Name()))
			if err != nil || string(left) != string(right) {
				t.Errorf("%s differs from the pinned version: run scripts/generate", entry.Name())
			}
		}
	}
}

func TestReduceCRD(t *testing.T) {
	const head = "metadata: {name: a, creationTimestamp: null, annotations: {kept: yes}}\nspec: {group: g, " +
		"conversion: {strategy: Webhook}, versions: "
	tests := map[string]struct {
		versions, want, wantErr string
	}{
		"the contract's version wins": {
			versions: "[{name: v1beta1, served: true, storage: true}, {name: v1beta2, served: false, storage: false}]",
			want:     "v1beta2"},
		"without it the stored version is kept": {
			versions: "[{name: v1alpha1, served: true, storage: false}, {name: v1alpha2, served: true, storage: true}]",
			want:     "v1alpha2"},
		"no version at all": {versions: "[]", wantErr: "want one version to keep, got 0"},
		"no version is stored, none the contract's": {versions: "[{name: v1, served: true}]",
			wantErr: "want one version to keep, got 0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := reduceCRD([]byte(head + test.versions + "}\nstatus: {}"))
			if test.wantErr != "" {
				if err == nil || err.Error() != test.wantErr {
					t.Errorf("want error %q, got %v", test.wantErr, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var crd struct {
				Metadata struct{ Labels map[string]string }
				Spec     struct {
					Conversion any
					Versions   []struct {
						Name            string
						Served, Storage bool
					}
				}
				Status any
			}
			if err := yaml.Unmarshal(out, &crd); err != nil {
				t.Fatal(err)
			}
			versions := crd.Spec.Versions
			if len(versions) != 1 || versions[0].Name != test.want || !versions[0].Served || !versions[0].Storage {
				t.Errorf("want %s alone, served and stored, got %+v", test.want, versions)
			}
			if crd.Spec.Conversion != nil || crd.Status != nil ||
				crd.Metadata.Labels["cluster.x-k8s.io/provider"] != "cluster-api" {
				t.Errorf("want no conversion and no status, and the provider's label, got %+v", crd)
			}
		})
	}
}

func TestRemoveRegistration(t *testing.T) {
	const generated = "package v1\n\nimport " +
		"(\n\t\"github.com/rancher/lasso/pkg/controller\"\n\t\"github.com/rancher/wrangler/v3/pkg/schemes\"\n)\n\nfunc init() {\n\tschemes.Register(v1.AddToScheme)\n}\n\ntype Interface interface{}\n"
	tests := map[string]struct{ source, want, wantErr string }{
		"as generated": {source: generated,
			want: "package v1\n\nimport (\n\t\"github.com/rancher/lasso/pkg/controller\"\n)\n\ntype Interface " +
				"interface{}\n"},
		"nothing to do": {source: "package v1\n",
			wantErr: "no registration found: the generator's output has changed"},
		"still used later": {source: generated + "\nvar x = schemes.All\n",
			wantErr: "the scheme is still used: the generator's output has changed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "interface.go")
			if err := os.WriteFile(file, []byte(test.source), 0o600); err != nil {
				t.Fatal(err)
			}
			err := removeRegistration(file)
			if test.wantErr != "" {
				if err == nil || err.Error() != test.wantErr {
					t.Errorf("want error %q, got %v", test.wantErr, err)
				}
				return
			}
			got, readErr := os.ReadFile(file)
			if err != nil || readErr != nil || string(got) != test.want {
				t.Errorf("want %q, got %q, errors %v %v", test.want, got, err, readErr)
			}
		})
	}
}
