package render_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner/render"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

func secret(name string, s render.Secret) func(*render.Input) {
	return func(in *render.Input) { in.Objects.Secrets[objectName(name)] = s }
}

func registry(host string, config rkev1.RegistryConfig) func(*render.Input) {
	return func(in *render.Input) {
		in.ControlPlane.Spec.Registries = &rkev1.Registry{Configs: map[string]rkev1.RegistryConfig{host: config}}
	}
}

func selectorFile(source rkev1.ProvisioningFileSource) func(*render.Input) {
	return func(in *render.Input) {
		in.ControlPlane.Spec.MachineSelectorFiles = []rkev1.RKEProvisioningFiles{
			{FileSources: []rkev1.ProvisioningFileSource{source}}}
	}
}

// secretFile is a source of files with one item, and a Secret that authorizes the cluster.
func secretFile(item rkev1.KeyToPath) func(*render.Input) {
	return func(in *render.Input) {
		selectorFile(rkev1.ProvisioningFileSource{Secret: rkev1.K8sObjectFileSource{Name: "files",
			Items: []rkev1.KeyToPath{item}}})(in)
		secret("fleet-default/files", render.Secret{
			Annotations: map[string]string{rkev1.AuthorizedObjectAnnotation: "demo"},
			Data:        map[string][]byte{"a": []byte("PASSWORD")},
		})(in)
	}
}

func s3(s3 rkev1.ETCDSnapshotS3) func(*render.Input) {
	return func(in *render.Input) { in.ControlPlane.Spec.ETCD = &rkev1.ETCD{S3: &s3} }
}

func annotated(key, value string) func(*render.Input) {
	return func(in *render.Input) { in.Machine.Annotations = map[string]string{key: value} }
}

