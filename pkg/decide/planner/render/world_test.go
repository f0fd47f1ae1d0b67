package render_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner/render"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// manifest is the form of testdata/manifests: everything that a plan depends on, except distribution and role.
type manifest struct {
	Annotations      map[string]string
	ConfigGeneration int64
	Initialized      bool
	Spec             rkev1.RKEControlPlaneSpec
	Settings         struct {
		SystemDefaultRegistry string
		RegistryPullSecrets   []string
		RKE2Prime             bool
	}
	Machine struct {
		NodeName    string
		Annotations map[string]string
		Provisioned bool
		Driver      *render.Driver
	}
	ClusterAgent render.ClusterAgent
	Objects      struct {
		Secrets, ConfigMaps []struct {
			Name        string
			Type        corev1.SecretType
			Annotations map[string]string
			Data        map[string]string
		}
	}
}

func loadManifest(tb testing.TB, name string) manifest {
	tb.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "manifests", name+".yaml"))
	if err != nil {
		tb.Fatal(err)
	}
	var m manifest
	if err := yaml.UnmarshalStrict(content, &m); err != nil {
		tb.Fatalf("read manifest %s: %v", name, err)
	}
	return m
}

func manifestNames(tb testing.TB) []string {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "manifests", "*.yaml"))
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no manifests: %v", err)
	}
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = strings.TrimSuffix(filepath.Base(path), ".yaml")
	}
	return names
}

// position is a machine's place in the cluster.
type position struct {
	roles render.Roles
	init  bool
}

var positions = map[string]position{
	"init":         {roles: render.Roles{ETCD: true, ControlPlane: true, Worker: true}, init: true},
	"init-etcd":    {roles: render.Roles{ETCD: true}, init: true},
	"server":       {roles: render.Roles{ETCD: true, ControlPlane: true}},
	"controlplane": {roles: render.Roles{ControlPlane: true}},
	"worker":       {roles: render.Roles{Worker: true}},
}

func objectName(name string) types.NamespacedName {
	namespace, name, _ := strings.Cut(name, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// input completes a manifest to an input.
func (m manifest) input(runtime distro.Runtime, pos position) render.Input {
	in := render.Input{
		Version: render.Version,
		ControlPlane: render.ControlPlane{
			Namespace: "fleet-default", Name: "demo", Annotations: m.Annotations, Spec: m.Spec,
			ConfigGeneration: m.ConfigGeneration, Initialized: m.Initialized,
		},
		Machine: render.Machine{
			Namespace: "fleet-default", Name: "demo-pool-1", UID: "0b5c8f0e-1111-2222-3333-444455556666",
			Labels:      map[string]string{"zone": "a"},
			Annotations: m.Machine.Annotations, Roles: pos.roles, NodeName: m.Machine.NodeName,
			Provisioned: m.Machine.Provisioned, Driver: m.Machine.Driver,
		},
		InitNode: pos.init,
		Tokens:   render.Tokens{Server: "SERVER-TOKEN", Agent: "AGENT-TOKEN"},
		Settings: render.Settings{SystemDefaultRegistry: m.Settings.SystemDefaultRegistry,
			RKE2Prime: m.Settings.RKE2Prime},
		Release: testRelease(),
		Objects: render.Objects{
			Secrets: map[types.NamespacedName]render.Secret{}, ConfigMaps: map[types.NamespacedName]render.ConfigMap{},
		},
		ClusterAgent: m.ClusterAgent,
	}
	in.ControlPlane.Spec.ClusterName, in.ControlPlane.Spec.ManagementClusterName = "demo", "c-m-abcdefgh"
	in.ControlPlane.Spec.KubernetesVersion = map[distro.Runtime]string{distro.RKE2: "v1.36.2+rke2r1",
		distro.K3s: "v1.36.2+k3s1"}[runtime]
	if !pos.init {
		in.JoinURL = runtime.JoinURL("10.0.0.1")
	}
	for _, name := range m.Settings.RegistryPullSecrets {
		in.Settings.RegistryPullSecrets = append(in.Settings.RegistryPullSecrets, objectName(name))
	}
	for _, object := range m.Objects.Secrets {
		in.Objects.Secrets[objectName(object.Name)] = render.Secret{
			Type: object.Type, Annotations: object.Annotations, Data: bytesOf(object.Data),
		}
	}
	for _, object := range m.Objects.ConfigMaps {
		in.Objects.ConfigMaps[objectName(object.Name)] = render.ConfigMap{Annotations: object.Annotations,
			Data: bytesOf(object.Data)}
	}
	return in
}

func bytesOf(data map[string]string) map[string][]byte {
	out := map[string][]byte{}
	for key, value := range data {
		out[key] = []byte(value)
	}
	return out
}

// testRelease knows only the manifests' keys, so that golden files do not change with the release data.
func testRelease() distro.Release {
	return distro.Release{
		Version: "v1.36.2", Known: true,
		ServerArgs: map[string]distro.ArgKind{
			"cni": distro.ArgArray, "disable": distro.ArgArray, "secrets-encryption": distro.ArgBool,
			"tls-san":            distro.ArgArray,
			"kube-apiserver-arg": distro.ArgArray, "kube-scheduler-arg": distro.ArgArray,
			"kube-controller-manager-arg": distro.ArgArray,
			"etcd-arg":                    distro.ArgArray, "service-cidr": distro.ArgString,
			"audit-policy-file": distro.ArgString, "prime": distro.ArgBool,
			"flannel-conf": distro.ArgString,
		},
		AgentArgs: map[string]distro.ArgKind{
			"profile": distro.ArgString, "protect-kernel-defaults": distro.ArgBool, "kubelet-arg": distro.ArgArray,
			"node-label": distro.ArgArray, "selinux": distro.ArgBool, "cloud-provider-config": distro.ArgString,
			"cloud-provider-name": distro.ArgString, "system-default-registry": distro.ArgString,
		},
		Charts: []string{"rke2-calico", "rancher-vsphere-cpi", "rancher-vsphere-csi"},
	}
}
