package clusterproxy

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
	"github.com/drover-io/drover/pkg/reach/unread"
)

// endlessCluster registers a cluster with endless answers: a watch, and an upgraded connection below /exec. As in the
// tunnel, its answers arrive over HTTP/2. It returns a channel with a value for each answer that has ended.
func (w *world) endlessCluster(name string) (ended chan struct{}) {
	w.t.Helper()
	ended = make(chan struct{}, 10_000)
	text := make([]byte, 32<<10)
	serve := func(rw http.ResponseWriter, r *http.Request) {
		defer func() { ended <- struct{}{} }()
		to := io.Writer(rw)
		if r.Header.Get("Upgrade") != "" {
			conn, _, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn,
				"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			to = conn
		}
		for r.Context().Err() == nil {
			if _, err := to.Write(text); err != nil {
				return
			}
		}
	}
	w.cluster(name, nil)
	server := httptest.NewUnstartedServer(http.HandlerFunc(serve))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Config.ErrorLog = quiet()
	server.Start()
	w.t.Cleanup(server.CloseClientConnections)
	base, err := url.Parse(server.URL)
	check(w.t, err)
	streams := &http.Transport{HTTP2: wire.HTTP2(), Protocols: new(http.Protocols), DisableCompression: true}
	streams.Protocols.SetUnencryptedHTTP2(true)
	upgrades := &http.Transport{DisableCompression: true}
	w.t.Cleanup(streams.CloseIdleConnections)
	w.backends["c-m-"+name] = toBackend{base: base, to: byUpgrade{streams, upgrades}}
	return ended
}

// byUpgrade sends requests that switch protocols over HTTP/1.1.
type byUpgrade struct{ streams, upgrades http.RoundTripper }

func (b byUpgrade) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Upgrade") != "" {
		return b.upgrades.RoundTrip(r)
	}
	return b.streams.RoundTrip(r)
}

// dial connects with HTTP/1.1. A small buffer in the kernel keeps the test's memory small.
func dial(t *testing.T, server *httptest.Server, small bool) *tls.Conn {
	t.Helper()
	below, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	check(t, err)
	if small {
		check(t, below.(*net.TCPConn).SetReadBuffer(4<<10))
	}
	config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos, config.ServerName = []string{"http/1.1"}, "example.com"
	conn := tls.Client(below, config)
	t.Cleanup(func() { below.Close() })
	check(t, conn.HandshakeContext(t.Context()))
	return conn
}

// unreadOverHTTP1 sends a request whose answer nothing reads.
func unreadOverHTTP1(t *testing.T, server *httptest.Server, cluster, token, more string) {
	t.Helper()
	watchOn(t, dial(t, server, true), cluster, token, more)
}

func watchOn(t *testing.T, conn *tls.Conn, cluster, token, more string) {
	t.Helper()
	_, err := io.WriteString(conn, "GET /k8s/clusters/c-m-"+cluster+"/api/v1/pods?watch=1 HTTP/1.1\r\nHost: h\r\n"+
		"Authorization: Bearer "+token+"\r\n"+more+"\r\n")
	check(t, err)
}

const upgradeHead = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

// unreadOverHTTP2 sends a request and reads the beginning of its answer. Then it reads nothing of the stream, or of the
// whole connection.
func unreadOverHTTP2(t *testing.T, server *httptest.Server, cluster, token string, whole bool) {
	t.Helper()
	client := server.Client().Transport.(*http.Transport).Clone()
	client.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}
	conn := &stalling{over: make(chan struct{})}
	client.DialContext = func(ctx context.Context, network, address string) (_ net.Conn, err error) {
		conn.Conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return conn, err
	}
	t.Cleanup(func() { close(conn.over); client.CloseIdleConnections() })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		server.URL+"/k8s/clusters/c-m-"+cluster+"/api/v1/pods?watch=1", nil)
	check(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := client.RoundTrip(r)
	check(t, err)
	t.Cleanup(func() { answer.Body.Close() })
	if answer.ProtoMajor != 2 {
		t.Fatalf("the client speaks %s", answer.Proto)
	}
	if conn.stalled.Store(whole); whole {
		go func() { _, _ = io.Copy(io.Discard, answer.Body) }() // opens the window of the stream
	}
}

// stalling is a connection that may stop to read.
type stalling struct {
	net.Conn
	stalled atomic.Bool
	over    chan struct{}
}

func (s *stalling) Read(p []byte) (int, error) {
	if s.stalled.Load() {
		<-s.over
		return 0, net.ErrClosed
	}
	return s.Conn.Read(p)
}

