package scripts

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// host is a simulated machine for scripts/preflight: commands are programs in one directory, and files are below root.
type host struct {
	t         *testing.T
	bin, root string
	data      string
	commands  map[string]string // the shell script of each
	files     map[string]string
	purpose   string
	// installer is the value of INSTALLER.
	installer string
}

// ordinary are the commands that every Linux has and the script itself uses.
var ordinary = []string{
	"awk", "bash", "cat", "cut", "dirname", "env", "flock", "grep", "head", "mkdir", "mktemp", "paste", "rm", "rmdir",
	"sed", "sh", "test",
	"tr", "true",
}

// newHost is a machine with everything installed, used by root.
func newHost(t *testing.T) *host {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "my data"), 0o700); err != nil {
		t.Fatal(err)
	}
	return &host{
		t: t, bin: filepath.Join(dir, "bin"), root: filepath.Join(dir, "root"), data: filepath.Join(dir, "my data"),
		commands: map[string]string{
			"curl": "", "git": "", "make": "", "gcc": "", "debootstrap": "", "systemd-nspawn": "", "ip": "", "nft": "",
			"ssh-keygen": "", "pgrep": "", "mount": "", "umount": "", "id": "echo 0",
			"unshare": `[ "$1" != --mount ] || { shift; exec "$@"; }`,
			"go":      `[ "$1" = env ] && echo auto || echo go version go1.26.8 linux/amd64`,
			"df":      `echo Filesystem; echo /dev/disk 100000000 0 60000000 0% /`,
		},
		files: map[string]string{
			"/etc/os-release":        "ID=debian\n",
			"/etc/ssl/certs/ca.pem":  "",
			"/usr/include/stdlib.h":  "",
			"/proc/meminfo":          "MemTotal:       8000000 kB\n",
			"/proc/net/tcp":          "  sl  local_address rem_address   st\n",
			"/proc/self/mountinfo":   "32 31 0:29 / /sys/fs/cgroup rw,relatime - cgroup2 none rw\n",
			"/sys/fs/cgroup/a-group": "",
		},
		purpose: "quickstart",
	}
}

// preflight runs the script on the machine. It returns its output and its exit code.
func (h *host) preflight() (stdout, stderr string, code int) {
	h.t.Helper()
	for _, name := range ordinary {
		path, err := exec.LookPath(name)
		h.must(err)
		h.write(filepath.Join(h.bin, name), fmt.Sprintf("#!/bin/sh\nexec %s \"$@\"\n", path))
	}
	for name, script := range h.commands {
		h.write(filepath.Join(h.bin, name), "#!/bin/sh\n"+script+"\n")
	}
	for path, content := range h.files {
		h.write(filepath.Join(h.root, path), content)
	}
	bash, err := exec.LookPath("bash")
	h.must(err)
	cmd := exec.CommandContext(h.t.Context(), bash, "./preflight", h.purpose, "--data-dir="+h.data)
	home := filepath.Dir(h.root)
	cmd.Env = []string{"PATH=" + h.bin, "PREFLIGHT_ROOT=" + h.root, "HOME=" + home, "TMPDIR=" + home, "DROVER_OUT=" +
		h.root, "INSTALLER=" + h.installer}
	var out, failure strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &failure
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
	clean := strings.NewReplacer(h.bin, "BIN", h.data, "DATA", filepath.Dir(h.root), "HOME")
	return clean.Replace(out.String()), clean.Replace(failure.String()), cmd.ProcessState.ExitCode()
}

func (h *host) write(path, content string) {
	h.t.Helper()
	h.must(errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o755)))
}

func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// lack removes commands and files.
func (h *host) lack(names ...string) {
	for _, name := range names {
		delete(h.commands, name)
		delete(h.files, name)
	}
}

// usedWithSudo makes the user an ordinary one, whose sudo asks for no password.
func (h *host) usedWithSudo() {
	h.commands["id"] = "echo 1000"
	h.commands["sudo"] = `while [ "${1#-}" != "$1" ]; do shift; done; exec "$@"`
}

