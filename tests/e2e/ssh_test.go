package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// TestSSH logs in to a provisioned machine with the key of the state Secret. The node agent has reported the keys of
// the machine's real SSH server, and drover ssh refuses any other host.
func TestSSH(t *testing.T) {
	w := newWorld(t, "ssh", "v1.36.3+k3s1")
	must(t, w.Apply(t.Context(), cluster("ssh", "v1.36.3+k3s1")))
	w.awaitReady("ssh")
	object := w.onlyMachine()
	machine, host := object.GetName(), w.Lab.List()[0].Name

	w.wantSSH("the host name", 0, host+"\n", "", machine, "--", "hostname")
	w.wantSSH("the exit code of a command", 3, "", "", machine, "--", "exit", "3")
	w.wantSSH("a signal", 143, "", "", machine, "--", "kill", "-TERM", "$$")
	w.wantSSH("a command without a terminal", 0, "none\n", "", machine, "--", "test -t 0 || echo none")
	if code, out, problems := w.ssh("echo $((6*7)); exit 5\n", machine); code != 5 ||
		!strings.HasSuffix(out, "\n42\n") { // a login message comes first
		t.Errorf("a shell without a terminal: exit code %d, %q, %s", code, out, problems)
	}
	w.sshTerminal(machine)
	w.wantSSH("an unknown machine", 255, "", "there is no Machine absent", "absent")

	node, _, err := unstructured.NestedString(object.Object, "status", "nodeRef", "name")
	must(t, err)
	w.wantSSH("by its node", 0, host+"\n", "", "ssh/"+node, "--", "hostname")

	// The host gets new keys. Until its agent reports them, another host might have answered.
	w.command(host, "systemctl stop rancher-system-agent && rm /etc/ssh/ssh_host_* && "+
		"ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key && systemctl restart ssh")
	w.within(time.Minute, "drover ssh refuses the new key", func() error {
		code, _, problems := w.ssh("", machine, "--", "true")
		if code != 255 || !strings.Contains(problems, "another host answers at this address") {
			return fmt.Errorf("exit code %d, %s", code, problems)
		}
		return nil
	})
	w.wantSSH("without verification", 0, host+"\n", "is not verified", machine, "--insecure-skip-host-key-check", "--",
		"hostname")
	w.command(host, "systemctl start rancher-system-agent")
	w.within(2*time.Minute, "the agent reports the new key", func() error {
		if code, _, problems := w.ssh("", machine, "--", "true"); code != 0 {
			return errors.New(problems)
		}
		return nil
	})
	w.sshSettled()
	w.sshWithoutKeys(machine)
	w.deleteCluster("ssh")
}

// sshSettled checks that the agent writes nothing once it has reported the keys.
func (w *world) sshSettled() {
	w.t.Helper()
	version := func() string {
		secrets, err := w.list(secretsResource)
		must(w.t, err)
		return ofType(secrets, rkev1.SecretTypeMachinePlan).GetResourceVersion()
	}
	// More than two passes of the agent. A write would show at the latest then.
	const quiet = 15 * time.Second
	before, since := version(), time.Now()
	w.within(2*time.Minute, "no write to the plan Secret", func() error {
		if now := version(); now != before {
			before, since = now, time.Now()
		}
		if time.Since(since) < quiet {
			return errors.New("the Secret changed " + time.Since(since).String() + " ago")
		}
		return nil
	})
}

// sshWithoutKeys takes the reported keys away, as for a node with an agent that reports none.
func (w *world) sshWithoutKeys(machine string) {
	w.t.Helper()
	secrets, err := w.list(secretsResource)
	must(w.t, err)
	plan := ofType(secrets, rkev1.SecretTypeMachinePlan)
	host := w.Lab.List()[0].Name
	w.command(host, "systemctl stop rancher-system-agent")
	_, err = w.objects.Resource(secretsResource).Namespace(namespace).Patch(w.t.Context(), plan.GetName(),
		types.MergePatchType, fmt.Appendf(nil, `{"data":{%q:null}}`, nodeplan.KeySSHHostKeys), metav1.PatchOptions{})
	must(w.t, err)
	w.wantSSH("an agent that reports no keys", 255, "", "has not reported the SSH keys", machine, "--", "true")
	w.command(host, "systemctl start rancher-system-agent")
}

// sshTerminal opens a shell in a terminal, which script makes, and types into it.
func (w *world) sshTerminal(machine string) {
	w.t.Helper()
	program := "stty cols 111 rows 33; exec " + strings.Join(w.sshCommand(machine), " ")
	cmd := inNetns(w.t.Context(), w.Lab.Namespace(), "script", "-qec", program, "/dev/null")
	keys, err := cmd.StdinPipe()
	must(w.t, err)
	log, err := os.Create(filepath.Join(w.t.TempDir(), "terminal.log"))
	must(w.t, err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	shows := func(text string) error {
		shown, err := os.ReadFile(log.Name())
		if err == nil && !strings.Contains(string(shown), text) {
			err = fmt.Errorf("the terminal shows no %q:\n%s", text, shown)
		}
		return err
	}
	must(w.t, cmd.Start())
	w.within(time.Minute, "a prompt", func() error { return shows("# ") })
	// The shell shows what is typed. The quotes tell that from what the commands print.
	_, err = keys.Write([]byte("stty size; tty; sh -c \"trap 'echo interr''upted; exit' INT; echo be''gun; " +
		"while :; do sleep 1; done\"\r"))
	must(w.t, err)
	w.within(time.Minute, "the command", func() error { return shows("begun") })
	// Ctrl-C ends the command on the host, and not drover ssh.
	_, err = keys.Write([]byte("\x03"))
	must(w.t, err)
	w.within(time.Minute, "the end of the command", func() error { return shows("interrupted") })
	_, err = keys.Write([]byte("exit 4\r"))
	must(w.t, err)
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 4 {
		w.t.Errorf("a terminal: %v, want exit code 4", err)
	}
	for _, want := range []string{"33 111", "/dev/pts/"} {
		if err := shows(want); err != nil {
			w.t.Error(err)
		}
	}
}

// sshCommand is the command line of drover ssh.
func (w *world) sshCommand(args ...string) []string {
	return append([]string{filepath.Join(binFolder(w.t), "drover"), "ssh",
		"--kubeconfig=" + filepath.Join(w.DataDir(), "kubeconfig")}, args...)
}

// ssh runs drover ssh in the network of the lab.
func (w *world) ssh(in string, args ...string) (code int, out, problems string) {
	w.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := inNetns(w.t.Context(), w.Lab.Namespace(), w.sshCommand(args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			w.t.Fatalf("drover ssh: %v", err)
		}
		code = exit.ExitCode()
	}
	return code, stdout.String(), stderr.String()
}

func (w *world) wantSSH(what string, wantCode int, wantOut, wantProblem string, args ...string) {
	w.t.Helper()
	code, out, problems := w.ssh("", args...)
	if code != wantCode || out != wantOut || !strings.Contains(problems, wantProblem) {
		w.t.Errorf("%s: exit code %d, %q, %s; want %d, %q, %s", what, code, out, problems, wantCode, wantOut,
			wantProblem)
	}
}
