package reach

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/reach/clusterproxy"
	"github.com/drover-io/drover/tests/contract/plane"
)

// recheck is the interval in which Drover checks open requests here.
const recheck = 6 * time.Second

// slack is for the management cluster's own caches: its API server remembers a token for ten seconds.
const slack = 15 * time.Second

// TestRevocation: open requests end soon after their user has lost the permission or the credential. So do the session
// of an agent and the watch of a node.
func TestRevocation(t *testing.T) {
	server := newServer(t, "drover")
	server.ServerURL = "https://" + server.Address
	server.More = append(server.More, fmt.Sprintf("--limits=proxy-recheck-seconds=%d", int(recheck.Seconds())))
	server.Start()
	server.AwaitReady()
	w := newWorldOf(t, server)
	namespace := plane.Namespace(t)
	id := w.attach(namespace, "imported", w.downstream)
	w.kubectlOK(w.downstream.Kubeconfig(), "", "create", "clusterrolebinding", "users", "--clusterrole=cluster-admin",
		"--group=system:drover:serviceaccounts:"+namespace)
	w.kubectlOK(plane.Kubeconfig(w), "", "-n", namespace, "create", "role", "users", "--verb=get",
		"--resource=clusters.provisioning.cattle.io")
	w.runPod()

	t.Run("open requests", func(t *testing.T) { w.of(t).revocations(namespace, id) }) // waits for parallel tests
	t.Run("the registration token of an agent is replaced", func(t *testing.T) { w.of(t).revokeAgent(namespace, id) })
	audited := w.server.Log()
	for _, reason := range []string{`reason="revoked: user `, `reason="revoked: the credential is no longer valid"`} {
		if !strings.Contains(audited, reason) {
			t.Errorf("no audit record has %s", reason)
		}
	}
}

// revocations revokes permissions and credentials, each during an open request.
func (w *world) revocations(namespace, id string) {
	w.Helper()
	for name, start := range map[string]func(*world, string) *openRequest{
		"a watch": (*world).openWatch,
		"an exec with SPDY": func(w *world, kubeconfig string) *openRequest {
			return w.openExec(kubeconfig, "KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false")
		},
		"an exec with WebSocket": func(w *world, kubeconfig string) *openRequest {
			return w.openExec(kubeconfig, "KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true")
		},
	} {
		w.Run("the user loses the RoleBinding during "+name, func(t *testing.T) {
			t.Parallel()
			w := w.of(t)
			account := strings.ReplaceAll(strings.ToLower(name), " ", "-")
			request := start(w, w.permitted(namespace, id, account))
			request.staysOpen(2 * recheck)
			w.kubectlOK(plane.Kubeconfig(w), "", "-n", namespace, "delete", "rolebinding", account)
			request.ends(recheck + slack)
		})
	}
	w.Run("the service account is deleted during a watch", func(t *testing.T) {
		t.Parallel()
		w := w.of(t)
		request := w.openWatch(w.permitted(namespace, id, "deleted"))
		request.staysOpen(recheck)
		w.must(w.upstream.CoreV1().ServiceAccounts(namespace).Delete(w.Context(), "deleted", metav1.DeleteOptions{}))
		request.ends(recheck + slack)
	})
	w.Run("a token of Drover is deleted during a watch", func(t *testing.T) {
		t.Parallel()
		w := w.of(t)
		request := w.openWatch(w.kubeconfig(namespace, "imported"))
		request.staysOpen(recheck)
		secrets := w.upstream.CoreV1().Secrets("drover-system")
		w.must(secrets.DeleteCollection(w.Context(), metav1.DeleteOptions{},
			metav1.ListOptions{LabelSelector: clusterproxy.TokenClusterLabel + "=" + id}))
		request.ends(recheck + slack)
	})
	w.Run("the plan token of a machine is deleted during a watch of its plan", func(t *testing.T) {
		t.Parallel()
		w.of(t).revokePlan(namespace)
	})
}

// runPod runs a pod for execs.
func (w *world) runPod() {
	w.Helper()
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"default"},"spec":{"tolerations":` +
		`[{"operator":"Exists"}],"containers":[{"name":"c","image":"drover.test/pause:1"}]}}`
	w.kubectlOK(w.downstream.Kubeconfig(), pod, "apply", "-f", "-")
	w.kubectlOK(w.downstream.Kubeconfig(), "", "wait", "--for=condition=Ready", "pod/p", "--timeout=50s")
}

// permitted returns the kubeconfig of a new account that may get the Cluster, by a RoleBinding with the account's name.
func (w *world) permitted(namespace, id, account string) string {
	w.Helper()
	kubeconfig := w.userKubeconfig(namespace, account, id)
	w.kubectlOK(plane.Kubeconfig(w), "", "-n", namespace, "create", "rolebinding", account, "--role=users",
		"--serviceaccount="+namespace+":"+account)
	plane.Until(w, 30*time.Second, func() string {
		if out, err := w.kubectl(kubeconfig, "", "get", "--raw", "/version"); err != nil {
			return out
		}
		return ""
	})
	return kubeconfig
}

// openRequest is a request that kubectl has open.
type openRequest struct {
	*world
	over chan struct{}
	// process is the program that the request runs in the cluster, or 0.
	process int
}

// openWatch watches ConfigMaps.
func (w *world) openWatch(kubeconfig string) *openRequest {
	w.Helper()
	return w.open(kubeconfig, nil, "get", "--raw", "/api/v1/namespaces/default/configmaps?watch=1")
}

// openExec runs a program that ends when its input ends. kubectl sends nothing.
func (w *world) openExec(kubeconfig, environment string) *openRequest {
	w.Helper()
	return w.open(kubeconfig, []string{environment}, "exec", "-i", "p", "--", "sh", "-c", "echo $$; exec cat")
}

// open runs kubectl until it has printed a line.
func (w *world) open(kubeconfig string, environment []string, args ...string) *openRequest {
	w.Helper()
	program, err := plane.Binary("kubectl")
	w.must(err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	command := exec.CommandContext(ctx, program, append([]string{"--kubeconfig", kubeconfig}, args...)...)
	command.Env = append(append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH")), environment...)
	input, err := command.StdinPipe() // stays open
	w.must(err)
	out, err := command.StdoutPipe()
	w.must(err)
	var problems bytes.Buffer
	command.Stderr = &problems
	w.must(command.Start())
	request := &openRequest{world: w, over: make(chan struct{})}
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err != nil {
		w.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, problems.String())
	}
	request.process, _ = strconv.Atoi(strings.TrimSpace(line))
	go func() {
		defer close(request.over)
		_, _ = io.Copy(io.Discard, lines)
		_ = command.Wait()
	}()
	w.Cleanup(func() {
		cancel()
		<-request.over
		_ = input.Close()
	})
	return request
}

// staysOpen fails the test if the request ends.
func (o *openRequest) staysOpen(within time.Duration) {
	o.Helper()
	select {
	case <-o.over:
		o.Fatal("the request ends although nothing was revoked")
	case <-time.After(within):
	}
}

// ends fails the test unless the request ends, on both sides.
func (o *openRequest) ends(within time.Duration) {
	o.Helper()
	began := time.Now()
	select {
	case <-o.over:
	case <-time.After(within):
		o.Fatalf("the request is still open after %s", within)
	}
	o.Logf("the request ended after %s", time.Since(began).Round(100*time.Millisecond))
	if o.process == 0 {
		return
	}
	plane.Until(o, 10*time.Second, func() string {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", o.process)); err == nil {
			return "the program in the cluster still runs"
		}
		return ""
	})
}
