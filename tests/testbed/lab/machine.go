package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/drover-io/drover/pkg/local/localfile"
	"github.com/drover-io/drover/pkg/local/managementplane/procid"
)

// Time limits for machines. They limit waits for conditions. No code sleeps for them.
const (
	bootTimeout     = 60 * time.Second
	shutdownTimeout = 20 * time.Second
	plugTimeout     = 5 * time.Second
)

// Power is the power state of a machine.
type Power string

// The two states of Power.
const (
	On  Power = "on"
	Off Power = "off"
)

// Machine is one machine as the API shows it.
type Machine struct {
	// Name is unique in the lab. A create with an existing name returns the existing machine.
	Name string `json:"name"`
	// ID is never reused: a machine that is deleted and created again gets another ID.
	ID string `json:"id"`
	// Address is the machine's IPv4 address on the lab's network.
	Address netip.Addr `json:"address"`
	// Tag is an optional text from the create call.
	Tag string `json:"tag,omitempty"`
	// Power is the desired state. It survives a restart of the lab.
	Power Power `json:"power"`
	// Running reports whether the machine runs now.
	Running bool `json:"running"`
	// Partitioned machines have no network connection.
	Partitioned bool `json:"partitioned,omitempty"`

	process procid.ID
}

// folder returns the folder of one machine, with its record, its disk and its console log.
func (l *Lab) folder(machine string) string { return filepath.Join(l.dir, "machines", machine) }

func (l *Lab) disk(machine string) string { return filepath.Join(l.folder(machine), "disk") }

// stored is the machine's record on disk.
type stored struct {
	Machine
	Process procid.ID `json:"process"`
}

// save writes the machine's record atomically.
func (l *Lab) save(m *Machine) error {
	data, err := json.Marshal(stored{Machine: *m, Process: m.process})
	if err != nil {
		return fmt.Errorf("encode machine %s: %w", m.Name, err)
	}
	return localfile.Write(filepath.Join(l.folder(m.Name), "machine.json"), data)
}

func (l *Lab) load(name string) (*Machine, error) {
	data, err := os.ReadFile(filepath.Join(l.folder(name), "machine.json"))
	if err != nil {
		return nil, fmt.Errorf("read machine %s: %w", name, err)
	}
	var s stored
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("decode machine %s: %w", name, err)
	}
	m := s.Machine
	m.process = s.Process
	m.Running = m.process.Alive()
	return &m, nil
}

// prepareDisk writes the identity of a new machine to its disk: its name, host key and authorized key.
func (l *Lab) prepareDisk(ctx context.Context, m *Machine, authorizedKey string) error {
	disk := l.disk(m.Name)
	// In order from the outside to the inside, because MkdirAll also applies its mode to parent folders. The disk is an
	// overlay over the image. Its folder is the machine's "/", which every user of the machine must be able to enter.
	for _, folder := range []struct {
		path string
		mode os.FileMode
	}{{".", 0o755}, {"etc/ssh", 0o755}, {"root", 0o700}, {"root/.ssh", 0o700}} {
		path := filepath.Join(disk, folder.path)
		if err := errors.Join(os.MkdirAll(path, folder.mode), os.Chmod(path, folder.mode)); err != nil {
			return fmt.Errorf("make disk of %s: %w", m.Name, err)
		}
	}
	hosts := fmt.Sprintf("127.0.0.1 localhost\n::1 localhost\n127.0.1.1 %s\n", m.Name)
	for path, content := range map[string]string{
		"etc/hostname":              m.Name + "\n",
		"etc/hosts":                 hosts,
		"etc/resolv.conf":           "",
		"root/.ssh/authorized_keys": strings.TrimSpace(authorizedKey) + "\n",
	} {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(path, "root/") {
			mode = 0o600
		}
		if err := os.WriteFile(filepath.Join(disk, path), []byte(content), mode); err != nil {
			return fmt.Errorf("write disk of %s: %w", m.Name, err)
		}
	}
	key := filepath.Join(disk, "etc/ssh/ssh_host_ed25519_key")
	if _, err := os.Stat(key); err == nil {
		return nil
	}
	out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", m.Name, "-f",
		key).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make host key of %s: %w: %s", m.Name, err, out)
	}
	return nil
}

