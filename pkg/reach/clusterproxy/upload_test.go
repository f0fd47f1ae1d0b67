package clusterproxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const uploadStall = 400 * time.Millisecond

// uploads serves a cluster that answers with the size of a body, over HTTP/1.1 and HTTP/2. Before it reads, it waits.
func (w *world) uploads(waits time.Duration) map[string]*httptest.Server {
	w.t.Helper()
	w.cluster("a", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		time.Sleep(waits)
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, _ = io.WriteString(rw, strings.Repeat("x", len(body)))
		}
	}))
	w.options.UploadStall = uploadStall
	w.options.RequestTimeout = uploadStall // long-running requests have no such limit
	p, err := New(w.options)
	check(w.t, err)
	servers := map[string]*httptest.Server{}
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		server := httptest.NewUnstartedServer(p)
		server.EnableHTTP2, server.Config.ErrorLog = http2, quiet()
		server.StartTLS()
		w.t.Cleanup(server.Close)
		servers[name] = server
	}
	return servers
}

// sendUpload sends a body to a service in a cluster.
func sendUpload(t *testing.T, server *httptest.Server, token string, body io.Reader) (reply, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		server.URL+"/k8s/clusters/c-m-a/api/v1/namespaces/n/services/s/proxy/", body)
	check(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := server.Client().Do(r)
	check(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	check(t, err)
	return reply{Proto: answer.Proto, StatusCode: answer.StatusCode}, string(text)
}

// A client that stops to send a body gets an answer soon, and its request ends.
func TestUpload_AStalledBodyEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.user("jane", "a")
	for proto, server := range w.uploads(0) {
		body, stalls := io.Pipe()
		go func() { _, _ = stalls.Write([]byte("a piece")) }()
		began := time.Now()
		answer, text := sendUpload(t, server, token, body)
		_ = stalls.Close()
		if answer.Proto != proto || answer.StatusCode != http.StatusRequestTimeout ||
			!strings.Contains(text, "the client stopped sending the body") {
			t.Errorf("%s: the answer is %d %s", answer.Proto, answer.StatusCode, text)
		}
		if took := time.Since(began); took < uploadStall {
			t.Errorf("%s: the request ended after %s", proto, took)
		}
		server.Close()
	}
	w.change(func(w *world) {
		for _, record := range w.records {
			if record.Stage == StageEnded && record.Reason != "stalled: the client stopped sending the body" {
				t.Errorf("audit has %+v", record)
			}
		}
	})
}

// A client that sends slowly, and a cluster that reads late, end no request.
func TestUpload_SlowBodiesPass(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		waits time.Duration
		body  func() io.Reader
		want  int
	}{
		"a slow client":  {0, func() io.Reader { return &slowBody{4} }, 4 * len("piece\n")},
		"a slow cluster": {2 * uploadStall, func() io.Reader { return io.LimitReader(&letters{}, 2<<20) }, 2 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			token := w.user("jane", "a")
			for proto, server := range w.uploads(tt.waits) {
				for range 2 { // also with a connection that had an upload before
					if answer, text := sendUpload(t, server, token, tt.body()); answer.StatusCode != http.StatusOK ||
						len(text) != tt.want {
						t.Errorf("%s: the answer is %d with %d bytes", proto, answer.StatusCode, len(text))
					}
				}
			}
		})
	}
}

// An upload that ends leaves its deadline nowhere.
func TestUpload_AnAnswerAfterTheBodyMayTakeLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.user("jane", "a")
	servers := w.uploads(0)
	w.cluster("a", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(2 * uploadStall)
		_, _ = io.WriteString(rw, "done")
	}))
	for proto, server := range servers {
		if answer, text := sendUpload(t, server, token, strings.NewReader("all")); text != "done" {
			t.Errorf("%s: the answer is %d %s", proto, answer.StatusCode, text)
		}
	}
}

// A client that stops to send a body gets the answer of a cluster that reads no body.
func TestUpload_ARefusedBodyEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.user("jane", "a")
	server := w.uploads(0)["HTTP/1.1"]
	w.cluster("a", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(rw).EnableFullDuplex() // answers before it has the body
		rw.WriteHeader(http.StatusForbidden)
	}))
	_, answer, _ := upgraded(t, server, "POST /k8s/clusters/c-m-a/api/v1/namespaces/n/services/s/proxy/ HTTP/1.1\n"+
		"Host: drover\nContent-Length: 9\nAuthorization: Bearer "+token)
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("the answer is %d", answer.StatusCode)
	}
	if record := w.ended(server, 1)[0]; record.Reason != "" {
		t.Errorf("audit has %+v", record)
	}
}
