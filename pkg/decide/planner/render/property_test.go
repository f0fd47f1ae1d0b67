package render_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// marker is in every secret value of a generated world, and only there.
const marker = "S3CR3T"

// world draws an input: known and unknown keys, values of every type, and references that resolve or do not.
func world(t *rapid.T) render.Input {
	runtime := rapid.SampledFrom([]distro.Runtime{distro.RKE2, distro.K3s}).Draw(t, "runtime")
	place := rapid.SampledFrom([]string{"init", "init-etcd", "server", "controlplane", "worker"}).Draw(t, "place")
	in := manifest{}.input(runtime, positions[place])
	in.Tokens = render.Tokens{Server: marker + "-server", Agent: marker + "-agent"}
	spec := &in.ControlPlane.Spec
	spec.MachineGlobalConfig.Data = drawConfig(t, "global")
	for i := range rapid.IntRange(0, 3).Draw(t, "selectors") {
		entry := rkev1.RKESystemConfig{Config: rkev1.GenericMap{Data: drawConfig(t, fmt.Sprintf("selector%d", i))}}
		if rapid.Bool().Draw(t, "selective") {
			entry.MachineLabelSelector = labelled(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone"))
		}
		spec.MachineSelectorConfig = append(spec.MachineSelectorConfig, entry)
	}
	drawReferences(t, &in)
	spec.AdditionalManifest = rapid.SampledFrom([]string{"", "kind: A"}).Draw(t, "manifest")
	spec.ChartValues.Data = rapid.MapOf(rapid.SampledFrom([]string{"rke2-calico", "traefik", "x"}),
		rapid.Just[any](map[string]any{"a": 1, "b": "c"})).Draw(t, "charts")
	spec.LocalClusterAuthEndpoint.Enabled = rapid.Bool().Draw(t, "ace")
	spec.UnmanagedConfig = rapid.IntRange(0, 9).Draw(t, "unmanaged") == 0
	in.Machine.Annotations = map[string]string{
		rkev1.AddressAnnotation:         "203.0.113.7",
		rkev1.InternalAddressAnnotation: rapid.SampledFrom([]string{"", "10.0.0.7,fd00::7"}).Draw(t, "internal"),
		rkev1.LabelsAnnotation:          `{"z":"1","y":"2","x":"3"}`,
		rkev1.TaintsAnnotation: rapid.SampledFrom(
			[]string{"", "null", `[{"key":"k","effect":"NoSchedule"}]`}).Draw(t, "taints"),
	}
	return in
}

func drawConfig(t *rapid.T, label string) map[string]any {
	keys := rapid.SampledFrom([]string{
		"cni", "disable", "kubelet-arg", "kube-scheduler-arg", "tls-san", "node-ip", "service-cidr", "selinux",
		"profile", "unknown",
		"audit-policy-file", "flannel-conf", "node-label", "token", "system-default-registry",
		"kube-scheduler-extra-mount", "cloud-provider-name",
	})
	values := rapid.OneOf(
		rapid.Map(rapid.SampledFrom([]string{"", "a", "true", "x=y", "10.43.0.0/16", "secure-port=5"}),
			func(s string) any { return s }),
		rapid.Map(rapid.Float64Range(-5, 5), func(f float64) any { return f }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Just[any](nil),
		rapid.Just[any](map[string]any{"b": 1, "a": "2"}),
		rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]any{"p=q", "cert-dir=/c", "10.0.0.1", 5.0, true}), 0, 3),
			func(s []any) any { return s }),
	)
	return rapid.MapOfN(keys, values, 0, 8).Draw(t, label)
}

// drawReferences adds objects with secret values, and references to them. Some references are broken.
func drawReferences(t *rapid.T, in *render.Input) {
	value := []byte(marker + "-value")
	docker := fmt.Appendf(nil, `{"auths":{"h1":{"username":"u","password":"%s"},"h2":{"password":"%s"}}}`, marker,
		marker)
	for name, object := range map[string]render.Secret{
		"plain": {Type: rkev1.SecretTypeAuthConfig, Data: map[string][]byte{"username": value, "password": value,
			"auth": value}},
		"docker": {Type: corev1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{corev1.DockerConfigJsonKey: docker}},
		"files": {Data: map[string][]byte{"a": value},
			Annotations: map[string]string{rkev1.AuthorizedObjectAnnotation: "demo"}},
		"cc": {Data: map[string][]byte{"s3-accessKey": value, "s3-secretKey": value, "s3-defaultEndpointCA": value}},
	} {
		in.Objects.Secrets[objectName("fleet-default/"+name)] = object
	}
	names := rapid.SampledFrom([]string{"", "plain", "plain", "plain", "docker", "files", "none"})
	configs := map[string]rkev1.RegistryConfig{}
	for _, host := range []string{"h1", "h2", "h3"} {
		if rapid.Bool().Draw(t, host) {
			configs[host] = rkev1.RegistryConfig{AuthConfigSecretName: names.Draw(t, host+" secret"),
				CABundle: []byte("ca of " + host)}
		}
	}
	if len(configs) > 0 {
		in.ControlPlane.Spec.Registries = &rkev1.Registry{Configs: configs,
			Mirrors: map[string]rkev1.Mirror{"m": {}, "*": {}}}
	}
	if rapid.IntRange(0, 3).Draw(t, "s3") == 0 {
		s3(rkev1.ETCDSnapshotS3{CloudCredentialName: "cc", EndpointCA: rapid.SampledFrom([]string{"QQ==", ""}).Draw(t,
			"ca")})(in)
	}
	if rapid.IntRange(0, 3).Draw(t, "file") == 0 {
		selectorFile(rkev1.ProvisioningFileSource{Secret: rkev1.K8sObjectFileSource{
			Name: "files",
			Items: []rkev1.KeyToPath{{Key: "a", Path: "/a", Hash: rapid.SampledFrom([]string{"", "x"}).Draw(t,
				"hash")}},
		}})(in)
	}
}

