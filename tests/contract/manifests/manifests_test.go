package manifests

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

// manifest is an example.
type manifest struct {
	cluster string
	// machines is the number of machines that it requests. It is zero where hosts register themselves.
	machines int
	// plans are the first plans to compare: of the init node, of a joining server, of a worker.
	plans []string
}

const (
	planOfFirst   = "plan.txt"
	planOfJoining = "plan-joining.txt"
	planOfWorker  = "plan-worker.txt"
)

var manifests = map[string]manifest{
	"amazonec2":     {cluster: "shop", machines: 7, plans: []string{planOfFirst, planOfJoining, planOfWorker}},
	"azure":         {cluster: "lab", machines: 3, plans: []string{planOfFirst, planOfWorker}},
	"chart-values":  {cluster: "analytics", machines: 5, plans: []string{planOfFirst, planOfJoining, planOfWorker}},
	"custom":        {cluster: "edge", plans: []string{planOfFirst}},
	"registries-s3": {cluster: "vault", machines: 3, plans: []string{planOfFirst, planOfJoining}},
	"vmwarevsphere": {cluster: "plant", machines: 3, plans: []string{planOfFirst, planOfJoining}},
}

// namespace is the namespace of the examples' clusters.
const namespace = "fleet-default"

func TestManifests(t *testing.T) {
	st := stage.Start(t, stage.Settings{})
	var kinds []string
	for _, driver := range []string{"Amazonec2", "Azure", "Digitalocean", "Vmwarevsphere"} {
		kinds = append(kinds, "rke-machine-config.cattle.io/v1 "+driver+"Config", "rke-machine.cattle.io/v1 "+driver+
			"MachineTemplate")
	}
	st.AwaitKinds(kinds...)

	applied := map[string][]*unstructured.Unstructured{}
	for name := range manifests {
		applied[name] = apply(t, st, name)
	}
	for name, m := range manifests {
		t.Run(name, func(t *testing.T) {
			if m.machines > 0 {
				plane.Until(t, 3*time.Minute, func() string { return st.WaitingFor(namespace, m.cluster) })
			} else {
				plane.Until(t, time.Minute, func() string { return notAdopted(t, st.Client, m.cluster) })
				registerHost(t, st.Client, m.cluster)
				plane.Until(t, time.Minute, func() string { return withoutPlan(t, st.Client, m.cluster) })
			}
			first := firstPlans(t, st.Client, m.cluster)
			if want := slices.Sorted(slices.Values(m.plans)); !slices.Equal(slices.Sorted(maps.Keys(first)), want) {
				t.Errorf("the plans are %q, want %q", slices.Sorted(maps.Keys(first)), want)
			}
			for file, text := range first {
				compare(t, name, file, text)
			}
			for _, object := range applied[name] {
				expectKept(t, st.Client, object)
			}
			compare(t, name, "objects.yaml", generated(t, st.Client, m.cluster))
		})
	}
}

// apply creates the objects of an example strictly: a field outside the schema is an error.
func apply(t *testing.T, st *stage.Stage, name string) []*unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(plane.Root(t), "docs", "examples", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		asJSON, err := yaml.YAMLToJSONStrict([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(asJSON); err != nil {
			t.Fatal(err)
		}
		made := object.DeepCopy()
		if err := st.Client.Create(t.Context(), made, client.FieldValidation("Strict")); err != nil {
			t.Fatalf("%s: %s %s is refused: %v", name, object.GetKind(), object.GetName(), err)
		}
		out = append(out, object)
	}
	return out
}

// compare compares a text with a golden file, or writes it.
func compare(t *testing.T, name, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", name, file)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}
