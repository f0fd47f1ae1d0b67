package render_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"

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
		"an all-roles server of RKE2": {runtime: distro.RKE2, place: "init",
			want: append([]string{"calico", "etcd", "kubelet"}, control...)},
		"an all-roles server of K3s": {runtime: distro.K3s, place: "init",
			want: append([]string{"kubelet"}, control...)},
		"an only-etcd server of RKE2": {runtime: distro.RKE2, place: "init-etcd",
			want: []string{"etcd", "kubelet"}},
		"an only-etcd server of K3s": {runtime: distro.K3s, place: "init-etcd", want: []string{"kubelet"}},
		"a control plane without etcd": {runtime: distro.RKE2, place: "controlplane",
			want: append([]string{"calico", "kubelet"}, control...)},
		"a worker of RKE2": {runtime: distro.RKE2, place: "worker",
			want: []string{"calico", "kubelet"}},
		"a worker of K3s": {runtime: distro.K3s, place: "worker", want: []string{"kubelet"}},
		"another network plugin": {runtime: distro.RKE2, place: "worker",
			edits: edits{global("cni", "cilium")}, want: []string{"kubelet"}},
		"no network plugin": {runtime: distro.RKE2, place: "worker",
			edits: edits{global("cni", "none")}, want: []string{"kubelet"}},
		"calico with multus, as one string": {runtime: distro.RKE2, place: "worker",
			edits: edits{global("cni", "calico+multus")}, want: []string{"calico", "kubelet"}},
		"calico with multus, as a list": {runtime: distro.RKE2, place: "worker",
			edits: edits{global("cni", list("multus", "calico"))}, want: []string{"calico", "kubelet"}},
		"calico with multus, with a comma": {runtime: distro.RKE2, place: "worker",
			edits: edits{global("cni", "multus,calico")}, want: []string{"calico", "kubelet"}},
		"a plugin chosen by a selector": {runtime: distro.RKE2, place: "worker",
			edits: edits{selected(nil, "cni", "canal")}, want: []string{"kubelet"}},
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