// quickstartRuns holds the lock of a quickstart with process id 4711.
func (h *host) quickstartRuns() {
	h.t.Helper()
	file, err := os.Create(filepath.Join(h.data, "foreground.pid"))
	h.must(err)
	_, err = file.WriteString("4711")
	h.must(errors.Join(err, syscall.Flock(int(file.Fd()), syscall.LOCK_EX)))
	h.t.Cleanup(func() { _ = file.Close() })
}

const (
	notReady   = "preflight: this machine is not ready:\n"
	privileged = "      In a container, start it with --privileged, or use a virtual machine.\n"
	installGo  = "      Install it from https://go.dev/dl and add its bin folder to PATH.\n"
)

// lacks are the problems of a machine in the order of preflight's checks, with its output.
var lacks = []struct {
	name string
	lack func(*host)
	says string
}{
	{"packages of Fedora", func(h *host) {
		h.files["/etc/os-release"] = "NAME=\"Fedora Linux\"\nID=fedora\n"
		h.lack("debootstrap", "systemd-nspawn", "ip", "pgrep", "/usr/include/stdlib.h")
	}, "  packages: Missing: glibc-devel debootstrap systemd-container iproute procps-ng.\n" +
		"      Run: dnf install glibc-devel debootstrap systemd-container iproute procps-ng\n"},
	{"Go", func(h *host) { h.lack("go") }, "  go: Go is missing; version 1.26 or later is needed.\n" + installGo},
	{"memory", func(h *host) { h.files["/proc/meminfo"] = "MemTotal:       2000000 kB\n" },
		"  memory: This machine has 1953 MiB of memory; 4 GiB are needed.\n      Use a machine with more memory.\n"},
	{"disk", func(h *host) { h.commands["df"] = "echo Filesystem; echo /dev/disk 9 9 1048576 99% /" },
		"  disk: DATA has 1 GiB free; 12 GiB are needed.\n" +
			"      Free space there, or set GOCACHE, GOMODCACHE, TMPDIR or --data-dir to a folder on another disk.\n"},
	{"network namespaces", func(h *host) {
		h.commands["unshare"] = "[ $1 != --net ] || exit 1\n" + h.commands["unshare"]
	},
		"  network namespaces: Root cannot make network namespaces here.\n" + privileged},
	{"overlay mounts", func(h *host) { h.commands["mount"] = "exit 1" },
		"  overlay mounts: Overlay mounts do not work in DATA.\n      Run: modprobe overlay; or set --data-dir to a " +
			"folder on ext4 or xfs. " +
			strings.TrimLeft(privileged, " ")},
	{"control groups", func(h *host) { h.lack("/sys/fs/cgroup/a-group") },
		"  control groups: Root cannot make control groups here.\n" + privileged},
	{"the end of another quickstart", (*host).quickstartRuns,
		"  other quickstart: Process 4711 runs the quickstart in DATA.\n      Press Ctrl-C in its terminal, or run: " +
			"make quickstart-down\n"},
}

