package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
)

// TestNoInbound uses a cluster whose machine drops every incoming connection. SSH is open only until the driver has
// created the machine. The ports of the cluster are never open.
func TestNoInbound(t *testing.T) {
	w := newWorld(t, "noinbound")
	must(t, w.Apply(t.Context(), cluster("noinbound", "v1.36.3+rke2r1")))
	address := w.closed()
	w.awaitReady("noinbound")
	if conn, err := w.dialWithin(time.Second, address+":6443"); err == nil {
		conn.Close()
		t.Fatal("a connection to the cluster's API server succeeds")
	}

	kubectl := w.kubectlOf("noinbound")
	if nodes := kubectl.ok("", "get", "nodes", "--no-headers"); strings.Count(nodes, " Ready ") != 1 {
		t.Errorf("nodes: %s", nodes)
	}
	machine := w.onlyMachine()
	if node, _, _ := unstructured.NestedString(machine.Object, "status", "nodeRef", "name"); node == "" {
		t.Errorf("the Machine has no node: %v", machine.Object["status"])
	}
	kubectl.use()
	w.clusterctl("noinbound")
	w.deleteCluster("noinbound")
}

// closed waits for the machine and blocks its incoming connections: SSH after the driver has created the machine, all
// others at once. It returns the machine's address.
func (w *world) closed() string {
	w.t.Helper()
	w.eventually("a machine", func() (bool, error) { return len(w.Lab.List()) == 1, nil })
	machine := w.Lab.List()[0]
	drop := func(except string) {
		w.t.Helper()
		rules := "flush ruleset\ntable inet closed {\nchain input {\ntype filter hook input priority 0; policy " +
			"drop;\niif lo accept\n" +
			"ct state established,related accept\n" + except + "\n}\n}\n"
		command := inNetns(w.t.Context(), w.Lab.MachineNamespace(machine.Name), "nft", "-f", "-")
		command.Stdin = strings.NewReader(rules)
		if out, err := command.CombinedOutput(); err != nil {
			w.t.Fatalf("nft: %v: %s", err, out)
		}
	}
	drop("tcp dport 22 accept")
	w.eventually("the end of its driver's work", func() (bool, error) {
		machines, err := w.list(machinesResource)
		if err != nil || len(machines) != 1 {
			return false, err
		}
		provisioned, _, _ := unstructured.NestedBool(machines[0].Object, "status", "initialization",
			"infrastructureProvisioned")
		return provisioned, nil
	})
	drop("")
	return machine.Address.String()
}

func (w *world) dialWithin(d time.Duration, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	defer cancel()
	return w.Dial(ctx, "tcp", address)
}

// caller runs kubectl where Drover's endpoints are reachable.
type caller struct {
	*world
	kubeconfig string
}

// kubectlOf returns a caller with the kubeconfig that Drover wrote for a cluster.
func (w *world) kubectlOf(cluster string) caller {
	w.t.Helper()
	management, err := kubernetes.NewForConfig(w.Config)
	must(w.t, err)
	secret, err := management.CoreV1().Secrets(namespace).Get(w.t.Context(), cluster+"-kubeconfig", metav1.GetOptions{})
	must(w.t, err)
	return w.kubectlWith(secret.Data["value"])
}

func (w *world) kubectlWith(kubeconfig []byte) caller {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "kubeconfig")
	must(w.t, os.WriteFile(path, kubeconfig, 0o600))
	return caller{w, path}
}

func (c caller) command(ctx context.Context, args ...string) *exec.Cmd {
	return inNetns(ctx, c.Lab.Namespace(),
		append([]string{filepath.Join(binFolder(c.t), "kubectl"), "--kubeconfig=" + c.kubeconfig}, args...)...)
}