// TestPlan_ProbesFollowTheUser checks that probes follow the user's ports and addresses. A probe of a wrong address
// never passes, and blocks everything after it. (docs/invariants.md#weaknesses, W18.)
func TestPlan_ProbesFollowTheUser(t *testing.T) {
	t.Parallel()
	charts := func(values map[string]any) func(*render.Input) {
		return func(in *render.Input) { in.ControlPlane.Spec.ChartValues.Data = map[string]any{"rke2-calico": values} }
	}
	for name, tc := range map[string]struct {
		runtime distro.Runtime
		edit    func(*render.Input)
		probe   string
		want    string // empty: there is no such probe
	}{
		"the API port of K3s changes": {distro.K3s, global("https-listen-port", 7443.0),
			"kube-apiserver", "https://localhost:7443/readyz"},
		"the API port of RKE2 does not change": {distro.RKE2, global("https-listen-port", 7443.0),
			"kube-apiserver", "https://localhost:6443/readyz"},
		"the kubelet's port changes, the last value wins": {distro.K3s,
			global("kubelet-arg", list("healthz-port=1", "healthz-port=2")), "kubelet", "http://localhost:2/healthz"},
		"the kubelet has no health endpoint": {distro.K3s, global("kubelet-arg", "healthz-port=0"), "kubelet", ""},
		"the kubelet listens on one address": {distro.K3s, global("kubelet-arg", "healthz-bind-address=10.0.0.5"),
			"kubelet", "http://10.0.0.5:10248/healthz"},
		"the kubelet listens on all addresses": {distro.K3s, global("kubelet-arg", "healthz-bind-address=0.0.0.0"),
			"kubelet", "http://localhost:10248/healthz"},
		"there is no kubelet": {distro.K3s, global("disable-agent", true), "kubelet", ""},
		"the scheduler listens on one address": {distro.RKE2, global("kube-scheduler-arg", "bind-address=fd00::5"),
			"kube-scheduler", "https://[fd00::5]:10259/healthz"},
		"the scheduler has no health endpoint": {distro.RKE2, global("kube-scheduler-arg", "secure-port=0"),
			"kube-scheduler", ""},
		"there is no scheduler": {distro.RKE2, global("disable-scheduler", true), "kube-scheduler", ""},
		"there is no controller manager": {distro.RKE2, global("disable-controller-manager", true),
			"kube-controller-manager", ""},
		"there is no API server": {distro.K3s, global("disable-apiserver", true), "kube-apiserver", ""},
		"etcd's port changes": {distro.RKE2,
			global("etcd-arg",
				list("quota-backend-bytes=1", "listen-metrics-urls=http://127.0.0.1:2500,http://10.0.0.5:2500")),
			"etcd", "http://localhost:2500/health"},
		"etcd listens on one address": {distro.RKE2, global("etcd-arg", "listen-metrics-urls=https://10.0.0.5:2500"),
			"etcd", "https://10.0.0.5:2500/health"},
		"etcd has an invalid URL": {distro.RKE2, global("etcd-arg", "listen-metrics-urls=nonsense"), "etcd",
			"http://localhost:2381/health"},
		"calico's port changes": {distro.RKE2,
			charts(map[string]any{"felixConfiguration": map[string]any{"healthPort": 9100.0}}), "calico",
			"http://localhost:9100/liveness"},
		"other values of calico": {distro.RKE2, charts(map[string]any{"felixConfiguration": "odd"}), "calico",
			"http://localhost:9099/liveness"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := mustPlan(t,
				basicInput(tc.runtime, "init", tc.edit)).Probes[tc.probe].HTTPGetAction.URL; got != tc.want {
				t.Errorf("probe uses %q, want %q", got, tc.want)
			}
		})
	}
	secure := mustPlan(t,
		basicInput(distro.RKE2, "init",
			global("etcd-arg", "listen-metrics-urls=https://127.0.0.1:2500"))).Probes["etcd"].HTTPGetAction
	if secure.CACert == "" || secure.ClientCert == "" || secure.ClientKey == "" {
		t.Errorf("etcd's probe uses TLS without certificates: %+v", secure)
	}
}

// TestSupervisorPort checks that nodes join at the port of the K3s API, unless K3s has a separate port for them.
func TestSupervisorPort(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		runtime distro.Runtime
		edits   edits
		want    int
	}{
		"RKE2":                      {distro.RKE2, edits{global("https-listen-port", 7443)}, 9345},
		"K3s":                       {distro.K3s, nil, 6443},
		"K3s with another API port": {distro.K3s, edits{global("https-listen-port", "7443")}, 7443},
		"K3s with a port for joining": {distro.K3s,
			edits{global("https-listen-port", 7443.0), global("supervisor-port", 7444.0)}, 7444},
		"only for this machine": {distro.K3s, edits{selected(labelled("a"), "https-listen-port", 7443)}, 7443},
		"only for others":       {distro.K3s, edits{selected(labelled("b"), "https-listen-port", 7443)}, 6443},
		"an invalid port":       {distro.K3s, edits{global("https-listen-port", 74430)}, 6443},
		"an invalid selector": {distro.K3s,
			edits{selected(&metav1.LabelSelector{MatchLabels: map[string]string{"-": "-"}}, "https-listen-port", 7443)},
			6443},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := basicInput(tc.runtime, "init-etcd", tc.edits...)
			if got := render.SupervisorPort(in); got != tc.want {
				t.Errorf("port %d, want %d", got, tc.want)
			}
			p, _, err := render.Plan(in)
			if err == nil && !strings.Contains(p.PeriodicInstructions[0].Args[1],
				fmt.Sprintf("https://localhost:%d/db/info", tc.want)) {
				t.Errorf("the node uses another port: %s", p.PeriodicInstructions[0].Args[1])
			}
		})
	}
}

