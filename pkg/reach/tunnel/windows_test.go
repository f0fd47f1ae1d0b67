package tunnel

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// endless is a body that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// Unread answers fill only the windows of their own streams, not the window of the connection.
func TestTransport_UnreadAnswersBlockNoOtherRequest(t *testing.T) {
	_, _, transport := connected(t)
	for range 80 {
		response, err := transport.RoundTrip(newRequest(t, http.MethodGet, "/big?size=100000000", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		// The answer has begun, and the rest stays unread.
		if _, err := io.ReadFull(response.Body, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	response, err := transport.RoundTrip(newRequest(t, http.MethodGet, "/big?size=1000000", nil).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if n, err := io.Copy(io.Discard, response.Body); n != 1_000_000 || err != nil {
		t.Errorf("another answer has %d bytes and error %v", n, err)
	}
}

// An answer with a long head fails, because it would hold memory for its whole life. Other requests continue.
func TestTransport_LongHeadsOfAnswersFail(t *testing.T) {
	api := newAPIServer(t, "one")
	others := api.Config.Handler
	api.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/heavy" {
			rw.Header().Set("X-Heavy", strings.Repeat("x", 2*wire.MaxHead))
			return
		}
		others.ServeHTTP(rw, r)
	})
	d, transport := reach(t, api)
	response, err := transport.RoundTrip(newRequest(t, http.MethodGet, "/heavy", nil))
	if err == nil {
		response.Body.Close()
		t.Errorf("a long head is answered with %s", response.Status)
	}
	if got := get(t, transport, "/small"); !strings.Contains(got, "Status") || d.number.Load() != 1 {
		t.Errorf("another answer is %q, after %d sessions", got, d.number.Load())
	}
}

// Requests that the API server does not read block no other request.
func TestTransport_UnreadUploadsBlockNoOtherRequest(t *testing.T) {
	api := newAPIServer(t, "one")
	// As in a real API server, the windows of all streams fit into that of their connection.
	api.Config.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 256 << 10,
		MaxReceiveBufferPerConnection: 256 << 10 * 250}
	others := api.Config.Handler
	const stalling = 60
	var stalled sync.WaitGroup
	stalled.Add(stalling)
	api.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stall" {
			others.ServeHTTP(rw, r)
			return
		}
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
		stalled.Done()
	})
	_, transport := reach(t, api)
	ctx, cancel := context.WithCancel(t.Context())
	var uploads sync.WaitGroup
	defer func() {
		cancel()
		uploads.Wait()
		// When a session ends within a message, remotedialer 0.6.1 writes the error of a connection from two
		// goroutines. Version 0.6.2 adds a lock, and needs Go 1.27. After all streams have ended, only this message
		// remains.
		stalled.Wait()
		upload(t, transport, "done")
	}()
	for range stalling {
		// First half of a stream's window, then as much as is read.
		taken := make(chan struct{})
		body := io.MultiReader(io.LimitReader(endless{}, 1<<17), &telling{taken: taken})
		uploads.Go(func() {
			response, err := transport.RoundTrip(newRequest(t, http.MethodPost, "/stall", body).WithContext(ctx))
			if err == nil {
				<-ctx.Done()
				response.Body.Close()
			}
		})
		<-taken
	}
	upload(t, transport, strings.Repeat("x", 100_000))
}

// upload sends a body and checks that the answer is its length.
func upload(t *testing.T, transport http.RoundTripper, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	response, err := transport.RoundTrip(newRequest(t, http.MethodPost, "/upload", strings.NewReader(body)).WithContext(
		ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); !strings.HasPrefix(string(text), fmt.Sprintf("%d ", len(body))) {
		t.Errorf("an upload is answered with %q and error %v", text, err)
	}
}

// telling is an endless body that closes taken at its first read.
type telling struct {
	once  sync.Once
	taken chan struct{}
}

func (b *telling) Read(p []byte) (int, error) {
	b.once.Do(func() { close(b.taken) })
	return len(p), nil
}
