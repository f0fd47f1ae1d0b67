package connect

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-io/drover/pkg/reach/unread"
)

// soon is a generous limit for events that happen immediately.
const soon = 20 * time.Second

// unreadStream sends a request over HTTP/2 and reads only the head of the answer.
func unreadStream(t *testing.T, server *httptest.Server, target string) *http.Response {
	t.Helper()
	client := server.Client().Transport.(*http.Transport).Clone()
	client.HTTP2, client.ForceAttemptHTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}, true
	t.Cleanup(client.CloseIdleConnections)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+planJWT)
	answer, err := client.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// serveHTTP2 starts the endpoints with HTTP/2, and with deadlines that are too short for long answers.
func (w *world) serveHTTP2() *httptest.Server {
	w.t.Helper()
	handler, err := New(w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.Config.ReadTimeout, server.Config.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
	server.StartTLS()
	w.t.Cleanup(server.Close)
	return server
}

// A node that stops reading its watch loses it. The API server sends no more than the window before.
func TestPassthrough_UnreadWatchEnds(t *testing.T) {
	w := newWorld(t)
	var sent atomic.Int64
	ended := make(chan struct{})
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		defer close(ended)
		for r.Context().Err() == nil {
			n, err := rw.Write(make([]byte, 16<<10))
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}))
	api.EnableHTTP2 = true
	api.StartTLS()
	t.Cleanup(api.Close)
	w.options.Upstream.Host, w.options.Upstream.CAData = api.URL, pemOf(api)
	w.options.Unread = unread.New(unread.Options{Timeout: time.Second})
	server := w.serveHTTP2()
	answer := unreadStream(t, server, ownSecrets+"?"+ownFilter+"&watch=true")
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("status %d", answer.StatusCode)
	}
	select {
	case <-ended:
	case <-time.After(soon):
		t.Fatal("the watch does not end")
	}
	if limit := int64(2 * answerWindow); sent.Load() > limit {
		t.Errorf("the API server sent %d bytes, want at most %d", sent.Load(), limit)
	}
}

// A slow download takes longer than the deadline of the listener, and is complete.
func TestAssets_SlowDownloadContinues(t *testing.T) {
	w := newWorld(t)
	content := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	w.options.AssetsDir = t.TempDir()
	if err := os.WriteFile(filepath.Join(w.options.AssetsDir, "driver"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	server := w.serveHTTP2()
	answer := unreadStream(t, server, assetsPrefix+"driver")
	defer answer.Body.Close()
	var got bytes.Buffer
	for begun := time.Now(); ; {
		n, err := io.CopyN(&got, answer.Body, 32<<10)
		if time.Since(begun) < time.Second {
			<-time.After(50 * time.Millisecond)
		}
		if n == 0 || err != nil {
			break
		}
	}
	if !bytes.Equal(got.Bytes(), content) {
		t.Errorf("got %d bytes of %d", got.Len(), len(content))
	}
}

// A download that its client does not read ends.
func TestAssets_UnreadDownloadEnds(t *testing.T) {
	w := newWorld(t)
	w.options.AssetsDir = t.TempDir()
	if err := os.WriteFile(filepath.Join(w.options.AssetsDir, "driver"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan string, 1)
	w.options.Unread = unread.New(unread.Options{Timeout: time.Second, Ended: func(reason string) { ended <- reason }})
	answer := unreadStream(t, w.serveHTTP2(), assetsPrefix+"driver")
	defer answer.Body.Close()
	select {
	case reason := <-ended:
		if reason != unread.ReasonTimeout {
			t.Errorf("the reason is %q", reason)
		}
	case <-time.After(soon):
		t.Fatal("the download does not end")
	}
	if _, err := io.ReadAll(answer.Body); err == nil {
		t.Error("the download is complete")
	}
}