// TestPlan_PathsAreKept checks that a path in place of a file's content stays a path.
func TestPlan_PathsAreKept(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"audit-policy-file", "cloud-provider-config", "flannel-conf"} {
		p := mustPlan(t, basicInput(distro.K3s, "init", global(key, "/etc/mine.yaml")))
		if got := configOf(t, p, distro.K3s)[key]; got != "/etc/mine.yaml" {
			t.Errorf("%s is %v", key, got)
		}
		if _, there := fileAt(p, "/var/lib/rancher/k3s/etc/config-files/"+key); there {
			t.Errorf("the path under %s became a file", key)
		}
	}
}

// TestPlan_WhatAChangeCauses is the table of changes that restart, that drain, and that may be delivered at any time.
// (docs/invariants.md#weaknesses, W17.)
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
		"nothing":             {change: func(*render.Input) {}, want: effect{nodeplan.ChangeNone, false, false}},
		"a configuration key": {change: global("profile", "cis"), want: effect{nodeplan.ChangeMajor, true, true}},
		"the version": {change: func(in *render.Input) {
			in.ControlPlane.Spec.KubernetesVersion = "v1.36.3+rke2r1"
		}, want: effect{nodeplan.ChangeMajor, true, true}},
		"a forced redeployment": {change: func(in *render.Input) { in.ControlPlane.Spec.ProvisionGeneration++ },
			want: effect{nodeplan.ChangeMajor, true, true}},
		"a restore": {change: func(in *render.Input) { in.ControlPlane.ConfigGeneration++ },
			want: effect{nodeplan.ChangeMajor, true, true}},
		"another join server": {place: "server", change: func(in *render.Input) {
			in.JoinURL = "https://10.0.0.2:9345"
		}, want: effect{nodeplan.ChangeMajor, true, false}},
		"registries": {change: registry("r.example.com", rkev1.RegistryConfig{InsecureSkipVerify: true}),
			want: effect{nodeplan.ChangeMajor, true, true}},
		"a label of the node": {change: annotated(rkev1.LabelsAnnotation, `{"a":"b"}`),
			want: effect{nodeplan.ChangeMajor, true, true}},
		"the cluster agent": {change: func(in *render.Input) { in.ClusterAgent.Manifest = "kind: New" },
			want: effect{nodeplan.ChangeMinor, false, false}},
		"the snapshot metadata": {change: func(in *render.Input) {
			in.ControlPlane.Annotations = map[string]string{rkev1.ClusterSpecAnnotation: "x"}
		}, want: effect{nodeplan.ChangeMinor, false, false}},
		"the additional manifest": {change: func(in *render.Input) {
			in.ControlPlane.Spec.AdditionalManifest = "a"
		}, want: effect{nodeplan.ChangeMajor, false, false}},
		"chart values": {change: func(in *render.Input) {
			in.ControlPlane.Spec.ChartValues.Data = map[string]any{"a": nil}
		}, want: effect{nodeplan.ChangeMajor, false, false}},
		"an environment variable": {change: func(in *render.Input) {
			in.ControlPlane.Spec.AgentEnvVars = []rkev1.EnvVar{{Name: "A", Value: "b"}}
		}, want: effect{nodeplan.ChangeMajor, false, false}},
		"a file that may change": {change: secretFile(rkev1.KeyToPath{Key: "a", Path: "/a", Dynamic: true}),
			want: effect{nodeplan.ChangeMajor, false, false}},
		"a file that may not": {change: secretFile(rkev1.KeyToPath{Key: "a", Path: "/a"}),
			want: effect{nodeplan.ChangeMajor, true, true}},
		"the concurrency": {change: func(in *render.Input) {
			in.ControlPlane.Spec.UpgradeStrategy.WorkerConcurrency = "5"
		}, want: effect{nodeplan.ChangeNone, false, false}},
		"the control plane becomes ready": {change: func(in *render.Input) { in.ControlPlane.Initialized = true },
			want: effect{nodeplan.ChangeNone, false, false}},
		"newer release data": {change: func(in *render.Input) {
			in.Release.Charts = append(in.Release.Charts, "x")
		}, want: effect{nodeplan.ChangeNone, false, false}},
		"keys for servers on workers": {place: "worker", change: global("disable", list("x")),
			want: effect{nodeplan.ChangeNone, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := tc.place
			if place == "" {
				place = "init"
			}
			before, after := mustPlan(t, basicInput(distro.RKE2, place)),
				mustPlan(t, basicInput(distro.RKE2, place, tc.change))
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
		"the default": {want: "rancher/system-agent-installer-rke2:v1.36.2-rke2r1"},
		"another prefix": {edits: edits{image("example.org/installer-")},
			want: "example.org/installer-rke2:v1.36.2-rke2r1"},
		"a registry": {edits: edits{global("system-default-registry", "r.example.com")},
			want: "r.example.com/rancher/system-agent-installer-rke2:v1.36.2-rke2r1"},
		"an image without a project": {edits: edits{image("installer-"),
			global("system-default-registry", "r.example.com")},
			want: "r.example.com/rancher/installer-rke2:v1.36.2-rke2r1"},
		"the registry is in the image": {edits: edits{image("r.example.com/installer-"),
			global("system-default-registry", "r.example.com")}, want: "r.example.com/installer-rke2:v1.36.2-rke2r1"},
		"a registry that is not a string": {edits: edits{global("system-default-registry", 5)},
			want: "rancher/system-agent-installer-rke2:v1.36.2-rke2r1"},
		"a registry for some machines is not the cluster's": {
			edits: edits{selected(labelled("a"), "system-default-registry", "r.example.com")},
			want:  "rancher/system-agent-installer-rke2:v1.36.2-rke2r1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := mustPlan(t,
				basicInput(distro.RKE2, "worker", tc.edits...)).Instructions[0].Image; got != tc.want {
				t.Errorf("image %s, want %s", got, tc.want)
			}
		})
	}
}

