// Package crds compares how a real API server handles Drover's kinds with the expectations of the packages in pkg.
package crds

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/testkit/admission"
	"github.com/drover-io/drover/tests/contract/plane"
)

func TestMain(m *testing.M) { os.Exit(plane.Main(m, plane.Options{WithoutCRDs: true})) }

var clusters = schema.GroupVersionResource{Group: "provisioning.cattle.io", Version: "v1", Resource: "clusters"}

// install installs the CRDs of Drover and Cluster API.
func install(t *testing.T) []*apiextv1.CustomResourceDefinition {
	t.Helper()
	own, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	capi, err := crds.Read(os.DirFS(filepath.Join(plane.Root(t), "pkg", "kube", "capi", "crds")))
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(own, capi)
	client, err := apiextclient.NewForConfig(plane.Config(t, "contract-tests"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := crds.Ensure(t.Context(), client.ApiextensionsV1().CustomResourceDefinitions(), all,
		crds.Options{}); err != nil {
		t.Fatal(err)
	}
	return all
}

// A real API server adds defaults to the objects that Ensure sends. A second run must not treat these as changes.
func TestEnsure_SecondRunWritesNothing(t *testing.T) {
	all := install(t)
	client, err := apiextclient.NewForConfig(plane.Config(t, "contract-tests"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := crds.Ensure(t.Context(), client.ApiextensionsV1().CustomResourceDefinitions(), all, crds.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Created)+len(got.Updated)+len(got.Foreign) != 0 || len(got.Unchanged) != len(all) {
		t.Errorf("want %d unchanged, got %+v", len(all), got)
	}
}

func TestEnsure_UpgradesAndLeavesForeignAlone(t *testing.T) {
	install(t)
	client, err := apiextclient.NewForConfig(plane.Config(t, "contract-tests"))
	if err != nil {
		t.Fatal(err)
	}
	definitions := client.ApiextensionsV1().CustomResourceDefinitions()
	define := func(group string, labels map[string]string) *apiextv1.CustomResourceDefinition {
		return &apiextv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "gizmos." + group, Labels: labels},
			Spec: apiextv1.CustomResourceDefinitionSpec{
				Group: group, Scope: apiextv1.NamespaceScoped,
				Names: apiextv1.CustomResourceDefinitionNames{Plural: "gizmos", Singular: "gizmo", Kind: "Gizmo",
					ListKind: "GizmoList"},
				Versions: []apiextv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true,
					Schema: &apiextv1.CustomResourceValidation{
						OpenAPIV3Schema: &apiextv1.JSONSchemaProps{Type: "object"}},
				}},
			},
		}
	}
	foreign, ours := define("foreign.example.com", map[string]string{"app.kubernetes.io/managed-by": "rancher"}),
		define("ours.example.com", nil)
	if _, err := definitions.Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := crds.Ensure(t.Context(), definitions, []*apiextv1.CustomResourceDefinition{ours},
		crds.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, crd := range []*apiextv1.CustomResourceDefinition{foreign, ours} {
		crd.Labels, crd.ResourceVersion = nil, ""
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties = map[string]apiextv1.JSONSchemaProps{
			"spec": {Type: "object"}}
	}
	got, err := crds.Ensure(t.Context(), definitions, []*apiextv1.CustomResourceDefinition{foreign, ours},
		crds.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(crds.Result{Updated: []string{ours.Name}, Foreign: []string{foreign.Name}}, got); diff != "" {
		t.Errorf("result differs (-want +got):\n%s", diff)
	}
}

// The in-process validator of the faster tests and the API server agree: they accept the same objects, report the same
// errors, and store the same object.
func TestAdmission_AgreesWithTheAPIServer(t *testing.T) {
	all := install(t)
	index := slices.IndexFunc(all, func(crd *apiextv1.CustomResourceDefinition) bool {
		return crd.Name == "clusters.provisioning.cattle.io"
	})
	validator, err := admission.New(all[index])
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(plane.Config(t, "contract-tests"))
	if err != nil {
		t.Fatal(err)
	}
	namespace := plane.Namespace(t)
	cases := specs(t)
	if len(cases) < 20 {
		t.Fatalf("only %d cases: the examples are missing", len(cases))
	}
	number := 0
	for name, spec := range cases {
		number++
		named := fmt.Sprintf("case-%d", number)
		t.Run(name, func(t *testing.T) {
			object := map[string]any{
				"apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
				"metadata": map[string]any{"name": named, "namespace": namespace}, "spec": spec,
			}
			verdict := validator.Create(t.Context(), object)
			made, err := client.Resource(clusters).Namespace(namespace).Create(t.Context(),
				&unstructured.Unstructured{Object: object},
				metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			if diff := cmp.Diff(complaints(verdict), apiComplaints(t, err)); diff != "" {
				t.Fatalf("verdicts differ (-in process +API server):\n%s", diff)
			}
			if err == nil {
				if diff := cmp.Diff(verdict.Stored["spec"], made.Object["spec"]); diff != "" {
					t.Errorf("stored objects differ (-in process +API server):\n%s", diff)
				}
			}
		})
	}
}

// complaints returns fields and details of the errors of a result, sorted.
func complaints(verdict admission.Result) []string {
	out := []string{}
	for _, path := range verdict.Unknown {
		out = append(out, fmt.Sprintf("unknown field %q", path))
	}
	if len(out) > 0 {
		return out // a strict API server reports no more
	}
	for _, err := range verdict.Errors {
		out = append(out, err.Field+": "+err.ErrorBody())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func apiComplaints(t *testing.T, err error) []string {
	t.Helper()
	out := []string{}
	if err == nil {
		return out
	}
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		t.Fatal(err)
	}
	if _, text, strict := strings.Cut(status.ErrStatus.Message, "strict decoding error: "); strict {
		return strings.Split(text, ", ")
	}
	if status.ErrStatus.Reason != metav1.StatusReasonInvalid || status.ErrStatus.Details == nil {
		t.Fatal(err)
	}
	for _, cause := range status.ErrStatus.Details.Causes {
		// The API server adds this when structural errors prevent the evaluation of rules.
		if strings.Contains(cause.Message, "some validation rules were not checked") {
			continue
		}
		out = append(out, cause.Field+": "+cause.Message)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// specs returns the specs of the documented examples and of small cases for single fields.
func specs(t *testing.T) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	examples, err := filepath.Glob(filepath.Join(plane.Root(t), "docs", "examples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range examples {
		for _, object := range documents(t, path) {
			if object["kind"] == "Cluster" {
				out[filepath.Base(path)] = object["spec"].(map[string]any)
			}
		}
	}
	for name, fields := range map[string]string{
		"nothing":                        `{}`,
		"both sizes":                     `{workerRole: true, autoscalingMinSize: 0, autoscalingMaxSize: 3}`,
		"minimum above maximum":          `{workerRole: true, autoscalingMinSize: 4, autoscalingMaxSize: 3}`,
		"minimum alone":                  `{workerRole: true, autoscalingMinSize: 1}`,
		"maximum alone":                  `{workerRole: true, autoscalingMaxSize: 1}`,
		"servers that scale to zero":     `{controlPlaneRole: true, etcdRole: true, autoscalingMinSize: 0, autoscalingMaxSize: 3}`,
		"null sizes of servers":          `{controlPlaneRole: true, etcdRole: true, autoscalingMinSize: null, autoscalingMaxSize: null}`,
		"null minimum, maximum given":    `{workerRole: true, autoscalingMinSize: null, autoscalingMaxSize: 3}`,
		"null machine config":            `{machineConfigRef: null, quantity: null, labels: null, rollingUpdate: {maxSurge: null}}`,
		"null where null is refused":     `{etcdRole: null, paused: null, hostnameLengthLimit: null}`,
		"host name limit of zero":        `{hostnameLengthLimit: 0}`,
		"negative quantity":              `{quantity: -1}`,
		"empty name":                     `{name: ""}`,
		"taint without effect":           `{taints: [{key: a}]}`,
		"role that is not a boolean":     `{etcdRole: "yes"}`,
		"unknown field":                  `{quantityy: 1}`,
		"without a machine config":       `{machineConfigRef: ~remove~}`,
		"surge as number and percentage": `{rollingUpdate: {maxSurge: 1, maxUnavailable: 25%}}`,
	} {
		pool := map[string]any{"name": "a", "machineConfigRef": map[string]any{"kind": "SimConfig", "name": "c"}}
		for key, value := range decode(t, []byte(fields)) {
			pool[key] = value
			if value == "~remove~" {
				delete(pool, key)
			}
		}
		out[name] = map[string]any{"rkeConfig": map[string]any{"machinePools": []any{pool}}}
	}
	out["two pools with one name"] = decode(t,
		[]byte(`rkeConfig: {machinePools: [{name: a, machineConfigRef: {}}, {name: a, machineConfigRef: {}}]}`))
	out["bad concurrency"] = decode(t, []byte(`rkeConfig: {upgradeStrategy: {workerConcurrency: 101%}}`))
	out["null configuration"] = decode(t,
		[]byte(`rkeConfig: {chartValues: null, machineGlobalConfig: null, machineSelectorConfig: [{config: null}], etcd: null, machinePools: null}`))
	return out
}

func decode(t *testing.T, data []byte) map[string]any {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(`{"apiVersion":"v1","kind":"Case","case":` + string(asJSON) +
		`}`)); err != nil {
		t.Fatal(err)
	}
	return object.Object["case"].(map[string]any)
}

func documents(t *testing.T, path string) []map[string]any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]any
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		out = append(out, decode(t, document))
	}
	return out
}