// copyInput makes a deep copy whose maps are filled in another order.
func copyInput(t *rapid.T, in render.Input) render.Input {
	out := in
	spec := in.ControlPlane.Spec
	content, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	out.ControlPlane.Spec = rkev1.RKEControlPlaneSpec{}
	if err := json.Unmarshal(content, &out.ControlPlane.Spec); err != nil {
		t.Fatal(err)
	}
	return out
}

func encode(t *rapid.T, in render.Input) string {
	p, warnings, err := render.Plan(in)
	content, encodeErr := json.Marshal(struct {
		Plan     any
		Warnings []render.Warning
		Err      string
	}{p, warnings, fmt.Sprint(err)})
	if encodeErr != nil {
		t.Fatal(encodeErr)
	}
	return string(content)
}

// TestPlan_SameInputSameBytes checks equal bytes for equal inputs, including a copy that went through a decoder like
// the input of another process.
func TestPlan_SameInputSameBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := world(t)
		before, err := json.Marshal(in.ControlPlane.Spec)
		if err != nil {
			t.Fatal(err)
		}
		first := encode(t, in)
		if second := encode(t, in); first != second {
			t.Fatalf("two renderings differ:\n%s\n%s", first, second)
		}
		if copied := encode(t, copyInput(t, in)); first != copied {
			t.Fatalf("a copy of the input renders differently:\n%s\n%s", first, copied)
		}
		after, err := json.Marshal(in.ControlPlane.Spec)
		if err != nil || string(before) != string(after) {
			t.Fatalf("rendering changed its input: %v", err)
		}
	})
}

func TestPlan_SecretsStayInFiles(t *testing.T) {
	t.Parallel()
	encodedMarker := base64.StdEncoding.EncodeToString([]byte(marker))[:7]
	rapid.Check(t, func(t *rapid.T) {
		in := world(t)
		p, warnings, err := render.Plan(in)
		p.Files = nil
		visible, encodeErr := json.Marshal([]any{p, warnings, fmt.Sprint(err)})
		if encodeErr != nil {
			t.Fatal(encodeErr)
		}
		if strings.Contains(string(visible), marker) || strings.Contains(string(visible), encodedMarker) {
			t.Fatalf("a secret is visible outside of files: %s", visible)
		}
	})
}

func TestPlan_AgentsAcceptEveryPlan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := world(t)
		p, _, err := render.Plan(in)
		if err != nil {
			return
		}
		if err := nodeplan.Check(p); err != nil {
			t.Fatal(err)
		}
		paths := map[string]bool{}
		for _, file := range p.Files {
			if paths[file.Path] {
				t.Fatalf("file %s is duplicate", file.Path)
			}
			paths[file.Path] = true
		}
		if nodeplan.Compare(p, p) != nodeplan.ChangeNone {
			t.Fatal("a plan differs from itself")
		}
		if joined := render.JoinedServer(p); joined != in.JoinURL && !in.ControlPlane.Spec.UnmanagedConfig {
			t.Fatalf("the plan joins %q, want %q", joined, in.JoinURL)
		}
	})
}

// TestPlan_NothingIsDroppedInSilence checks that each key of the user is in the node's configuration or has a warning.
// Keys without a value are exempt, and on workers also keys for servers. (docs/invariants.md#weaknesses, W19.)
func TestPlan_NothingIsDroppedInSilence(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := world(t)
		in.ControlPlane.Spec.UnmanagedConfig = false
		p, warnings, err := render.Plan(in)
		if err != nil {
			return
		}
		config := map[string]any{}
		for _, file := range p.Files {
			if strings.HasSuffix(file.Path, "50-rancher.yaml") {
				content, err := base64.StdEncoding.DecodeString(file.Content)
				if err != nil || json.Unmarshal(content, &config) != nil {
					t.Fatal("the configuration is unreadable")
				}
			}
		}
		var warned strings.Builder
		for _, warning := range warnings {
			warned.WriteString(warning.Field + "\n")
		}
		for key, value := range in.ControlPlane.Spec.MachineGlobalConfig.Data {
			_, there := config[key]
			_, ofServers := in.Release.ServerArgs[key]
			items, isList := value.([]any)
			empty := value == nil || value == "" || (isList && len(items) == 0)
			if !there && !empty && !strings.Contains(warned.String(), key) &&
				(!ofServers || in.Machine.Roles.Server()) && !overridden(in, key) {
				t.Fatalf("key %s with value %v disappeared", key, value)
			}
		}
	})
}

// overridden reports whether a selector replaces a global key.
func overridden(in render.Input, key string) bool {
	for _, entry := range in.ControlPlane.Spec.MachineSelectorConfig {
		if _, ok := entry.Config.Data[key]; ok {
			return true
		}
	}
	return false
}