// TestPlan_ErrorsNameTheField checks that each error names its field and never contains a secret.
func TestPlan_ErrorsNameTheField(t *testing.T) {
	t.Parallel()
	badSelector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "a", Operator: "Near"}}}
	for name, tc := range map[string]struct {
		runtime distro.Runtime
		place   string
		edits   edits
		want    string
	}{
		"an unknown render version": {edits: edits{func(in *render.Input) { in.Version = "0" }}, want: `version "0"`},
		"no render version":         {edits: edits{func(in *render.Input) { in.Version = "" }}, want: `version ""`},
		"no role": {edits: edits{func(in *render.Input) {
			in.Machine.Roles = render.Roles{}
		}}, want: "no role"},
		"no Kubernetes version": {edits: edits{func(in *render.Input) {
			in.ControlPlane.Spec.KubernetesVersion = ""
		}}, want: "spec.kubernetesVersion"},
		"an init node that joins": {edits: edits{func(in *render.Input) {
			in.JoinURL = "https://x:9345"
		}}, want: "cannot join"},
		"an init node without etcd": {
			edits: edits{func(in *render.Input) {
				in.Machine.Roles = render.Roles{ControlPlane: true}
			}}, want: "no etcd role",
		},
		"an unreadable selector": {edits: edits{selected(badSelector, "a", "b")},
			want: "spec.rkeConfig.machineSelectorConfig[0].machineLabelSelector"},
		"labels that are not an object": {edits: edits{annotated(rkev1.LabelsAnnotation, "PASSWORD")},
			want: rkev1.LabelsAnnotation},
		"taints that are not a list": {edits: edits{annotated(rkev1.TaintsAnnotation, `{"PASSWORD":1}`)},
			want: rkev1.TaintsAnnotation},
		"a missing credential": {
			edits: edits{registry("r.example.com", rkev1.RegistryConfig{AuthConfigSecretName: "none"})},
			want: "spec.rkeConfig.registries.configs[r.example.com].authConfigSecretName: Secret " +
				"fleet-default/none does not exist"},
		"a credential of a wrong type": {edits: edits{
			registry("r.example.com", rkev1.RegistryConfig{AuthConfigSecretName: "odd"}),
			secret("fleet-default/odd",
				render.Secret{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"password": []byte("PASSWORD")}}),
		}, want: "wrong type"},
		"a docker config without the host": {edits: edits{
			registry("r.example.com", rkev1.RegistryConfig{AuthConfigSecretName: "docker"}),
			secret("fleet-default/docker", render.Secret{Type: corev1.SecretTypeDockerConfigJson,
				Data: map[string][]byte{
					corev1.DockerConfigJsonKey: []byte(`{"auths":{"other":{"password":"PASSWORD"}}}`),
				}}),
		}, want: "no entry for registry r.example.com"},
		"a docker config that is not JSON": {edits: edits{
			registry("r.example.com", rkev1.RegistryConfig{AuthConfigSecretName: "docker"}),
			secret("fleet-default/docker", render.Secret{Type: corev1.SecretTypeDockerConfigJson,
				Data: map[string][]byte{
					corev1.DockerConfigJsonKey: []byte(`PASSWORD`),
				}}),
		}, want: "no valid JSON under .dockerconfigjson"},
		"a missing client certificate": {
			edits: edits{registry("r.example.com", rkev1.RegistryConfig{TLSSecretName: "none"})},
			want:  "configs[r.example.com].tlsSecretName"},
		"a client certificate of a wrong type": {edits: edits{
			registry("r.example.com", rkev1.RegistryConfig{TLSSecretName: "odd"}),
			secret("fleet-default/odd", render.Secret{}),
		}, want: "kubernetes.io/tls"},
		"a registry that leads out of its directory": {
			edits: edits{registry("../../x", rkev1.RegistryConfig{CABundle: []byte("ca")})}, want: "configs[../../x]"},
		"a missing S3 credential": {
			edits: edits{s3(rkev1.ETCDSnapshotS3{CloudCredentialName: "cattle-global-data:none"})},
			want:  "spec.rkeConfig.etcd.s3.cloudCredentialName: Secret cattle-global-data/none"},
		"an authority that is not PEM": {
			edits: edits{s3(rkev1.ETCDSnapshotS3{Bucket: "b", EndpointCA: "%PASSWORD"})},
			want:  "spec.rkeConfig.etcd.s3.endpointCA"},
		"a cloud provider's Secret without a name": {edits: edits{global("cloud-provider-config", "secret://PASSWORD")},
			want: "spec.rkeConfig.machineGlobalConfig.cloud-provider-config: must have the form"},
		"a missing Secret of a cloud provider": {edits: edits{global("cloud-provider-config", "secret://a:b")},
			want: "Secret a/b does not exist"},
		"a cloud provider's Secret of another cluster": {edits: edits{
			global("cloud-provider-config", "secret://fleet-default:b"), secret("fleet-default/b", render.Secret{
				Annotations: map[string]string{rkev1.AuthorizedSecretAnnotation: "demo2,other"},
				Data:        map[string][]byte{"credential": []byte("PASSWORD")},
			}),
		}, want: "does not authorize cluster demo"},
		"a cloud provider's Secret of another namespace that is denied": {edits: edits{
			global("cloud-provider-config", "secret://a:b"), secret("a/b", render.Secret{
				Annotations: map[string]string{rkev1.AuthorizedSecretAnnotation: "demo"},
				Data:        map[string][]byte{"credential": []byte("PASSWORD")}, Denied: "not yours",
			}),
		}, want: "machineGlobalConfig.cloud-provider-config: not yours"},
		"a granted Secret of a cloud provider, without its key": {edits: edits{
			global("cloud-provider-config", "secret://a:b"), secret("a/b", render.Secret{}),
		}, want: "has no key credential"},
		"a cloud provider's Secret without its key": {edits: edits{
			global("cloud-provider-config", "secret://a:b"), secret("a/b", render.Secret{
				Annotations: map[string]string{rkev1.AuthorizedSecretAnnotation: "demo"},
			}),
		}, want: "has no key credential"},
		"files from two objects": {edits: edits{selectorFile(rkev1.ProvisioningFileSource{
			Secret: rkev1.K8sObjectFileSource{Name: "a"}, ConfigMap: rkev1.K8sObjectFileSource{Name: "b"},
		})}, want: "spec.rkeConfig.machineSelectorFiles[0].fileSources[0] has a Secret and a ConfigMap"},
		"files from a missing Secret": {edits: edits{selectorFile(rkev1.ProvisioningFileSource{
			Secret: rkev1.K8sObjectFileSource{Name: "a"},
		})}, want: "fileSources[0].secret.name: Secret fleet-default/a does not exist"},
		"files from a missing ConfigMap": {edits: edits{selectorFile(rkev1.ProvisioningFileSource{
			ConfigMap: rkev1.K8sObjectFileSource{Name: "a"},
		})}, want: "fileSources[0].configMap.name: ConfigMap fleet-default/a does not exist"},
		"files of another cluster": {edits: edits{
			selectorFile(rkev1.ProvisioningFileSource{Secret: rkev1.K8sObjectFileSource{Name: "a"}}),
			secret("fleet-default/a",
				render.Secret{Annotations: map[string]string{rkev1.AuthorizedObjectAnnotation: "de,mo"}}),
		}, want: "does not authorize cluster demo"},
		"a file with other content": {edits: edits{secretFile(rkev1.KeyToPath{Key: "a", Path: "/a", Hash: "AAAA"})},
			want: "secret.items[0].hash"},
		"a relative path": {edits: edits{secretFile(rkev1.KeyToPath{Key: "a", Path: "a"})},
			want: "secret.items[0].path must be absolute"},
		"a mode that is not octal": {
			edits: edits{secretFile(rkev1.KeyToPath{Key: "a", Path: "/a", Permissions: "rw-"})},
			want:  "secret.items[0].permissions"},
		"chart values that are not an object": {edits: edits{func(in *render.Input) {
			in.ControlPlane.Spec.ChartValues.Data = map[string]any{"rke2-calico": "PASSWORD"}
		}}, want: "spec.rkeConfig.chartValues[rke2-calico] must be an object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runtime, place := tc.runtime, tc.place
			if runtime == "" {
				runtime = distro.RKE2
			}
			if place == "" {
				place = "init"
			}
			p, warnings, err := render.Plan(basicInput(runtime, place, tc.edits...))
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q does not contain %q", err, tc.want)
			}
			if strings.Contains(err.Error(), "PASSWORD") {
				t.Errorf("the error contains a secret: %q", err)
			}
			if _, pending := errors.AsType[*render.PendingError](err); pending {
				t.Errorf("an invalid input counts as a missing fact")
			}
			if len(p.Files)+len(p.Instructions)+len(warnings) > 0 {
				t.Error("an error comes with a partial plan")
			}
		})
	}
}

