package highavailability

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/replica"
	"github.com/drover-io/drover/tests/contract/stage"
)

// Limits of the replicas in TestRegistrationTokens.
const (
	waitingHosts     = 5
	hostsWithoutNode = 40
	scaledOut        = 30
	inventedHosts    = 400
)

// yard is a cluster without pools, whose hosts register with tokens.
type yard struct {
	*hall
	namespace, id string
}

// TestRegistrationTokens registers hosts through three replicas, with tokens that have limits, and floods the replicas
// with invented hosts.
func TestRegistrationTokens(t *testing.T) {
	h := newHall(t, fmt.Sprintf("--limits=waiting-hosts=%d,hosts-without-node=%d", waitingHosts, hostsWithoutNode))
	y := &yard{hall: h, namespace: plane.Namespace(t)}
	h.Cluster(y.namespace, "edge", stage.RKE2)
	plane.Until(t, time.Minute, func() string {
		y.id = y.managementCluster()
		if y.id == "" || y.token(mgmtv3.DefaultRegistrationTokenName) == "" {
			return "the cluster has no token"
		}
		if y.registration(mgmtv3.DefaultRegistrationTokenName).Status.InsecureNodeCommand == "" {
			return "the token has no commands"
		}
		return ""
	})
	y.pinsItsScript()
	y.limitsRoles()
	y.admitsOneHost()
	y.scalesOut()
	y.survivesAFlood()
}

func (y *yard) managementCluster() string {
	cluster := &provv1.Cluster{}
	if y.Client.Get(y.Context(), client.ObjectKey{Namespace: y.namespace, Name: "edge"}, cluster) != nil {
		return ""
	}
	return cluster.Status.ClusterName
}

// token returns the value of a registration token, "" if there is none yet.
func (y *yard) token(name string) string {
	secret := &corev1.Secret{}
	if y.Client.Get(y.Context(), client.ObjectKey{Namespace: y.id, Name: naming.RegistrationTokenSecret(name)},
		secret) != nil {
		return ""
	}
	return string(secret.Data["token"])
}

func (y *yard) registration(name string) *mgmtv3.ClusterRegistrationToken {
	y.Helper()
	found := &mgmtv3.ClusterRegistrationToken{}
	y.must(y.Client.Get(y.Context(), client.ObjectKey{Namespace: y.id, Name: name}, found))
	return found
}

// limited creates a token with limits, and returns its value.
func (y *yard) limited(name string, spec mgmtv3.ClusterRegistrationTokenSpec) (value string) {
	y.Helper()
	spec.ClusterName = y.id
	y.must(y.Client.Create(y.Context(), &mgmtv3.ClusterRegistrationToken{
		ObjectMeta: metav1.ObjectMeta{Namespace: y.id, Name: name}, Spec: spec}))
	plane.Until(y.T, time.Minute, func() string {
		if value = y.token(name); value == "" || y.registration(name).Status.NodeCommand == "" {
			return "the token " + name + " is not made"
		}
		return ""
	})
	return value
}

