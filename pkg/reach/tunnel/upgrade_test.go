package tunnel

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// switching returns an API server with a handler that hijacks the connection of one path.
func switching(tb testing.TB, path string, serve func(conn io.ReadWriteCloser, gone <-chan struct{})) *apiServer {
	tb.Helper()
	api := newAPIServer(tb, "one")
	others := api.Config.Handler
	over := make(chan struct{})
	tb.Cleanup(func() { close(over) })
	api.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			others.ServeHTTP(rw, r)
			return
		}
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			tb.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
			r.Header.Get("Upgrade"))
		serve(conn, over)
	})
	return api
}

func reach(tb testing.TB, api *apiServer) (*drover, http.RoundTripper) {
	tb.Helper()
	d := newDrover(tb, nil)
	startAgent(tb, d, api, nil)
	d.awaitConnected(tb)
	return d, d.transport(tb)
}

func upgradeAt(tb testing.TB, ctx context.Context, transport http.RoundTripper, path string) io.ReadWriteCloser { //nolint:revive // the test comes first
	tb.Helper()
	request := newRequest(tb, http.MethodPost, path, nil).WithContext(ctx)
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "SPDY/3.1")
	response, err := transport.RoundTrip(request) //nolint:bodyclose // it is what is returned
	if err != nil {
		tb.Fatal(err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		tb.Fatalf("answer is %s", response.Status)
	}
	return response.Body.(io.ReadWriteCloser)
}

// within fails the test if done takes longer than bound.
func within(tb testing.TB, bound time.Duration, what string, done <-chan struct{}) {
	tb.Helper()
	select {
	case <-done:
	case <-time.After(bound):
		buffer := make([]byte, 1<<20)
		tb.Fatalf("%s: not within %s\n%s", what, bound, buffer[:runtime.Stack(buffer, true)])
	}
}

// pattern is a reader whose bytes depend on their position, so that lost or swapped bytes are detected.
type pattern struct{ at, size int64 }

func (p *pattern) Read(b []byte) (int, error) {
	if p.at == p.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), p.size-p.at))
	for i := range b[:n] {
		b[i] = byte((p.at + int64(i)) * 2654435761 >> 13)
	}
	p.at += int64(n)
	return n, nil
}

