package e2e

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/drover-io/drover/pkg/local/managementplane/procid"
	"github.com/drover-io/drover/tests/testbed/lab"
)

// TestLab checks the assumptions of the other tests about the lab's machines. They have their own systemd, keep their
// disk over a reboot, are reachable over SSH and leave nothing behind.
func TestLab(t *testing.T) {
	image := machineImage(t)
	config := lab.Config{Name: "labtest", Dir: filepath.Join(t.TempDir(), "lab"), Image: image}
	host := hostScope{name: config.Name, dir: config.Dir}
	before := host.inventory(t)
	t.Cleanup(func() {
		if err := lab.Destroy(context.Background(), config); err != nil {
			t.Errorf("destroy lab: %v", err)
		}
		if diff := cmp.Diff(before, host.inventory(t)); diff != "" {
			t.Errorf("the lab left objects on the host (-before +after):\n%s", diff)
		}
	})
	l, err := lab.Open(t.Context(), config)
	must(t, err)
	signer, authorized := keyPair(t)

	start := time.Now()
	one, err := l.Create(t.Context(), "one", authorized, "")
	must(t, err)
	t.Logf("first machine answered SSH after %s", time.Since(start).Round(time.Millisecond))
	two, err := l.Create(t.Context(), "two", authorized, "")
	must(t, err)
	again, err := l.Create(t.Context(), "one", authorized, "")
	must(t, err)
	if again.ID != one.ID {
		t.Errorf("a create with an existing name created another machine: %s, then %s", one.ID, again.ID)
	}

	run := func(m lab.Machine, command string) string {
		t.Helper()
		out, err := sshRun(t.Context(), l.Namespace(), m.Address.String()+":22", signer, command)
		if err != nil {
			t.Fatalf("%s on %s: %v: %s", command, m.Name, err, out)
		}
		return strings.TrimSpace(out)
	}
	if got := run(one, "hostname"); got != "one" {
		t.Errorf("host name: got %q, want one", got)
	}
	if got := run(one, "stat -c %a /"); got != "755" {
		t.Errorf("mode of / is %s: services of other users do not start", got)
	}
	run(one, "systemctl is-system-running --wait || systemctl --failed --no-legend")
	if got := run(one, "systemctl --failed --no-legend"); got != "" {
		t.Errorf("units failed on a fresh machine: %s", got)
	}
	run(two, "systemctl stop ssh; systemctl is-active cron; true")
	if got := run(one, "systemctl is-active ssh"); got != "active" {
		t.Errorf("a service stopped on one machine stopped on another: %s", got)
	}
	run(one, "echo kept >/var/lib/mark; sync")

	must(t, l.SetPower(t.Context(), "one", lab.Off, true))
	must(t, l.SetPower(t.Context(), "one", lab.On, false))
	if got := run(one, "cat /var/lib/mark"); got != "kept" {
		t.Errorf("disk after a power cut: got %q, want kept", got)
	}

	must(t, l.Partition(t.Context(), "one", true))
	cut, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if out, err := sshRun(cut, l.Namespace(), one.Address.String()+":22", signer, "true"); err == nil {
		t.Errorf("a partitioned machine was reached: %s", out)
	}
	must(t, l.Partition(t.Context(), "one", false))
	joined, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for { // the link may still reset the first connections
		out, err := sshRun(joined, l.Namespace(), one.Address.String()+":22", signer, "true")
		if err == nil {
			break
		}
		if joined.Err() != nil {
			t.Fatalf("the machine cannot be reached after the partition: %v: %s", err, out)
		}
		pause(joined, 100*time.Millisecond)
	}

	systems := func() int {
		n := 0
		for _, line := range host.inventory(t) {
			if strings.HasPrefix(line, "process systemd-nspawn ") && strings.Contains(line, "--machine=one ") {
				n++
			}
		}
		return n
	}
	boot := run(one, "cat /proc/sys/kernel/random/boot_id")
	reopened, err := lab.Open(t.Context(), config)
	must(t, err)
	adopted, err := reopened.Get("one")
	must(t, err)
	if adopted.ID != one.ID || !adopted.Running || run(one, "cat /proc/sys/kernel/random/boot_id") != boot {
		t.Errorf("the reopened lab does not adopt its machine: %+v", adopted)
	}

	// This is the state of a lab that was killed after it started a machine and before it recorded the process.
	forgetProcess(t, config, "one")
	reopened, err = lab.Open(t.Context(), config)
	must(t, err)
	if got := systems(); got != 1 {
		t.Errorf("%d systems run on the disk of a machine whose process was not recorded, want 1", got)
	}
	if run(one, "cat /proc/sys/kernel/random/boot_id") == boot {
		t.Error("the machine answers from the system that was not recorded")
	}
	killNspawn(t, "two")
	must(t, reopened.Delete(t.Context(), "two"))
	must(t, reopened.Delete(t.Context(), "two"))
	events, err := reopened.Events()
	must(t, err)
	var actions []string
	for _, event := range events {
		actions = append(actions, event.Action+" "+event.Machine)
	}
	if got, want := strings.Join(actions, ", "), "create one, create two, delete two"; got != want {
		t.Errorf("events: got %q, want %q", got, want)
	}
	// Destroy, at the end, has to find it too.
	forgetProcess(t, config, "one")
}

// killNspawn kills systemd-nspawn of a machine, which then cannot clean up.
func killNspawn(t *testing.T, machine string) {
	t.Helper()
	processes, err := procid.Find("cmdline", func(arguments []byte) bool {
		return bytes.HasPrefix(arguments, []byte("systemd-nspawn\x00")) &&
			bytes.Contains(arguments, []byte("\x00--machine="+machine+"\x00"))
	})
	must(t, err)
	if len(processes) != 1 {
		t.Fatalf("machine %s has %d processes of systemd-nspawn, want 1", machine, len(processes))
	}
	must(t, processes[0].Signal(syscall.SIGKILL))
}

// forgetProcess resets the stored record of a machine to its state before the process is known.
func forgetProcess(t *testing.T, config lab.Config, machine string) {
	t.Helper()
	path := filepath.Join(config.Dir, "machines", machine, "machine.json")
	data, err := os.ReadFile(path)
	must(t, err)
	var stored map[string]any
	must(t, json.Unmarshal(data, &stored))
	stored["process"] = map[string]any{"pid": 0, "startTime": 0}
	data, err = json.Marshal(stored)
	must(t, err)
	must(t, os.WriteFile(path, data, 0o600))
}

// machineImage returns the lab's machine image. It builds it once for all tests.
func machineImage(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("end-to-end tests create network namespaces and boot machines: run them as root")
	}
	cache, err := os.UserCacheDir()
	must(t, err)
	image, err := lab.EnsureImage(t.Context(), filepath.Join(cache, "drover", "images"), os.Stderr)
	must(t, err)
	return image
}

func keyPair(t *testing.T) (ssh.Signer, string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	must(t, err)
	return signer, string(ssh.MarshalAuthorizedKey(signer.PublicKey()))
}

func sshRun(ctx context.Context, namespace, address string, signer ssh.Signer, command string) (string, error) {
	conn, err := lab.DialIn(ctx, namespace, address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	client, channels, requests, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		return "", err
	}
	session, err := ssh.NewClient(client, channels, requests).NewSession()
	if err != nil {
		return "", err
	}
	defer func() { _ = session.Close() }()
	out, err := session.CombinedOutput(command)
	return string(out), err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
