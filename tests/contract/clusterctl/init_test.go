package clusterctl

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/tests/charts"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) {
	os.Exit(plane.Main(m, plane.Options{
		Components: []string{managementplane.ControllerManager},
		Controllers: []string{"garbage-collector-controller", "namespace-controller", "serviceaccount-controller",
			"clusterrole-aggregation-controller"},
		WithoutCRDs: true,
	}))
}

// The providers of `clusterctl init`, by their labels.
const (
	bootstrap      = "bootstrap-drover"
	controlPlane   = "control-plane-drover"
	infrastructure = "infrastructure-drover"
)

// TestClusterctlInit installs Drover's three providers with the stock clusterctl, starts Drover with what that has
// created, and upgrades the providers.
func TestClusterctlInit(t *testing.T) {
	const first, second = "v0.1.0", "v0.1.1"
	admin := newClient(t)
	certManager(t, admin)
	u := newUser(t, first)
	port := stage.FreePort(t)
	address := "DROVER_SERVER_URL=https://127.0.0.1:" + port
	initialize := []string{"init", "--bootstrap", "drover", "--control-plane", "drover", "--infrastructure", "drover"}

	if _, err := u.clusterctl(nil, initialize...); err == nil || !strings.Contains(err.Error(), "DROVER_SERVER_URL") {
		t.Fatalf("clusterctl init without the server's address: %v", err)
	}
	_, err := u.clusterctl([]string{address}, initialize...)
	check(t, err)
	expectProviders(t, admin, first)
	expectDefinitions(t, admin)
	expectCoreRights(t, admin)
	expectUnchangedBySecondApply(t, admin, u, address)
	stop := runServer(t, admin, port)
	host := &rkev1.CustomMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept"}}
	check(t, admin.Create(t.Context(), host))

	u.publish(second)
	stop()
	_, err = u.clusterctl([]string{address}, "upgrade", "apply", "--bootstrap", "drover:"+second, "--control-plane",
		"drover:"+second, "--infrastructure", "drover:"+second)
	check(t, err)
	expectProviders(t, admin, second)
	check(t, admin.Get(t.Context(), client.ObjectKeyFromObject(host), host))
	runServer(t, admin, port)
}

func newClient(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme,
		clusterctlv1.AddToScheme, rkev1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	admin, err := client.New(plane.Config(t, "contract-tests"), client.Options{Scheme: scheme})
	check(t, err)
	return admin
}

// certManager installs the definitions of cert-manager that clusterctl tries before it installs a provider.
func certManager(t *testing.T, admin client.Client) {
	t.Helper()
	for kind, plural := range map[string]string{"Issuer": "issuers", "Certificate": "certificates"} {
		const group = "cert-manager.io"
		check(t, admin.Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: group, Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Type: "object", XPreserveUnknownFields: new(true)}}}},
			},
		}))
	}
}

// expectProviders compares clusterctl's inventory, and the image of the server.
func expectProviders(t *testing.T, admin client.Client, version string) {
	t.Helper()
	list := &clusterctlv1.ProviderList{}
	check(t, admin.List(t.Context(), list))
	got := map[string]string{}
	for i := range list.Items {
		p := &list.Items[i]
		got[p.Namespace+"/"+p.Name] = p.Type + " " + p.Version
	}
	delete(got, "capi-system/cluster-api")
	want := map[string]string{
		"drover-bootstrap-system/" + bootstrap:        "BootstrapProvider " + version,
		"drover-control-plane-system/" + controlPlane: "ControlPlaneProvider " + version,
		"drover-system/" + infrastructure:             "InfrastructureProvider " + version,
	}
	if diff := cmp.Diff(want, got); diff != "" || len(list.Items) != len(want)+1 {
		t.Errorf("%d providers (-want +got):\n%s", len(list.Items), diff)
	}
	server := deployment(t, admin).Spec.Template.Spec.Containers[0]
	if image := "docker.io/drover-io/drover:" + version; server.Image != image || server.Name != "manager" {
		t.Errorf("the container %s has image %s, want manager with %s", server.Name, server.Image, image)
	}
}

func deployment(t *testing.T, admin client.Client) *appsv1.Deployment {
	t.Helper()
	server := &appsv1.Deployment{}
	check(t, admin.Get(t.Context(), client.ObjectKey{Namespace: charts.SystemNamespace, Name: "drover"}, server))
	return server
}

