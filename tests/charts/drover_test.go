package charts

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/cmd"
	"github.com/drover-io/drover/pkg/controllers"
)

// notForCharts are flags of the server that no value sets, with the reasons.
var notForCharts = map[string]string{
	"embedded":       "a management plane of its own is for one machine; the chart is for a cluster that is there",
	"kube-binary":    "only with --embedded",
	"machine-binary": "only with --embedded",
	"audit-log":      "only with --embedded",

	"allow-loopback-clusters": "no cluster has its API server in Drover's pod",
}

// serverFlags returns the flags of `drover server`, including hidden ones.
func serverFlags(t *testing.T) *pflag.FlagSet {
	t.Helper()
	server, _, err := cmd.NewCommand(nil).Find([]string{"server"})
	check(t, err)
	return server.LocalNonPersistentFlags()
}

// into decodes an object into its Go type, which must have all its fields.
func into(t *testing.T, object *unstructured.Unstructured, typed any) {
	t.Helper()
	text, err := object.MarshalJSON()
	check(t, err)
	check(t, yaml.UnmarshalStrict(text, typed))
}

func deploymentOf(t *testing.T, name string) appsv1.Deployment {
	t.Helper()
	objects, err := Objects(droverChart, Release{}, valuesOf(t, name))
	check(t, err)
	for _, object := range objects {
		if object.GetKind() == "Deployment" {
			var deployment appsv1.Deployment
			into(t, object, &deployment)
			return deployment
		}
	}
	t.Fatal("the Deployment is missing")
	return appsv1.Deployment{}
}

// TestDrover_EveryFlagHasAValue: with every value set, the chart sets every flag of the server, and the server accepts
// all of them.
func TestDrover_EveryFlagHasAValue(t *testing.T) {
	flags := serverFlags(t)
	var want []string
	flags.VisitAll(func(flag *pflag.Flag) {
		if notForCharts[flag.Name] == "" && flag.Name != "help" {
			want = append(want, flag.Name)
		}
	})
	given := map[string]bool{}
	for _, argument := range deploymentOf(t, "everything").Spec.Template.Spec.Containers[0].Args[1:] {
		name, _, _ := strings.Cut(strings.TrimPrefix(argument, "--"), "=")
		given[name] = true
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(given))); diff != "" {
		t.Errorf("flags (-server +chart) differ: add a value, or a reason to notForCharts:\n%s", diff)
	}
	for name := range notForCharts {
		if flags.Lookup(name) == nil {
			t.Errorf("notForCharts contains %s, which is not a flag", name)
		}
	}
	for _, name := range []string{"minimal", "everything", "cert-manager", "single"} {
		if err := serverFlags(t).Parse(deploymentOf(t, name).Spec.Template.Spec.Containers[0].Args[1:]); err != nil {
			t.Errorf("values %s: the server refuses its arguments: %v", name, err)
		}
	}
}

// differsFromFlag are flags whose value in the chart differs from the program's default, with the reasons.
var differsFromFlag = map[string]string{
	"server-url":              "has no default",
	"admission":               "the chart has the webhooks and policies",
	"admission-address":       "the API server asks from outside of the pod",
	"health-address":          "the kubelet asks from outside of the pod",
	"log-format":              "logs of pods are collected by programs",
	"crds":                    "the chart drover-crd has the definitions",
	"machine-provision-image": "has its registry before it, so that another one can be put there",
	"cluster-agent-image":     "is the chart's own image, which has a registry and a version",
}

// TestDrover_DefaultsMatchTheServer: the chart's defaults are the program's defaults.
func TestDrover_DefaultsMatchTheServer(t *testing.T) {
	flags := serverFlags(t)
	check(t, flags.Parse(deploymentOf(t, "minimal").Spec.Template.Spec.Containers[0].Args[1:]))
	flags.Visit(func(flag *pflag.Flag) {
		if same := flag.Value.String() == flag.DefValue; same != (differsFromFlag[flag.Name] == "") {
			t.Errorf("--%s is %q by the chart and %q by itself; differsFromFlag says: %q", flag.Name, flag.Value,
				flag.DefValue, differsFromFlag[flag.Name])
		}
	})
	if image := flags.Lookup("machine-provision-image").Value.String(); image != "docker.io/"+
		controllers.DefaultMachineProvisionImage {
		t.Errorf("machines are created by %s, but the server's drivers are those of %s", image,
			controllers.DefaultMachineProvisionImage)
	}
}