// TestPlan_BadFilesConcernOneMachine checks that an error in files for some machines does not affect the others.
func TestPlan_BadFilesConcernOneMachine(t *testing.T) {
	t.Parallel()
	in := basicInput(distro.RKE2, "worker",
		selectorFile(rkev1.ProvisioningFileSource{Secret: rkev1.K8sObjectFileSource{Name: "none"}}))
	in.ControlPlane.Spec.MachineSelectorFiles[0].MachineLabelSelector = labelled("b")
	if _, _, err := render.Plan(in); err != nil {
		t.Errorf("a machine without the files: %v", err)
	}
	in.Machine.Labels = map[string]string{"zone": "b"}
	if _, _, err := render.Plan(in); err == nil {
		t.Error("the machine with the files has a plan without them")
	}
}

func TestSecretsPrintAsMasks(t *testing.T) {
	t.Parallel()
	in := basicInput(distro.RKE2, "init",
		secret("a/b", render.Secret{Data: map[string][]byte{"k": []byte("PASSWORD")}}))
	in.Tokens = render.Tokens{Server: "PASSWORD", Agent: "PASSWORD"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, value := range []any{in.Tokens, in.Objects.Secrets[types.NamespacedName{Namespace: "a", Name: "b"}],
			in.Objects, in} {
			if text := sprintf(format, value); strings.Contains(text, "PASSWORD") ||
				strings.Contains(text, sprintf(format, []byte("PASSWORD"))) {
				t.Errorf("format %s of %T prints a secret", format, value)
			}
		}
	}
}