// ask sends the request of a host to a replica, and returns the status and the body.
func (y *yard) ask(ctx context.Context, through int, path string, headers map[string]string) (int, string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+replica.ServerName+path, http.NoBody)
	if err != nil {
		return 0, err.Error()
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	backends := y.balancer.backends
	response, err := backends[through%len(backends)].transport.RoundTrip(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// registers sends the request of a host, and repeats it like the install script while the answer allows that.
func (y *yard) registers(through int, id, token string, roles ...string) (code int, body string) {
	headers := map[string]string{"Authorization": "Bearer " + token, "X-Cattle-Id": id}
	for _, role := range roles {
		headers["X-Cattle-Role-"+role] = "true"
	}
	_ = wait.PollUntilContextTimeout(y.Context(), 2*time.Second, 2*time.Minute, true,
		func(ctx context.Context) (bool, error) {
			code, body = y.ask(ctx, through, "/v3/connect/agent", headers)
			through++
			return code != http.StatusServiceUnavailable && code != http.StatusTooManyRequests && code != 0, nil
		}) // the caller expects the last answer
	return code, body
}

func (y *yard) expect(what string, code int, body string, want int, says string) {
	y.Helper()
	if code != want || !strings.Contains(body, says) {
		y.Errorf("%s: status %d: %s; want %d, %q", what, code, body, want, says)
	}
}

// pinsItsScript runs the insecure command with the script of each replica, and with a changed script.
func (y *yard) pinsItsScript() {
	y.Helper()
	command := y.registration(mgmtv3.DefaultRegistrationTokenName).Status.InsecureNodeCommand
	for through := range y.replicas {
		code, script := y.ask(y.Context(), through, "/system-agent-install.sh", nil)
		if code != http.StatusOK {
			y.Fatalf("status %d: %s", code, script)
		}
		output, err := y.run(command, script)
		if err != nil || !strings.Contains(output, "Usage: install.sh") {
			y.Errorf("replica %d: %v: %s", through, err, output)
		}
		output, err = y.run(command, strings.Replace(script, "set -eu", "echo evil\nset -eu", 1))
		if err == nil || strings.Contains(output, "evil") || !strings.Contains(output, "The script has changed") {
			y.Errorf("a changed script: %v: %s", err, output)
		}
	}
}

// run runs an insecure command, but only shows the help of the script. sudo does nothing.
func (y *yard) run(command, script string) (string, error) {
	y.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, script)
	}))
	defer server.Close()
	bin := y.TempDir()
	y.must(os.WriteFile(filepath.Join(bin, "sudo"), []byte("#!/bin/sh\nexec env \"$@\"\n"), 0o700))
	command = strings.Replace(command, "https://"+replica.ServerName+"/", server.URL+"/", 1) + " --help"
	shell := exec.CommandContext(y.Context(), "sh", "-c", command)
	shell.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "TMPDIR=" + y.TempDir()}
	var output bytes.Buffer
	shell.Stdout, shell.Stderr = &output, &output
	err := shell.Run()
	return output.String(), err
}

// limitsRoles registers hosts with a token for workers. The roles of the token cannot be removed.
func (y *yard) limitsRoles() {
	y.Helper()
	workers := y.limited("workers", mgmtv3.ClusterRegistrationTokenSpec{Roles: []string{mgmtv3.HostRoleWorker}})
	if command := y.registration("workers").Status.NodeCommand; !strings.HasSuffix(command, " --worker") {
		y.Errorf("the command is %s", command)
	}
	const says = "admits only hosts with these roles: worker"
	code, body := y.registers(0, "greedy", workers, "Etcd", "Worker")
	y.expect("a server with a token for workers", code, body, http.StatusForbidden, says)
	code, body = y.registers(1, "modest", workers, "Worker")
	y.expect("a worker with a token for workers", code, body, http.StatusOK, "kubeConfig")
	code, body = y.registers(2, "first-server", y.token(mgmtv3.DefaultRegistrationTokenName), "Etcd", "Control-Plane")
	y.expect("a server with the default token", code, body, http.StatusOK, "kubeConfig")
	code, body = y.registers(0, "first-server", workers, "Worker")
	y.expect("the Machine of a server with a token for workers", code, body, http.StatusForbidden, says)

	wider := y.registration("workers")
	wider.Spec.Roles = nil
	if err := y.Client.Update(y.Context(), wider); err == nil || !strings.Contains(err.Error(),
		"roles cannot be changed or removed") {
		y.Errorf("the roles are removed: %v", err)
	}
}