// A client that stops reading loses its stream, in each protocol. The cluster sees the end of the stream.
func TestUnread_EndsAfterTheTimeout(t *testing.T) {
	for name, open := range map[string]func(*testing.T, *httptest.Server, string){
		"HTTP/1.1": func(t *testing.T, s *httptest.Server, token string) {
			t.Helper()
			unreadOverHTTP1(t, s, "a", token, "")
		},
		"an upgrade": func(t *testing.T, s *httptest.Server, token string) {
			t.Helper()
			unreadOverHTTP1(t, s, "a", token, upgradeHead)
		},
		"a stream of HTTP/2": func(t *testing.T, s *httptest.Server, token string) {
			t.Helper()
			unreadOverHTTP2(t, s, "a", token, false)
		},
		"a connection over HTTP/2": func(t *testing.T, s *httptest.Server, token string) {
			t.Helper()
			unreadOverHTTP2(t, s, "a", token, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			token, ended := w.user("jane", "a"), w.endlessCluster("a")
			reasons := make(chan string, 10)
			w.options.Unread = unread.New(unread.Options{Timeout: 500 * time.Millisecond,
				Ended: func(reason string) { reasons <- reason }})
			server := w.proxy()
			open(t, server, token)
			wait(t, ended, "the end of the stream in the cluster")
			if got := <-reasons; got != unread.ReasonTimeout {
				t.Errorf("the reason is %q", got)
			}
		})
	}
}

// A client that reads slowly keeps its stream.
func TestUnread_SlowReadersStay(t *testing.T) {
	w := newWorld(t)
	token, ended := w.user("jane", "a"), w.endlessCluster("a")
	w.options.Unread = unread.New(unread.Options{Timeout: time.Second})
	p, err := New(w.options)
	check(t, err)
	server := httptest.NewUnstartedServer(p)
	// The kernel wakes a writer when a part of its buffer is free. A large buffer would hide that the client reads.
	server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		check(t, conn.(*tls.Conn).NetConn().(*net.TCPConn).SetWriteBuffer(64<<10))
		return ctx
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	for _, more := range []string{"", upgradeHead} {
		conn := dial(t, server, false)
		watchOn(t, conn, "a", token, more)
		for until := time.Now().Add(3 * time.Second); time.Now().Before(until); {
			if _, err := io.ReadFull(conn, make([]byte, 64<<10)); err != nil {
				t.Fatalf("the stream ends with %v", err)
			}
			<-time.After(50 * time.Millisecond)
		}
		if len(ended) > 0 {
			t.Error("the cluster sees the end of the stream")
		}
		check(t, conn.NetConn().Close())
		wait(t, ended, "the end of the stream in the cluster")
	}
}

// heap is the memory in use, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// settledHeap waits until the heap stops growing.
func settledHeap() int64 {
	last := heap()
	for {
		<-time.After(300 * time.Millisecond)
		now := heap()
		if now < last+last/100 {
			return now
		}
		last = now
	}
}

// Unread streams hold no more than what the ledger counts, besides what each connection needs. The client and the
// cluster are in the same process.
func TestUnread_Memory(t *testing.T) {
	const streams, perConnection = 100, 128 << 10
	for name, tt := range map[string]struct {
		more   string
		budget int64
		most   int64
	}{
		"answers without a budget":  {most: streams * unreadAnswer.Holds},
		"answers with a budget":     {budget: 20 * unreadAnswer.Holds, most: 20 * unreadAnswer.Holds},
		"upgrades without a budget": {more: upgradeHead, most: streams * unreadAnswer.Holds},
		"upgrades with a budget": {more: upgradeHead, budget: 20 * unreadAnswer.Holds,
			most: 20 * unreadAnswer.Holds},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			token, ended := w.user("jane", "a"), w.endlessCluster("a")
			w.options.Unread = unread.New(unread.Options{TenantBytes: tt.budget, Timeout: time.Hour})
			server := w.proxy()
			before := heap()
			for range streams {
				unreadOverHTTP1(t, server, "a", token, tt.more)
			}
			if tt.budget > 0 {
				for range streams - 20 {
					wait(t, ended, "the end of a stream")
				}
			}
			grown := settledHeap() - before
			t.Logf("%d streams hold %d KiB, %d KiB each", streams, grown>>10, grown/streams>>10)
			if tt.most += streams * perConnection; grown > tt.most {
				t.Errorf("unread streams hold %d KiB, want at most %d KiB", grown>>10, tt.most>>10)
			}
		})
	}
}

// The streams of a namespace end, and those of another one stay.
func TestUnread_EachNamespaceHasItsBudget(t *testing.T) {
	w := newWorld(t)
	greedy, other := w.user("jane", "a"), w.user("john", "b")
	w.rules["john get clusters team-b/b"] = true
	ended, stays := w.endlessCluster("a"), w.endlessCluster("b")
	w.clusters["c-m-b"] = types.NamespacedName{Namespace: "team-b", Name: "b"}
	w.options.Unread = unread.New(unread.Options{TenantBytes: 2 * unreadAnswer.Holds, Timeout: time.Hour})
	server := w.proxy()
	for range 2 {
		unreadOverHTTP1(t, server, "b", other, "")
	}
	for range 10 {
		unreadOverHTTP1(t, server, "a", greedy, "")
	}
	for range 8 {
		wait(t, ended, "the end of a stream of the greedy namespace")
	}
	if len(stays) > 0 {
		t.Error("a stream of the other namespace has ended")
	}
}