func image(prefix string) func(*render.Input) {
	return func(in *render.Input) { in.Settings.InstallerImage = prefix }
}

func onlyByAgent(in *render.Input) { in.ClusterAgent.OnlyWay = true }

func TestPlan_PeriodicInstructions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		place string
		edits edits
		want  []string
	}{
		"an init node that serves the API": {place: "init", want: []string{render.CaptureKubeconfig}},
		"an init node without the API": {place: "init-etcd",
			want: []string{render.CaptureAddress, render.EtcdName}},
		"a control plane without etcd":          {place: "controlplane", want: []string{render.CaptureKubeconfig}},
		"only the agent connects":               {place: "init", edits: edits{onlyByAgent}},
		"only the agent connects, without etcd": {place: "controlplane", edits: edits{onlyByAgent}},
		"an agent, on a node without the API": {place: "init-etcd", edits: edits{onlyByAgent},
			want: []string{render.CaptureAddress, render.EtcdName}},
		"another server": {place: "server"},
		"a worker":       {place: "worker"},
		"join URLs are published by hand": {place: "init-etcd", edits: edits{func(in *render.Input) {
			in.Machine.JoinURLAutosetDisabled = true
		}}},
		"by hand, on a node with the API": {place: "init", edits: edits{func(in *render.Input) {
			in.Machine.JoinURLAutosetDisabled = true
		}}, want: []string{render.CaptureKubeconfig}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, instruction := range mustPlan(t,
				basicInput(distro.K3s, tc.place, tc.edits...)).PeriodicInstructions {
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
	fromBase64 := mustPlan(t,
		basicInput(distro.K3s, "init", s3(rkev1.ETCDSnapshotS3{Bucket: "b", EndpointCA: encoded})))
	if diff := cmp.Diff(fromPEM, fromBase64); diff != "" {
		t.Errorf("both forms of one authority give different plans:\n%s", diff)
	}
	path, _ := configOf(t, fromPEM, distro.K3s)["etcd-s3-endpoint-ca"].(string)
	if got := contentAt(t, fromPEM, path); got != pem {
		t.Errorf("file %s contains %q", path, got)
	}
}

func TestPlan_S3Switch(t *testing.T) {
	t.Parallel()
	credential := secret("fleet-default/cc",
		render.Secret{Data: map[string][]byte{"s3credentialConfig-defaultBucket": []byte("b")}})
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
				t.Errorf("bucket %v must be the credential's default", bucket)
			}
		})
	}
}