func TestPreflight(t *testing.T) {
	all := newHost(t)
	var said strings.Builder
	for _, one := range lacks {
		t.Run("without "+one.name, func(t *testing.T) {
			h := newHost(t)
			one.lack(h)
			h.expect("", notReady+one.says, 1)
		})
		one.lack(all)
		said.WriteString(one.says)
	}
	t.Run("it reports all missing commands at once", func(t *testing.T) {
		all.t = t
		all.expect("", notReady+said.String(), 1)
	})
	for name, test := range map[string]struct {
		change         func(*host)
		stdout, stderr string
	}{
		"no command is missing":                         {change: func(*host) {}},
		"a user with sudo":                              {change: (*host).usedWithSudo},
		"packages that scripts/deps installs on Debian": {change: func(h *host) { h.lack("debootstrap", "nft") }},
		"Ubuntu has Debian's packages": {change: func(h *host) {
			h.files["/etc/os-release"] = "ID=ubuntu\nID_LIKE=debian\n"
			h.lack("debootstrap")
		}},
		"packages of openSUSE, by a user with sudo": {change: func(h *host) {
			h.usedWithSudo()
			h.files["/etc/os-release"] = "ID=\"opensuse-tumbleweed\"\nID_LIKE=\"opensuse suse\"\n"
			h.lack("ip", "ssh-keygen")
		}, stderr: "  packages: Missing: iproute2 openssh-common.\n      Run: sudo zypper install iproute2 " +
			"openssh-common\n"},
		"packages of Arch": {change: func(h *host) {
			h.files["/etc/os-release"] = "ID=arch\n"
			h.lack("debootstrap", "systemd-nspawn")
		}, stderr: "  packages: Missing: debootstrap systemd.\n      Run: pacman -S debootstrap systemd\n"},
		"commands of an unknown distribution": {change: func(h *host) {
			h.files["/etc/os-release"] = "ID=gentoo\n"
			h.lack("systemd-nspawn")
		}, stderr: "  commands: Missing: systemd-nspawn.\n      Install the packages of this distribution that have " +
			"them.\n"},
		"an old Go downloads the new one": {change: func(h *host) {
			h.commands["go"] = `[ "$1" = env ] && echo auto || echo go version go1.22.1 linux/amd64`
		}},
		"an old Go that may not download": {change: func(h *host) {
			h.commands["go"] = `[ "$1" = env ] && echo local || echo go version go1.22.1 linux/amd64`
		}, stderr: "  go: Go 1.26 or later is needed; BIN/go is 1.22.\n" + installGo},
		"a Go that cannot download": {change: func(h *host) {
			h.commands["go"] = `[ "$1" = env ] && echo || echo go version go1.19.8 linux/amd64`
		}, stderr: "  go: Go 1.26 or later is needed; BIN/go is 1.19.\n" + installGo},
		"a user without sudo": {change: func(h *host) {
			h.commands["id"] = "echo 1000"
			h.lack("nft")
		}, stderr: "  root: The quickstart makes network namespaces and boots machines, which needs root.\n" +
			"      Run it in a terminal as a user who may use sudo, or as root.\n" +
			"  packages: Missing: nftables.\n      As root, run: apt-get install nftables\n"},
		"tests with machines, by a user": {change: func(h *host) {
			h.usedWithSudo()
			h.purpose = "machines"
		}, stderr: "  root: Tests that boot machines in network namespaces need root.\n      Run: sudo make test\n"},
		"a build needs no root and no machines": {change: func(h *host) {
			h.commands["id"] = "echo 1000"
			h.commands["unshare"] = "exit 1"
			h.purpose = "build"
		}},
		"another quickstart, of a user with sudo": {change: func(h *host) {
			h.usedWithSudo()
			h.quickstartRuns()
		}, stderr: "  other quickstart: Process 4711 runs the quickstart in DATA.\n      Press Ctrl-C in its " +
			"terminal, or run: make quickstart-down\n"},
		"a build on Fedora needs no packages for machines": {change: func(h *host) {
			h.files["/etc/os-release"] = "ID=fedora\n"
			h.lack("debootstrap", "gcc")
			h.purpose = "build"
		}, stderr: "  packages: Missing: gcc.\n      Run: dnf install gcc\n"},
		"a port that is taken for both address families": {change: func(h *host) {
			h.files["/proc/net/tcp6"] = "   0: 00000000000000000000000000000000:20FB " +
				"00000000000000000000000000000000:0000 0A 0 0\n"
		}, stdout: "preflight: Port 8443 of 127.0.0.1 is taken. The quickstart uses the next free port.\n"},
		"a taken port": {change: func(h *host) {
			h.files["/proc/net/tcp"] += "   0: 0100007F:192B 00000000:0000 0A 00000000:00000000 00:00000000 " +
				"00000000     0        0 1\n"
		}, stdout: "preflight: Port 6443 of 127.0.0.1 is taken. The quickstart uses the next free port.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			test.change(h)
			if test.stderr == "" {
				h.expect(test.stdout, "", 0)
			} else {
				h.expect(test.stdout, notReady+test.stderr, 1)
			}
		})
	}
}

// runsRealKubelets gives the machine what real kubelets need, and INSTALLER a folder.
func (h *host) runsRealKubelets() {
	h.installer = h.data
	maps.Copy(h.files, map[string]string{
		"/proc/sys/fs/inotify/max_user_instances": "8192\n",
		"/proc/self/status":                       "CapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\n",
		"/dev/kmsg":                               "",
		"/sys/fs/cgroup/cgroup.controllers":       "cpuset cpu io memory hugetlb pids rdma\n",
	})
}

