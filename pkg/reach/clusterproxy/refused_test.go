package clusterproxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"
)

// A client that is refused while it sends its request in HTTP/2 stops sending, and must see the end of the answer.
func TestStream_RefusalsReachClientsThatStillSend(t *testing.T) {
	w := newWorld(t)
	token := w.user("jane", "a")
	id := w.cluster("a", nil)
	backend := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "you may not create it", http.StatusForbidden)
	}))
	backend.EnableHTTP2 = true // as API servers and the tunnel do
	backend.StartTLS()
	t.Cleanup(backend.Close)
	base, err := url.Parse(backend.URL)
	check(t, err)
	w.backends[id] = toBackend{base: base, to: backend.Client().Transport.(*http.Transport)}
	server := w.proxy()

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	sent, more := io.Pipe()
	t.Cleanup(func() { _ = more.Close() })
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/k8s/clusters/"+id+"/api/v1/pods", sent)
	check(t, err)
	r.ContentLength = 1000
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := server.Client().Do(r)
	check(t, err)
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusForbidden ||
		string(body) != "you may not create it\n" {
		t.Errorf("%s %s: %q, error %v", answer.Proto, answer.Status, body, err)
	}
	cancel()
	if record := w.ended(server, 1)[0]; record.Status != http.StatusForbidden || record.Cut {
		t.Errorf("audit has %+v", record)
	}
}