func TestPlan_RegistryFilesAreAlwaysManaged(t *testing.T) {
	t.Parallel()
	p := mustPlan(t, basicInput(distro.K3s, "worker"))
	if got := contentAt(t, p, "/etc/rancher/k3s/registries.yaml"); got != "" {
		t.Errorf("without registries the file contains %q", got)
	}
	if _, ok := fileAt(p, distro.AgentRegistriesFile); ok {
		t.Error("without registries the agent gets a file")
	}
}

func TestPlan_GlobalRegistryCredentials(t *testing.T) {
	t.Parallel()
	pull := func(in *render.Input) {
		in.Settings.SystemDefaultRegistry = "r.example.com/mirror"
		in.Settings.RegistryPullSecrets = append(in.Settings.RegistryPullSecrets, objectName("cattle-system/opaque"),
			objectName("cattle-system/pull"))
		secret("cattle-system/opaque", render.Secret{Type: corev1.SecretTypeOpaque})(in)
		secret("cattle-system/pull", render.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{
			corev1.DockerConfigJsonKey: []byte(`{"auths":{"r.example.com":{"username":"global"}}}`),
		}})(in)
	}
	for name, tc := range map[string]struct {
		edits edits
		want  bool
	}{
		"the default registry": {edits: edits{pull}, want: true},
		"the cluster's registry": {edits: edits{pull, global("system-default-registry", "own.example.com"),
			registry("x", rkev1.RegistryConfig{})}},
		"the cluster configured that host": {
			edits: edits{pull, registry("r.example.com", rkev1.RegistryConfig{InsecureSkipVerify: true})}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := contentAt(t, mustPlan(t, basicInput(distro.RKE2, "worker", tc.edits...)),
				"/etc/rancher/rke2/registries.yaml")
			if got := strings.Contains(content, `"global"`); got != tc.want {
				t.Errorf("global credentials used: %v, want %v: %s", got, tc.want, content)
			}
		})
	}
}

// TestPlan_PreBootstrapReachesServersOnly checks that workers do not get what servers need before the cluster is up.
// (docs/invariants.md#weaknesses, W30.)
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
			t.Errorf("%s gets addons before the cluster is ready", place)
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
		// The content is {"Server":"https://10.0.0.1:9345"}.
		"a key in another case": {
			plan: plan.NodePlan{
				Files: []plan.File{{Path: "/x/50-rancher.yaml",
					Content: "eyJTZXJ2ZXIiOiJodHRwczovLzEwLjAuMC4xOjkzNDUifQ=="}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := render.JoinedServer(tc.plan); got != tc.want {
				t.Errorf("JoinedServer = %q, want %q", got, tc.want)
			}
		})
	}
}

// TestStampsOf checks that a plan has two different stamps.
func TestStampsOf(t *testing.T) {
	t.Parallel()
	got := render.StampsOf(mustPlan(t, basicInput(distro.RKE2, "worker")))
	if len(got.Restart) != 64 || len(got.Drain) != 64 || got.Restart == got.Drain {
		t.Errorf("stamps of a node: %+v", got)
	}
	if got = render.StampsOf(plan.NodePlan{}); got != (render.Stamps{}) {
		t.Errorf("stamps of an empty plan: %+v", got)
	}
}
