package reach

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/replica"
	"github.com/drover-io/drover/tests/contract/stage"
)

// TestTunnelCut_TwoReplicas: an agent has a session to each of two replicas behind one address. When the leader is
// killed, requests to the other replica succeed, and the cluster never counts as disconnected. Watches resume where
// they were and miss no event. The restarted replica gets its session.
func TestTunnelCut_TwoReplicas(t *testing.T) {
	one, two := newServer(t, "one"), newServer(t, "two")
	gate := newGate(t, one, two)
	for _, each := range []*replica.Replica{one, two} {
		each.ServerURL = "https://" + gate.address
		each.Start()
	}
	one.AwaitReady()
	two.AwaitReady()
	w := newWorldOf(t, one)
	namespace := plane.Namespace(t)
	id := w.cluster(namespace, "imported")
	_, manifest := w.fetch(w.command(id), nil)
	w.kubectlOK(w.downstream.Kubeconfig(), manifest, "apply", "-f", "-")
	w.awaitCondition(id, "Connected", "True", time.Minute)
	kubeconfig := w.kubeconfig(namespace, "imported")
	asker := w.asker(namespace, id)
	asker.await(one, time.Minute)
	asker.await(two, time.Minute)

	watches := w.watch(kubeconfig, 6)

	killed, other := one, two
	if replica.Leader(t, time.Minute, one, two) == two {
		killed, other = two, one
	}
	end := w.inBackground(asker.keepAsking(other), w.staysConnected(id))
	killed.Kill()
	at := time.Now()
	replica.Leader(t, time.Minute, other)
	t.Logf("%s leads %s after %s was killed", other.Name, time.Since(at).Round(time.Millisecond), killed.Name)
	watches.see("after")
	watches.resumed()
	w.awaitCondition(id, "Connected", "True", 5*time.Second)
	end()
	if asked := asker.asked.Load(); asked < 50 {
		t.Errorf("only %d requests", asked)
	}
	killed.Start()
	killed.AwaitReady()
	asker.await(killed, time.Minute)
}

// newServer returns a replica whose clusters run the program under test as their agent.
func newServer(t *testing.T, name string) *replica.Replica {
	t.Helper()
	return replica.New(t, name, stage.AccountKubeconfig(t), "--shutdown-delay=0s",
		"--cluster-agent-image=drover.test/drover:test")
}

// asker sends a request for a cluster to replicas.
type asker struct {
	*world
	client    *http.Client
	path, who string
	asked     atomic.Int64
}

func (w *world) asker(namespace, id string) *asker {
	w.Helper()
	secret, err := w.secret(namespace, "imported-kubeconfig")
	w.must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(w.authority()))
	a := &asker{
		world: w, path: "/k8s/clusters/" + id + "/version", who: "Bearer " + string(secret.Data["token"]),
		client: &http.Client{Timeout: 5 * time.Second,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}},
	}
	w.Cleanup(a.client.CloseIdleConnections)
	return a
}

func (a *asker) ask(ctx context.Context, r *replica.Replica) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.Address+a.path, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", a.who)
	answer, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("%s: %s", answer.Status, body))
	}
	return err
}

// await waits until a replica reaches the cluster.
func (a *asker) await(r *replica.Replica, within time.Duration) {
	a.Helper()
	plane.Until(a, within, func() string {
		if err := a.ask(a.Context(), r); err != nil {
			return fmt.Sprintf("%s does not reach the cluster: %v\nagent: %s", r.Name, err, a.agentLog())
		}
		return ""
	})
}

// keepAsking fails the test if a request fails.
func (a *asker) keepAsking(r *replica.Replica) func(context.Context) {
	return func(ctx context.Context) {
		a.asked.Add(1)
		if err := a.ask(ctx, r); err != nil && ctx.Err() == nil {
			a.Errorf("request %d at %s: %v", a.asked.Load(), r.Name, err)
		}
	}
}

// staysConnected fails the test if the cluster counts as disconnected.
func (w *world) staysConnected(id string) func(context.Context) {
	return func(ctx context.Context) {
		for _, kind := range []string{"Connected", "Ready"} {
			if status, err := w.condition(ctx, id, kind); ctx.Err() == nil && (err != nil || status != "True") {
				w.Errorf("%s is %q: %v", kind, status, err)
			}
		}
	}
}

// inBackground repeats functions until the returned function is called.
func (w *world) inBackground(things ...func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var group sync.WaitGroup
	for _, do := range things {
		group.Go(func() {
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				do(ctx)
				select {
				case <-ctx.Done():
				case <-tick.C:
				}
			}
		})
	}
	end = func() { cancel(); group.Wait() }
	w.Cleanup(end)
	return end
}
