package render_test

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/distro"
	"github.com/drover-io/drover/pkg/nodeplan"
	"github.com/drover-io/drover/pkg/planner/render"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

func TestPlan_WhichProbes(t *testing.T) {
	t.Parallel()
	control := []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
	for name, tc := range map[string]struct {
		runtime distro.Runtime
		place   string
		edits   edits
		want    []string
	}{
		"an all-roles server of RKE2":      {runtime: distro.RKE2, place: "init", want: append([]string{"calico", "etcd", "kubelet"}, control...)},
		"an all-roles server of K3s":       {runtime: distro.K3s, place: "init", want: append([]string{"kubelet"}, control...)},
		"an only-etcd server of RKE2":      {runtime: distro.RKE2, place: "init-etcd", want: []string{"etcd", "kubelet"}},
		"an only-etcd server of K3s":       {runtime: distro.K3s, place: "init-etcd", want: nil},
		"a control plane without etcd":     {runtime: distro.RKE2, place: "controlplane", want: append([]string{"calico", "kubelet"}, control...)},
		"a worker of RKE2":                 {runtime: distro.RKE2, place: "worker", want: []string{"calico", "kubelet"}},
		"a worker of K3s":                  {runtime: distro.K3s, place: "worker", want: []string{"kubelet"}},
		"a Windows worker":                 {runtime: distro.RKE2, place: "windows", want: []string{"kubelet"}},
		"another network plugin":           {runtime: distro.RKE2, place: "worker", edits: edits{global("cni", "cilium")}, want: []string{"kubelet"}},
		"no network plugin":                {runtime: distro.RKE2, place: "worker", edits: edits{global("cni", "none")}, want: []string{"kubelet"}},
		"calico with multus, as one word":  {runtime: distro.RKE2, place: "worker", edits: edits{global("cni", "calico+multus")}, want: []string{"calico", "kubelet"}},
		"calico with multus, as a list":    {runtime: distro.RKE2, place: "worker", edits: edits{global("cni", list("multus", "calico"))}, want: []string{"calico", "kubelet"}},
		"calico with multus, with a comma": {runtime: distro.RKE2, place: "worker", edits: edits{global("cni", "multus,calico")}, want: []string{"calico", "kubelet"}},
		"a plugin chosen by a selector":    {runtime: distro.RKE2, place: "worker", edits: edits{selected(nil, "cni", "canal")}, want: []string{"kubelet"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := slices.Sorted(maps.Keys(mustPlan(t, basicInput(tc.runtime, tc.place, tc.edits...)).Probes))
			slices.Sort(tc.want)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("probes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlan_ProbePortsFollowTheUser(t *testing.T) {
	t.Parallel()
	p := mustPlan(t, basicInput(distro.K3s, "init", global("https-listen-port", 7443.0), global("kubelet-arg", list("healthz-port=1", "healthz-port=2"))))
	for probe, want := range map[string]string{"kube-apiserver": "https://localhost:7443/readyz", "kubelet": "http://localhost:2/healthz"} {
		if got := p.Probes[probe].HTTPGetAction.URL; got != want {
			t.Errorf("probe %s asks %s, want %s", probe, got, want)
		}
	}
}

// TestPlan_WhatAChangeCauses is the table of what restarts, what drains, and what may be delivered at any time.
func TestPlan_WhatAChangeCauses(t *testing.T) {
	t.Parallel()
	type effect struct {
		Change         nodeplan.Change
		Restart, Drain bool
	}
	for name, tc := range map[string]struct {
		place  string
		change func(*render.Input)
		want   effect
	}{
		"nothing":               {change: func(*render.Input) {}, want: effect{nodeplan.ChangeNone, false, false}},
		"a configuration key":   {change: global("profile", "cis"), want: effect{nodeplan.ChangeMajor, true, true}},
		"the version":           {change: func(in *render.Input) { in.ControlPlane.Spec.KubernetesVersion = "v1.36.3+rke2r1" }, want: effect{nodeplan.ChangeMajor, true, true}},
		"a forced redeployment": {change: func(in *render.Input) { in.ControlPlane.Spec.ProvisionGeneration++ }, want: effect{nodeplan.ChangeMajor, true, true}},
		"a restore":             {change: func(in *render.Input) { in.ControlPlane.ConfigGeneration++ }, want: effect{nodeplan.ChangeMajor, true, true}},
		"another join server":   {place: "server", change: func(in *render.Input) { in.JoinURL = "https://10.0.0.2:9345" }, want: effect{nodeplan.ChangeMajor, true, false}},
		"registries":            {change: registry("r.example.com", rkev1.RegistryConfig{InsecureSkipVerify: true}), want: effect{nodeplan.ChangeMajor, true, true}},
		"a label of the node":   {change: annotated(rkev1.LabelsAnnotation, `{"a":"b"}`), want: effect{nodeplan.ChangeMajor, true, true}},
		"the cluster agent":     {change: func(in *render.Input) { in.ClusterAgent.Manifest = "kind: New" }, want: effect{nodeplan.ChangeMinor, false, false}},
		"the snapshot metadata": {change: func(in *render.Input) {
			in.ControlPlane.Annotations = map[string]string{rkev1.ClusterSpecAnnotation: "x"}
		}, want: effect{nodeplan.ChangeMinor, false, false}},
		"the additional manifest":          {change: func(in *render.Input) { in.ControlPlane.Spec.AdditionalManifest = "a" }, want: effect{nodeplan.ChangeMajor, false, false}},
		"chart values":                     {change: func(in *render.Input) { in.ControlPlane.Spec.ChartValues.Data = map[string]any{"a": nil} }, want: effect{nodeplan.ChangeMajor, false, false}},
		"an environment variable":          {change: func(in *render.Input) { in.ControlPlane.Spec.AgentEnvVars = []rkev1.EnvVar{{Name: "A", Value: "b"}} }, want: effect{nodeplan.ChangeMajor, false, false}},
		"a file that may change":           {change: secretFile(rkev1.KeyToPath{Key: "a", Path: "/a", Dynamic: true}), want: effect{nodeplan.ChangeMajor, false, false}},
		"a file that may not":              {change: secretFile(rkev1.KeyToPath{Key: "a", Path: "/a"}), want: effect{nodeplan.ChangeMajor, true, true}},
		"how much is done at a time":       {change: func(in *render.Input) { in.ControlPlane.Spec.UpgradeStrategy.WorkerConcurrency = "5" }, want: effect{nodeplan.ChangeNone, false, false}},
		"the control plane comes up":       {change: func(in *render.Input) { in.ControlPlane.Initialized = true }, want: effect{nodeplan.ChangeNone, false, false}},
		"the release data get better":      {change: func(in *render.Input) { in.Release.Charts = append(in.Release.Charts, "x") }, want: effect{nodeplan.ChangeNone, false, false}},
		"server keys do not reach workers": {place: "worker", change: global("disable", list("x")), want: effect{nodeplan.ChangeNone, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := tc.place
			if place == "" {
				place = "init"
			}
			before, after := mustPlan(t, basicInput(distro.RKE2, place)), mustPlan(t, basicInput(distro.RKE2, place, tc.change))
			old, fresh := render.StampsOf(before), render.StampsOf(after)
			got := effect{nodeplan.Compare(before, after), old.Restart != fresh.Restart, old.Drain != fresh.Drain}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("effect (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlan_InstallerImage(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edits edits
		want  string
	}{
		"the default":                {want: "rancher/system-agent-installer-rke2:v1.36.2-rke2r1"},
		"another prefix":             {edits: edits{image("example.org/installer-")}, want: "example.org/installer-rke2:v1.36.2-rke2r1"},
		"a registry":                 {edits: edits{global("system-default-registry", "r.example.com")}, want: "r.example.com/rancher/system-agent-installer-rke2:v1.36.2-rke2r1"},
		"an image without a project": {edits: edits{image("installer-"), global("system-default-registry", "r.example.com")}, want: "r.example.com/rancher/installer-rke2:v1.36.2-rke2r1"},
		"the registry is there":      {edits: edits{image("r.example.com/installer-"), global("system-default-registry", "r.example.com")}, want: "r.example.com/installer-rke2:v1.36.2-rke2r1"},
		"a registry that is no text": {edits: edits{global("system-default-registry", 5)}, want: "rancher/system-agent-installer-rke2:v1.36.2-rke2r1"},
		"a registry for some machines is not the cluster's": {
			edits: edits{selected(labelled("a"), "system-default-registry", "r.example.com")}, want: "rancher/system-agent-installer-rke2:v1.36.2-rke2r1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := mustPlan(t, basicInput(distro.RKE2, "worker", tc.edits...)).Instructions[0].Image; got != tc.want {
				t.Errorf("image %s, want %s", got, tc.want)
			}
		})
	}
}

func image(prefix string) func(*render.Input) {
	return func(in *render.Input) { in.Settings.InstallerImage = prefix }
}

func TestPlan_PeriodicInstructions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		place string
		edits edits
		want  []string
	}{
		"an init node that serves the API":    {place: "init", want: []string{render.CaptureKubeconfig}},
		"an init node that does not":          {place: "init-etcd", want: []string{render.CaptureAddress, render.EtcdName}},
		"a control plane without etcd":        {place: "controlplane", want: []string{render.CaptureKubeconfig}},
		"another server":                      {place: "server"},
		"a worker":                            {place: "worker"},
		"join URLs are published by hand":     {place: "init-etcd", edits: edits{func(in *render.Input) { in.Machine.JoinURLAutosetDisabled = true }}},
		"by hand, and the API is served here": {place: "init", edits: edits{func(in *render.Input) { in.Machine.JoinURLAutosetDisabled = true }}, want: []string{render.CaptureKubeconfig}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, instruction := range mustPlan(t, basicInput(distro.K3s, tc.place, tc.edits...)).PeriodicInstructions {
				got = append(got, instruction.Name)
				if instruction.PeriodSeconds != 600 {
					t.Errorf("%s runs every %d seconds", instruction.Name, instruction.PeriodSeconds)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("periodic instructions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlan_S3Authority(t *testing.T) {
	t.Parallel()
	const pem = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n"
	encoded := base64.StdEncoding.EncodeToString([]byte(pem))
	fromPEM := mustPlan(t, basicInput(distro.K3s, "init", s3(rkev1.ETCDSnapshotS3{Bucket: "b", EndpointCA: pem})))
	fromBase64 := mustPlan(t, basicInput(distro.K3s, "init", s3(rkev1.ETCDSnapshotS3{Bucket: "b", EndpointCA: encoded})))
	if diff := cmp.Diff(fromPEM, fromBase64); diff != "" {
		t.Errorf("both forms of one authority give different plans:\n%s", diff)
	}
	path, _ := configOf(t, fromPEM, distro.K3s)["etcd-s3-endpoint-ca"].(string)
	if got := contentAt(t, fromPEM, path); got != pem {
		t.Errorf("file %s holds %q", path, got)
	}
}

func TestPlan_S3Switch(t *testing.T) {
	t.Parallel()
	credential := secret("fleet-default/cc", render.Secret{Data: map[string][]byte{"s3credentialConfig-defaultBucket": []byte("b")}})
	for name, tc := range map[string]struct {
		s3   rkev1.ETCDSnapshotS3
		want bool
	}{
		"a bucket":          {s3: rkev1.ETCDSnapshotS3{Bucket: "b"}, want: true},
		"an endpoint":       {s3: rkev1.ETCDSnapshotS3{Endpoint: "e"}, want: true},
		"a folder":          {s3: rkev1.ETCDSnapshotS3{Folder: "f"}, want: true},
		"a region":          {s3: rkev1.ETCDSnapshotS3{Region: "r"}, want: true},
		"a credential":      {s3: rkev1.ETCDSnapshotS3{CloudCredentialName: "cc"}, want: true},
		"only a retention":  {s3: rkev1.ETCDSnapshotS3{Retention: 5}},
		"only an authority": {s3: rkev1.ETCDSnapshotS3{EndpointCA: "QQ=="}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := configOf(t, mustPlan(t, basicInput(distro.K3s, "init", s3(tc.s3), credential)), distro.K3s)
			if _, got := config["etcd-s3"]; got != tc.want {
				t.Errorf("S3 switched on: %v, want %v", got, tc.want)
			}
			if bucket := config["etcd-s3-bucket"]; tc.s3.CloudCredentialName != "" && bucket != "b" {
				t.Errorf("bucket %v is not the credential's default", bucket)
			}
		})
	}
}

func TestPlan_RegistryFilesAreAlwaysManaged(t *testing.T) {
	t.Parallel()
	p := mustPlan(t, basicInput(distro.K3s, "worker"))
	if got := contentAt(t, p, "/etc/rancher/k3s/registries.yaml"); got != "" {
		t.Errorf("without registries the file holds %q", got)
	}
	if _, ok := fileAt(p, distro.AgentRegistriesFile); ok {
		t.Error("without registries the agent gets a file")
	}
}

func TestPlan_GlobalRegistryCredentials(t *testing.T) {
	t.Parallel()
	pull := func(in *render.Input) {
		in.Settings.SystemDefaultRegistry = "r.example.com/mirror"
		in.Settings.RegistryPullSecrets = append(in.Settings.RegistryPullSecrets, objectName("cattle-system/opaque"), objectName("cattle-system/pull"))
		secret("cattle-system/opaque", render.Secret{Type: corev1.SecretTypeOpaque})(in)
		secret("cattle-system/pull", render.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{
			corev1.DockerConfigJsonKey: []byte(`{"auths":{"r.example.com":{"username":"global"}}}`),
		}})(in)
	}
	for name, tc := range map[string]struct {
		edits edits
		want  bool
	}{
		"the default registry":             {edits: edits{pull}, want: true},
		"the cluster's registry":           {edits: edits{pull, global("system-default-registry", "own.example.com"), registry("x", rkev1.RegistryConfig{})}},
		"the cluster configured that host": {edits: edits{pull, registry("r.example.com", rkev1.RegistryConfig{InsecureSkipVerify: true})}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := contentAt(t, mustPlan(t, basicInput(distro.RKE2, "worker", tc.edits...)), "/etc/rancher/rke2/registries.yaml")
			if got := strings.Contains(content, `"global"`); got != tc.want {
				t.Errorf("global credentials used: %v, want %v: %s", got, tc.want, content)
			}
		})
	}
}

func TestPlan_PreBootstrapReachesServersOnly(t *testing.T) {
	t.Parallel()
	reduced := func(in *render.Input) {
		in.ClusterAgent = render.ClusterAgent{Manifest: "kind: Reduced", PreBootstrap: true}
	}
	for place, want := range map[string]bool{"init": true, "init-etcd": true, "controlplane": true, "worker": false} {
		p := mustPlan(t, basicInput(distro.K3s, place, reduced))
		if _, got := fileAt(p, "/var/lib/rancher/k3s/server/manifests/rancher/cluster-agent.yaml"); got != want {
			t.Errorf("%s gets the manifest: %v, want %v", place, got, want)
		}
		if _, got := fileAt(p, "/var/lib/rancher/k3s/server/manifests/rancher/addons.yaml"); got {
			t.Errorf("%s gets addons before the cluster is up", place)
		}
	}
}

func TestJoinedServer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		plan plan.NodePlan
		want string
	}{
		"an init node":     {plan: mustPlan(t, basicInput(distro.RKE2, "init"))},
		"a server":         {plan: mustPlan(t, basicInput(distro.RKE2, "server")), want: "https://10.0.0.1:9345"},
		"a worker of K3s":  {plan: mustPlan(t, basicInput(distro.K3s, "worker")), want: "https://10.0.0.1:6443"},
		"an empty plan":    {},
		"a broken content": {plan: plan.NodePlan{Files: []plan.File{{Path: "/x/50-rancher.yaml", Content: "%"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := render.JoinedServer(tc.plan); got != tc.want {
				t.Errorf("JoinedServer = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestStampsOf(t *testing.T) {
	t.Parallel()
	linux, windows := render.StampsOf(mustPlan(t, basicInput(distro.RKE2, "worker"))), render.StampsOf(mustPlan(t, basicInput(distro.RKE2, "windows")))
	if len(linux.Restart) != 64 || len(linux.Drain) != 64 || linux.Restart == linux.Drain {
		t.Errorf("stamps of a Linux node: %+v", linux)
	}
	if len(windows.Restart) != 64 || len(windows.Drain) != 64 {
		t.Errorf("stamps of a Windows node are not found: %+v", windows)
	}
	if got := render.StampsOf(plan.NodePlan{}); got != (render.Stamps{}) {
		t.Errorf("stamps of an empty plan: %+v", got)
	}
}
