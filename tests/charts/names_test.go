package charts

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// certificate is the chart's part of a cert-manager Certificate.
type certificate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SecretName  string   `json:"secretName"`
		Duration    string   `json:"duration"`
		RenewBefore string   `json:"renewBefore"`
		Usages      []string `json:"usages"`
		PrivateKey  struct {
			Algorithm      string `json:"algorithm"`
			Size           int    `json:"size"`
			RotationPolicy string `json:"rotationPolicy"`
		} `json:"privateKey"`
		IPAddresses []string `json:"ipAddresses"`
		DNSNames    []string `json:"dnsNames"`
		IssuerRef   struct {
			Group string `json:"group"`
			Kind  string `json:"kind"`
			Name  string `json:"name"`
		} `json:"issuerRef"`
	} `json:"spec"`
}

// serviceMonitor and prometheusRule are kinds of the Prometheus operator. Prometheus itself checks the content of
// rules.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port     string `json:"port"`
			Path     string `json:"path"`
			Interval string `json:"interval"`
		} `json:"endpoints"`
	} `json:"spec"`
}

type prometheusRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              any `json:"spec"`
}

// typed decodes an object into the Go type of its kind, which must have every field with the right type.
func typed(t *testing.T, object *unstructured.Unstructured) any {
	t.Helper()
	gvk := object.GroupVersionKind()
	var out any
	switch gvk.Kind {
	case "Certificate":
		out = &certificate{}
	case "ServiceMonitor":
		out = &serviceMonitor{}
	case "PrometheusRule":
		out = &prometheusRule{}
	default:
		known, err := scheme.Scheme.New(gvk)
		check(t, err)
		out = known
	}
	into(t, object, out)
	return out
}

// oddNames are names that YAML does not read as text without quotes.
const oddNames = `
fullnameOverride: "null"
nameOverride: "0x1f"
commonLabels: {example.com/year: "2026"}
commonAnnotations: {example.com/since: "20260901"}
podLabels: {example.com/batch: "1e3"}
podAnnotations: {example.com/restart: "1"}
priorityClassName: "1"
imagePullSecrets: ["5", {name: "6"}]
serviceAccount: {name: "123"}
server: {url: "https://drover.example.com", configMap: "007"}
tls: {source: cert-manager, secretName: "20260901", privateCA: true,
  certManager: {issuerRef: {kind: "yes", name: "1e3"}}}
proxy: {existingSecret: "100"}
service: {type: LoadBalancer, loadBalancerClass: "1", externalTrafficPolicy: Local}
metrics:
  serviceMonitor: {enabled: true, labels: {release: "1"}}
  rules: {enabled: true, labels: {release: "2"}}
  dashboard: {enabled: true, labels: {grafana_dashboard: "1", example.com/year: "2027"}}
networkPolicy: {metricsFrom: [{podSelector: {}}]}
rbac: {aggregateToDefaultRoles: true}
`

// TestDrover_ObjectsAreOfTheirKinds: every field of every object exists in its kind and has a value of the right type,
// whatever the names.
func TestDrover_ObjectsAreOfTheirKinds(t *testing.T) {
	cases := map[string]map[string]any{}
	for _, name := range given(t) {
		cases[name] = valuesOf(t, name)
	}
	for name, more := range map[string]string{
		"unusual names":                                  `{}`,
		"unusual names, with Cluster API":                `{server: {capi: external}}`,
		"unusual names, with another management cluster": `{server: {kubeconfig: {secretName: "0123"}}}`,
		"unusual names, with the user's certificate":     `{tls: {source: secret}, serviceAccount: {create: false}}`,
	} {
		values, given := map[string]any{}, map[string]any{}
		check(t, yaml.UnmarshalStrict([]byte(oddNames), &values))
		check(t, yaml.UnmarshalStrict([]byte(more), &given))
		merge(values, given)
		cases[name] = values
	}
	for name, values := range cases {
		t.Run(name, func(t *testing.T) {
			release := Release{}
			if strings.HasPrefix(name, "odd") {
				release.Name = "123"
			}
			objects, err := Objects(droverChart, release, values)
			check(t, err)
			for _, object := range objects {
				typed(t, object)
				expectValidName(t, object)
			}
		})
	}
}

// expectValidName checks a name like the API server, for kinds with special rules for names.
func expectValidName(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	var wrong []string
	switch object.GetKind() {
	case "Service":
		wrong = validation.IsDNS1035Label(object.GetName())
	case "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding":
		if object.GetName() == "" {
			wrong = []string{"there is no name"}
		}
	default:
		wrong = validation.IsDNS1123Subdomain(object.GetName())
	}
	for _, problem := range wrong {
		t.Errorf("%s %q: %s", object.GetKind(), object.GetName(), problem)
	}
	for key, value := range object.GetLabels() {
		for _, problem := range validation.IsValidLabelValue(value) {
			t.Errorf("%s %q: label %s=%q: %s", object.GetKind(), object.GetName(), key, value, problem)
		}
	}
}

