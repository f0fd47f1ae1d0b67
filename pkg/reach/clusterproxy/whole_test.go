package clusterproxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// Answers of known length are streamed. A short answer is held only imperceptibly.
func TestStream_AnswersOfKnownLengthAreStreamed(t *testing.T) {
	for name, length := range map[string]int{"long": 64 << 10, "short": 20} {
		t.Run(name, func(t *testing.T) { comesAsItIsMade(t, strings.Repeat("a", 20), strings.Repeat("b", length)) })
	}
}

func comesAsItIsMade(t *testing.T, begun, rest string) {
	t.Helper()
	w := newWorld(t)
	token := w.user("jane", "a")
	goOn := make(chan struct{})
	w.cluster("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(begun+rest)))
		_, _ = io.WriteString(w, begun)
		check(t, http.NewResponseController(w).Flush())
		select {
		case <-goOn:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, rest)
	}))
	server := w.proxy()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	answer, err := get(ctx, server, "/k8s/clusters/c-m-a/api/v1/pods", token)
	check(t, err)
	defer answer.Body.Close()
	if answer.ContentLength != int64(len(begun+rest)) {
		t.Errorf("the length is %d", answer.ContentLength)
	}
	first := make([]byte, len(begun))
	if _, err := io.ReadFull(answer.Body, first); err != nil || string(first) != begun {
		t.Fatalf("got %q, %v", first, err)
	}
	close(goOn)
	if got, err := io.ReadAll(answer.Body); err != nil || string(got) != rest {
		t.Errorf("got %d bytes more, %v", len(got), err)
	}
}

// isCut sends a request over HTTP/2 and HTTP/1.1 and expects an answer that begins and is aborted.
func isCut(t *testing.T, server *httptest.Server, token, target, begins string) {
	t.Helper()
	for _, major := range []int{2, 1} {
		transport := server.Client().Transport.(*http.Transport).Clone()
		transport.ForceAttemptHTTP2 = major == 2
		if major == 1 {
			transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
		}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+target, nil)
		check(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := (&http.Client{Transport: transport}).Do(r)
		check(t, err)
		body, err := io.ReadAll(answer.Body)
		check(t, answer.Body.Close())
		if answer.ProtoMajor != major || !strings.HasPrefix(string(body), begins) || err == nil {
			t.Errorf("%s: %q ends with %v", answer.Proto, body, err)
		}
	}
}

func TestStream_ATruncatedAnswerIsAnError(t *testing.T) {
	w := newWorld(t)
	token := w.user("jane", "a")
	w.cluster("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("length") {
			w.Header().Set("Content-Length", r.URL.Query().Get("length"))
		}
		if r.URL.Path != "/none" {
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	}))
	server := w.proxy()
	isCut(t, server, token, "/k8s/clusters/c-m-a/api/v1/pods", "half")
	isCut(t, server, token, "/k8s/clusters/c-m-a/api/v1/pods?length=100000", "half")
	isCut(t, server, token, "/k8s/clusters/c-m-a/api/v1/pods?watch=1", "half")
	// A short answer is forwarded completely or not at all.
	if answer, err := get(t.Context(), server, "/k8s/clusters/c-m-a/api/v1/pods?length=100", token); err == nil {
		body, err := io.ReadAll(answer.Body)
		check(t, answer.Body.Close())
		t.Errorf("got %d %q, %v", answer.StatusCode, body, err)
	}
	for method, retry := range map[string]string{http.MethodGet: "1", http.MethodPost: "", http.MethodDelete: ""} {
		answer, body := ask(t, server, method, "/k8s/clusters/c-m-a/none", token)
		status := statusOf(t, answer, body)
		if answer.StatusCode != 503 || answer.Header.Get("Retry-After") != retry ||
			status.Message != `the connection to cluster "c-m-a" was lost before it answered` {
			t.Errorf("%s: got %d %q, Retry-After %q", method, answer.StatusCode, status.Message,
				answer.Header.Get("Retry-After"))
		}
	}
	cut := 0
	for _, record := range w.ended(server, 10) {
		if record.Cut {
			cut++
		}
	}
	if cut != 7 {
		t.Errorf("audit has %d truncated answers, want 7", cut)
	}
}