// boot starts a machine that does not run, and returns when its sshd answers. It first stores that the machine should
// run. Then it ends processes that a killed lab started but did not record: two systems on one disk would destroy it.
func (l *Lab) boot(ctx context.Context, m *Machine) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	m.Power = On
	if err := l.save(m); err != nil {
		return err
	}
	if err := l.endStrays(ctx, m.Name); err != nil {
		return err
	}
	if err := l.attach(ctx, m.Name, m.Address); err != nil {
		return err
	}
	if err := l.setPartition(ctx, m); err != nil {
		return err
	}
	groups, err := l.makeCgroups(m.Name)
	if err != nil {
		return err
	}
	if err := l.prepareKubelet(m.Name); err != nil {
		return err
	}
	if err := l.start(m, groups); err != nil {
		return err
	}
	if err := l.awaitSSH(ctx, m); err != nil {
		return fmt.Errorf("boot machine %s: %w; its console ends with: %s", m.Name, err, l.consoleTail(m.Name))
	}
	return nil
}

// start starts systemd-nspawn in the machine's control groups, and records its process.
func (l *Lab) start(m *Machine, groups []string) error {
	args := []string{
		"-D", l.image, "--overlay=" + l.image + ":" + l.disk(m.Name) + ":/",
		"--network-namespace-path=" + namespacePath(l.machineNamespace(m.Name)),
		"--machine=" + m.Name, "--register=no", "--keep-unit", "--boot", "--console=pipe",
		"--resolv-conf=off", "--timezone=off", "--link-journal=no", "--capability=all", "--system-call-filter=@known",
	}
	kubeletArgs, kubeletEnv := l.kubeletArguments(m.Name)
	args = append(args, kubeletArgs...)
	for _, bind := range l.binds {
		args = append(args, "--bind-ro="+bind)
	}
	console, err := os.OpenFile(filepath.Join(l.folder(m.Name), "console.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY,
		0o600)
	if err != nil {
		return fmt.Errorf("open console of %s: %w", m.Name, err)
	}
	defer console.Close()
	// The shell enters the machine's control groups before it becomes systemd-nspawn, so that no process of the machine
	// is ever outside them.
	enter := `for group in $GROUPS_OF_MACHINE; do echo $$ >"$group/cgroup.procs" || exit 1; done; exec systemd-nspawn "$@"`
	cmd := exec.Command("sh", append([]string{"-c", enter, "sh"}, args...)...) //nolint:noctx // a machine outlives the call that made it
	cmd.Env = append(os.Environ(), "GROUPS_OF_MACHINE="+strings.Join(groups, " "), l.mark(m.Name))
	cmd.Env = append(cmd.Env, kubeletEnv...)
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start machine %s: %w", m.Name, err)
	}
	go func() { _ = cmd.Wait() }() // reap it; /proc shows whether it runs
	if m.process, err = procid.Of(cmd.Process.Pid); err != nil {
		return fmt.Errorf("start machine %s: it ended at once: %s", m.Name, l.consoleTail(m.Name))
	}
	m.Running = true
	return l.save(m)
}

// awaitSSH returns once sshd sends its greeting. It connects from inside the machine, so that it works during a
// partition.
func (l *Lab) awaitSSH(ctx context.Context, m *Machine) error {
	return until(ctx, 50*time.Millisecond, func() bool {
		if !m.process.Alive() {
			return false
		}
		conn, err := DialIn(ctx, l.machineNamespace(m.Name), "127.0.0.1:22")
		if err != nil {
			return false
		}
		defer conn.Close()
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		greeting := make([]byte, 4)
		n, _ := conn.Read(greeting)
		return string(greeting[:n]) == "SSH-"
	})
}

