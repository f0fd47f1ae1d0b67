package render_test

import (
	"bytes"
	"encoding/base64"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/releases"
	"github.com/drover-io/drover/pkg/testkit/build"
	"github.com/drover-io/drover/pkg/testkit/golden"
)

const corpusDir = "testdata/corpus"

// newer is this program with one more version, whose plans differ.
var newer = render.Versions{}.With("newer", func(_ render.Input, files []plan.File) []plan.File {
	return append(files, plan.File{Path: "/etc/newer", Content: base64.StdEncoding.EncodeToString([]byte("newer"))})
})

// TestCorpus keeps every plan of every version, byte for byte, from the user's manifest on. It covers every example of
// the documentation and some more clusters. A difference would restart nodes of unchanged clusters. Changed output is a
// new version, and the files of the old one stay.
func TestCorpus(t *testing.T) {
	t.Parallel()
	want := map[string]bool{}
	for _, file := range exampleFiles(t) {
		example := strings.TrimSuffix(filepath.Base(file), ".yaml")
		for place, in := range corpusInputs(t, file) {
			for _, version := range (render.Versions{}).Names() {
				path := filepath.Join(corpusDir, example, "v"+version, place+".json")
				want[path] = true
				t.Run(example+"/v"+version+"/"+place, func(t *testing.T) {
					t.Parallel()
					in.Version = version
					compareBytes(t, path, encoded(t, render.Versions{}, in), version == render.Version)
				})
			}
		}
	}
	var have []string
	for _, pattern := range []string{"*", "*/*", "*/*/*.json"} {
		found, err := filepath.Glob(filepath.Join(corpusDir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		have = append(have, found...)
	}
	for _, path := range have {
		if strings.HasSuffix(path, ".json") && !want[path] {
			t.Errorf("%s belongs to no example, version and role", path)
		}
	}
}

// TestCorpus_RoundTripChangesNothing checks that a pinned machine keeps its plan when there is a newer version.
// It gets another version only when it is moved, and the same bytes when it is moved back.
func TestCorpus_RoundTripChangesNothing(t *testing.T) {
	t.Parallel()
	for _, file := range exampleFiles(t) {
		for place, in := range corpusInputs(t, file) {
			t.Run(filepath.Base(file)+"/"+place, func(t *testing.T) {
				t.Parallel()
				for _, version := range (render.Versions{}).Names() {
					in.Version = version
					before := encoded(t, render.Versions{}, in)
					if after := encoded(t, newer, in); !bytes.Equal(before, after) {
						t.Errorf("version %s renders other bytes next to a newer one", version)
					}
					in.Version = newer.Newest()
					moved := encoded(t, newer, in)
					if bytes.Equal(before, moved) || !bytes.Contains(moved, []byte("/etc/newer")) {
						t.Error("the newer version must render other bytes")
					}
					if render.StampsOf(decoded(t, moved)).Restart == render.StampsOf(decoded(t, before)).Restart {
						t.Error("the stamps must cover the new part")
					}
					in.Version = version
					if back := encoded(t, newer, in); !bytes.Equal(before, back) {
						t.Errorf("a return to version %s renders other bytes", version)
					}
				}
			})
		}
	}
}

// TestVersions_TheLastTwoAreKept checks that the last two versions are kept, or the only one.
func TestVersions_TheLastTwoAreKept(t *testing.T) {
	t.Parallel()
	known := render.Versions{}
	if names := known.Names(); len(names) < 1 || known.Newest() != render.Version || !known.Knows(render.Version1) {
		t.Errorf("versions %v, newest %s", names, known.Newest())
	}
	if names := newer.Names(); len(names) != len(known.Names())+1 || newer.Newest() != "newer" ||
		!newer.Knows(known.Newest()) {
		t.Errorf("with another version: %v", names)
	}
	if known.Knows("newer") {
		t.Error("a version in a copy must not be known elsewhere")
	}
	_, _, err := known.Plan(render.Input{Version: "newer"})
	if err == nil || !strings.Contains(err.Error(), `render version "newer" is unknown; known versions are ["1"]`) {
		t.Errorf("error %v", err)
	}
}

func encoded(t *testing.T, versions render.Versions, in render.Input) []byte {
	t.Helper()
	rendered, _, err := versions.Plan(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := nodeplan.Check(rendered); err != nil {
		t.Errorf("an agent would refuse the plan: %v", err)
	}
	data, err := nodeplan.Encode(rendered)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decoded(t *testing.T, data []byte) plan.NodePlan {
	t.Helper()
	p, err := nodeplan.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// compareBytes compares with the corpus. Only the newest version can be recorded again, until it is released.
func compareBytes(t *testing.T, path string, got []byte, newest bool) {
	t.Helper()
	if _, err := os.Stat(path); golden.Update() && (newest || err != nil) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read plan of the corpus (run with -update to write it): %v", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("plan differs from %s (-want +got):\n%s", path, diff)
	}
}

// exampleFiles are the examples of the documentation, and clusters with settings that an example should not have. The
// plans for rare settings have to stay as well.
func exampleFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../../../docs/examples/*.yaml")
	if err != nil || len(files) < 7 {
		t.Fatalf("examples %v, error %v", files, err)
	}
	more, err := filepath.Glob("testdata/clusters/*.yaml")
	if err != nil || len(more) < 2 {
		t.Fatalf("other clusters %v, error %v", more, err)
	}
	return append(files, more...)
}

// corpusInputs are the inputs for the plans of an example's machines, by the machine's place in the cluster. Each pool
// has one; a pool with etcd has the machine that starts the cluster and one that joins it. A cluster without pools has
// a machine of each role.
func corpusInputs(t *testing.T, file string) map[string]render.Input {
	t.Helper()
	from, objects := readExample(t, file)
	prepared, err := topology.Prepare(from.Cluster, "corpus", from.Schemas)
	if err != nil {
		t.Fatal(err)
	}
	if prepared != nil {
		from.Cluster = prepared
	}
	from.Cluster.UID, from.Cluster.Status.ClusterName = "uid-of-the-cluster", "c-m-q5wzxk7d"
	desired, err := topology.Desired(from)
	if err != nil {
		t.Fatal(err)
	}
	table, err := releases.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	common := render.Input{
		Version: render.Version, Tokens: render.Tokens{Server: "SERVER-TOKEN", Agent: "AGENT-TOKEN"},
		Objects: objects,
	}
	out := map[string]render.Input{}
	for _, object := range desired {
		if cp, ok := object.(*rkev1.RKEControlPlane); ok {
			common.ControlPlane, common.Release = controlPlaneOf(cp), table.Release(cp.Spec.KubernetesVersion)
		}
	}
	for _, object := range desired {
		md, ok := object.(*clusterv1.MachineDeployment)
		if ok && md.Spec.Template.Labels[rkev1.CattleOSLabel] != rkev1.OSWindows {
			addPlaces(out, common, md.Spec.Template.Labels[rkev1.MachinePoolNameLabel], md.Spec.Template.Labels,
				md.Spec.Template.Annotations, true)
		}
	}
	if len(out) == 0 {
		for _, roles := range [][]string{{"etcd"}, {"control-plane"}, {"worker"}, {"etcd", "control-plane", "worker"}} {
			labels := map[string]string{rkev1.CattleOSLabel: "linux"}
			for _, role := range roles {
				labels["rke.cattle.io/"+role+"-role"] = "true"
			}
			addPlaces(out, common, strings.Join(roles, "+"), labels,
				map[string]string{rkev1.AddressAnnotation: "203.0.113.7"}, false)
		}
	}
	return out
}

func addPlaces(out map[string]render.Input, in render.Input, name string, labels, annotations map[string]string,
	provisioned bool) {
	is := func(label string) bool { return labels[label] == "true" }
	in.Machine = render.Machine{
		Namespace: in.ControlPlane.Namespace, Name: "machine-of-" + name, UID: "0b5c8f0e-1111-2222-3333-444455556666",
		Labels: labels, Annotations: annotations,
		Roles: render.Roles{ETCD: is(rkev1.EtcdRoleLabel), ControlPlane: is(rkev1.ControlPlaneRoleLabel),
			Worker: is(rkev1.WorkerRoleLabel)},
	}
	if provisioned {
		in.Machine.Provisioned, in.Machine.Driver = true, &render.Driver{Name: "driver", IPAddress: "203.0.113.7",
			PrivateIPAddress: "10.0.0.7"}
	}
	joins := in
	joins.JoinURL = distro.RuntimeOf(in.ControlPlane.Spec.KubernetesVersion).JoinURL("10.0.0.1")
	if in.Machine.Roles.ETCD {
		in.InitNode = true
		out[name+"-init"] = in
		name += "-joining"
	}
	out[name] = joins
}

// readExample reads an example as the API server would store it. Drivers know every field that a machine config sets.
func readExample(t *testing.T, file string) (topology.Input, render.Objects) {
	t.Helper()
	in := topology.Input{
		MachineConfigs: map[topology.ConfigRef]*unstructured.Unstructured{},
		Schemas:        map[string]*mgmtv3.DynamicSchemaSpec{}, Credentials: map[string]bool{},
	}
	objects := render.Objects{Secrets: map[types.NamespacedName]render.Secret{},
		ConfigMaps: map[types.NamespacedName]render.ConfigMap{}}
	for _, document := range build.Manifest(t, file) {
		switch kind := document.GetKind(); {
		case kind == "Cluster":
			in.Cluster = &provv1.Cluster{}
			convert(t, document, in.Cluster)
		case kind == "Secret":
			secret := &corev1.Secret{}
			convert(t, document, secret)
			objects.Secrets[keyOf(document)] = render.Secret{Type: secret.Type, Annotations: secret.Annotations,
				Data: bytesOf(secret.StringData)}
		case kind == "ConfigMap":
			config := &corev1.ConfigMap{}
			convert(t, document, config)
			objects.ConfigMaps[keyOf(document)] = render.ConfigMap{Annotations: config.Annotations,
				Data: bytesOf(config.Data)}
		case strings.HasSuffix(kind, "Config"):
			ref := topology.ConfigRef{APIVersion: document.GetAPIVersion(), Kind: kind, Name: document.GetName()}
			in.MachineConfigs[ref] = document
			fields := map[string]mgmtv3.Field{}
			if known := in.Schemas[ref.SchemaName()]; known != nil {
				fields = known.ResourceFields
			}
			for _, key := range slices.Sorted(maps.Keys(document.Object)) {
				if key != "apiVersion" && key != "kind" && key != "metadata" {
					fields[key] = mgmtv3.Field{Type: "string"}
				}
			}
			in.Schemas[ref.SchemaName()] = &mgmtv3.DynamicSchemaSpec{ResourceFields: fields}
		}
	}
	return in, objects
}

func keyOf(document *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: document.GetNamespace(), Name: document.GetName()}
}

func convert(t *testing.T, document *unstructured.Unstructured, into any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(document.Object, into); err != nil {
		t.Fatal(err)
	}
}

// controlPlaneOf copies the parts of the API object that plans depend on.
func controlPlaneOf(cp *rkev1.RKEControlPlane) render.ControlPlane {
	initialized := cp.Status.Initialization.ControlPlaneInitialized
	return render.ControlPlane{
		Namespace:        cp.Namespace,
		Name:             cp.Name,
		Annotations:      cp.Annotations,
		Spec:             cp.Spec,
		ConfigGeneration: cp.Status.ConfigGeneration,
		Initialized:      initialized != nil && *initialized,
	}
}
