package airgap

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/controllers"
)

func TestItems_AreNamedAsTheyWillBeAskedFor(t *testing.T) {
	o := Options{
		ServerImage: "r.example.com/drover-io/drover:v1", Settings: controllers.Settings{SystemDefaultRegistry: "r.example.com"},
		KubernetesVersions: []string{"v1.36.2+rke2r1", "v1.36.2+k3s1"}, Architectures: []string{"amd64", "arm64"}, ServerArchitecture: "amd64",
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
	if own, other := items[7].For, items[8].For; strings.Contains(own, "--assets-dir") || !strings.Contains(other, "--assets-dir") {
		t.Errorf("agents: %q, %q", own, other)
	}
}

func TestItems_RefuseWhatIsNoVersion(t *testing.T) {
	for option, o := range map[string]Options{
		"--kubernetes-version": {KubernetesVersions: []string{"v1.36.2"}}, "--arch": {Architectures: []string{"s390x"}},
	} {
		if _, err := Items(o); err == nil || !strings.HasPrefix(err.Error(), option+": ") {
			t.Errorf("%s: %v", option, err)
		}
	}
}