// admitsOneHost sends many hosts with a token for one host to all replicas at once.
func (y *yard) admitsOneHost() {
	y.Helper()
	one := y.limited("one", mgmtv3.ClusterRegistrationTokenSpec{MaxHosts: new(int32(1))})
	codes := y.all(9, func(i int) (int, string) {
		return y.registers(i, fmt.Sprintf("racer-%d", i), one, "Worker")
	})
	if codes[http.StatusOK] != 1 || codes[http.StatusForbidden] != 8 {
		y.Errorf("9 hosts with a token for one host get %v", codes)
	}
	hosts := y.registration("one").Status.Hosts
	if len(hosts) != 1 {
		y.Fatalf("the token admitted %v", hosts)
	}
	winner := ""
	for i := range 9 {
		id := fmt.Sprintf("racer-%d", i)
		if naming.MachineRequest(naming.MachineRequestCustom, id) == hosts[0].MachineName {
			winner = id
		}
	}
	code, body := y.registers(1, winner, one, "Worker")
	y.expect("the admitted host again", code, body, http.StatusOK, "kubeConfig")
	y.must(y.Client.Delete(y.Context(), &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: y.namespace,
		Name: hosts[0].MachineName}}))
	code, body = y.registers(2, "latecomer", one, "Worker")
	y.expect("another host after the Machine is deleted", code, body, http.StatusForbidden, "is used up")
}

// all calls ask many times at once, and counts the answers by status.
func (y *yard) all(many int, ask func(i int) (int, string)) map[int]int {
	var mu sync.Mutex
	codes := map[int]int{}
	var group sync.WaitGroup
	for i := range many {
		group.Go(func() {
			code, _ := ask(i)
			mu.Lock()
			defer mu.Unlock()
			codes[code]++
		})
	}
	group.Wait()
	return codes
}

// scalesOut registers more hosts at once than may wait. All of them get in, because they retry.
func (y *yard) scalesOut() {
	y.Helper()
	token := y.token(mgmtv3.DefaultRegistrationTokenName)
	codes := y.all(scaledOut, func(i int) (int, string) {
		return y.registers(i, fmt.Sprintf("server-%d", i), token, "Control-Plane")
	})
	if codes[http.StatusOK] != scaledOut {
		y.Errorf("%d hosts that retry get %v", scaledOut, codes)
	}
}

// survivesAFlood invents hosts with the default token. Their machine requests and Machines stay within the limits. A
// known host and a new server get in afterwards.
func (y *yard) survivesAFlood() {
	y.Helper()
	token := y.token(mgmtv3.DefaultRegistrationTokenName)
	most, stop := y.watchRequests()
	codes := y.all(inventedHosts, func(i int) (int, string) {
		return y.ask(y.Context(), i, "/v3/connect/agent", map[string]string{"Authorization": "Bearer " + token,
			"X-Cattle-Id": fmt.Sprintf("invented-%d", i), "X-Cattle-Role-Worker": "true"})
	})
	code, body := y.registers(1, "modest", token, "Worker")
	y.expect("a known host after the flood", code, body, http.StatusOK, "kubeConfig")
	stop()
	if limit := waitingHosts * len(y.replicas); *most > limit {
		y.Errorf("%d machine requests at the same time, want at most %d", *most, limit)
	}
	if codes[http.StatusTooManyRequests] < inventedHosts/2 {
		y.Errorf("the answers by status are %v", codes)
	}
	machines := &clusterv1.MachineList{}
	y.must(y.Client.List(y.Context(), machines, client.InNamespace(y.namespace)))
	// Workers that register at the same time may exceed the limit, by as many as are handled at once.
	if many := len(machines.Items); many > hostsWithoutNode+10 {
		y.Errorf("%d Machines exist", many)
	}
	y.Logf("flood: at most %d machine requests at the same time, %d Machines, answers %v", *most, len(machines.Items),
		slices.Sorted(maps.Keys(codes)))
	code, body = y.registers(0, "honest-server", token, "Etcd", "Control-Plane")
	y.expect("a new server after the flood", code, body, http.StatusOK, "kubeConfig")
}

// watchRequests counts the machine requests that exist at the same time until stop is called.
func (y *yard) watchRequests() (most *int, stop func()) {
	ctx, cancel := context.WithCancel(y.Context())
	most = new(int)
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			secrets := &corev1.SecretList{}
			if y.Client.List(ctx, secrets, client.InNamespace(y.id)) != nil {
				continue
			}
			count := 0
			for i := range secrets.Items {
				if secrets.Items[i].Type == rkev1.SecretTypeMachineRequest {
					count++
				}
			}
			*most = max(*most, count)
		}
	})
	return most, func() { cancel(); group.Wait() }
}
