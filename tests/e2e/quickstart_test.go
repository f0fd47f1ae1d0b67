package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// quickstartDone is the last line that the quickstart prints before it waits.
const quickstartDone = "Remove everything "

var (
	printedCommands = regexp.MustCompile(`(?m)^  (bin/.*)$`)
	printedStep     = regexp.MustCompile(`(?m)^\[(\d+)/(\d+)\] [^:\n]+: (?:up to date|done in )`)
	printedPage     = regexp.MustCompile(`http://127\.0\.0\.1:\d+/ui/#token=\w+`)
	readyNode       = regexp.MustCompile(`^\S+ +Ready `)
)

// mostLastLines is the usual height of a terminal in lines.
const mostLastLines = 24

// TestQuickstart runs the quickstart like a user without a terminal: up, the printed commands, Ctrl-C, up again,
// Ctrl-C, down. After Ctrl-C no process is left. After down nothing is left.
func TestQuickstart(t *testing.T) {
	q := newQuickstart(t)
	run := q.up()
	run.await(quickstartDone)
	q.readyNode()
	q.checkSteps(run)
	q.checkLastScreen(run)
	if output := run.output(); strings.ContainsAny(output, "\r\x1b") {
		t.Errorf("output without a terminal has control characters: %q", output)
	}
	q.applyEdited()
	q.clusterctl()
	run.interrupt()

	// The stored status is Ready, but the second run must wait until the machine has booted again.
	compiled := q.recordCompilers()
	start := time.Now()
	again := q.up()
	again.await(quickstartDone)
	t.Logf("the second run was Ready after %s (goal: at most 45 s)", time.Since(start).Round(time.Second))
	q.readyNode()
	if calls := compiled(); calls != "" {
		t.Errorf("the second run compiled or linked programs:\n%s", calls)
	}
	again.interrupt()
	q.down()
}

// checkSteps checks that every step printed its end, in order.
func (q *quickstart) checkSteps(r *run) {
	q.t.Helper()
	found := printedStep.FindAllStringSubmatch(r.output(), -1)
	for i, step := range found {
		if step[1] != strconv.Itoa(i+1) || step[2] != strconv.Itoa(len(found)) {
			q.t.Errorf("step %d of %d is shown as %s/%s", i+1, len(found), step[1], step[2])
		}
	}
	if len(found) < 6 {
		q.t.Errorf("the quickstart showed the end of %d steps, want at least 6:\n%s", len(found), r.output())
	}
}

// checkLastScreen checks that the last output fits on a screen, and runs the commands in it.
func (q *quickstart) checkLastScreen(r *run) {
	q.t.Helper()
	output := r.output()
	_, screen, found := strings.Cut(output, "\nCluster quickstart is Ready")
	if !found {
		q.t.Fatalf("the quickstart did not print that its cluster is Ready:\n%s", output)
	}
	if lines := strings.Count(strings.TrimSpace(screen), "\n") + 1; lines > mostLastLines {
		q.t.Errorf("the last screen has %d lines, want at most %d", lines, mostLastLines)
	}
	for _, word := range []string{"Ctrl-C", "scripts/quickstart-down --name=" + q.name} {
		if !strings.Contains(screen, word) {
			q.t.Errorf("the last screen does not mention %q:\n%s", word, screen)
		}
	}
	q.opensPage(screen)
	commands := printedCommands.FindAllStringSubmatch(screen, -1)
	if len(commands) != 3 {
		q.t.Errorf("the quickstart printed %d commands to try, want 3:\n%s", len(commands), screen)
	}
	for _, command := range commands {
		if len(command[1]) > 100 {
			q.t.Errorf("this command is too long to type: %s", command[1])
		}
		q.shell(command[1])
	}
}

// opensPage opens the web UI at the printed URL.
func (q *quickstart) opensPage(screen string) {
	q.t.Helper()
	page := printedPage.FindString(screen)
	if page == "" {
		q.t.Fatalf("the quickstart printed no URL of the web UI:\n%s", screen)
	}
	request, err := http.NewRequestWithContext(q.t.Context(), http.MethodGet, page, http.NoBody)
	must(q.t, err)
	answer, err := http.DefaultClient.Do(request)
	must(q.t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(q.t, err)
	if answer.StatusCode != http.StatusOK || !strings.Contains(string(body), "<title>Drover") {
		q.t.Errorf("the web UI answers %s:\n%s", answer.Status, body)
	}
}

// applyEdited applies the example with an edit. That is an ordinary change and must print no warning.
func (q *quickstart) applyEdited() {
	q.t.Helper()
	out := q.shell(
		"sed '/kind: Cluster/,$s/^metadata:/metadata:\\n  labels: {edited: yes-it-is}/' docs/examples/quickstart.yaml |" +
			" bin/kubectl --context " + q.management() + " apply -f - 2>&1")
	if strings.Contains(out, "Warning") || !strings.Contains(out, "/quickstart configured") {
		q.t.Errorf("kubectl apply of the edited example says:\n%s", out)
	}
}

// recordCompilers makes the next runs record each call of the compiler and the linker. The returned function returns
// them.
func (q *quickstart) recordCompilers() (calls func() string) {
	q.t.Helper()
	log, wrapper := filepath.Join(q.t.TempDir(), "calls"), filepath.Join(q.t.TempDir(), "record")
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *-V=full*) ;; *) echo \"$*\" >>%s ;; esac\nexec \"$@\"\n", log)
	must(q.t, os.WriteFile(wrapper, []byte(script), 0o700))
	q.environment = append(q.environment, "GOFLAGS="+os.Getenv("GOFLAGS")+" -toolexec="+wrapper)
	return func() string {
		text, err := os.ReadFile(log)
		if !os.IsNotExist(err) {
			must(q.t, err)
		}
		return string(text)
	}
}

