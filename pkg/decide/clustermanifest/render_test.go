package clustermanifest_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/testkit/golden"
)

const token = "the-registration-token"

func minimal(edits ...func(*clustermanifest.Input)) clustermanifest.Input {
	in := clustermanifest.Input{ServerURL: "https://drover.example.com", Token: token, Image: "drover-io/drover:v1.0.0"}
	for _, edit := range edits {
		edit(&in)
	}
	return in
}

func everything(in *clustermanifest.Input) {
	in.CAChecksum = strings.Repeat("0123456789abcdef", 4)
	in.Registry, in.Image = "registry.example.com:5000", "registry.example.com:5000/drover-io/drover:v1.0.0"
	in.PullSecrets = []clustermanifest.PullSecret{{Name: "a", DockerConfigJSON: []byte(`{"auths":{"a":{}}}`)},
		{Name: "b", DockerConfigJSON: []byte(`{}`)}}
	in.Environment = []corev1.EnvVar{
		{Name: "HTTPS_PROXY", Value: "http://proxy:3128"}, {Name: "STRICT_VERIFY", Value: "false"},
		{Name: "CATTLE_SERVER", Value: "https://elsewhere"},
	}
	never := corev1.PreemptNever
	in.Customization = &provv1.AgentDeploymentCustomization{
		AppendTolerations: []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpEqual, Value: "a"}},
		OverrideAffinity:  &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
		OverrideResourceRequirements: &corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		},
		SchedulingCustomization: &provv1.AgentSchedulingCustomization{
			PriorityClass:       &provv1.PriorityClassSpec{Value: 1000000000, PreemptionPolicy: &never},
			PodDisruptionBudget: &provv1.PodDisruptionBudgetSpec{MinAvailable: "0", MaxUnavailable: "50%"},
		},
	}
}

func planFile(in *clustermanifest.Input) { in.Namespace, in.HostNetwork = "c-m-12345678", true }

func render(t *testing.T, in clustermanifest.Input) []runtime.Object {
	t.Helper()
	objects, err := clustermanifest.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func text(t *testing.T, in clustermanifest.Input) []byte {
	t.Helper()
	out, err := clustermanifest.YAML(render(t, in))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestGolden records the manifests: a difference restarts every agent.
func TestGolden(t *testing.T) {
	for name, in := range map[string]clustermanifest.Input{
		"import": minimal(), "import-everything": minimal(everything), "plan": minimal(planFile),
		"plan-everything": minimal(everything, planFile),
	} {
		t.Run(name, func(t *testing.T) {
			got := text(t, in)
			golden.Check(t, "testdata/"+name+".golden.yaml", string(got))
			if !bytes.Equal(got, text(t, in)) {
				t.Error("a second rendering has other bytes")
			}
		})
	}
}

// TestYAML_IsValidForAnAPIServer checks that the text decodes into the rendered objects: no field is unknown,
// and none is lost.
func TestYAML_IsValidForAnAPIServer(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme,
		policyv1.AddToScheme, schedulingv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, in := range []clustermanifest.Input{minimal(), minimal(everything), minimal(everything, planFile)} {
		objects := render(t, in)
		documents := strings.Split(strings.TrimPrefix(string(text(t, in)), "---\n"), "\n---\n")
		if len(documents) != len(objects) {
			t.Fatalf("%d documents of %d objects", len(documents), len(objects))
		}
		for i, document := range documents {
			got, _, err := decoder.Decode([]byte(document), nil, nil)
			if err != nil {
				t.Fatalf("%v in\n%s", err, document)
			}
			if diff := cmp.Diff(objects[i], got, cmp.Comparer(func(a, b resource.Quantity) bool {
				return a.Cmp(b) == 0
			})); diff != "" {
				t.Errorf("round trip (-want +got):\n%s", diff)
			}
		}
	}
}

func find[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	for _, object := range objects {
		if found, ok := object.(T); ok {
			return found
		}
	}
	var none T
	t.Fatalf("no %s", reflect.TypeOf(none))
	return none
}

// TestRender_AgentMayOnlyImpersonate checks that the account may impersonate, and nothing else.
func TestRender_AgentMayOnlyImpersonate(t *testing.T) {
	t.Parallel()
	objects := render(t, minimal(everything, planFile))
	bound := map[string]string{}
	for _, object := range objects {
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			for _, rule := range o.Rules {
				if !slices.Equal(rule.Verbs, []string{"impersonate"}) || slices.Contains(rule.APIGroups, "*") ||
					len(rule.NonResourceURLs) > 0 {
					t.Errorf("role %s allows %+v", o.Name, rule)
				}
			}
		case *rbacv1.ClusterRoleBinding:
			for _, subject := range o.Subjects {
				bound[subject.Kind+" "+subject.Namespace+" "+subject.Name] = o.RoleRef.Name
			}
		case *rbacv1.Role, *rbacv1.RoleBinding:
			t.Errorf("%+v", o)
		}
	}
	want := map[string]string{"ServiceAccount cattle-system cattle": "drover-cluster-agent",
		"Group  system:drover:cluster-admin": "cluster-admin"}
	if diff := cmp.Diff(want, bound); diff != "" {
		t.Errorf("bound (-want +got):\n%s", diff)
	}
	pod := find[*appsv1.Deployment](t, objects).Spec.Template.Spec
	if *pod.AutomountServiceAccountToken || *find[*corev1.ServiceAccount](t, objects).AutomountServiceAccountToken {
		t.Error("an unneeded token is mounted")
	}
	for _, object := range objects {
		if secret, ok := object.(*corev1.Secret); ok && secret.Type == corev1.SecretTypeServiceAccountToken {
			t.Error("a token without an expiry is created")
		}
	}
}

// TestRender_PodIsRestricted checks that the pod complies with the "restricted" standard, except for the host network.
func TestRender_PodIsRestricted(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]clustermanifest.Input{"import": minimal(everything), "plan": minimal(planFile)} {
		objects := render(t, in)
		pod := find[*appsv1.Deployment](t, objects).Spec.Template.Spec
		if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
			t.Fatalf("%s: containers %v", name, pod.Containers)
		}
		security := pod.Containers[0].SecurityContext
		if *security.AllowPrivilegeEscalation || !*security.RunAsNonRoot || !*security.ReadOnlyRootFilesystem ||
			*pod.SecurityContext.RunAsUser == 0 ||
			security.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
			!slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
			len(security.Capabilities.Add) > 0 || security.Privileged != nil {
			t.Errorf("%s: %+v", name, security)
		}
		for _, volume := range pod.Volumes {
			if volume.HostPath != nil {
				t.Errorf("%s: mounts %s of its host", name, volume.HostPath.Path)
			}
		}
		privileged := find[*corev1.Namespace](t, objects).Labels["pod-security.kubernetes.io/enforce"] == "privileged"
		if pod.HostNetwork != in.HostNetwork || privileged != in.HostNetwork || pod.HostPID || pod.HostIPC {
			t.Errorf("%s: network of the host %v, namespace privileged %v", name, pod.HostNetwork, privileged)
		}
	}
}

