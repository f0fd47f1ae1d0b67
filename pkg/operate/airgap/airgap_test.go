package airgap

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/controllers"
)

func TestItems_HaveTheNamesOfRequests(t *testing.T) {
	o := Options{
		ServerImage:        "r.example.com/drover-io/drover:v1",
		Settings:           controllers.Settings{SystemDefaultRegistry: "r.example.com"},
		KubernetesVersions: []string{"v1.36.2+rke2r1", "v1.36.2+k3s1"}, Architectures: []string{"amd64", "arm64"},
		ServerArchitecture: "amd64",
	}
	items, err := Items(o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, item := range items {
		got = append(got, string(item.Type)+" "+item.Name)
	}
	want := []string{
		"image r.example.com/drover-io/drover:v1",
		"image r.example.com/drover-io/drover:v1",
		"image r.example.com/" + controllers.DefaultMachineProvisionImage,
		"image r.example.com/rancher/system-agent-installer-rke2:v1.36.2-rke2r1",
		"list https://github.com/rancher/rke2/releases/download/v1.36.2%2Brke2r1/rke2-images-all.linux-amd64.txt",
		"list https://github.com/rancher/rke2/releases/download/v1.36.2%2Brke2r1/rke2-images-all.linux-arm64.txt",
		"image r.example.com/rancher/system-agent-installer-k3s:v1.36.2-k3s1",
		"list https://github.com/k3s-io/k3s/releases/download/v1.36.2%2Bk3s1/k3s-images.txt",
		"file /assets/rancher-system-agent-amd64",
		"file /assets/rancher-system-agent-arm64",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	if own, other := items[8].For, items[9].For; strings.Contains(own, "--assets-dir") ||
		!strings.Contains(other, "--assets-dir") {
		t.Errorf("agents: %q, %q", own, other)
	}
}

// The cluster agent's image is Drover's own image in the registry of the clusters. Clusters do not pull from the
// management cluster's registry.
func TestItems_NameTheAgentImage(t *testing.T) {
	for name, tc := range map[string]struct {
		server, agent, registry string
		want                    string
	}{
		"of Docker Hub": {server: "drover-io/drover:v1", want: "drover-io/drover:v1"},
		"in the registry for clusters": {server: "docker.io/drover-io/drover:v1", registry: "r.example.com",
			want: "r.example.com/drover-io/drover:v1"},
		"in the registry of the charts": {server: "m.example.com/drover-io/drover:v1", registry: "r.example.com",
			want: "m.example.com/drover-io/drover:v1"},
		"another image, set for the server": {server: "drover-io/drover:v1", agent: "ours/agent:v2",
			registry: "r.example.com", want: "r.example.com/ours/agent:v2"},
	} {
		t.Run(name, func(t *testing.T) {
			items, err := Items(Options{ServerImage: tc.server,
				Settings: controllers.Settings{ClusterAgentImage: tc.agent, SystemDefaultRegistry: tc.registry}})
			if err != nil || len(items) < 2 || items[1].Name != tc.want ||
				!strings.Contains(items[1].For, "inside clusters") {
				t.Errorf("%+v, %v; want %s", items, err, tc.want)
			}
		})
	}
}

func TestItems_RefuseInvalidVersions(t *testing.T) {
	for option, o := range map[string]Options{
		"--kubernetes-version": {KubernetesVersions: []string{"v1.36.2"}}, "--arch": {Architectures: []string{"s390x"}},
	} {
		if _, err := Items(o); err == nil || !strings.HasPrefix(err.Error(), option+": ") {
			t.Errorf("%s: %v", option, err)
		}
	}
}
