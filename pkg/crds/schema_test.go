package crds

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

func definitions(t *testing.T) map[string]*apiextv1.CustomResourceDefinition {
	t.Helper()
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*apiextv1.CustomResourceDefinition{}
	for _, crd := range all {
		out[crd.Name] = crd
	}
	return out
}

// contract is what tools see of a definition apart from its schema.
type contract struct {
	Kind       string
	Version    string
	Scope      apiextv1.ResourceScope
	ShortNames []string
	Categories []string
	Status     bool
	Labels     map[string]string
	Columns    []string
}

func TestAll_MatchesTheContractOfEveryKind(t *testing.T) {
	indexed := map[string]string{"auth.cattle.io/cluster-indexed": "true"}
	capi := map[string]string{"auth.cattle.io/cluster-indexed": "true", "cluster.x-k8s.io/v1beta2": "v1"}
	want := map[string]contract{
		"clusters.provisioning.cattle.io": {
			Kind: "Cluster", Version: "v1", Scope: "Namespaced", Categories: []string{"provisioning"}, Status: true,
			Labels: map[string]string{"auth.cattle.io/cluster-indexed": "true",
				"clusterctl.cluster.x-k8s.io/move-hierarchy": ""},
			Columns: []string{"Version string .spec.kubernetesVersion", "Cluster Name string .status.clusterName",
				"Age date .metadata.creationTimestamp", "Kubeconfig string .status.clientSecretName",
				"Ready string .status.ready"},
		},
		"rkeclusters.rke.cattle.io": {Kind: "RKECluster", Version: "v1", Scope: "Namespaced",
			Categories: []string{"cluster-api"}, Status: true, Labels: capi},
		"rkecontrolplanes.rke.cattle.io": {
			Kind: "RKEControlPlane", Version: "v1", Scope: "Namespaced", ShortNames: []string{"rcp"},
			Categories: []string{"cluster-api"}, Status: true, Labels: capi,
			Columns: []string{`Cluster string .metadata.labels['cluster\.x-k8s\.io/cluster-name']`,
				"Initialized string .status.initialized",
				"API Server Available boolean .status.initialization.controlPlaneInitialized",
				"Age date .metadata.creationTimestamp", "Version string .spec.kubernetesVersion"},
		},
		"rkebootstraps.rke.cattle.io": {Kind: "RKEBootstrap", Version: "v1", Scope: "Namespaced",
			Categories: []string{"cluster-api"}, Status: true, Labels: capi},
		"rkebootstraptemplates.rke.cattle.io": {Kind: "RKEBootstrapTemplate", Version: "v1", Scope: "Namespaced",
			Categories: []string{"cluster-api"}, Labels: capi},
		"custommachines.rke.cattle.io": {Kind: "CustomMachine", Version: "v1", Scope: "Namespaced", Status: true,
			Labels: capi},
		"etcdsnapshots.rke.cattle.io": {
			Kind: "ETCDSnapshot", Version: "v1", Scope: "Namespaced", Status: true, Labels: indexed,
			Columns: []string{
				"Cluster string .spec.clusterName",
				`Storage string .metadata.annotations['etcdsnapshot\.rke\.io/storage']`,
				"Node string .snapshotFile.nodeName",
				"Status string .snapshotFile.status", "Size integer .snapshotFile.size",
				"Taken date .snapshotFile.createdAt", "File string .snapshotFile.name",
			},
		},
		"nodedrivers.management.cattle.io": {
			Kind: "NodeDriver", Version: "v3", Scope: "Cluster",
			Columns: []string{"Activated boolean .spec.active", "Binary URL string .spec.url"},
		},
		"podsecurityadmissionconfigurationtemplates.management.cattle.io": {
			Kind: "PodSecurityAdmissionConfigurationTemplate", Version: "v3", Scope: "Cluster",
			Columns: []string{"Enforce string .configuration.defaults.enforce"},
		},
		"fleetworkspaces.management.cattle.io": {
			Kind: "FleetWorkspace", Version: "v3", Scope: "Cluster", Status: true,
			Columns: []string{`Ready string .status.conditions[?(@.type=="Ready")].status`,
				`Reason string .status.conditions[?(@.type=="Ready")].reason`, "Age date .metadata.creationTimestamp"},
		},
		"managedcharts.management.cattle.io": {
			Kind: "ManagedChart", Version: "v3", Scope: "Namespaced", Status: true,
			Columns: []string{
				"Chart string .spec.chart", "Version string .spec.version",
				`Defined string .status.conditions[?(@.type=="Defined")].status`,
				"Clusters Ready string .status.display.readyClusters", "Age date .metadata.creationTimestamp",
			},
		},
		"dynamicschemas.management.cattle.io": {Kind: "DynamicSchema", Version: "v3", Scope: "Cluster"},
		"clusters.management.cattle.io": {Kind: "Cluster", Version: "v3", Scope: "Cluster",
			Status: true},
		"clusterregistrationtokens.management.cattle.io": {Kind: "ClusterRegistrationToken", Version: "v3",
			Scope: "Namespaced", Status: true,
			Columns: []string{"Roles string .spec.roles", "Max Hosts integer .spec.maxHosts",
				"Expires string .status.expiresAt", "Age date .metadata.creationTimestamp"}},
	}

	got := map[string]contract{}
	for name, crd := range definitions(t) {
		version := crd.Spec.Versions[0]
		if len(crd.Spec.Versions) != 1 || !version.Served || !version.Storage {
			t.Errorf("%s must have one version, served and stored", name)
		}
		var columns []string
		for _, column := range version.AdditionalPrinterColumns {
			columns = append(columns, column.Name+" "+column.Type+" "+column.JSONPath)
		}
		got[name] = contract{
			Kind: crd.Spec.Names.Kind, Version: version.Name, Scope: crd.Spec.Scope,
			ShortNames: crd.Spec.Names.ShortNames, Categories: crd.Spec.Names.Categories,
			Status: version.Subresources != nil && version.Subresources.Status != nil, Labels: crd.Labels,
			Columns: columns,
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("definitions differ from the contract (-want +got):\n%s", diff)
	}
}

var (
	constructor = regexp.MustCompile(
		`generic\.New(NonNamespaced)?Controller\[.*Group: "([^"]+)", Version: "([^"]+)", Kind: "([^"]+)"\}, "([^"]+)"`)
	statusHandler = regexp.MustCompile(`func Register(\w+)StatusHandler\(`)
)

// withoutSubresource lists kinds whose status is written with the object. Do not use their generated status handlers.
var withoutSubresource = map[string]bool{"NodeDriver": true, "DynamicSchema": true}

// The generator and controller-gen read scope and status from the same markers in different ways. Only this test links
// them.
func TestAll_AgreesWithGeneratedClients(t *testing.T) {
	byName := definitions(t)
	for _, group := range []string{"provisioning.cattle.io/v1", "rke.cattle.io/v1", "management.cattle.io/v3"} {
		directory := filepath.Join("..", "generated", "controllers", filepath.FromSlash(group))
		source, err := os.ReadFile(filepath.Join(directory, "interface.go"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), "wrangler/v3/pkg/schemes") {
			t.Errorf("%s registers into the process-wide scheme", group)
		}
		found := constructor.FindAllStringSubmatch(string(source), -1)
		if len(found) == 0 {
			t.Fatalf("%s has no constructor", group)
		}
		for _, match := range found {
			clusterScoped, apiGroup, kind, plural := match[1] != "", match[2], match[4], match[5]
			crd := byName[plural+"."+apiGroup]
			if crd == nil || crd.Spec.Names.Kind != kind {
				t.Errorf("client of %s in %s has no definition %s.%s", kind, group, plural, apiGroup)
				continue
			}
			if (crd.Spec.Scope == apiextv1.ClusterScoped) != clusterScoped {
				t.Errorf("%s: definition is %s, but the client is cluster-scoped: %t", kind, crd.Spec.Scope,
					clusterScoped)
			}
			client, err := os.ReadFile(filepath.Join(directory, strings.ToLower(kind)+".go"))
			if err != nil {
				t.Fatal(err)
			}
			subresources := crd.Spec.Versions[0].Subresources
			hasStatus := subresources != nil && subresources.Status != nil
			if handlers := statusHandler.Match(client); handlers != hasStatus && !withoutSubresource[kind] {
				t.Errorf("%s: status subresource %t, but status handlers %t", kind, hasStatus, handlers)
			}
		}
	}
}

func TestAll_TypesAndDefinitionsMatch(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{provv1.AddToScheme, rkev1.AddToScheme, mgmtv3.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	want := map[schema.GroupVersionKind]bool{}
	for _, crd := range definitions(t) {
		want[schema.GroupVersionKind{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name,
			Kind: crd.Spec.Names.Kind}] = true
	}
	for gvk := range want {
		if !scheme.Recognizes(gvk) {
			t.Errorf("%s has a definition and no Go type", gvk)
		}
	}
	for gvk := range scheme.AllKnownTypes() {
		ours := gvk.Group == provv1.SchemeGroupVersion.Group || gvk.Group == rkev1.SchemeGroupVersion.Group ||
			gvk.Group == mgmtv3.SchemeGroupVersion.Group
		if ours && strings.HasPrefix(scheme.AllKnownTypes()[gvk].PkgPath(), "github.com/drover-io/") &&
			!strings.HasSuffix(gvk.Kind, "List") && !want[gvk] {
			t.Errorf("%s has a Go type and no definition", gvk)
		}
	}
}

func TestAll_HasNoDefaults(t *testing.T) {
	var walk func(path string, props apiextv1.JSONSchemaProps, visit func(string, apiextv1.JSONSchemaProps))
	walk = func(path string, props apiextv1.JSONSchemaProps, visit func(string, apiextv1.JSONSchemaProps)) {
		visit(path, props)
		for name, child := range props.Properties {
			walk(path+"."+name, child, visit)
		}
		if props.Items != nil && props.Items.Schema != nil {
			walk(path+"[]", *props.Items.Schema, visit)
		}
		if props.AdditionalProperties != nil && props.AdditionalProperties.Schema != nil {
			walk(path+".*", *props.AdditionalProperties.Schema, visit)
		}
	}
	for name, crd := range definitions(t) {
		walk("", *crd.Spec.Versions[0].Schema.OpenAPIV3Schema, func(path string, props apiextv1.JSONSchemaProps) {
			if props.Default != nil {
				t.Errorf("%s: %s has the default %s; readers apply defaults, and objects keep the user's fields", name,
					path, props.Default.Raw)
			}
		})
	}
}
