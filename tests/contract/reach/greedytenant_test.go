package reach

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/tests/contract/plane"
)

// greedy are the accounts of a tenant that sends slow requests, as many as each account can.
const (
	greedyAccounts = 2
	slowRequests   = 200
)

// tenant is a namespace with a cluster and with accounts that may use it.
type tenant struct {
	*world
	namespace, id string
	client        *http.Client
}

// tenant creates a namespace and imports a cluster there. All accounts of the namespace may get the Cluster. In the
// cluster they may do everything.
func (w *world) tenant(name string, downstream *managementplane.Plane) *tenant {
	w.Helper()
	namespace := plane.Namespace(w)
	w.kubectlOK(plane.Kubeconfig(w), "", "-n", namespace, "create", "role", "users", "--verb=get",
		"--resource=clusters.provisioning.cattle.io")
	w.kubectlOK(plane.Kubeconfig(w), "", "-n", namespace, "create", "rolebinding", "users", "--role=users",
		"--group=system:serviceaccounts:"+namespace)
	id := w.attach(namespace, name, downstream)
	w.kubectlOK(downstream.Kubeconfig(), "", "create", "clusterrolebinding", namespace, "--clusterrole=cluster-admin",
		"--group=system:drover:serviceaccounts:"+namespace)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(w.authority()))
	t := &tenant{world: w, namespace: namespace, id: id,
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool},
			ForceAttemptHTTP2: true}}}
	w.Cleanup(t.client.CloseIdleConnections)
	return t
}

// request sends a request to the tenant's cluster and returns the answer without its body.
func (t *tenant) request(ctx context.Context, token, method, path string, body io.Reader) (*http.Response, error) {
	address := "https://" + t.server.Address + "/k8s/clusters/" + t.id + path
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	return t.client.Do(request)
}

// TestGreedyTenant: each of two accounts of one tenant sends two hundred requests that do not end. Every request of
// another tenant to its own cluster succeeds within a second.
func TestGreedyTenant(t *testing.T) {
	w := newWorld(t)
	greedy, modest := w.tenant("greedy", w.downstream), w.tenant("modest", plane.Another(t))
	token := modest.account(modest.namespace, "mia")
	modest.askQuickly(token, 5)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	var refused atomic.Int64
	for account := range greedyAccounts {
		token := greedy.account(greedy.namespace, fmt.Sprint("greedy-", account))
		for range slowRequests {
			running.Go(func() {
				for ctx.Err() == nil {
					greedy.slowly(ctx, token, &refused)
				}
			})
		}
	}
	waiting := 0.0
	plane.Until(t, 30*time.Second, func() string {
		values, err := w.server.Metrics()
		w.must(err)
		if waiting = values["drover_proxy_requests_waiting"]; waiting < slowRequests/2 || refused.Load() == 0 {
			return fmt.Sprintf("%v requests wait, and %d are refused", waiting, refused.Load())
		}
		return ""
	})
	longest := modest.askQuickly(token, 100)
	t.Logf("%v requests wait, %d were refused; the other tenant's slowest request takes %s", waiting, refused.Load(),
		longest)
	cancel()
	running.Wait()
	plane.Until(t, 30*time.Second, func() string {
		values, err := w.server.Metrics()
		w.must(err)
		if waiting := values["drover_proxy_requests_waiting"]; waiting != 0 {
			return fmt.Sprintf("%v requests of disconnected clients wait", waiting)
		}
		return ""
	})
	greedy.askQuickly(greedy.account(greedy.namespace, "greedy-0"), 5)
}

// askQuickly fails the test unless many requests succeed, each within a second. It returns the longest time.
func (t *tenant) askQuickly(token string, many int) (longest time.Duration) {
	t.Helper()
	for range many {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		answer, err := t.request(ctx, token, http.MethodGet, "/version", http.NoBody)
		t.must(err)
		body, err := io.ReadAll(answer.Body)
		t.must(err)
		t.must(answer.Body.Close())
		cancel()
		took := time.Since(began)
		if answer.StatusCode != http.StatusOK || took > time.Second {
			t.Fatalf("a request gets %s after %s: %s", answer.Status, took, body)
		}
		longest = max(longest, took)
	}
	return longest
}

// slowly sends a request whose body does not end before ctx. After a refusal it waits as long as the answer says.
func (t *tenant) slowly(ctx context.Context, token string, refused *atomic.Int64) {
	reader, writer := io.Pipe()
	defer context.AfterFunc(ctx, func() { _ = writer.CloseWithError(ctx.Err()) })()
	go func() { _, _ = io.WriteString(writer, `{"apiVersion":"v1","kind":"ConfigMap",`) }()
	answer, err := t.request(ctx, token, http.MethodPost, "/api/v1/namespaces/default/configmaps", reader)
	_ = reader.Close()
	if err != nil {
		return // the test ends, or Drover ends the request because it took too long
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusTooManyRequests {
		return
	}
	var status metav1.Status
	if err := json.NewDecoder(answer.Body).Decode(&status); err != nil && ctx.Err() == nil ||
		answer.Header.Get("Retry-After") != "1" || err == nil && status.Reason != metav1.StatusReasonTooManyRequests {
		t.Errorf("a refusal is %+v with %v: %v", status, answer.Header, err)
	}
	refused.Add(1)
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
}
