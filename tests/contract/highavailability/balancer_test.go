package highavailability

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-io/drover/tests/contract/replica"
)

// balancer stands between machines and replicas, like a Service. It sends each request to a ready replica. It also acts
// as the client of all agents, which retry a failed request once, and counts failures.
type balancer struct {
	backends []*backend
	next     atomic.Int64
	asked    atomic.Int64

	mu sync.Mutex
	// failures are failed requests and watches, by the name of the replica. lost are requests that failed twice.
	failures map[string][]string
	lost     []string
}

// backend is a replica from the balancer's view.
type backend struct {
	*replica.Replica
	transport *http.Transport
	ready     atomic.Bool
}

// notice is the interval at which a balancer checks the readiness of a replica.
const notice = 100 * time.Millisecond

func newBalancer(t *testing.T, all ...*replica.Replica) *balancer {
	t.Helper()
	b := &balancer{failures: map[string][]string{}}
	for _, r := range all {
		dialer := &net.Dialer{Timeout: time.Second}
		one := &backend{Replica: r, transport: &http.Transport{
			ForceAttemptHTTP2: true,
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, r.Address)
			},
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
		}}
		b.backends = append(b.backends, one)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var group sync.WaitGroup
	for _, one := range b.backends {
		group.Go(func() { one.watchReady(ctx) })
	}
	t.Cleanup(func() { cancel(); group.Wait() })
	return b
}

// trust restricts connections to replicas with a certificate from this authority for the server's name.
func (b *balancer) trust(authority []byte) error {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return errors.New("the server has no certificate")
	}
	for _, one := range b.backends {
		one.transport.CloseIdleConnections()
		one.transport.TLSClientConfig = &tls.Config{RootCAs: pool, ServerName: replica.ServerName,
			MinVersion: tls.VersionTLS12}
	}
	return nil
}

// watchReady polls the health endpoint, as the kubelet does.
func (b *backend) watchReady(ctx context.Context) {
	tick := time.NewTicker(notice)
	defer tick.Stop()
	for {
		b.ready.Store(b.isReady(ctx))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (b *backend) isReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.Health+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// choose returns a ready replica other than the given one. If there is none, because the balancer has not noticed a
// change yet, it returns any other replica.
func (b *balancer) choose(not *backend) *backend {
	n := int(b.next.Add(1))
	for _, ready := range []bool{true, false} {
		for i := range b.backends {
			if one := b.backends[(n+i)%len(b.backends)]; one != not && (one.ready.Load() || !ready) {
				return one
			}
		}
	}
	return b.backends[0]
}

// RoundTrip sends a request to a replica. If that fails, it sends the request to another one.
func (b *balancer) RoundTrip(request *http.Request) (*http.Response, error) {
	b.asked.Add(1)
	first := b.choose(nil)
	answer, problem := b.try(first, request)
	if problem == "" {
		return answer, nil
	}
	if request.Context().Err() != nil {
		return nil, request.Context().Err()
	}
	b.failed(first, problem)
	again := request.Clone(request.Context())
	if request.GetBody != nil {
		body, err := request.GetBody()
		if err != nil {
			return nil, err
		}
		again.Body = body
	}
	answer, second := b.try(b.choose(first), again)
	if second == "" {
		return answer, nil
	}
	if request.Context().Err() == nil {
		b.mu.Lock()
		b.lost = append(b.lost, problem+"; then: "+second)
		b.mu.Unlock()
	}
	return nil, errors.New(second)
}

// try sends a request and describes its failure from an agent's view: no answer, a server error, or an answer that
// rejects the credential.
func (b *balancer) try(one *backend, request *http.Request) (*http.Response, string) {
	what := fmt.Sprintf("%s %s %s on %s", time.Now().Format("15:04:05.000"), request.Method, request.URL.Path, one.Name)
	answer, err := one.transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Sprintf("%s: %v", what, err)
	}
	if code := answer.StatusCode; code >= http.StatusInternalServerError || code == http.StatusUnauthorized ||
		code == http.StatusForbidden {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 200))
		answer.Body.Close()
		return nil, fmt.Sprintf("%s: %s %s", what, answer.Status, text)
	}
	if request.URL.Query().Has("watch") {
		answer.Body = &watched{ReadCloser: answer.Body, ctx: request.Context(), broke: func(err error) {
			b.failed(one, fmt.Sprintf("%s: the watch ended: %v", what, err))
		}}
	}
	return answer, ""
}

func (b *balancer) failed(one *backend, problem string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures[one.Name] = append(b.failures[one.Name], problem)
}

// watched is the stream of a watch, which must end without breaking.
type watched struct {
	io.ReadCloser
	ctx   context.Context // the context of the request
	broke func(error)
	once  sync.Once
	ended atomic.Bool
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && w.ctx.Err() == nil && !w.ended.Load() {
		w.once.Do(func() { w.broke(err) })
	}
	return n, err
}

func (w *watched) Close() error {
	w.ended.Store(true)
	return w.ReadCloser.Close()
}

// expect ends a part of the story. No request may be lost. Requests may fail only on replicas whose end the balancer
// could not know. Then expect resets the counts.
func (b *balancer) expect(t *testing.T, moment string, mayFail ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, lost := range b.lost {
		t.Errorf("%s: a request failed twice: %s", moment, lost)
	}
	allowed := map[string]bool{}
	for _, name := range mayFail {
		allowed[name] = true
	}
	for name, failures := range b.failures {
		t.Logf("%s: %d requests and watches failed once on %s", moment, len(failures), name)
		for _, failure := range failures {
			if !allowed[name] {
				t.Errorf("%s: %s", moment, failure)
			}
		}
	}
	t.Logf("%s: agents sent %d requests", moment, b.asked.Swap(0))
	b.failures, b.lost = map[string][]string{}, nil
}