// halt stops a running machine, in an orderly way or at once.
func (l *Lab) halt(ctx context.Context, m *Machine, atOnce bool) error {
	if !m.process.Alive() {
		return l.stopped(m)
	}
	if !atOnce {
		// systemd-nspawn converts SIGTERM into an orderly shutdown of the machine.
		if err := m.process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		orderly, cancel := context.WithTimeout(ctx, shutdownTimeout)
		defer cancel()
		if awaitEnd(orderly, m.process) == nil {
			return l.stopped(m)
		}
	}
	if err := pullPlug(ctx, m.process); err != nil {
		return fmt.Errorf("stop machine %s: %w", m.Name, err)
	}
	return l.stopped(m)
}

func (l *Lab) stopped(m *Machine) error {
	m.process, m.Running = procid.ID{}, false
	return l.save(m)
}

func (l *Lab) setPartition(ctx context.Context, m *Machine) error {
	state := "up"
	if m.Partitioned {
		state = "down"
	}
	return ip(ctx, "-n", l.namespace, "link", "set", linkName(m.Name), state)
}

// makeCgroups creates the machine's group in every hierarchy and returns their paths.
func (l *Lab) makeCgroups(machine string) ([]string, error) {
	parents, err := cgroupParents(l.kubelets != nil)
	if err != nil {
		return nil, err
	}
	var groups []string
	for _, parent := range parents {
		group := filepath.Join(parent, l.namespace+"-"+machine)
		if err := l.record.add(kindCgroup, group); err != nil {
			return nil, err
		}
		if err := makeCgroup(group); err != nil {
			return nil, err
		}
		groups = append(groups, group)
	}
	return groups, nil
}

// removeCgroups removes a machine's groups and their processes. It uses the recorded paths, because an earlier run may
// have had a different parent group.
func (l *Lab) removeCgroups(ctx context.Context, machine string) error {
	entries, err := l.record.open()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Kind == kindCgroup && filepath.Base(e.Name) == l.namespace+"-"+machine {
			if err := l.dropCgroup(ctx, e.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropCgroup kills the processes in a group and removes it once the kernel has released the last process.
func (l *Lab) dropCgroup(ctx context.Context, group string) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	var err error
	if waitErr := until(ctx, 20*time.Millisecond, func() bool {
		if err = removeCgroup(group); err != nil {
			err = errors.Join(err, killCgroup(group))
		}
		return err == nil
	}); waitErr != nil {
		return errors.Join(err, waitErr)
	}
	return l.record.remove(kindCgroup, group)
}

// rootOf returns the host's pid of a running machine's PID 1. Its folder in /proc shows the machine's files.
func (l *Lab) rootOf(name string) (int, error) {
	m, err := l.Get(name)
	if err != nil {
		return 0, err
	}
	for _, child := range m.process.Children() {
		return child.PID, nil
	}
	return 0, fmt.Errorf("machine %s does not run", name)
}

// WriteFile writes a file on a running machine from outside.
func (l *Lab) WriteFile(name, path string, data []byte, mode os.FileMode) error {
	pid, err := l.rootOf(name)
	if err != nil {
		return err
	}
	target := filepath.Join(fmt.Sprintf("/proc/%d/root", pid), path)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("write %s on %s: %w", path, name, err)
	}
	if err := os.WriteFile(target, data, mode); err != nil {
		return fmt.Errorf("write %s on %s: %w", path, name, err)
	}
	return nil
}

// FileExists reports whether a running machine has a file.
func (l *Lab) FileExists(name, path string) (bool, error) {
	pid, err := l.rootOf(name)
	if err != nil {
		return false, err
	}
	_, err = os.Stat(filepath.Join(fmt.Sprintf("/proc/%d/root", pid), path))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Exec runs a shell command on a running machine from outside and returns its output.
func (l *Lab) Exec(ctx context.Context, name, command string) (string, error) {
	pid, err := l.rootOf(name)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "nsenter", "--target", strconv.Itoa(pid), "--all", "sh", "-c",
		command).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// consoleTail returns the end of the machine's console output, for errors.
func (l *Lab) consoleTail(machine string) string {
	data, err := os.ReadFile(filepath.Join(l.folder(machine), "console.log"))
	if err != nil {
		return "(no console)"
	}
	const most = 600
	if len(data) > most {
		data = data[len(data)-most:]
	}
	return strings.TrimSpace(string(data))
}