// is checks that the input equals the pattern.
func (p *pattern) is(from io.Reader) error {
	got, want := make([]byte, 128<<10), make([]byte, 128<<10)
	for {
		n, err := from.Read(got)
		if _, short := io.ReadFull(p, want[:n]); n > 0 && (short != nil || !bytes.Equal(got[:n], want[:n])) {
			return fmt.Errorf("the bytes up to %d differ", p.at)
		}
		if err == io.EOF {
			if p.at != p.size {
				return fmt.Errorf("%d bytes arrived, want %d", p.at, p.size)
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Large transfers in both directions at once arrive complete, as with cat in kubectl exec -i.
func TestUpgrade_ManyBytesPassBothWaysAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		streams int
		size    int64
	}{"one": {1, 24 << 20}, "four": {4, 12 << 20}, "twenty": {20, 2 << 20}} {
		t.Run(name, func(t *testing.T) {
			d, transport := reach(t, newAPIServer(t, "one"))
			session := d.table.best(clusterID)
			var all sync.WaitGroup
			for range test.streams {
				conn := upgradeAt(t, t.Context(), transport, "/exec")
				defer conn.Close()
				all.Go(func() {
					if _, err := io.Copy(conn, &pattern{size: test.size}); err != nil {
						t.Errorf("write: %v", err)
					}
					if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
						t.Errorf("close one direction: %v", err)
					}
				})
				all.Go(func() {
					if err := (&pattern{size: test.size}).is(conn); err != nil {
						t.Errorf("read: %v", err)
					}
				})
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				all.Wait()
			}()
			within(t, 100*time.Second, "all came back", done)
			if session.ended() {
				t.Errorf("the session has ended: %v", session.link.Reason())
			}
		})
	}
}

func flood(conn io.ReadWriteCloser, _ <-chan struct{}) {
	for {
		if _, err := conn.Write(block); err != nil {
			return
		}
	}
}

// A client that does not read blocks only its own stream.
func TestUpgrade_ASlowReaderBlocksNoOtherStream(t *testing.T) {
	d, transport := reach(t, switching(t, "/flood", flood))
	session := d.table.best(clusterID)
	watch, err := transport.RoundTrip(newRequest(t, http.MethodGet, "/watch", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	for range 50 {
		conn := upgradeAt(t, t.Context(), transport, "/flood")
		defer conn.Close()
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(upgradeAt(t, t.Context(), transport, "/flood"),
		20<<20)); err != nil || n != 20<<20 {
		t.Errorf("the reader gets %d bytes and error %v", n, err)
	}
	if got := get(t, transport, "/small"); !strings.Contains(got, "one") {
		t.Errorf("another request is answered with %s", got)
	}
	if session.ended() {
		t.Errorf("the session has ended: %v", session.link.Reason())
	}
	if _, err := watch.Body.Read(make([]byte, 1)); err != nil {
		t.Errorf("a watch has ended: %v", err)
	}
}

// An API server that does not read blocks only that stream.
func TestUpgrade_UnreadBytesBlockNoOtherStream(t *testing.T) {
	d, transport := reach(t, switching(t, "/stall", func(_ io.ReadWriteCloser, over <-chan struct{}) { <-over }))
	session := d.table.best(clusterID)
	var writers, full sync.WaitGroup
	defer writers.Wait()
	for range 20 {
		conn := upgradeAt(t, t.Context(), transport, "/stall")
		full.Add(1)
		writers.Go(func() {
			// More than all buffers on the way can hold.
			for i := range 64 {
				if i == 1 {
					full.Done()
				}
				if _, err := conn.Write(block); err != nil {
					return
				}
			}
			t.Error("all bytes were read")
		})
		defer conn.Close()
	}
	full.Wait()
	if got := get(t, transport, "/small"); !strings.Contains(got, "one") {
		t.Errorf("another request is answered with %s", got)
	}
	echo := upgradeAt(t, t.Context(), transport, "/exec")
	defer echo.Close()
	if _, err := io.WriteString(echo, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(echo, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	if session.ended() {
		t.Errorf("the session has ended: %v", session.link.Reason())
	}
}

func TestUpgrade_BytesBeforeCloseArrive(t *testing.T) {
	got := make(chan error, 1)
	const size = 100_000
	_, transport := reach(t, switching(t, "/take", func(conn io.ReadWriteCloser, _ <-chan struct{}) {
		got <- (&pattern{size: size}).is(conn)
	}))
	for range 20 {
		conn := upgradeAt(t, t.Context(), transport, "/take")
		if _, err := io.Copy(conn, &pattern{size: size}); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("a closed stream is readable")
		}
		if _, err := conn.Write([]byte("x")); err == nil {
			t.Error("a closed stream is writable")
		}
		select {
		case err := <-got:
			if err != nil {
				t.Fatalf("the API server reads: %v", err)
			}
		case <-time.After(patience):
			t.Fatal("the API server does not notice the end")
		}
	}
}

func TestUpgrade_ForwardsHowTheAPIServerEnded(t *testing.T) {
	_, transport := reach(t, switching(t, "/bye", func(conn io.ReadWriteCloser, _ <-chan struct{}) {
		order := make([]byte, 1)
		if _, err := io.ReadFull(conn, order); err != nil {
			return
		}
		_, _ = conn.Write([]byte("so far"))
		if _, err := io.ReadFull(conn, order); err != nil {
			return
		}
		if order[0] == 'b' {
			// TLS then sends no close_notify, and TCP sends a reset.
			below := conn.(*tls.Conn).NetConn().(*net.TCPConn)
			_ = below.SetLinger(0)
			_ = below.Close()
		}
	}))
	for order, clean := range map[string]bool{"close": true, "abort": false} {
		conn := upgradeAt(t, t.Context(), transport, "/bye")
		if _, err := io.WriteString(conn, order[:1]); err != nil {
			t.Fatal(err)
		}
		text := make([]byte, len("so far"))
		if _, err := io.ReadFull(conn, text); err != nil || string(text) != "so far" {
			t.Fatalf("%s: read %q and error %v", order, text, err)
		}
		if _, err := io.WriteString(conn, order[1:2]); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(conn)
		if len(text) > 0 || (err == nil) != clean {
			t.Errorf("%s: at the end read %q and error %v", order, text, err)
		}
		err = nil
		for err == nil {
			_, err = conn.Write(block)
		}
		conn.Close()
	}
}

func TestUpgrade_RefusalsPassUnchanged(t *testing.T) {
	api := newAPIServer(t, "one")
	api.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X-Kubernetes-Pf-Flowschema-Uid", "7")
		rw.Header().Set("X-Drover-Upgraded", r.Header.Get("Upgrade")) // Only the agent may set this header.
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusForbidden)
		fmt.Fprint(rw, r.Method, " ", r.URL.RequestURI(), " ", r.Header.Get("X-Drover-Method"),
			r.Header.Get("X-Drover-Upgrade"))
	})
	_, transport := reach(t, api)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		request := newRequest(t, method, "/exec?command=a%3Bb;c", nil)
		request.Header.Set("Connection", "Upgrade")
		request.Header.Set("Upgrade", "websocket")
		request.Header.Set("X-Drover-Method", http.MethodDelete)
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if want := method + " /exec?command=a%3Bb;c "; string(body) != want || err != nil ||
			response.StatusCode != http.StatusForbidden {
			t.Errorf("answer is %s %q and error %v, want 403 %q", response.Status, body, err, want)
		}
		response.Header.Del("Date")
		response.Header.Del("Content-Length")
		if diff := cmp.Diff(http.Header{"X-Kubernetes-Pf-Flowschema-Uid": {"7"}, "Content-Type": {"application/json"}},
			response.Header); diff != "" {
			t.Errorf("headers of the refusal (-want +got):\n%s", diff)
		}
	}
}

