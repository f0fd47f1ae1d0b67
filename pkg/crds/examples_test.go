package crds

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/testkit/admission"
	"github.com/drover-io/drover/pkg/testkit/build"
)

// manifests lists the examples of the documentation that contain a Cluster.
var manifests = []string{"amazonec2", "azure", "chart-values", "custom", "provider", "registries-s3",
	"vmwarevsphere"}

// example returns the objects of an example.
func example(t *testing.T, name string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for _, object := range build.Manifest(t, filepath.Join("..", "..", "docs", "examples", name+".yaml")) {
		out = append(out, object.Object)
	}
	return out
}

// An API server accepts the examples without complaint, and a Go program that reads and writes them loses nothing.
func TestExamples_AreAcceptedStrictlyAndRoundTrip(t *testing.T) {
	for _, name := range manifests {
		t.Run(name, func(t *testing.T) {
			cluster := clusterOf(t, example(t, name))

			result := validator(t, "clusters.provisioning.cattle.io").Create(t.Context(), cluster)
			if len(result.Errors) > 0 || len(result.Unknown) > 0 {
				t.Errorf("refused: %v, unknown fields %v", result.Errors, result.Unknown)
			}
			if diff := cmp.Diff(cluster, result.Stored); diff != "" {
				t.Errorf("the stored object differs from the manifest (-manifest +stored):\n%s", diff)
			}

			typed := decodeStrictly(t, cluster)
			written := encode(t, typed)
			if diff := cmp.Diff(significant(cluster["spec"]), significant(written["spec"])); diff != "" {
				t.Errorf("the Go type loses or adds fields (-manifest +written):\n%s", diff)
			}
			if diff := cmp.Diff(cluster["metadata"], written["metadata"]); diff != "" {
				t.Errorf("metadata differ (-manifest +written):\n%s", diff)
			}
			if diff := cmp.Diff(typed, decodeStrictly(t, written), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("reading back gives another object (-first +second):\n%s", diff)
			}
			again := validator(t, "clusters.provisioning.cattle.io").Create(t.Context(), written)
			if len(again.Errors) > 0 || len(again.Unknown) > 0 {
				t.Errorf("the Go object is refused: %v, unknown fields %v", again.Errors, again.Unknown)
			}
			if diff := cmp.Diff(typed, typed.DeepCopy()); diff != "" {
				t.Errorf("a deep copy differs (-original +copy):\n%s", diff)
			}
		})
	}
}

// Every machine config and Secret that an example refers to is part of it, in the right namespace.
func TestExamples_AreComplete(t *testing.T) {
	for _, name := range manifests {
		t.Run(name, func(t *testing.T) {
			objects := example(t, name)
			present := map[string]bool{}
			for _, object := range objects {
				metadata := object["metadata"].(map[string]any)
				present[object["kind"].(string)+" "+metadata["namespace"].(string)+"/"+metadata["name"].(string)] = true
			}
			cluster := decodeStrictly(t, clusterOf(t, objects))
			for _, reference := range references(cluster) {
				if !present[reference] {
					t.Errorf("refers to %s, which is not part of the example", reference)
				}
			}
		})
	}
}