// TestRender_AnAgentRunsUntilItsSuccessorIsConnected checks that two agents can run at once, even in a cluster of one
// node. Otherwise an image that cannot be pulled would remove the connection that brings a better one.
func TestRender_AnAgentRunsUntilItsSuccessorIsConnected(t *testing.T) {
	t.Parallel()
	for name, replicas := range map[string]int32{"import": 2, "plan": 1} {
		in := minimal()
		if name == "plan" {
			planFile(&in)
		}
		spec := find[*appsv1.Deployment](t, render(t, in)).Spec
		rolling := spec.Strategy.RollingUpdate
		if *spec.Replicas != replicas || rolling.MaxUnavailable.IntValue() != 0 || rolling.MaxSurge.IntValue() != 1 {
			t.Errorf("%s: %d replicas, %s unavailable, %s more", name, *spec.Replicas, rolling.MaxUnavailable,
				rolling.MaxSurge)
		}
		agent := spec.Template.Spec.Containers[0]
		if agent.ReadinessProbe == nil && agent.StartupProbe == nil {
			t.Errorf("%s: the Deployment must wait until the new agent is connected", name)
		}
		if !in.HostNetwork {
			continue
		}
		if len(agent.Ports) > 0 || agent.LivenessProbe != nil || agent.ReadinessProbe != nil {
			t.Errorf("%s: on the network of its host the agent uses a port: %v", name, agent.Ports)
		}
		for _, variable := range agent.Env {
			if variable.Name == "DROVER_HEALTH_ADDRESS" && !strings.HasPrefix(variable.Value, "unix:") {
				t.Errorf("%s: it listens at %s, like its successor", name, variable.Value)
			}
		}
	}
}

func TestRender_UserCannotTurnOffWhatTheAgentDependsOn(t *testing.T) {
	t.Parallel()
	values := map[string][]string{}
	elsewhere := func(in *clustermanifest.Input) {
		for _, name := range []string{"DROVER_SERVER_URL", "DROVER_TOKEN_FILE", "KUBERNETES_SERVICE_HOST"} {
			in.Environment = append(in.Environment, corev1.EnvVar{Name: name, Value: "https://elsewhere.example.com"})
		}
	}
	for _, variable := range find[*appsv1.Deployment](t,
		render(t, minimal(everything, elsewhere))).Spec.Template.Spec.Containers[0].Env {
		values[variable.Name] = append(values[variable.Name], variable.Value)
	}
	for name, want := range map[string]string{"STRICT_VERIFY": "true", "CATTLE_SERVER": "https://drover.example.com",
		"HTTPS_PROXY": "http://proxy:3128"} {
		if got := values[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %v, want %s", name, got, want)
		}
	}
	for name, got := range values {
		if slices.Contains(got, "https://elsewhere.example.com") {
			t.Errorf("%s has the user's value", name)
		}
	}
}