// lackAllOfKubelets removes everything that runsRealKubelets gives.
func (h *host) lackAllOfKubelets() {
	h.installer = h.data + "/missing"
	h.files["/proc/sys/fs/inotify/max_user_instances"] = "128\n"
	h.files["/proc/self/status"] = "CapBnd:\t000001fffeffffff\n"
	h.files["/sys/fs/cgroup/cgroup.controllers"] = "cpu io pids\n"
	h.lack("/dev/kmsg")
}

// keepsDistribution gives the quickstart a distribution from an earlier run, which had an installer.
func (h *host) keepsDistribution() {
	h.installer = ""
	h.write(filepath.Join(h.data, "distribution/releases.json"), "[]")
}

const (
	noInstaller = "  installer: DATA/missing does not exist.\n      Give the folder with the downloads that " +
		"docs/real-distributions.md lists.\n"
	noInotify = "  inotify: Real kubelets need 4096 inotify instances; the limit is 128.\n" +
		"      Run: sysctl -w fs.inotify.max_user_instances=4096\n"
	noCapability = "  CAP_SYS_RESOURCE: Root lacks CAP_SYS_RESOURCE here; containers of real kubelets do not start.\n" +
		privileged
	noKernelLog   = "  kernel log: /dev/kmsg is missing; real kubelets do not start.\n" + privileged
	noControllers = "  cgroup controllers: Missing: cpuset memory.\n" +
		"      Enable them on the kernel's command line. In a container, start it with --privileged, or use a " +
		"virtual machine.\n"
)

func TestPreflight_RealDistributions(t *testing.T) {
	for name, test := range map[string]struct {
		change         func(*host)
		stdout, stderr string
	}{
		"everything is there": {change: func(*host) {}},
		"every problem has its name": {change: (*host).lackAllOfKubelets,
			stderr: noInstaller + noInotify + noCapability + noKernelLog + noControllers},
		"control groups v1 are a note": {change: func(h *host) { h.lack("/sys/fs/cgroup/cgroup.controllers") },
			stdout: "preflight: This machine has control groups v1. Real kubelets get the argument " +
				"fail-cgroupv1=false.\n"},
		"tests with machines need the same": {change: func(h *host) {
			h.purpose = "machines"
			h.files["/proc/sys/fs/inotify/max_user_instances"] = "128\n"
		}, stderr: noInotify},
		"two paths": {change: func(h *host) { h.installer += ":" + h.data + "/missing" }, stderr: noInstaller},
		"a later run of a quickstart with a real distribution": {change: func(h *host) {
			h.lackAllOfKubelets()
			h.keepsDistribution()
		}, stderr: noInotify + noCapability + noKernelLog + noControllers},
		"a later run, by a user with sudo": {change: func(h *host) {
			h.usedWithSudo()
			h.lack("/dev/kmsg")
			h.keepsDistribution()
		}, stderr: noKernelLog},
		"tests with machines do not use the distribution of a quickstart": {change: func(h *host) {
			h.purpose = "machines"
			h.lack("/dev/kmsg")
			h.keepsDistribution()
		}},
		"the stand-in needs none of it": {change: func(h *host) {
			h.lackAllOfKubelets()
			h.installer = ""
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.runsRealKubelets()
			test.change(h)
			if test.stderr == "" {
				h.expect(test.stdout, "", 0)
			} else {
				h.expect(test.stdout, notReady+test.stderr, 1)
			}
		})
	}
}

func (h *host) expect(stdout, stderr string, code int) {
	h.t.Helper()
	gotOut, gotErr, gotCode := h.preflight()
	if diff := cmp.Diff(stdout, gotOut); diff != "" {
		h.t.Errorf("standard output (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(stderr, gotErr); diff != "" {
		h.t.Errorf("standard error (-want +got):\n%s", diff)
	}
	if gotCode != code {
		h.t.Errorf("exit code %d, want %d", gotCode, code)
	}
	if left, _ := filepath.Glob(filepath.Join(h.data, ".preflight*")); left != nil {
		h.t.Errorf("preflight left %s", left)
	}
}
