package cmd

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/observe/metrics"
	drover "github.com/drover-io/drover/pkg/server"
)

// soon is a generous limit for events that happen immediately.
const soon = 20 * time.Second

// hardened starts a server with the limits of all listeners. change makes timeouts shorter.
func hardened(t *testing.T, handler http.Handler, change func(*http.Server)) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	drover.Harden(server.Config)
	change(server.Config)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// dialFrom connects to a server from an address of the loopback network.
func dialFrom(t *testing.T, server *httptest.Server, from, protocol string) (*tls.Conn, error) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	below, err := dialer.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { below.Close() })
	config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos, config.ServerName = []string{protocol}, "example.com"
	conn := tls.Client(below, config)
	return conn, conn.HandshakeContext(t.Context())
}

// frame returns a frame of HTTP/2.
func frame(kind, flags, stream byte, payload string) string {
	return string([]byte{0, byte(len(payload) >> 8), byte(len(payload)), kind, flags, 0, 0, 0, stream}) + payload
}

const (
	hello1 = "POST / HTTP/1.1\r\nHost: h\r\n"
	// hello2 begins a connection over HTTP/2.
	hello2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	// post2 is the compressed head of a request: POST https://h/.
	post2 = "\x83\x87\x84\x41\x01h"
)

// A client that sends only a part, and then nothing, loses its connection or its request.
func TestHarden_SlowClientsEnd(t *testing.T) {
	const headers, data, endOfHeaders = 1, 0, 4
	read := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, "slow", http.StatusRequestTimeout)
		}
	}
	for name, tt := range map[string]struct {
		protocol, sends string
		change          func(*http.Server)
	}{
		"no handshake": {protocol: "", change: func(s *http.Server) { s.ReadHeaderTimeout = 300 * time.Millisecond }},
		"a half head over HTTP/1.1": {protocol: "http/1.1", sends: hello1 + "A",
			change: func(s *http.Server) { s.ReadHeaderTimeout = 300 * time.Millisecond }},
		"a half body over HTTP/1.1": {protocol: "http/1.1", sends: hello1 + "Content-Length: 100\r\n\r\nx",
			change: func(s *http.Server) { s.ReadTimeout = 300 * time.Millisecond }},
		"nothing over HTTP/2": {protocol: "h2", sends: hello2,
			change: func(s *http.Server) { s.IdleTimeout = 300 * time.Millisecond }},
		"a half head over HTTP/2": {protocol: "h2", sends: hello2 + frame(headers, 0, 1, post2),
			change: func(s *http.Server) { s.IdleTimeout = 300 * time.Millisecond }},
		"a half body over HTTP/2": {protocol: "h2",
			sends:  hello2 + frame(headers, endOfHeaders, 1, post2) + frame(data, 0, 1, "x"),
			change: func(s *http.Server) { s.ReadTimeout, s.IdleTimeout = 300*time.Millisecond, 300*time.Millisecond }},
		"no answer to a ping": {protocol: "h2", sends: hello2 + frame(headers, endOfHeaders, 1, post2),
			change: func(s *http.Server) {
				s.HTTP2.SendPingTimeout, s.HTTP2.PingTimeout = 200*time.Millisecond, 200*time.Millisecond
			}},
	} {
		t.Run(name, func(t *testing.T) {
			server := hardened(t, http.HandlerFunc(read), tt.change)
			var conn net.Conn
			if tt.protocol == "" {
				var err error
				conn, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
				check(t, err)
				t.Cleanup(func() { conn.Close() })
			} else {
				secured, err := dialFrom(t, server, "127.0.0.1", tt.protocol)
				check(t, err)
				conn = secured
			}
			_, err := io.WriteString(conn, tt.sends)
			check(t, err)
			check(t, conn.SetReadDeadline(time.Now().Add(soon)))
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
				t.Error("the connection stays open")
			}
		})
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// A client that does not read its answer ends, so that its handler returns.
func TestHarden_UnreadAnswersEnd(t *testing.T) {
	const headers, endOfBoth = 1, 4 | 1
	for name, tt := range map[string]struct {
		protocol, sends string
		change          func(*http.Server)
	}{
		"HTTP/1.1": {protocol: "http/1.1", sends: "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
			change: func(s *http.Server) { s.WriteTimeout = 300 * time.Millisecond }},
		"a stream of HTTP/2 without a window": {protocol: "h2", sends: hello2 + frame(headers, endOfBoth, 1, post2),
			change: func(s *http.Server) { s.WriteTimeout = 300 * time.Millisecond }},
		// The window of stream and connection is open.
		"a connection over HTTP/2": {protocol: "h2",
			sends: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, "\x00\x04\x7f\xff\xff\xff") +
				frame(8, 0, 0, "\x7f\x00\x00\x00") + frame(headers, endOfBoth, 1, post2),
			change: func(s *http.Server) { s.HTTP2.WriteByteTimeout = 300 * time.Millisecond }},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			server := hardened(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				defer close(ended)
				for text := make([]byte, 32<<10); ; {
					if _, err := w.Write(text); err != nil {
						return
					}
				}
			}), tt.change)
			conn, err := dialFrom(t, server, "127.0.0.1", tt.protocol)
			check(t, err)
			_, err = io.WriteString(conn, tt.sends)
			check(t, err)
			select {
			case <-ended:
			case <-time.After(soon):
				t.Fatal("the handler does not return")
			}
		})
	}
}

