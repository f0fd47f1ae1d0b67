package manifests

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
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

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

// manifest is an example and how many machines it asks for; none where hosts register themselves.
type manifest struct {
	cluster  string
	machines int
}

var manifests = map[string]manifest{
	"amazonec2":     {cluster: "shop", machines: 7},
	"azure":         {cluster: "lab", machines: 3},
	"chart-values":  {cluster: "analytics", machines: 5},
	"custom":        {cluster: "edge"},
	"registries-s3": {cluster: "vault", machines: 3},
	"vmwarevsphere": {cluster: "plant", machines: 3},
}

// namespace is where the examples put their clusters.
const namespace = "fleet-default"

func TestManifests(t *testing.T) {
	st := stage.Start(t, stage.Settings{})
	var kinds []string
	for _, driver := range []string{"Amazonec2", "Azure", "Digitalocean", "Vmwarevsphere"} {
		kinds = append(kinds, "rke-machine-config.cattle.io/v1 "+driver+"Config", "rke-machine.cattle.io/v1 "+driver+"MachineTemplate")
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
				compare(t, name, "plan.txt", firstPlan(t, st.Client, m.cluster))
			} else {
				plane.Until(t, time.Minute, func() string { return notAdopted(t, st.Client, m.cluster) })
			}
			for _, object := range applied[name] {
				expectKept(t, st.Client, object)
			}
			compare(t, name, "objects.yaml", generated(t, st.Client, m.cluster))
		})
	}
}

// apply makes the objects of an example, strictly: a field that is not in the schema is an error.
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

// expectKept fails when something that the manifest says is not stored as it says, after the controllers have worked.
func expectKept(t *testing.T, c client.Client, object *unstructured.Unstructured) {
	t.Helper()
	if object.GetKind() == "Secret" {
		return // stringData is not stored as such
	}
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(object.GroupVersionKind())
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), stored); err != nil {
		t.Fatal(err)
	}
	if lost := missing("", object.Object, stored.Object); len(lost) > 0 {
		t.Errorf("%s %s is not stored as written:\n%s", object.GetKind(), object.GetName(), strings.Join(lost, "\n"))
	}
}

// missing lists the paths at which what was written is not in what is stored. What was added is fine: a controller fills in
// fields. A value that means the same as none may be gone, and a duration may be written another way.
func missing(path string, written, stored any) []string {
	if stored == nil && empty(written) {
		return nil
	}
	switch w := written.(type) {
	case map[string]any:
		s, ok := stored.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s: want an object, got %v", path, stored)}
		}
		var out []string
		for key, value := range w {
			out = append(out, missing(path+"."+key, value, s[key])...)
		}
		return out
	case []any:
		s, ok := stored.([]any)
		if !ok || len(s) != len(w) {
			return []string{fmt.Sprintf("%s: want %d items, got %v", path, len(w), stored)}
		}
		var out []string
		for i := range w {
			out = append(out, missing(fmt.Sprintf("%s[%d]", path, i), w[i], s[i])...)
		}
		return out
	default:
		if written == stored || duration(written) != "" && duration(written) == duration(stored) {
			return nil
		}
		return []string{fmt.Sprintf("%s: want %v, got %v", path, written, stored)}
	}
}

func empty(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	default:
		return v == nil || v == false || v == "" || v == int64(0)
	}
}

// duration is a duration in Go's notation, "" for anything else.
func duration(value any) string {
	text, _ := value.(string)
	if d, err := time.ParseDuration(text); err == nil {
		return d.String()
	}
	return ""
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