// TestQuickstartInterrupted interrupts the quickstart after it has started something and before it reports that.
func TestQuickstartInterrupted(t *testing.T) {
	for name, reached := range map[string]func(q *quickstart) bool{
		"while the management plane starts":  func(q *quickstart) bool { return q.runs("kube-apiserver") },
		"during the creation of the machine": func(q *quickstart) bool { return q.runs("rancher-machine") },
		"while the agent is on the machine":  func(q *quickstart) bool { return q.runs("rancher-system-") },
	} {
		t.Run(name, func(t *testing.T) {
			q := newQuickstart(t)
			run := q.up()
			run.until(name, func() bool { return reached(q) })
			run.interrupt()
			q.down()
		})
	}
}

// quickstart is the two scripts with their own lab, folder and user's kubeconfig.
type quickstart struct {
	hostScope
	t           *testing.T
	root        string
	environment []string
}

// context and management return the contexts that the quickstart adds to the user's kubeconfig.
func (q *quickstart) context() string    { return "drover-" + q.name }
func (q *quickstart) management() string { return q.context() + "-management" }

func newQuickstart(t *testing.T) *quickstart {
	t.Helper()
	machineImage(t)
	root, err := filepath.Abs("../..")
	must(t, err)
	q := &quickstart{hostScope: hostScope{name: "quicktest", dir: filepath.Join(os.TempDir(), "drover-e2e-quickstart")},
		t: t, root: root}
	q.environment = append(os.Environ(), "KUBECONFIG="+filepath.Join(t.TempDir(), "kubeconfig"))
	// A killed run left its state under the same names.
	q.down()
	t.Cleanup(func() {
		if t.Failed() {
			_ = q.script(context.WithoutCancel(t.Context()), "quickstart-down").Run()
		}
	})
	return q
}

func (q *quickstart) script(ctx context.Context, name string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(q.root, "scripts", name), "--name="+q.name, "--data-dir="+q.dir)
	cmd.Dir, cmd.Env = q.root, q.environment
	return cmd
}

// run is one run of scripts/quickstart.
type run struct {
	*quickstart
	log   string
	pid   int
	ended chan error
}

// up starts scripts/quickstart. Its output goes to a file, which is not a terminal and which no left process can block.
func (q *quickstart) up() *run {
	q.t.Helper()
	log, err := os.CreateTemp(q.t.TempDir(), "quickstart-*.log")
	must(q.t, err)
	defer log.Close()
	cmd := q.script(context.WithoutCancel(q.t.Context()), "quickstart")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal signals its foreground process group
	must(q.t, cmd.Start())
	r := &run{quickstart: q, log: log.Name(), pid: cmd.Process.Pid, ended: make(chan error, 1)}
	go func() { r.ended <- cmd.Wait() }()
	q.t.Cleanup(func() {
		if q.t.Failed() {
			q.t.Logf("the quickstart printed:\n%s", r.output())
		}
	})
	return r
}

func (r *run) output() string {
	text, err := os.ReadFile(r.log)
	must(r.t, err)
	return string(text)
}

// await waits until the quickstart has printed a text.
func (r *run) await(text string) {
	r.t.Helper()
	r.until(fmt.Sprintf("the text %q", text), func() bool { return strings.Contains(r.output(), text) })
}

