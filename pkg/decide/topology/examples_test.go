package topology_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/testkit/build"
)

// TestExamples_Golden compares the objects of each manifest in the documentation with testdata. The drivers' schemas
// have every field that the manifest sets.
func TestExamples_Golden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../docs/examples/*.yaml")
	if err != nil || len(files) < 7 {
		t.Fatalf("examples %v, error %v", files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := prepare(t, example(t, file))
			in.Cluster.UID = "uid-of-the-cluster"
			in.Cluster.Status.ClusterName = "c-m-q5wzxk7d"
			objects := append(topology.Management(in.Cluster, topology.Registry{}), desired(t, in)...)
			compareGolden(t, "example-"+name, objects)
		})
	}
}

func example(t *testing.T, file string) topology.Input {
	t.Helper()
	in := topology.Input{
		MachineConfigs: map[topology.ConfigRef]*unstructured.Unstructured{},
		Schemas:        map[string]*mgmtv3.DynamicSchemaSpec{},
		Credentials:    map[string]bool{"cattle-global-data:cc-lab": true}, // the quickstart creates it
	}
	for _, document := range build.Manifest(t, file) {
		switch {
		case document.GetKind() == "Cluster":
			in.Cluster = &provv1.Cluster{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(document.Object, in.Cluster); err != nil {
				t.Fatal(err)
			}
		case document.GetKind() == "Secret":
			in.Credentials[document.GetNamespace()+":"+document.GetName()] = true
			in.Credentials[document.GetName()] = true
		case strings.HasSuffix(document.GetKind(), "Config"):
			ref := topology.ConfigRef{APIVersion: document.GetAPIVersion(), Kind: document.GetKind(),
				Name: document.GetName()}
			in.MachineConfigs[ref] = document
			if in.Schemas[ref.SchemaName()] == nil {
				in.Schemas[ref.SchemaName()] = &mgmtv3.DynamicSchemaSpec{ResourceFields: map[string]mgmtv3.Field{}}
			}
			for key := range document.Object {
				if key != "apiVersion" && key != "kind" && key != "metadata" {
					in.Schemas[ref.SchemaName()].ResourceFields[key] = mgmtv3.Field{Type: "string"}
				}
			}
		}
	}
	return in
}

func TestManagement(t *testing.T) {
	t.Parallel()
	in := demo(t, func(c *provv1.Cluster) {
		c.Labels = map[string]string{"env": "prod", "objectset.rio.cattle.io/hash": "of the Cluster itself"}
		c.Annotations = map[string]string{
			provv1.DescriptionAnnotation: "ours", provv1.CreatorIDAnnotation: "u-1",
			provv1.FleetWorkspaceNameAnnotation:                "elsewhere",
			"kubectl.kubernetes.io/last-applied-configuration": "{}",
			"drover.io/granted-references":                     "[]",
		}
		c.Spec.AgentEnvVars = []rkev1.EnvVar{{Name: "A", Value: "b"}}
		c.Spec.RKEConfig.DataDirectories.SystemAgent = "/data/agent"
	})
	objects := topology.Management(in.Cluster, topology.Registry{})
	record := find[*mgmtv3.Cluster](t, objects)[0]
	want := mgmtv3.ClusterSpec{
		DisplayName: "demo", Description: "ours", ImportedConfig: &mgmtv3.ImportedConfig{},
		FleetWorkspaceName: "elsewhere",
		AgentEnvVars: []corev1.EnvVar{{Name: "A", Value: "b"},
			{Name: "CATTLE_AGENT_VAR_DIR", Value: "/data/agent"}},
	}
	if diff := cmp.Diff(want, record.Spec); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"env": "prod"}, record.Labels); diff != "" {
		t.Error(diff)
	}
	if record.Annotations[provv1.AdministratedAnnotation] != "true" ||
		record.Annotations[provv1.CreatorIDAnnotation] != "u-1" ||
		record.Annotations["kubectl.kubernetes.io/last-applied-configuration"] != "" ||
		record.Annotations["drover.io/granted-references"] != "" {
		t.Errorf("annotations %v", record.Annotations)
	}
	purposes := map[string]string{}
	for _, token := range find[*mgmtv3.ClusterRegistrationToken](t, objects) {
		if token.Namespace != "c-m-q5wzxk7d" || token.Spec.ClusterName != "c-m-q5wzxk7d" {
			t.Errorf("token %+v", token)
		}
		purposes[token.Name] = token.Labels[mgmtv3.TokenPurposeLabel]
	}
	if diff := cmp.Diff(map[string]string{"default-token": "node", "system": "agent"}, purposes); diff != "" {
		t.Error(diff)
	}
	if namespaces := find[*corev1.Namespace](t, objects); len(namespaces) != 1 || namespaces[0].Name != "c-m-q5wzxk7d" {
		t.Errorf("namespaces %v", namespaces)
	}
}

func TestManagement_Registry(t *testing.T) {
	t.Parallel()
	global := topology.Registry{URL: "global.example", PullSecret: "global-pull"}
	key := func(url string) rkev1.GenericMap {
		return rkev1.GenericMap{Data: map[string]any{"system-default-registry": url}}
	}
	config := func(c *provv1.Cluster, url string) {
		c.Spec.RKEConfig.Registries = &rkev1.Registry{
			Configs: map[string]rkev1.RegistryConfig{url: {AuthConfigSecretName: "auth"}}}
	}
	cases := map[string]struct {
		edit func(*provv1.Cluster)
		want mgmtv3.ClusterSecrets
	}{
		"the registry of the installation": {
			func(*provv1.Cluster) {}, mgmtv3.ClusterSecrets{PrivateRegistryURL: "global.example",
				PrivateRegistrySecret: "global-pull"},
		},
		"the registry of the installation with the cluster's credential": {
			func(c *provv1.Cluster) { config(c, "global.example") },
			mgmtv3.ClusterSecrets{PrivateRegistryURL: "global.example", PrivateRegistrySecret: "auth"},
		},
		"the cluster's own registry": {
			func(c *provv1.Cluster) {
				c.Spec.RKEConfig.MachineGlobalConfig = key("own.example")
				config(c, "own.example")
			},
			mgmtv3.ClusterSecrets{PrivateRegistryURL: "own.example", PrivateRegistrySecret: "auth"},
		},
		"the cluster's own registry without a credential": {
			func(c *provv1.Cluster) { c.Spec.RKEConfig.MachineGlobalConfig = key("own.example") },
			mgmtv3.ClusterSecrets{PrivateRegistryURL: "own.example"},
		},
		"for all machines by selector": {
			func(c *provv1.Cluster) {
				c.Spec.RKEConfig.MachineSelectorConfig = []rkev1.RKESystemConfig{
					{Config: key("some.example"), MachineLabelSelector: &metav1.LabelSelector{}},
					{Config: key("all.example")},
				}
			}, mgmtv3.ClusterSecrets{PrivateRegistryURL: "all.example"},
		},
		"of an imported cluster": {
			func(c *provv1.Cluster) { c.Spec.RKEConfig = nil }, mgmtv3.ClusterSecrets{
				PrivateRegistryURL: "global.example", PrivateRegistrySecret: "global-pull"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record := find[*mgmtv3.Cluster](t, topology.Management(demo(t, c.edit).Cluster, global))[0]
			if diff := cmp.Diff(c.want, record.Spec.ClusterSecrets); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestManagement_Provider(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		edit func(*provv1.Cluster)
		want string
	}{
		"a node driver":   {func(*provv1.Cluster) {}, "pod"},
		"custom machines": {func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools = nil }, "custom"},
		"imported":        {func(c *provv1.Cluster) { c.Spec.RKEConfig = nil }, "imported"},
		"set by a user": {func(c *provv1.Cluster) {
			c.Annotations = map[string]string{"ui.rancher/provider": "harvester"}
		}, "harvester"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := topology.MachineProvider(demo(t, c.edit).Cluster); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	for version, want := range map[string]string{"v1.36.2+k3s1": "k3s", "v1.36.2+rke2r1": "rke2", "v1.36.2": "",
		"": ""} {
		if got := topology.Distribution(version); got != want {
			t.Errorf("%s: %q", version, got)
		}
	}
	for name, want := range map[string]bool{"c-12345": false, "local": false, "edge": true, "c-m-12345678": true} {
		if got := topology.HasOwnManagement(&provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