// The machine configs of the examples have only fields that their drivers know, with the right types.
func TestExamples_MachineConfigsMatchTheirDrivers(t *testing.T) {
	core, err := driverschema.LoadCore()
	if err != nil {
		t.Fatal(err)
	}
	configs := map[string]*admission.Validator{}
	for _, driver := range driverschema.Seeds() {
		metadata, err := driverschema.ParseMetadata(driver.Annotations)
		if err != nil {
			t.Fatal(err)
		}
		fields, err := driverschema.Fields(core.Drivers[driver.Name], metadata)
		if err != nil {
			t.Fatal(err)
		}
		for _, crd := range driverschema.CRDs(driver.Name, mgmtv3.DynamicSchemaSpec{ResourceFields: fields}) {
			if configs[crd.Spec.Names.Kind], err = admission.New(crd); err != nil {
				t.Fatalf("%s: %v", crd.Name, err)
			}
		}
	}
	checked := 0
	for _, name := range manifests {
		for _, object := range example(t, name) {
			if object["apiVersion"] != driverschema.ConfigGroup+"/v1" {
				continue
			}
			kind, _ := object["kind"].(string)
			if configs[kind] == nil {
				t.Errorf("%s: no driver has %s", name, kind)
				continue
			}
			checked++
			if result := configs[kind].Create(t.Context(), object); len(result.Errors) > 0 || len(result.Unknown) > 0 {
				t.Errorf("%s: %s is refused: %v, unknown fields %v", name, kind, result.Errors, result.Unknown)
			}
		}
	}
	if checked < 6 {
		t.Errorf("only %d machine configs were checked", checked)
	}
}

func references(cluster *provv1.Cluster) []string {
	var out []string
	credential := func(name string) {
		if name != "" {
			out = append(out, "Secret cattle-global-data/"+name[len("cattle-global-data:"):])
		}
	}
	credential(cluster.Spec.CloudCredentialSecretName)
	config := cluster.Spec.RKEConfig
	for _, pool := range config.MachinePools {
		credential(pool.CloudCredentialSecretName)
		out = append(out, pool.NodeConfig.Kind+" "+cluster.Namespace+"/"+pool.NodeConfig.Name)
	}
	if config.ETCD != nil && config.ETCD.S3 != nil {
		credential(config.ETCD.S3.CloudCredentialName)
	}
	for _, files := range config.MachineSelectorFiles {
		for _, source := range files.FileSources {
			if source.Secret.Name != "" {
				out = append(out, "Secret "+cluster.Namespace+"/"+source.Secret.Name)
			}
			if source.ConfigMap.Name != "" {
				out = append(out, "ConfigMap "+cluster.Namespace+"/"+source.ConfigMap.Name)
			}
		}
	}
	if config.Registries != nil {
		for _, registry := range config.Registries.Configs {
			for _, name := range []string{registry.AuthConfigSecretName, registry.TLSSecretName} {
				if name != "" {
					out = append(out, "Secret "+cluster.Namespace+"/"+name)
				}
			}
		}
	}
	return out
}

func clusterOf(t *testing.T, objects []map[string]any) map[string]any {
	t.Helper()
	for _, object := range objects {
		if object["kind"] == "Cluster" {
			return object
		}
	}
	t.Fatal("no Cluster in the example")
	return nil
}

func decodeStrictly(t *testing.T, object map[string]any) *provv1.Cluster {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	out := &provv1.Cluster{}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(out); err != nil {
		t.Fatal(err)
	}
	return out
}

func encode(t *testing.T, cluster *provv1.Cluster) map[string]any {
	t.Helper()
	data, err := json.Marshal(cluster)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := utiljson.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// open lists the maps of the configuration in which every value counts, including false and null.
var open = map[string]bool{"chartValues": true, "machineGlobalConfig": true, "config": true}

// significant removes values without a meaning in a typed field: nulls, empty strings, false, zero, empty lists and
// objects.
func significant(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, item := range v {
			if open[key] {
				if item != nil {
					out[key] = item
				}
				continue
			}
			if strings.HasSuffix(key, "Timeout") {
				item = canonical(item)
			}
			if kept := significant(item); kept != nil {
				out[key] = kept
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		var out []any
		for _, item := range v {
			out = append(out, significant(item))
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case nil, bool, string, int64:
		if v == nil || v == false || v == "" || v == int64(0) {
			return nil
		}
		return v
	default:
		return v
	}
}

// canonical writes a duration in Go's form: 15m is 15m0s.
func canonical(value any) any {
	text, _ := value.(string)
	if duration, err := time.ParseDuration(text); err == nil {
		return duration.String()
	}
	return value
}
