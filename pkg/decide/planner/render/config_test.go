package render_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner/render"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

func selected(selector *metav1.LabelSelector, key string, value any) func(*render.Input) {
	return func(in *render.Input) {
		in.ControlPlane.Spec.MachineSelectorConfig = append(in.ControlPlane.Spec.MachineSelectorConfig,
			rkev1.RKESystemConfig{MachineLabelSelector: selector,
				Config: rkev1.GenericMap{Data: map[string]any{key: value}}})
	}
}

func labelled(value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"zone": value}}
}

type edits = []func(*render.Input)

// TestPlan_ConfigKeys checks single keys of 50-rancher.yaml. A nil value means that the key must be absent.
func TestPlan_ConfigKeys(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		runtime distro.Runtime
		place   string
		edits   edits
		want    map[string]any
	}{
		"a later source replaces a list completely": {place: "init", edits: edits{
			global("kubelet-arg", list("a=1", "b=2")), selected(labelled("a"), "kubelet-arg", list("c=3")),
		}, want: map[string]any{"kubelet-arg": list("c=3")}},
		"a selector for other machines does nothing": {place: "init", edits: edits{
			global("kubelet-arg", list("a=1")), selected(labelled("b"), "kubelet-arg", list("c=3")),
		}, want: map[string]any{"kubelet-arg": list("a=1")}},
		"an empty selector matches everything": {place: "init", edits: edits{
			selected(&metav1.LabelSelector{}, "selinux", true),
		}, want: map[string]any{"selinux": true}},
		"the last matching selector wins": {place: "init", edits: edits{
			selected(nil, "profile", "one"), selected(labelled("a"), "profile", "two"),
		}, want: map[string]any{"profile": "two"}},
		"calico is the default of RKE2": {place: "init", want: map[string]any{"cni": "calico"}},
		"K3s has no such default":       {runtime: distro.K3s, place: "init", want: map[string]any{"cni": nil}},
		"strings become booleans": {place: "init", edits: edits{
			global("selinux", "Y"), global("secrets-encryption", "no"),
		}, want: map[string]any{"selinux": true, "secrets-encryption": false}},
		"numbers pass through": {place: "init", edits: edits{global("profile", 1.5), global("odd", 7.0)},
			want: map[string]any{"profile": 1.5, "odd": 7.0}},
		"maps pass through": {place: "init", edits: edits{global("odd", map[string]any{"a": "b"})},
			want: map[string]any{"odd": map[string]any{"a": "b"}}},
		"empty values are pruned": {place: "init", edits: edits{
			global("profile", ""), global("disable", list()), global("odd", nil),
		}, want: map[string]any{"profile": nil, "disable": nil, "odd": nil}},
		"a worker does not get keys of servers": {place: "worker",
			edits: edits{global("disable", list("x")), global("profile", "cis")},
			want:  map[string]any{"disable": nil, "cni": nil, "profile": "cis"}},
		"without release data a worker gets every key": {place: "worker", edits: edits{
			global("disable", list("x")), func(in *render.Input) { in.Release = distro.Release{} },
		}, want: map[string]any{"disable": list("x")}},
		"the init node of K3s starts a cluster": {runtime: distro.K3s, place: "init",
			want: map[string]any{"cluster-init": true, "server": nil}},
		"the init node of RKE2 needs no key": {place: "init", want: map[string]any{"cluster-init": nil, "server": nil}},
		"other nodes join": {place: "server",
			want: map[string]any{"server": "https://10.0.0.1:9345"}},
		"K3s joins at another port": {runtime: distro.K3s, place: "worker",
			want: map[string]any{"server": "https://10.0.0.1:6443"}},
		"other nodes start no cluster of K3s": {runtime: distro.K3s, place: "server",
			edits: edits{global("cluster-init", true), global("server", "https://other:6443")},
			want:  map[string]any{"cluster-init": nil, "server": "https://10.0.0.1:6443"}},
		"the init node joins no server, and resets only in restores": {place: "init", edits: edits{
			global("server", "https://other:9345"), selected(labelled("a"), "cluster-reset", true),
			global("cluster-reset-restore-path", "x"),
		}, want: map[string]any{"server": nil, "cluster-reset": nil, "cluster-reset-restore-path": nil}},
		"a worker has the agent token": {place: "worker",
			want: map[string]any{"token": "AGENT-TOKEN", "agent-token": nil}},
		"a server has both tokens": {place: "controlplane",
			want: map[string]any{"token": "SERVER-TOKEN", "agent-token": "AGENT-TOKEN"}},
		"no tokens, no keys": {place: "init", edits: edits{func(in *render.Input) {
			in.Tokens = render.Tokens{}
		}}, want: map[string]any{"token": nil}},
		"a server without control plane": {place: "init-etcd",
			want: map[string]any{"disable-apiserver": true, "disable-scheduler": true,
				"disable-controller-manager": true, "disable-etcd": nil}},
		"a server without etcd": {place: "controlplane",
			want: map[string]any{"disable-etcd": true, "disable-apiserver": nil}},
		"the default registry reaches servers": {place: "server", edits: edits{func(in *render.Input) {
			in.Settings.SystemDefaultRegistry = "r.example.com"
		}}, want: map[string]any{"system-default-registry": "r.example.com"}},
		"the default registry is not set on workers": {place: "worker", edits: edits{func(in *render.Input) {
			in.Settings.SystemDefaultRegistry = "r.example.com"
		}}, want: map[string]any{"system-default-registry": nil}},
		"the cluster's registry wins": {place: "server", edits: edits{func(in *render.Input) {
			in.Settings.SystemDefaultRegistry = "r.example.com"
		}, selected(nil, "system-default-registry", "own.example.com")},
			want: map[string]any{"system-default-registry": "own.example.com"}},
		"etcd settings are not set on other nodes": {place: "controlplane", edits: edits{withSnapshots},
			want: map[string]any{"etcd-snapshot-retention": nil, "etcd-disable-snapshots": nil}},
		"etcd settings reach etcd nodes": {place: "server", edits: edits{withSnapshots},
			want: map[string]any{"etcd-snapshot-retention": 3.0, "etcd-snapshot-schedule-cron": "@daily",
				"etcd-disable-snapshots": true, "etcd-s3": nil}},
		"prime follows the setting": {place: "init", edits: edits{func(in *render.Input) {
			in.Settings.RKE2Prime = true
		}}, want: map[string]any{"prime": true}},
		"the annotation overrides the setting": {place: "init", edits: edits{func(in *render.Input) {
			in.Settings.RKE2Prime = true
		}, prime("False")}, want: map[string]any{"prime": nil}},
		"only the annotation": {place: "init", edits: edits{prime("TRUE")},
			want: map[string]any{"prime": true}},
		"an empty annotation is ignored": {place: "init", edits: edits{func(in *render.Input) {
			in.Settings.RKE2Prime = true
		}, prime("")}, want: map[string]any{"prime": true}},
		"the user's prime is kept": {place: "init", edits: edits{prime("true"), global("prime", false)},
			want: map[string]any{"prime": false}},
		"K3s has no prime": {runtime: distro.K3s, place: "init", edits: edits{prime("true")},
			want: map[string]any{"prime": nil}},
		"a release without prime does not get it": {place: "init", edits: edits{prime("true"), func(in *render.Input) {
			in.Release = distro.Release{}
		}}, want: map[string]any{"prime": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runtime := tc.runtime
			if runtime == "" {
				runtime = distro.RKE2
			}
			config := configOf(t, mustPlan(t, basicInput(runtime, tc.place, tc.edits...)), runtime)
			for key, want := range tc.want {
				got, present := config[key]
				if want == nil && present {
					t.Errorf("key %s must be absent, is %v", key, got)
				}
				if diff := cmp.Diff(want, got); want != nil && diff != "" {
					t.Errorf("key %s (-want +got):\n%s", key, diff)
				}
			}
		})
	}
}