// TestDrover_PodsAreRestricted: all pods satisfy the Pod Security Standard `restricted` and cannot write to their
// image.
func TestDrover_PodsAreRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	check(t, err)
	for _, name := range given(t) {
		t.Run(name, func(t *testing.T) {
			pods := podsOf(t, name)
			if len(pods) != 2 {
				t.Errorf("want the server and the test, got %d pods", len(pods))
			}
			for _, pod := range pods {
				for _, result := range evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted,
					Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
					if !result.Allowed {
						t.Errorf("%s: %s: %s", pod.Name, result.ForbiddenReason, result.ForbiddenDetail)
					}
				}
				for _, container := range pod.Spec.Containers {
					if root := container.SecurityContext.ReadOnlyRootFilesystem; root == nil || !*root {
						t.Errorf("%s: container %s can write to its image", pod.Name, container.Name)
					}
				}
			}
		})
	}
}

// TestDrover_MemoryIsLimited: the program reads the limit of its container, and a fixed GOMEMLIMIT would replace it.
func TestDrover_MemoryIsLimited(t *testing.T) {
	container := deploymentOf(t, "minimal").Spec.Template.Spec.Containers[0]
	if limit := container.Resources.Limits.Memory(); limit.Value() < 1<<30 {
		t.Errorf("the memory limit is %s", limit)
	}
	for _, variable := range container.Env {
		if variable.Name == "GOMEMLIMIT" {
			t.Error("the chart sets GOMEMLIMIT")
		}
	}
}

func podsOf(t *testing.T, name string) []corev1.Pod {
	t.Helper()
	objects, err := Objects(droverChart, Release{}, valuesOf(t, name))
	check(t, err)
	var out []corev1.Pod
	for _, object := range objects {
		switch object.GetKind() {
		case "Pod":
			var pod corev1.Pod
			into(t, object, &pod)
			out = append(out, pod)
		case "Deployment":
			template := deploymentOf(t, name).Spec.Template
			out = append(out, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: object.GetName(), Labels: template.Labels},
				Spec: template.Spec})
		}
	}
	return out
}

// TestDrover_HelmTest: the chart has the test pod only where the pod can verify the server's certificate. Drover writes
// its authority into the management cluster, which is another cluster than the pod's when a kubeconfig is set.
func TestDrover_HelmTest(t *testing.T) {
	for name, tc := range map[string]struct {
		values, secret string
		notes          string
	}{
		"Drover's own authority": {secret: "drover-ca", notes: "helm test drover"},
		"a certificate from a Secret": {values: `{tls: {source: secret, secretName: serving}}`,
			notes: "helm test drover"},
		"Drover's own authority in another cluster": {values: `{server: {kubeconfig: {secretName: other}}}`,
			notes: "drover ping https://drover.example.com --cacerts-file"},
		"a private certificate, and another cluster": {
			values: `{server: {kubeconfig: {secretName: other}}, tls: {source: secret, secretName: serving, privateCA: true}}`, secret: "serving", notes: "helm test drover"},
		"a public certificate, and yet another cluster": {
			values: `{server: {kubeconfig: {secretName: other}}, tls: {source: secret, secretName: serving}}`,
			notes:  "helm test drover"},
	} {
		t.Run(name, func(t *testing.T) {
			values, given := valuesOf(t, "minimal"), map[string]any{}
			check(t, yaml.Unmarshal([]byte(tc.values), &given))
			merge(values, given)
			templates, err := Templates(droverChart, Release{}, values)
			check(t, err)
			if notes := templates["templates/NOTES.txt"]; !strings.Contains(notes, tc.notes) ||
				strings.Contains(notes, "helm test") != strings.HasPrefix(tc.notes, "helm test") {
				t.Errorf("the notes do not contain %q:\n%s", tc.notes, notes)
			}
			text, there := templates["templates/tests/connection.yaml"]
			if there != strings.HasPrefix(tc.notes, "helm test") {
				t.Fatalf("unexpected pod: %v", there)
			}
			if !there {
				return
			}
			var pod corev1.Pod
			check(t, yaml.UnmarshalStrict([]byte(text), &pod))
			secret := ""
			if len(pod.Spec.Volumes) > 0 {
				secret = pod.Spec.Volumes[0].Secret.SecretName
			}
			if secret != tc.secret {
				t.Errorf("it trusts Secret %q, want %q", secret, tc.secret)
			}
		})
	}
}
