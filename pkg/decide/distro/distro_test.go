package distro_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
)

func TestRuntimeOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		version string
		want    distro.Runtime
	}{
		"an RKE2 build":                            {version: "v1.36.2+rke2r1", want: distro.RKE2},
		"a K3s build":                              {version: "v1.36.2+k3s1", want: distro.K3s},
		"a K3s release candidate":                  {version: "v1.36.2-rc1+k3s1", want: distro.K3s},
		"a version without a build counts as RKE2": {version: "v1.36.2", want: distro.RKE2},
		"an empty version":                         {version: "", want: distro.RKE2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := distro.RuntimeOf(tc.version); got != tc.want {
				t.Errorf("RuntimeOf(%q) = %q, want %q", tc.version, got, tc.want)
			}
		})
	}
}

// TestWireFacts spells out every fact that existing nodes rely on. Changing one breaks clusters.
func TestWireFacts(t *testing.T) {
	t.Parallel()
	type facts map[string]any
	collect := func(r distro.Runtime) facts {
		return facts{
			"command": r.Command(), "server": r.ServerUnit(), "agent": r.AgentUnit(), "port": r.SupervisorPort(),
			"data": r.DefaultDataDir(), "kubectl": strings.Join(r.Kubectl("/data"), " "),
			"kubeconfig": r.AdminKubeconfig(),
			"killall":    r.KillAllScript(), "config": r.ConfigFile(), "registries": r.RegistriesFile(),
			"env": r.EnvPrefix(),
		}
	}
	want := map[distro.Runtime]facts{
		distro.RKE2: {
			"command": "rke2", "server": "rke2-server", "agent": "rke2-agent", "port": 9345,
			"data": "/var/lib/rancher/rke2", "kubectl": "/data/bin/kubectl",
			"kubeconfig": "/etc/rancher/rke2/rke2.yaml",
			"killall":    "rke2-killall.sh", "config": "/etc/rancher/rke2/config.yaml.d/50-rancher.yaml",
			"registries": "/etc/rancher/rke2/registries.yaml", "env": "RKE2",
		},
		distro.K3s: {
			"command": "k3s", "server": "k3s", "agent": "k3s-agent", "port": 6443,
			"data": "/var/lib/rancher/k3s", "kubectl": "k3s kubectl",
			"kubeconfig": "/etc/rancher/k3s/k3s.yaml",
			"killall":    "k3s-killall.sh", "config": "/etc/rancher/k3s/config.yaml.d/50-rancher.yaml",
			"registries": "/etc/rancher/k3s/registries.yaml", "env": "K3S",
		},
	}
	for runtime, wantFacts := range want {
		if diff := cmp.Diff(wantFacts, collect(runtime)); diff != "" {
			t.Errorf("facts of %s (-want +got):\n%s", runtime, diff)
		}
	}
}

func TestDirsFor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		runtime distro.Runtime
		dirs    rkev1.DataDirectories
		want    map[string]string
	}{
		"defaults of RKE2": {
			runtime: distro.RKE2,
			want: map[string]string{
				"agent": "/var/lib/rancher/agent", "part": "/var/lib/rancher/rke2/etc/config-files/flannel-conf",
				"tls":      "/var/lib/rancher/rke2/etc/tls/registries/r.example:5000/ca.crt",
				"manifest": "/var/lib/rancher/rke2/server/manifests/rancher/addons.yaml",
				"cert":     "/var/lib/rancher/rke2/server/tls/kube-scheduler",
				"webhook":  "/var/lib/rancher/rke2/kube-api-authn-webhook.yaml",
				"script":   "/var/lib/rancher/capr/idempotence/idempotent.sh",
				"name":     "/var/lib/rancher/rke2/server/db/etcd/name",
			},
		},
		"all directories moved": {
			runtime: distro.K3s,
			dirs:    rkev1.DataDirectories{SystemAgent: "/a", Provisioning: "/p", K8sDistro: "/d"},
			want: map[string]string{
				"agent": "/a", "part": "/d/etc/config-files/flannel-conf",
				"tls":      "/d/etc/tls/registries/r.example:5000/ca.crt",
				"manifest": "/d/server/manifests/rancher/addons.yaml", "cert": "/d/server/tls/kube-scheduler",
				"webhook": "/d/kube-api-authn-webhook.yaml", "script": "/p/idempotence/idempotent.sh",
				"name": "/d/server/db/etcd/name",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dirs := distro.DirsFor(tc.runtime, tc.dirs)
			got := map[string]string{
				"agent": dirs.SystemAgent, "part": dirs.ConfigPart("flannel-conf"),
				"tls":      dirs.RegistryTLS("r.example:5000", "ca.crt"),
				"manifest": dirs.Manifest("addons.yaml"), "cert": distro.Scheduler().CertDir(dirs),
				"webhook": dirs.AuthnWebhook(), "script": dirs.IdempotentScript(), "name": dirs.EtcdName(),
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("paths (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoopbackHost(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		networking *rkev1.Networking
		want       string
	}{
		"no value":         {want: "localhost"},
		"empty preference": {networking: &rkev1.Networking{}, want: "localhost"},
		"dual stack":       {networking: &rkev1.Networking{StackPreference: "dual"}, want: "localhost"},
		"IPv4":             {networking: &rkev1.Networking{StackPreference: "ipv4"}, want: "127.0.0.1"},
		"IPv6":             {networking: &rkev1.Networking{StackPreference: "ipv6"}, want: "[::1]"},
		"other values":     {networking: &rkev1.Networking{StackPreference: "ipx"}, want: "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := distro.LoopbackHost(tc.networking); got != tc.want {
				t.Errorf("LoopbackHost = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestJoinURL(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{"10.0.0.1": "https://10.0.0.1:9345",
		"fd00::1": "https://[fd00::1]:9345"} {
		if got := distro.RKE2.JoinURL(host); got != want {
			t.Errorf("JoinURL(%q) = %q, want %q", host, got, want)
		}
	}
}

func TestReleaseArg(t *testing.T) {
	t.Parallel()
	release := distro.Release{
		ServerArgs: map[string]distro.ArgKind{"disable": distro.ArgArray},
		AgentArgs:  map[string]distro.ArgKind{"kubelet-arg": distro.ArgArray},
		Charts:     []string{"rke2-calico"},
	}
	for name, tc := range map[string]struct {
		key    string
		server bool
		want   bool
	}{
		"a worker key on a worker": {key: "kubelet-arg", want: true},
		"a worker key on a server": {key: "kubelet-arg", server: true, want: true},
		"a server key on a server": {key: "disable", server: true, want: true},
		"a server key on a worker": {key: "disable"},
		"an unknown key":           {key: "nonsense", server: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, got := release.Arg(tc.key, tc.server); got != tc.want {
				t.Errorf("Arg(%q, %v) known = %v, want %v", tc.key, tc.server, got, tc.want)
			}
		})
	}
	if release.HasChart("rke2-cilium") || !release.HasChart("rke2-calico") || !(distro.Release{}).HasChart("x") {
		t.Error("HasChart does not follow the chart list")
	}
	if release.Empty() || !(distro.Release{}).Empty() {
		t.Error("Empty does not follow the argument tables")
	}
}
