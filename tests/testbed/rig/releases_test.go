package rig

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/tests/testbed/distro"
	"github.com/drover-io/drover/tests/testbed/lab"
)

func TestKubelets(t *testing.T) {
	options := Options{Dir: "/rig", Bin: "/bin"}
	archive := func(name string) string { return filepath.Join("/rig/distribution/archives", name) }
	for name, test := range map[string]struct {
		kept       []keptRelease
		want       *lab.Kubelets
		installers string
	}{
		"the stand-in needs nothing": {installers: "/bin/installers"},
		"two versions of K3s and an old RKE2": {
			installers: "/rig/distribution/installers",
			kept: []keptRelease{
				{Runtime: distro.K3s, Version: "v1.35.1+k3s1", Archives: []string{"v1.35.1+k3s1-a.tar"}},
				{Runtime: distro.K3s, Version: "v1.36.2+k3s1", Archives: []string{"v1.36.2+k3s1-a.tar"}},
				{Runtime: distro.RKE2, Version: "v1.34.2+rke2r1", Archives: []string{"v1.34.2+rke2r1-b.tar"}},
			},
			want: &lab.Kubelets{
				Archives: map[string]string{
					"/var/lib/rancher/k3s/agent/images/drover-images.tar":     archive("drover-images.tar"),
					"/var/lib/rancher/k3s/agent/images/v1.35.1+k3s1-a.tar":    archive("v1.35.1+k3s1-a.tar"),
					"/var/lib/rancher/k3s/agent/images/v1.36.2+k3s1-a.tar":    archive("v1.36.2+k3s1-a.tar"),
					"/var/lib/rancher/rke2/agent/images/drover-images.tar":    archive("drover-images.tar"),
					"/var/lib/rancher/rke2/agent/images/v1.34.2+rke2r1-b.tar": archive("v1.34.2+rke2r1-b.tar"),
				},
				CgroupV1Config: []string{"/etc/rancher/k3s/config.yaml.d/99-lab.yaml"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, options.kubelets(test.kept)); diff != "" {
				t.Errorf("machines (-want +got):\n%s", diff)
			}
			if got := options.installers(test.kept); got != test.installers {
				t.Errorf("installer images are in %s, want %s", got, test.installers)
			}
		})
	}
}
