package managementplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/local/managementplane/pki"
	"github.com/drover-io/drover/pkg/testkit/golden"
)

func pair(name string) pki.Pair {
	return pki.Pair{CertFile: "/data/pki/" + name + ".crt", KeyFile: "/data/pki/" + name + ".key"}
}

func exampleSettings(alter func(*Config)) settings {
	config := Config{Dir: "/data", KubeBinary: "/bin/drover-kube", BindAddress: "198.18.0.1", NodeName: "local"}
	alter(&config)
	return settings{
		Config: config,
		ports: Ports{Etcd: 2379, EtcdPeer: 2380, APIServer: 6443, ControllerManager: 10257, Scheduler: 10259,
			Kubelet: 10250, KubeletHealth: 10248},
		certs: certificates{
			clusterCA: pair("ca"), etcdCA: pair("etcd/ca"), apiServer: pair("kube-apiserver"), etcd: pair("etcd/etcd"),
			controllerManagerServing: pair("kube-controller-manager"), schedulerServing: pair("kube-scheduler"),
			kubeletServing: pair("kubelet-serving"),
			admin:          pair("admin"), controllerManager: pair("controller-manager-client"),
			scheduler: pair("scheduler-client"),
			kubelet:   pair("kubelet-client"), apiServerToEtcd: pair("etcd/apiserver-etcd-client"),
			apiServerToKubelet: pair("apiserver-kubelet-client"),
			serviceAccountKey:  "/data/pki/service-account.key", serviceAccountPublic: "/data/pki/service-account.pub",
		},
	}
}

// The components, their order, arguments and files match the text in testdata, which is easy to review.
func TestComponents(t *testing.T) {
	tests := map[string]func(*Config){
		"minimal": func(*Config) {},
		"complete": func(c *Config) {
			c.Components = AllComponents()
			c.AuditLog = true
			c.FeatureGates = "Some=true"
			c.Images = []Image{{Match: "rancher/machine:*", Program: "/bin/machine-entrypoint",
				WorkingDir: "/home/machine", User: 1000}}
		},
		"pods-with-networks": func(c *Config) {
			c.Components = []string{ProcessKubelet}
			c.Networks = []Network{{Path: "/run/netns/pod-1", Address: "198.18.0.10"},
				{Path: "/run/netns/pod-2", Address: "198.18.0.11"}}
		},
		"chosen-controllers": func(c *Config) {
			c.Components = []string{ControllerManager}
			c.Controllers = []string{"garbage-collector-controller", "namespace-controller"}
		},
	}
	for name, alter := range tests {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			for _, c := range components(exampleSettings(alter)) {
				fmt.Fprintf(&text, "%s %s\n  ready: %s %+v\n  grace: %s\n", c.Name, strings.Join(c.Args, "\n  "),
					c.Ready.URL, c.Ready.Client, c.Grace)
				for _, file := range c.Files {
					fmt.Fprintf(&text, "  file %s:\n    %s\n", file.Path,
						strings.ReplaceAll(strings.TrimSpace(string(file.Content)), "\n", "\n    "))
				}
			}
			golden.Check(t, "testdata/components-"+name+".txt", text.String())
		})
	}
}

// All ports except the API's and the kubelet's are on loopback, whatever the API's address.
func TestOnlyAPIAndKubeletAreReachable(t *testing.T) {
	for _, component := range components(exampleSettings(func(c *Config) { c.Components = AllComponents() })) {
		for _, arg := range component.Args {
			if strings.Contains(arg, "198.18.0.1") && component.Name != apiServerName {
				t.Errorf("%s: %s", component.Name, arg)
			}
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	program := filepath.Join(t.TempDir(), "drover-kube")
	if err := os.WriteFile(program, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		config Config
		want   string
	}{
		"enough":       {config: Config{Dir: "d", KubeBinary: program}},
		"no directory": {config: Config{KubeBinary: program}, want: "Dir: is required"},
		"no program": {config: Config{Dir: "d", KubeBinary: "/no/such"},
			want: `KubeBinary: "/no/such" must be a program; scripts/build-kube`},
		"any address": {config: Config{Dir: "d", KubeBinary: program, BindAddress: "0.0.0.0"},
			want: `BindAddress: "0.0.0.0" must be the address of one interface`},
		"unknown component": {config: Config{Dir: "d", KubeBinary: program, Components: []string{"kube-proxy"}},
			want: `Components: "kube-proxy" is unknown; choose from [kube-controller-manager`},
		"two sources of an image": {config: Config{Dir: "d", KubeBinary: program,
			Images: []Image{{Match: "a", Program: "/b", Layout: "/c"}}},
			want: "Images[0]: needs a Match and the absolute path"},
		"layout": {config: Config{Dir: "d", KubeBinary: program,
			Images: []Image{{Match: "a", Layout: "/c"}}}},
		"relative network": {config: Config{Dir: "d", KubeBinary: program,
			Networks: []Network{{Path: "pod-1", Address: "198.18.0.10"}}},
			want: "Networks[0]: needs the absolute Path"},
		"unknown address": {config: Config{Dir: "d", KubeBinary: program,
			Networks: []Network{{Path: "/run/netns/pod-1"}}}, want: "and the IP Address in it"},
		"relative image": {config: Config{Dir: "d", KubeBinary: program, Images: []Image{{Match: "a", Program: "b"}}},
			want: "Images[0]: needs a Match and the absolute path"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := New(test.config)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
}

func TestPortsAreStoredUnlessFixed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ports")
	first, err := choosePorts(Ports{}, loopback, file)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range []int{first.Etcd, first.EtcdPeer, first.APIServer, first.ControllerManager, first.Scheduler,
		first.Kubelet, first.KubeletHealth} {
		if port < firstFreePort || port >= firstFreePort+freePorts || seen[port] {
			t.Errorf("port %d is out of range or used twice", port)
		}
		seen[port] = true
	}
	second, err := choosePorts(Ports{APIServer: 6443}, loopback, file)
	if err != nil {
		t.Fatal(err)
	}
	want := first
	want.APIServer = 6443
	if diff := cmp.Diff(want, second); diff != "" {
		t.Errorf("ports of the second run (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := choosePorts(Ports{}, loopback, file); err != nil {
		t.Errorf("a damaged file of ports must be no error: %v", err)
	}
}

func TestFreePortTaken(t *testing.T) {
	message := errors.New("start kube-apiserver: listen tcp 127.0.0.1:6443: bind: address already in use")
	tests := map[string]struct {
		err   error
		fixed Ports
		want  bool
	}{
		"a chosen port":          {err: message, want: true},
		"another port was fixed": {err: message, fixed: Ports{Etcd: 2379}, want: true},
		"this port was fixed":    {err: message, fixed: Ports{APIServer: 6443}},
		"another error":          {err: errors.New("disk full")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := freePortTaken(test.err, test.fixed); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