// A long head of a request is refused.
func TestHarden_LongHeadsAreRefused(t *testing.T) {
	server := hardened(t, http.NotFoundHandler(), func(*http.Server) {})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	check(t, err)
	request.Header.Set("Authorization", strings.Repeat("a", 2*64<<10))
	for _, two := range []bool{false, true} {
		client := server.Client().Transport.(*http.Transport).Clone()
		if client.ForceAttemptHTTP2 = two; !two {
			client.TLSClientConfig.NextProtos = []string{"http/1.1"}
		}
		defer client.CloseIdleConnections()
		answer, err := client.RoundTrip(request)
		if two && err != nil {
			continue // a client of net/http refuses to send what the server does not accept
		}
		check(t, err)
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: the answer is %s", answer.Proto, answer.Status)
		}
	}
}

// The kernel buffers little of an unread answer.
func TestListener_UnreadAnswersFillNoKernelBuffers(t *testing.T) {
	below, err := listen(t.Context(), "127.0.0.1:0")
	check(t, err)
	defer below.Close()
	measured, err := metrics.NewConnections(prometheus.NewRegistry(), "machines")
	check(t, err)
	listener := &sharedListener{Listener: below, shares: newShares(10), metrics: measured}
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
	check(t, err)
	defer client.Close()
	check(t, client.(*net.TCPConn).SetReadBuffer(64<<10))
	conn, err := listener.Accept()
	check(t, err)
	defer conn.Close()
	check(t, conn.SetWriteDeadline(time.Now().Add(time.Second)))
	n, err := conn.Write(make([]byte, 64<<20))
	if !isTimeout(err) {
		t.Fatalf("the write ends with %v", err)
	}
	if limit := 4 * unsent; n > limit {
		t.Errorf("the kernel takes %d bytes, want at most %d", n, limit)
	}
}

// shared starts a server behind a listener with a limit of connections, and of requests.
func shared(t *testing.T, limit int, handler http.Handler) (*httptest.Server, *prometheus.Registry, *bytes.Buffer) {
	t.Helper()
	registry, text := prometheus.NewRegistry(), &bytes.Buffer{}
	measured, err := metrics.NewConnections(registry, "machines")
	check(t, err)
	logger := logrus.New()
	logger.SetOutput(text)
	server := httptest.NewUnstartedServer(shareRequests(limit, handler))
	server.Listener = &sharedListener{Listener: server.Listener, shares: newShares(limit), metrics: measured,
		log: logger}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, registry, text
}