// Callers cannot use the headers that are reserved for the server and the agent.
func TestUpgrade_CallersCannotUseDroversHeader(t *testing.T) {
	_, api, transport := connected(t)
	request := newRequest(t, http.MethodPost, "/small", nil)
	request.Header.Set("X-Drover-Upgrade", "SPDY/3.1")
	request.Header.Set("X-Drover-Method", http.MethodDelete)
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	seen, _ := api.requests.Load("/small")
	if got := seen.(http.Header); got.Get("Upgrade") != "" || got.Get("X-Drover-Method") != "" {
		t.Errorf("the API server sees %v", got)
	}
}

func TestUpgrade_RefusesABody(t *testing.T) {
	_, api, transport := connected(t)
	request := newRequest(t, http.MethodPost, "/exec", strings.NewReader("too early"))
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "SPDY/3.1")
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if _, reached := api.requests.Load("/exec"); reached || response.StatusCode != http.StatusBadRequest {
		t.Errorf("answer is %s, want 400; reached the API server: %t", response.Status, reached)
	}
}

// ours is the number of goroutines that run code of the tunnel or of the agent.
func ours() int {
	buffer := make([]byte, 8<<20)
	n := 0
	for stack := range strings.SplitSeq(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		if strings.Contains(stack, "/pkg/reach/tunnel.") || strings.Contains(stack, "/pkg/reach/clusteragent.") ||
			strings.Contains(stack, "net/http.(*http2clientStream)") {
			n++
		}
	}
	return n
}

func TestUpgrade_AbortedStreamsLeaveNothing(t *testing.T) {
	d, transport := reach(t, switching(t, "/flood", flood))
	get(t, transport, "/small")
	before := ours()
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for i := range 12 {
			path := []string{"/flood", "/exec"}[i%2]
			conn := upgradeAt(t, ctx, transport, path)
			begun := make(chan struct{})
			writers.Go(func() {
				_, err := conn.Write(block[:1])
				close(begun)
				for err == nil {
					_, err = conn.Write(block)
				}
				if i%3 == 0 {
					conn.Close()
				}
			})
			<-begun
			if i%4 == 1 {
				conn.Close()
			}
		}
		cancel()
		writers.Wait()
	}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.After(patience)
	for ours() > before {
		select {
		case <-ticker.C:
		case <-timeout:
			buffer := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, and %d before:\n%s", ours(), before, buffer[:runtime.Stack(buffer, true)])
		}
	}
	if s := d.table.best(clusterID); s == nil || len(d.table.all()) != 1 {
		t.Error("the session was replaced")
	}
	get(t, transport, "/small")
}

func TestUpgrade_TheEndOfTheSessionEndsBothDirections(t *testing.T) {
	d, api := newDrover(t, nil), newAPIServer(t, "one")
	stop := startAgent(t, d, api, nil)
	d.awaitConnected(t)
	conn := upgradeAt(t, t.Context(), d.transport(t), "/exec")
	defer conn.Close()
	stop()
	if _, err := io.ReadAll(conn); !errors.Is(err, ErrSessionEnded) {
		t.Errorf("reading fails with %v, want %v", err, ErrSessionEnded)
	}
	if _, err := conn.Write([]byte("x")); err == nil {
		t.Error("writing succeeds")
	}
}