// Names that look like numbers or null arrive unchanged.
func TestDrover_UnusualNamesArrive(t *testing.T) {
	values := map[string]any{}
	check(t, yaml.UnmarshalStrict([]byte(oddNames), &values))
	merge(values, map[string]any{"server": map[string]any{"kubeconfig": map[string]any{"secretName": "0123"}}})
	objects, err := Objects(droverChart, Release{Name: "123"}, values)
	check(t, err)
	got := map[string]string{}
	for _, object := range objects {
		switch known := typed(t, object).(type) {
		case *appsv1.Deployment:
			spec := known.Spec.Template.Spec
			got["Deployment"], got["account"], got["priority"] = known.Name, spec.ServiceAccountName,
				spec.PriorityClassName
			got["instance"] = known.Spec.Selector.MatchLabels["app.kubernetes.io/instance"]
			for _, volume := range spec.Volumes {
				switch {
				case volume.Secret != nil:
					got["volume "+volume.Name] = volume.Secret.SecretName
				case volume.ConfigMap != nil:
					got["volume "+volume.Name] = volume.ConfigMap.Name
				}
			}
			got["pull"] = spec.ImagePullSecrets[0].Name
			got["proxy"] = spec.Containers[0].EnvFrom[0].SecretRef.Name
		case *certificate:
			got["Certificate"], got["certificate's Secret"] = known.Name, known.Spec.SecretName
			got["issuer"] = known.Spec.IssuerRef.Kind + " " + known.Spec.IssuerRef.Name
		}
	}
	want := map[string]string{
		"Deployment": "null", "account": "123", "priority": "1", "instance": "123", "pull": "5", "proxy": "100",
		"Certificate": "null",
		"volume tls":  "20260901", "volume config": "007", "volume kubeconfig": "0123",
		"certificate's Secret": "20260901", "issuer": "yes 1e3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// TestDrover_ReleaseNames: Helm accepts more names than Kubernetes accepts for a Service.
func TestDrover_ReleaseNames(t *testing.T) {
	for name, tc := range map[string]struct{ release, override, want string }{
		"a dot": {release: "drover.v1",
			want: `release drover.v1: the name of the objects would be "drover.v1"`},
		"a digit first":                 {release: "7", want: `release 7: the name of the objects would be "7-drover"`},
		"a dot, and a name for objects": {release: "drover.v1", override: "drover-v1"},
		"an ordinary name":              {release: "ranch"},
	} {
		t.Run(name, func(t *testing.T) {
			values := valuesOf(t, "minimal")
			values["fullnameOverride"] = tc.override
			objects, err := Objects(droverChart, Release{Name: tc.release}, values)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) ||
					!strings.Contains(err.Error(), "set fullnameOverride") {
					t.Errorf("got error %v, want it to contain %q and the value to set", err, tc.want)
				}
				return
			}
			check(t, err)
			for _, object := range objects {
				expectValidName(t, object)
			}
		})
	}
}

// If several values set a label, the value closest to the object wins.
func TestDrover_LabelsAreMerged(t *testing.T) {
	values := valuesOf(t, "minimal")
	given := map[string]any{}
	check(t, yaml.UnmarshalStrict([]byte(`
commonLabels: {example.com/team: platform, example.com/cost: "1", app.kubernetes.io/part-of: ranch}
podLabels: {example.com/team: pods, example.com/cost: ""}
metrics: {dashboard: {enabled: true, labels: {example.com/team: charts}}}
`), &given))
	merge(values, given)
	objects, err := Objects(droverChart, Release{}, values)
	check(t, err)
	got := map[string]map[string]string{}
	for _, object := range objects {
		switch object.GetKind() {
		case "ConfigMap", "ServiceAccount":
			got[object.GetKind()] = object.GetLabels()
		case "Deployment":
			var deployment appsv1.Deployment
			into(t, object, &deployment)
			got["Deployment"], got["pods"] = deployment.Labels, deployment.Spec.Template.Labels
		}
	}
	for _, labels := range got { // changes with every release
		delete(labels, "helm.sh/chart")
		delete(labels, "app.kubernetes.io/version")
	}
	of := func(more map[string]string) map[string]string {
		out := map[string]string{
			"app.kubernetes.io/name": "drover", "app.kubernetes.io/instance": "drover",
			"app.kubernetes.io/component": "server",
			"app.kubernetes.io/part-of":   "ranch", "example.com/team": "platform", "example.com/cost": "1",
		}
		maps.Copy(out, more)
		return out
	}
	object := map[string]string{"app.kubernetes.io/managed-by": "Helm"}
	want := map[string]map[string]string{
		"ServiceAccount": of(object), "Deployment": of(object),
		"pods": of(map[string]string{"example.com/team": "pods", "example.com/cost": ""}),
		"ConfigMap": of(map[string]string{"app.kubernetes.io/managed-by": "Helm", "example.com/team": "charts",
			"grafana_dashboard": "1"}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}