func (r *run) until(what string, done func() bool) {
	r.t.Helper()
	deadline := time.After(readyTimeout)
	for !done() {
		select {
		case err := <-r.ended:
			r.t.Fatalf("the quickstart ended before %s: %v", what, err)
		case <-deadline:
			r.t.Fatalf("the quickstart runs, but %s is missing", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// interrupt sends Ctrl-C and waits for an orderly end without any process left.
func (r *run) interrupt() {
	r.t.Helper()
	start := time.Now()
	must(r.t, syscall.Kill(-r.pid, syscall.SIGINT))
	select {
	case err := <-r.ended:
		if err != nil {
			r.t.Errorf("after Ctrl-C, the quickstart ended with %v", err)
		}
	case <-time.After(goneTimeout):
		r.t.Fatal("the quickstart does not end after Ctrl-C")
	}
	r.t.Logf("ended %s after Ctrl-C", time.Since(start).Round(100*time.Millisecond))
	if left := r.running(); len(left) != 0 {
		r.t.Errorf("processes were left after Ctrl-C:\n%s", strings.Join(left, "\n"))
	}
}

// readyNode reads the nodes once, because the quickstart reported the cluster as Ready.
func (q *quickstart) readyNode() {
	q.t.Helper()
	if out := q.shell("bin/kubectl --context " + q.context() + " get nodes --no-headers"); !readyNode.MatchString(
		out) || strings.Count(out, "\n") != 1 {
		q.t.Errorf("no node is Ready:\n%s", out)
	}
}

// clusterctl gets the cluster's kubeconfig as a user of Cluster API does, and uses it.
func (q *quickstart) clusterctl() {
	q.t.Helper()
	management := filepath.Join(q.t.TempDir(), "management")
	must(q.t, os.WriteFile(management,
		[]byte(q.shell("bin/kubectl config view --raw --minify --context "+q.management())), 0o600))
	kubeconfig := clusterctlKubeconfig(q.t, "", management, "quickstart")
	if out := nodesWith(q.t, q.lab(), kubeconfig); !readyNode.MatchString(out) {
		q.t.Errorf("with the kubeconfig of clusterctl, no node is Ready:\n%s", out)
	}
}

// clusterctlKubeconfig runs "clusterctl get kubeconfig" and returns the file with the kubeconfig. It runs in a network
// namespace unless netns is "".
func clusterctlKubeconfig(t *testing.T, netns, managementKubeconfig, cluster string) string {
	t.Helper()
	cmd := inNetns(t.Context(), netns, filepath.Join(binFolder(t), "clusterctl"), "get", "kubeconfig", cluster,
		"--namespace="+namespace, "--kubeconfig="+managementKubeconfig)
	// Do not ask the internet for a newer clusterctl.
	cmd.Env = append(os.Environ(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true")
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(file, []byte(output(t, cmd)), 0o600))
	return file
}

// nodesWith lists the nodes of a cluster from the network namespace in which its kubeconfig works.
func nodesWith(t *testing.T, netns, kubeconfig string) string {
	t.Helper()
	return output(t, inNetns(t.Context(), netns, filepath.Join(binFolder(t), "kubectl"), "--kubeconfig="+kubeconfig,
		"get", "nodes", "--no-headers"))
}

func inNetns(ctx context.Context, netns string, command ...string) *exec.Cmd {
	if netns != "" {
		command = append([]string{"ip", "netns", "exec", netns}, command...)
	}
	return exec.CommandContext(ctx, command[0], command[1:]...)
}

// output returns the output of a command. A failed command ends the test.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s%s", cmd, err, out, failure.Bytes())
	}
	return string(out)
}

func (q *quickstart) shell(command string) string {
	q.t.Helper()
	cmd := exec.CommandContext(q.t.Context(), "sh", "-c", command)
	cmd.Dir, cmd.Env = q.root, q.environment
	return output(q.t, cmd)
}

// down runs scripts/quickstart-down and checks that nothing is left.
func (q *quickstart) down() {
	q.t.Helper()
	if out, err := q.script(q.t.Context(), "quickstart-down").CombinedOutput(); err != nil {
		q.t.Fatalf("quickstart-down: %v: %s", err, out)
	}
	if diff := cmp.Diff([]string(nil), q.everything()); diff != "" {
		q.t.Errorf("quickstart-down left objects (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(q.dir); !os.IsNotExist(err) {
		q.t.Errorf("quickstart-down left the data folder %s: %v", q.dir, err)
	}
	if out := q.shell("bin/kubectl config get-contexts -o name"); strings.Contains(out, q.context()) {
		q.t.Errorf("quickstart-down left contexts in the kubeconfig:\n%s", out)
	}
}

// everything lists what the quickstart has on this host outside its folder.
func (q *quickstart) everything() []string {
	q.t.Helper()
	namespaces := networkNamespaces(q.t)
	list := slices.Concat(q.processes(q.t, namespaces), q.controlGroups(q.t))
	for _, name := range namespaces {
		if q.isLabs(name) {
			list = append(list, "network namespace "+name)
		}
	}
	return list
}

// running lists the quickstart's processes.
func (q *quickstart) running() []string {
	q.t.Helper()
	return slices.DeleteFunc(q.processes(q.t, networkNamespaces(q.t)), func(found string) bool {
		return !strings.HasPrefix(found, "process ")
	})
}

// runs reports whether one of its processes runs a program.
func (q *quickstart) runs(program string) bool {
	q.t.Helper()
	return slices.ContainsFunc(q.running(), func(process string) bool { return strings.Contains(process, program) })
}
