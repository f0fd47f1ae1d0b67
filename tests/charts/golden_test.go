package charts

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite golden files")

const (
	droverChart = "../../charts/drover"
	crdChart    = "../../charts/drover-crd"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// valuesOf reads a file of testdata/values.
func valuesOf(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "values", name+".yaml"))
	check(t, err)
	values := map[string]any{}
	check(t, yaml.UnmarshalStrict(text, &values))
	return values
}

// given returns the names of the files in testdata/values.
func given(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "values", "*.yaml"))
	check(t, err)
	var names []string
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".yaml"))
	}
	return names
}

// TestDrover_Golden: the rendered chart for each file of values matches testdata/golden. go test -update rewrites the
// files. The files include labels and texts with the chart's version, which a release changes on purpose.
func TestDrover_Golden(t *testing.T) {
	for _, name := range given(t) {
		t.Run(name, func(t *testing.T) {
			templates, err := Templates(droverChart, Release{}, valuesOf(t, name))
			check(t, err)
			var out strings.Builder
			for _, path := range slices.Sorted(maps.Keys(templates)) {
				out.WriteString("# " + path + "\n" + strings.Trim(templates[path], "\n") + "\n")
			}
			golden := filepath.Join("testdata", "golden", name+".yaml")
			if *update {
				check(t, os.WriteFile(golden, []byte(out.String()), 0o644))
			}
			want, err := os.ReadFile(golden)
			check(t, err)
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Errorf("the output differs from %s; go test ./charts -update rewrites it:\n%s", golden, diff)
			}
		})
	}
}

// TestDrover_Objects checks that every template is valid YAML without duplicate keys and has the recommended labels.
func TestDrover_Objects(t *testing.T) {
	for _, name := range given(t) {
		t.Run(name, func(t *testing.T) {
			objects, err := Objects(droverChart, Release{}, valuesOf(t, name))
			check(t, err)
			seen := map[string]bool{}
			for _, object := range objects {
				id := object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
				if seen[id] {
					t.Errorf("%s is duplicate", id)
				}
				seen[id] = true
				for _, label := range []string{"helm.sh/chart", "app.kubernetes.io/name", "app.kubernetes.io/instance",
					"app.kubernetes.io/managed-by", "app.kubernetes.io/part-of"} {
					if object.GetLabels()[label] == "" {
						t.Errorf("%s has no label %s", id, label)
					}
				}
			}
			if len(seen) == 0 {
				t.Error("the chart renders no objects")
			}
		})
	}
}