func withSnapshots(in *render.Input) {
	in.ControlPlane.Spec.ETCD = &rkev1.ETCD{DisableSnapshots: true, SnapshotRetention: 3,
		SnapshotScheduleCron: "@daily", S3: &rkev1.ETCDSnapshotS3{}}
}

func prime(value string) func(*render.Input) {
	return func(in *render.Input) {
		in.ControlPlane.Annotations = map[string]string{"provisioning.cattle.io/rke2-prime-enabled": value}
	}
}

func TestPlan_ComponentArguments(t *testing.T) {
	t.Parallel()
	const dir = "/var/lib/rancher/rke2/server/tls/kube-scheduler"
	for name, tc := range map[string]struct {
		user       any
		want       []any
		wantMounts []any
		wantURL    string
		wantCert   string
	}{
		"no value": {
			want: list("cert-dir="+dir, "secure-port=10259"), wantMounts: list(dir + ":" + dir),
			wantURL: "https://localhost:10259/healthz", wantCert: dir + "/kube-scheduler.crt",
		},
		"a single string": {
			user: "v=4", want: list("v=4", "cert-dir="+dir, "secure-port=10259"), wantMounts: list(dir + ":" + dir),
			wantURL: "https://localhost:10259/healthz", wantCert: dir + "/kube-scheduler.crt",
		},
		"the user's certificate": {
			user:       list("tls-cert-file=/x.crt", "cert-dir=/ignored"),
			want:       list("tls-cert-file=/x.crt", "cert-dir=/ignored", "secure-port=10259"),
			wantMounts: list("/:/"), wantURL: "https://localhost:10259/healthz", wantCert: "/x.crt",
		},
		"the user's directory and port": {
			user: list("cert-dir=/certs", "secure-port=1"), want: list("cert-dir=/certs", "secure-port=1"),
			wantMounts: list("/certs:/certs"), wantURL: "https://localhost:1/healthz",
			wantCert: "/certs/kube-scheduler.crt",
		},
		"empty values count as absent": {
			user:       list("tls-cert-file=", "cert-dir=", "secure-port="),
			want:       list("tls-cert-file=", "cert-dir=", "secure-port=", "cert-dir="+dir, "secure-port=10259"),
			wantMounts: list(dir + ":" + dir),
			wantURL:    "https://localhost:10259/healthz", wantCert: dir + "/kube-scheduler.crt",
		},
		"strings that are not arguments are kept": {
			user: list("nonsense", 5.0), want: list("nonsense", 5.0, "cert-dir="+dir, "secure-port=10259"),
			wantMounts: list(dir + ":" + dir),
			wantURL:    "https://localhost:10259/healthz", wantCert: dir + "/kube-scheduler.crt",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := mustPlan(t, basicInput(distro.RKE2, "init", global("kube-scheduler-arg", tc.user)))
			config := configOf(t, p, distro.RKE2)
			if diff := cmp.Diff(any(tc.want), config["kube-scheduler-arg"]); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(any(tc.wantMounts), config["kube-scheduler-extra-mount"]); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(plan.HTTPGetAction{URL: tc.wantURL, CACert: tc.wantCert},
				p.Probes["kube-scheduler"].HTTPGetAction); diff != "" {
				t.Errorf("probe (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPlan_K3sPassesCertificates checks that a probe trusts the certificate that the component serves. A user's
// cert-dir has no effect where K3s passes the certificate itself.
func TestPlan_K3sPassesCertificates(t *testing.T) {
	t.Parallel()
	const own = "/var/lib/rancher/k3s/server/tls/kube-scheduler/kube-scheduler.crt"
	for version, want := range map[string]string{
		"v1.31.9+k3s1": "/certs/kube-scheduler.crt",
		"v1.32.4+k3s1": "/certs/kube-scheduler.crt",
		"v1.32.5+k3s1": own,
		"v1.33.0+k3s1": "/certs/kube-scheduler.crt",
		"v1.33.1+k3s1": own,
		"v1.36.2+k3s1": own,
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			p := mustPlan(t, basicInput(distro.K3s, "init", global("kube-scheduler-arg", "cert-dir=/certs"),
				func(in *render.Input) { in.ControlPlane.Spec.KubernetesVersion = version }))
			if got := p.Probes["kube-scheduler"].HTTPGetAction.CACert; got != want {
				t.Errorf("the probe trusts %s, want %s", got, want)
			}
		})
	}
}

func TestPlan_ComponentMountsExtendTheUsers(t *testing.T) {
	t.Parallel()
	const own = "/var/lib/rancher/rke2/server/tls/kube-scheduler:/var/lib/rancher/rke2/server/tls/kube-scheduler"
	for name, tc := range map[string]struct{ user, want any }{
		"another mount":    {user: "/a:/b", want: list("/a:/b", own)},
		"the mount exists": {user: list(own, "/a:/b"), want: list(own, "/a:/b")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := configOf(t,
				mustPlan(t, basicInput(distro.RKE2, "init", global("kube-scheduler-extra-mount", tc.user))),
				distro.RKE2)
			if diff := cmp.Diff(tc.want, config["kube-scheduler-extra-mount"]); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
		})
	}
	config := configOf(t, mustPlan(t, basicInput(distro.K3s, "init")), distro.K3s)
	if _, present := config["kube-scheduler-extra-mount"]; present {
		t.Error("K3s runs no static pods, but gets mounts for them")
	}
}

func knownEverywhere(key string) func(*render.Input) {
	return func(in *render.Input) { in.Release.AgentArgs[key] = distro.ArgString }
}

// TestPlan_Warnings checks that a plan is rendered with a warning for what the release data do not describe.
// (docs/invariants.md#weaknesses, W32.)
func TestPlan_Warnings(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		place string
		edits edits
		want  []render.Warning
	}{
		"no warning": {place: "init"},
		"an unknown key": {place: "worker", edits: edits{selected(nil, "odd", 1)}, want: []render.Warning{{
			Reason: "UnknownConfigKey", Field: "spec.rkeConfig.machineSelectorConfig[0].config.odd",
			Message: "Key odd is unknown in this release, and Drover passes it through",
		}}},
		"a key for servers only": {place: "worker", edits: edits{global("disable", "x")}},
		"a string instead of a boolean": {place: "init", edits: edits{global("selinux", "maybe")},
			want: []render.Warning{{
				Reason: "UnexpectedValue", Field: "spec.rkeConfig.machineGlobalConfig.selinux",
				Message: "Key selinux must be true or false; Drover passes its value through",
			}}},
		"a managed key": {place: "init", edits: edits{global("token", "MINE")}, want: []render.Warning{
			{
				Reason: "OverriddenConfigKey", Field: "spec.rkeConfig.machineGlobalConfig.token",
				Message: "Drover manages key token and ignores the value",
			},
			{
				Reason: "UnknownConfigKey", Field: "spec.rkeConfig.machineGlobalConfig.token",
				Message: "Key token is unknown in this release, and Drover passes it through",
			},
		}},
		"a key that would reset the cluster": {place: "init", edits: edits{global("cluster-reset", true)},
			want: []render.Warning{
				{
					Reason: "OverriddenConfigKey", Field: "spec.rkeConfig.machineGlobalConfig.cluster-reset",
					Message: "Drover manages key cluster-reset and ignores the value",
				},
				{
					Reason: "UnknownConfigKey", Field: "spec.rkeConfig.machineGlobalConfig.cluster-reset",
					Message: "Key cluster-reset is unknown in this release, and Drover passes it through",
				},
			}},
		"a key for servers on workers, by selector": {place: "worker",
			edits: edits{selected(labelled("a"), "disable", "x")}, want: []render.Warning{{
				Reason: "ServerOnlyConfigKey", Field: "spec.rkeConfig.machineSelectorConfig[0].config.disable",
				Message: "Key disable is only for servers, and Drover omits it on workers",
			}}},
		"a key for servers on servers, by selector": {place: "init",
			edits: edits{selected(labelled("a"), "disable", "x")}},
		"a key for servers on all machines, by selector": {place: "worker",
			edits: edits{selected(&metav1.LabelSelector{}, "disable", "x")}},
		"a key for servers on other workers, by selector": {place: "worker",
			edits: edits{selected(labelled("b"), "disable", "x")}},
		"a data directory in the wrong place": {place: "worker",
			edits: edits{knownEverywhere("data-dir"), global("data-dir", "/mnt/k8s")}, want: []render.Warning{{
				Reason: "MisplacedConfigKey", Field: "spec.rkeConfig.machineGlobalConfig.data-dir",
				Message: "Drover passes key data-dir through, but uses files and health checks in " +
					"/var/lib/rancher/rke2: set spec.rkeConfig.dataDirectories.k8sDistro instead",
			}}},
		"another datastore than etcd": {place: "init",
			edits: edits{global("datastore-endpoint", "postgres://user:secret@db/k8s")}, want: []render.Warning{
				{
					Reason: "ForeignDatastore", Field: "spec.rkeConfig.machineGlobalConfig.datastore-endpoint",
					Message: "Drover passes key datastore-endpoint through: servers store the cluster's data there, " +
						"and not on the machines with etcd. " +
						"Snapshots, restores and health checks support only etcd",
				},
				{
					Reason: "UnknownConfigKey", Field: "spec.rkeConfig.machineGlobalConfig.datastore-endpoint",
					Message: "Key datastore-endpoint is unknown in this release, and Drover passes it through",
				},
			}},
		"another datastore, on a worker": {place: "worker", edits: edits{knownEverywhere("datastore-endpoint"),
			global("datastore-endpoint", "x")}},
		"the default data directory": {place: "worker",
			edits: edits{knownEverywhere("data-dir"), global("data-dir", "/var/lib/rancher/rke2")}},
		"a file from a missing key": {place: "worker",
			edits: edits{secretFile(rkev1.KeyToPath{Key: "none", Path: "/a"})}, want: []render.Warning{{
				Reason:  "MissingKey",
				Field:   "spec.rkeConfig.machineSelectorFiles[0].fileSources[0].secret.items[0].key",
				Message: "Secret fleet-default/files has no key none; the file is empty",
			}}},
		"a file that is written twice": {place: "worker",
			edits: edits{
				secretFile(rkev1.KeyToPath{Key: "a", Path: "/etc/rancher/rke2/registries.yaml"})},
			want: []render.Warning{{
				Reason: "SameFile", Field: "spec.rkeConfig.machineSelectorFiles[0].fileSources[0].secret.items[0].path",
				Message: "Several entries write /etc/rancher/rke2/registries.yaml; the last one wins",
			}}},
		"a file that hides the configuration": {place: "worker",
			edits: edits{
				secretFile(rkev1.KeyToPath{Key: "a", Path: "/etc/rancher/rke2/config.yaml.d/50-rancher.yaml"})},
			want: []render.Warning{{
				Reason: "SameFile", Field: "spec.rkeConfig.machineSelectorFiles[0].fileSources[0].secret.items[0].path",
				Message: "Several entries write /etc/rancher/rke2/config.yaml.d/50-rancher.yaml; the last one wins",
			}}},
		"a file that a manifest hides": {place: "init",
			edits: edits{
				secretFile(rkev1.KeyToPath{Key: "a",
					Path: "/var/lib/rancher/rke2/server/manifests/rancher/addons.yaml"})}, want: []render.Warning{{
				Reason: "SameFile", Field: "spec.rkeConfig.machineSelectorFiles[0].fileSources[0].secret.items[0].path",
				Message: "Several entries write /var/lib/rancher/rke2/server/manifests/rancher/addons.yaml; the " +
					"last one wins",
			}}},
		"a managed key with the managed value": {place: "server",
			edits: edits{global("system-default-registry", "r.example.com")}},
		"a map instead of a file's text": {place: "init", edits: edits{global("audit-policy-file", list("x"))},
			want: []render.Warning{{
				Reason: "UnexpectedValue", Field: "spec.rkeConfig.machineGlobalConfig.audit-policy-file",
				Message: "Key audit-policy-file must be the content of a file as text; Drover passes its value through",
			}}},
		"an unknown release": {place: "init", edits: edits{func(in *render.Input) {
			in.Release.Known = false
		}}, want: []render.Warning{{
			Reason: "UnknownRelease", Field: "spec.kubernetesVersion",
			Message: "The release data do not describe v1.36.2+rke2r1: Drover checks configuration keys against the " +
				"nearest versions",
		}}},
		"no release data: no key is unknown": {
			place: "init", edits: edits{global("odd", 1), func(in *render.Input) {
				in.Release = distro.Release{Known: true}
			}},
		},
		"a chart of the user": {place: "init", edits: edits{func(in *render.Input) {
			in.ControlPlane.Spec.ChartValues.Data = map[string]any{"my-chart": nil}
			in.ControlPlane.Spec.AdditionalManifest = "kind: HelmChart\nmetadata: {name: my-chart}"
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, got, err := render.Plan(basicInput(distro.RKE2, tc.place, tc.edits...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
