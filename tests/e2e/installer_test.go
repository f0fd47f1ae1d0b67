package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/tests/testbed/distro"
	"github.com/drover-io/drover/tests/testbed/rig"
)

// standInVersion differs from the versions of other tests, so that no other installer image can serve this one.
const standInVersion = "v1.36.2+k3s1"

// TestInstallerByPath gives the testbed a distribution by path. Without DROVER_INSTALLER it is the stand-in, in the
// form in which the makers of K3s publish it.
func TestInstallerByPath(t *testing.T) {
	paths := givenInstallers()
	if len(paths) == 0 {
		bin := binFolder(t)
		release := filepath.Join(t.TempDir(), "downloads")
		must(t, distro.WriteRelease(release, standInVersion, filepath.Join(bin, "drover-distro"),
			filepath.Join(bin, "drover-kube")))
		paths = []string{release}
	}
	w := newWorldWith(t, "bypath", func(o *rig.Options) { o.Installers, o.Versions = paths, nil })
	version := w.Release("")
	runtime := distro.RuntimeOf(version)
	t.Logf("the installer contains %s", version)
	if len(givenInstallers()) == 0 && version != standInVersion {
		t.Fatalf("the rig runs %s, want %s", version, standInVersion)
	}
	must(t, w.Apply(t.Context(), cluster("bypath", version)))
	w.awaitReady("bypath")

	nodes, err := w.downstream("bypath").CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(nodes.Items) != 1 || nodes.Items[0].Status.NodeInfo.KubeletVersion != version {
		t.Errorf("want one node with %s: %+v", version, nodes.Items)
	}
	machine := w.Lab.List()[0].Name
	images := "/var/lib/rancher/" + string(runtime) + "/agent/images/"
	for what, command := range map[string]string{
		"the archive of the distribution's images": "ls -l " + images + version + "-*images*",
		"the archive of Drover's image":            "tar -xOf " + images + "drover-images.tar manifest.json",
		"the kernel's log":                         "head -c0 /dev/kmsg",
		"writable kernel parameters":               "test -w /proc/sys/vm/overcommit_memory",
		"writable control groups": "for group in /sys/fs/cgroup/*; do ! mountpoint -q $group || " +
			"{ mkdir $group/drover-test && rmdir $group/drover-test; } || exit 1; done",
		"an overlay on the folder of containers": "cd /var/lib/rancher && mkdir -p t/l t/u t/w t/m && " +
			"mount -t overlay t -o lowerdir=t/l,upperdir=t/u,workdir=t/w t/m && umount t/m && rm -r t",
	} {
		out := w.command(machine, command)
		if what == "the archive of Drover's image" && !strings.Contains(out, `"drover-io/drover:`) {
			t.Errorf("%s is missing: %s", what, out)
		}
	}
	w.deleteCluster("bypath")
}