// Many idle connections from one address leave room for another address, and closed connections are free again.
func TestListener_OneAddressLeavesRoomForOthers(t *testing.T) {
	const limit = 40
	server, registry, text := shared(t, limit, http.NotFoundHandler())
	var held []*tls.Conn
	for range 2 * limit {
		if conn, err := dialFrom(t, server, "127.0.0.1", "http/1.1"); err == nil {
			held = append(held, conn)
		}
	}
	if len(held) != limit/2 {
		t.Errorf("one address holds %d of %d connections", len(held), limit)
	}
	for range 3 {
		if answer, err := askFrom(t, server, "127.0.0.2"); err != nil || !strings.HasPrefix(answer, "HTTP/1.1 404") {
			t.Errorf("another address got %q and error %v", answer, err)
		}
	}
	families, err := registry.Gather()
	check(t, err)
	values := map[string]float64{}
	for _, family := range families {
		values[family.GetName()] = family.GetMetric()[0].GetGauge().GetValue() +
			family.GetMetric()[0].GetCounter().GetValue()
	}
	if values["drover_refused_connections_total"] != limit*3/2 || values["drover_connections"] < limit/2 {
		t.Errorf("metrics are %v", values)
	}
	if got := strings.Count(text.String(), "Refused a connection"); got != 1 || !strings.Contains(text.String(),
		"127.0.0.1/32") {
		t.Errorf("the log has %d warnings: %s", got, text)
	}
	for _, conn := range held {
		check(t, conn.Close())
	}
	for ended := time.Now().Add(soon); ; {
		if _, err := askFrom(t, server, "127.0.0.1"); err == nil {
			return
		} else if time.Now().After(ended) {
			t.Fatalf("after its connections are closed, the first address gets error %v", err)
		}
	}
}

// askFrom sends a request over a connection of its own, and returns the answer.
func askFrom(t *testing.T, server *httptest.Server, from string) (string, error) {
	t.Helper()
	conn, err := dialFrom(t, server, from, "http/1.1")
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// The requests of one address over one connection leave room for another address.
func TestShareRequests_OneAddressLeavesRoomForOthers(t *testing.T) {
	const limit = 10
	goOn, came := make(chan struct{}), make(chan struct{}, 100)
	server, _, _ := shared(t, limit, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		came <- struct{}{}
		if r.URL.Path == "/slow" {
			<-goOn
		}
	}))
	defer close(goOn)
	get := func(client *http.Client, path string) error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
		check(t, err)
		answer, err := client.Do(request)
		if err == nil {
			t.Cleanup(func() { answer.Body.Close() })
		}
		return err
	}
	refused := 0
	for range 2 * limit {
		if get(server.Client(), "/slow") != nil {
			refused++
		}
	}
	if refused != limit*3/2 {
		t.Errorf("%d of %d requests are refused", refused, 2*limit)
	}
	other := server.Client().Transport.(*http.Transport).Clone()
	other.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext
	t.Cleanup(other.CloseIdleConnections)
	if err := get(&http.Client{Transport: other}, "/"); err != nil {
		t.Errorf("another address gets error %v", err)
	}
}

// A body that nothing reads does not stop other requests of the same connection.
func TestHarden_OneUnreadBodyDoesNotStopOthers(t *testing.T) {
	reached, release := make(chan struct{}), make(chan struct{})
	server := hardened(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stuck" {
			close(reached)
			<-release
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // the client checks the answer
	}), func(*http.Server) {})
	post := func(ctx context.Context, path string, size int) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+path,
			bytes.NewReader(make([]byte, size)))
		if err != nil {
			return err
		}
		answer, err := server.Client().Do(request)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	stuck := make(chan error, 1)
	go func() { stuck <- post(t.Context(), "/stuck", 300<<10) }()
	<-reached
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if err := post(ctx, "/other", 100<<10); err != nil {
		t.Error(err)
	}
	close(release)
	if err := <-stuck; err != nil {
		t.Error(err)
	}
}