// TestRender_TokenIsInOneSecret checks that only one Secret contains the token, and that no error does.
func TestRender_TokenIsInOneSecret(t *testing.T) {
	t.Parallel()
	const name = "cattle-credentials-" // first 10 of sha256("https://drover.example.com.the-registration-token.")
	for _, object := range render(t, minimal(everything)) {
		content, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		secret, ok := object.(*corev1.Secret)
		if holds := ok && strings.HasPrefix(secret.Name, name); holds != (ok &&
			string(secret.Data["token"]) == token) || strings.Contains(string(content), token) {
			t.Errorf("the token is in %s", content)
		}
	}
	if got := clustermanifest.CredentialName("https://drover.example.com", token, ""); len(got) != len(name)+10 ||
		got == clustermanifest.CredentialName("https://drover.example.com", token, "c-m-1") {
		t.Errorf("credential %s", got)
	}
	in := minimal(func(in *clustermanifest.Input) { in.Token, in.Image = "hunter2 hunter3", "not an image" })
	if _, err := clustermanifest.Render(in); err == nil || strings.Contains(err.Error(), "hunter") {
		t.Errorf("error %v", err)
	}
	if printed := fmt.Sprintf("%v %+v %#v", in, in, in); strings.Contains(printed, "hunter") {
		t.Errorf("printed as %s", printed)
	}
}

func TestRender_Errors(t *testing.T) {
	t.Parallel()
	budget := func(least, most string) func(*clustermanifest.Input) {
		return func(in *clustermanifest.Input) {
			in.Customization = &provv1.AgentDeploymentCustomization{
				SchedulingCustomization: &provv1.AgentSchedulingCustomization{
					PodDisruptionBudget: &provv1.PodDisruptionBudgetSpec{MinAvailable: least, MaxUnavailable: most},
				}}
		}
	}
	for want, edit := range map[string]func(*clustermanifest.Input){
		"server-url must be an https URL without a path": func(in *clustermanifest.Input) {
			in.ServerURL = "http://drover.example.com"
		},
		`not "https://drover.example.com/path"`: func(in *clustermanifest.Input) {
			in.ServerURL += "/path"
		},
		"must be a SHA-256 in lower case": func(in *clustermanifest.Input) {
			in.CAChecksum = "C0FFEE"
		},
		"the registration token must be one word": func(in *clustermanifest.Input) {
			in.Token = ""
		},
		"a reference such as drover-io/drover:v1.0.0": func(in *clustermanifest.Input) {
			in.Image = "UPPER CASE"
		},
		`spec.agentEnvVars[0].name: "a=***" must be the name of a variable`: func(in *clustermanifest.Input) {
			in.Environment = []corev1.EnvVar{{Name: "a=b"}}
		},
		"podDisruptionBudget: set minAvailable or maxUnavailable, not both": budget("1", "1"),
		`podDisruptionBudget.minAvailable: "some" must be a number`:         budget("some", ""),
	} {
		if _, err := clustermanifest.Render(minimal(edit)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestRender_PriorityClassesAreNeverChanged checks that other content gets another name, because the content is
// immutable.
func TestRender_PriorityClassesAreNeverChanged(t *testing.T) {
	t.Parallel()
	class := func(value int) *schedulingv1.PriorityClass {
		objects := render(t, minimal(func(in *clustermanifest.Input) {
			in.Customization = &provv1.AgentDeploymentCustomization{
				SchedulingCustomization: &provv1.AgentSchedulingCustomization{
					PriorityClass: &provv1.PriorityClassSpec{Value: value},
				}}
		}))
		found := find[*schedulingv1.PriorityClass](t, objects)
		if used := find[*appsv1.Deployment](t, objects).Spec.Template.Spec.PriorityClassName; used != found.Name {
			t.Errorf("the pod uses %q", used)
		}
		return found
	}
	if one, two, again := class(1).Name, class(2).Name, class(1).Name; one == two || one != again {
		t.Error("names must depend on values")
	}
}

func TestFor(t *testing.T) {
	t.Parallel()
	cluster := &mgmtv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-m-1"}, Spec: mgmtv3.ClusterSpec{
		AgentEnvVars:                        []corev1.EnvVar{{Name: "A", Value: "b"}},
		ClusterAgentDeploymentCustomization: &provv1.AgentDeploymentCustomization{},
		// the agent image of another program
		DesiredAgentImage: "rancher/rancher-agent:v2.14.0",
	}}
	for name, tc := range map[string]struct{ own, others, want string }{
		"no registry":                      {"", "", "drover-io/drover:v1"},
		"the registry of the installation": {"", "r.example.com", "r.example.com/drover-io/drover:v1"},
		"the registry of the cluster wins": {"own.example.com/", "r.example.com",
			"own.example.com/drover-io/drover:v1"},
	} {
		cluster.Spec.ClusterSecrets.PrivateRegistryURL = tc.own
		in := clustermanifest.For(cluster, "docker.io/drover-io/drover:v1", tc.others)
		want := tc.want
		if tc.own == "" && tc.others == "" {
			want = "docker.io/" + want
		}
		if in.Image != want || len(in.Environment) != 1 || in.Customization == nil {
			t.Errorf("%s: image %s", name, in.Image)
		}
	}
}
