package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testLab returns a lab without a network.
func testLab(t *testing.T, kubelets *Kubelets) *Lab {
	t.Helper()
	return newLab(Config{Name: "test", Dir: t.TempDir(), Image: "/image", Kubelets: kubelets})
}

func TestKubelets_ArchivesAreOnTheVolumeOfEachMachine(t *testing.T) {
	source := filepath.Join(t.TempDir(), "images.tar")
	if err := os.WriteFile(source, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := testLab(t, &Kubelets{Archives: map[string]string{"/var/lib/rancher/k3s/agent/images/images.tar": source}})
	boot := func(want string) {
		t.Helper()
		if err := l.prepareKubelet("m1"); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(l.folder("m1"), "volumes/var-lib-rancher/k3s/agent/images/images.tar"))
		if err != nil || string(got) != want {
			t.Errorf("the machine's archive is %q (%v), want %q", got, err, want)
		}
	}
	boot("old")
	boot("old")
	if err := os.Remove(source); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(source, []byte("newer"), 0o600); err != nil {
		t.Fatal(err)
	}
	boot("newer")
	args, env := l.kubeletArguments("m1")
	for _, want := range []string{
		"--bind=/dev/kmsg",
		"--bind=" + l.folder("m1") + "/volumes/var-lib-rancher:/var/lib/rancher",
		"--bind=" + l.folder("m1") + "/volumes/var-lib-kubelet:/var/lib/kubelet",
		"SYSTEMD_NSPAWN_API_VFS_WRITABLE=1",
	} {
		if all := strings.Join(append(args, env...), "\n"); !strings.Contains(all, want) {
			t.Errorf("systemd-nspawn lacks %q:\n%s", want, all)
		}
	}
}

// A lab that started with K3s 1.34 gets 1.36 later. Its machines exist, and boot again.
func TestKubelets_AnExistingMachineGetsTheConfigurationOfALaterRelease(t *testing.T) {
	l := testLab(t, &Kubelets{})
	found, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	const path = "/etc/rancher/k3s/config.yaml.d/99-lab.yaml"
	config := func() bool {
		t.Helper()
		if err := l.prepareKubelet("m1"); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(l.disk("m1"), path))
		return err == nil && string(data) == cgroupV1Config
	}
	if config() {
		t.Error("a machine has the configuration of no release")
	}
	l.kubelets = &Kubelets{CgroupV1Config: []string{path}}
	if got, want := config(), hasCgroupV1(found); got != want {
		t.Errorf("the machine has the configuration: %v, want %v", got, want)
	}
}

func TestKubelets_AnArchiveOutsideTheVolumeIsRefused(t *testing.T) {
	l := testLab(t, &Kubelets{Archives: map[string]string{"/var/lib/rancher/../images.tar": "/dev/null"}})
	if err := l.prepareKubelet("m1"); err == nil {
		t.Error("an archive outside the volume was accepted")
	}
}

func TestKubelets_AnOrdinaryMachineIsNotChanged(t *testing.T) {
	l := testLab(t, nil)
	if args, env := l.kubeletArguments("m1"); len(args)+len(env) != 0 {
		t.Errorf("systemd-nspawn gets %q and %q", args, env)
	}
	if err := l.prepareKubelet("m1"); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(l.dir); err != nil || len(entries) != 0 {
		t.Errorf("the lab's folder has %v (%v)", entries, err)
	}
}