// owners are the providers of the definitions that do not belong to the infrastructure provider.
var owners = map[string]string{
	"rkebootstraps.rke.cattle.io":         bootstrap,
	"rkebootstraptemplates.rke.cattle.io": bootstrap,
	"rkecontrolplanes.rke.cattle.io":      controlPlane,
	"etcdsnapshots.rke.cattle.io":         controlPlane,
}

// expectDefinitions checks that the API server serves all kinds of Drover. clusterctl move and upgrade find them by
// their labels, and Cluster API by the label of its contract.
func expectDefinitions(t *testing.T, admin client.Client) {
	t.Helper()
	all, err := crds.All()
	check(t, err)
	for _, want := range all {
		got := &apiextensionsv1.CustomResourceDefinition{}
		plane.Until(t, time.Minute, func() string {
			if err := admin.Get(t.Context(), client.ObjectKeyFromObject(want), got); err != nil {
				return err.Error()
			}
			for _, condition := range got.Status.Conditions {
				if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
					return ""
				}
			}
			return want.Name + " is not established"
		})
		labels := map[string]string{"clusterctl.cluster.x-k8s.io": "", "cluster.x-k8s.io/provider": infrastructure}
		if owner := owners[want.Name]; owner != "" {
			labels["cluster.x-k8s.io/provider"] = owner
		}
		if contract, found := want.Labels["cluster.x-k8s.io/v1beta2"]; found {
			labels["cluster.x-k8s.io/v1beta2"] = contract
		}
		for key, value := range labels {
			if has, found := got.Labels[key]; !found || has != value {
				t.Errorf("%s has label %s=%q (%t), want %q", want.Name, key, has, found, value)
			}
		}
	}
}

// expectCoreRights checks that the core's role aggregates the rights on Drover's kinds.
func expectCoreRights(t *testing.T, admin client.Client) {
	t.Helper()
	plane.Until(t, time.Minute, func() string {
		role := &rbacv1.ClusterRole{}
		if err := admin.Get(t.Context(), client.ObjectKey{Name: "capi-aggregated-manager-role"}, role); err != nil {
			return err.Error()
		}
		for _, group := range []string{"rke.cattle.io", "rke-machine.cattle.io"} {
			if !slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
				return slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Verbs, "patch")
			}) {
				return "the core has no rights on " + group
			}
		}
		return ""
	})
}

// expectUnchangedBySecondApply applies the components again, in the same way as clusterctl. No object may change.
func expectUnchangedBySecondApply(t *testing.T, admin client.Client, u *user, address string) {
	t.Helper()
	count := 0
	for _, flag := range []string{"--bootstrap", "--control-plane", "--infrastructure"} {
		text, err := u.clusterctl([]string{address}, "generate", "provider", flag, "drover")
		check(t, err)
		for document := range bytes.SplitSeq([]byte(text), []byte("\n---\n")) {
			object := &unstructured.Unstructured{}
			check(t, yaml.UnmarshalStrict(document, &object.Object))
			if len(object.Object) > 0 {
				applyAgain(t, admin, object)
				count++
			}
		}
	}
	if count < len(owners)+len([]string{bootstrap, controlPlane, infrastructure}) {
		t.Errorf("clusterctl generated only %d objects", count)
	}
}

func applyAgain(t *testing.T, admin client.Client, object *unstructured.Unstructured) {
	t.Helper()
	before := &unstructured.Unstructured{}
	before.SetGroupVersionKind(object.GroupVersionKind())
	check(t, admin.Get(t.Context(), client.ObjectKeyFromObject(object), before))
	after := object.DeepCopy()
	check(t, admin.Patch(t.Context(), after, client.Merge))
	// The status belongs to controllers, which may write it between the two reads.
	for _, read := range []*unstructured.Unstructured{before, after} {
		unstructured.RemoveNestedField(read.Object, "status")
		read.SetManagedFields(nil)
		read.SetResourceVersion("")
	}
	if diff := cmp.Diff(before.Object, after.Object); diff != "" {
		t.Errorf("%s %s (-before +after):\n%s", object.GetKind(), object.GetName(), diff)
	}
}