func (c caller) ok(stdin string, args ...string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	command := c.command(ctx, args...)
	command.Stdin = strings.NewReader(stdin)
	out, err := command.CombinedOutput()
	if err != nil {
		c.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// follow starts kubectl and calls then after its first line of output. It returns the output when that contains a text.
func (c caller) follow(until string, then func(), args ...string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	command := c.command(ctx, args...)
	out, err := command.StdoutPipe()
	must(c.t, err)
	must(c.t, command.Start())
	var read bytes.Buffer
	buffer := make([]byte, 4096)
	for err == nil && !strings.Contains(read.String(), until) {
		first := read.Len() == 0
		var n int
		n, err = out.Read(buffer)
		read.Write(buffer[:n])
		if first && n > 0 {
			then()
		}
	}
	cancel()
	_ = command.Wait() // the test has ended it
	if err != nil {
		c.t.Errorf("kubectl %s printed %q, want %q", strings.Join(args, " "), read.String(), until)
	}
}

// workload is a pod that prints numbers, and sends a greeting to each connection to its port.
const workload = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "work"}, "spec": {"tolerations": [{"operator": "Exists"}], "containers": [
{"name": "c", "image": "drover.test/pause:1", "command": ["sh", "-c", "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 5, LocalAddr => q(127.0.0.1), LocalPort => 18081, ReuseAddr => 1) or die; while ($c = $s->accept) { print $c qq(hello\n); close $c }' & i=0; while true; do i=$((i+1)); echo line $i; sleep 0.2; done"]}]}}`

// use does with a cluster what users do with it.
func (c caller) use() {
	c.t.Helper()
	c.ok("", "create", "namespace", "work")
	c.ok(strings.ReplaceAll(workload, `qq(hello\n)`, `qq(hello\\n)`), "apply", "-f", "-")
	c.ok("", "-n", "work", "wait", "--for=condition=Ready", "pod/p", "--timeout=100s")
	if out := c.ok("to be echoed", "-n", "work", "exec", "-i", "p", "--", "cat"); out != "to be echoed" {
		c.t.Errorf("exec answers %q", out)
	}
	c.follow("line 3", func() {}, "-n", "work", "logs", "-f", "p")
	c.follow("made-while-watching", func() { c.ok("", "-n", "work", "create", "configmap", "made-while-watching") },
		"-n", "work", "get", "configmaps", "--watch", "-o", "name")
	c.forward()
	c.ok("", "delete", "namespace", "work", "--wait=false")
}

// forward connects to the pod's port through the API server.
func (c caller) forward() {
	c.t.Helper()
	c.follow("Forwarding from 127.0.0.1:18080", func() {
		var answer []byte
		c.eventually("an answer of the pod", func() (bool, error) {
			conn, err := c.dialWithin(5*time.Second, "127.0.0.1:18080")
			if err != nil {
				return false, err
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
				return false, err
			}
			answer, err = io.ReadAll(conn)
			return err == nil && len(answer) > 0, err
		})
		if string(answer) != "hello\n" {
			c.t.Errorf("the pod answers %q", answer)
		}
	}, "-n", "work", "port-forward", "pod/p", "18080:18081")
}

// clusterctl checks with Cluster API's command line that the cluster is healthy and its kubeconfig works.
func (w *world) clusterctl(cluster string) {
	w.t.Helper()
	run := func(args ...string) []byte {
		w.t.Helper()
		args = append([]string{filepath.Join(binFolder(w.t), "clusterctl")}, args...)
		args = append(args, "--namespace="+namespace, "--kubeconfig="+filepath.Join(w.DataDir(), "kubeconfig"))
		var problems bytes.Buffer
		command := inNetns(w.t.Context(), w.Lab.Namespace(), args...)
		command.Stderr = &problems
		// Otherwise it waits a minute for an answer from the internet.
		command.Env = append(os.Environ(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true")
		out, err := command.Output()
		if err != nil {
			w.t.Fatalf("clusterctl %s: %v\n%s", strings.Join(args, " "), err, problems.String())
		}
		return out
	}
	inOrder := regexp.MustCompile(
		`(?s)^[^\n]*\nCluster [^\n]* True [^\n]*\n.*RKEControlPlane [^\n]* True [^\n]*\n.*Machine [^\n]* True `)
	w.eventually("clusterctl describe shows all conditions as True", func() (bool, error) {
		described := string(run("describe", "cluster", cluster))
		if !inOrder.MatchString(described) || strings.Contains(described, "False") ||
			strings.Contains(described, "Unknown") {
			return false, fmt.Errorf("some conditions are not True:\n%s\n%s", described,
				run("describe", "cluster", cluster, "--show-conditions=all"))
		}
		return true, nil
	})
	if nodes := w.kubectlWith(run("get", "kubeconfig", cluster)).ok("", "get", "nodes", "--no-headers"); strings.Count(
		nodes, " Ready ") != 1 {
		w.t.Errorf("nodes: %s", nodes)
	}
}
