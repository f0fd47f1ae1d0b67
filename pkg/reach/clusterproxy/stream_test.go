package clusterproxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// soon is a generous limit for events that happen immediately.
const soon = 20 * time.Second

func TestStream_TheFirstEventArrivesBeforeTheSecondIsSent(t *testing.T) {
	w := newWorld(t)
	token := w.user("jane", "a")
	next := make(chan struct{})
	w.cluster("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		check(t, http.NewResponseController(w).Flush())
		for i := range 3 {
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
			_, _ = fmt.Fprintf(w, "event %d\n", i)
			check(t, http.NewResponseController(w).Flush())
		}
	}))
	w.options.RequestTimeout = 50 * time.Millisecond // does not apply to a watch
	server := w.proxy()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/k8s/clusters/c-m-a/api/v1/pods?watch=true",
		nil)
	check(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := server.Client().Do(r) // headers arrive before the first event
	check(t, err)
	defer answer.Body.Close()
	if answer.ProtoMajor != 2 {
		t.Errorf("the client speaks %s", answer.Proto)
	}
	lines := bufio.NewReader(answer.Body)
	for i := range 3 {
		if i == 1 {
			<-time.After(100 * time.Millisecond)
		}
		next <- struct{}{}
		if line, err := lines.ReadString('\n'); line != fmt.Sprintf("event %d\n", i) {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	_, err = lines.ReadByte()
	if !errors.Is(err, io.EOF) {
		t.Errorf("the stream ends with %v", err)
	}
	record := w.ended(server, 1)[0]
	if !record.LongRunning || record.Verb != "watch" || record.Sent != 24 || record.Cut {
		t.Errorf("audit has %+v", record)
	}
	if started := w.records[0]; started.Stage != StageStarted || started.Status != 0 || started.Downstream != "jane" {
		t.Errorf("audit started with %+v", started)
	}
}

func TestStream_BigBodiesBothWays(t *testing.T) {
	const size = 48 << 20
	w := newWorld(t)
	token := w.user("jane", "a")
	w.cluster("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		_, _ = io.Copy(sum, r.Body)
		w.Header().Set("X-Sum", hex.EncodeToString(sum.Sum(nil)))
		_, _ = io.Copy(w, io.LimitReader(&letters{}, size))
	}))
	server := w.proxy()
	want := sha256.New()
	_, _ = io.Copy(want, io.LimitReader(&letters{}, size))
	for _, length := range []int64{size, -1} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/k8s/clusters/c-m-a/api/v1/pods",
			io.LimitReader(&letters{}, size))
		check(t, err)
		r.ContentLength = length
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := server.Client().Do(r)
		check(t, err)
		sum := sha256.New()
		_, err = io.Copy(sum, answer.Body)
		check(t, err)
		check(t, answer.Body.Close())
		if got := hex.EncodeToString(want.Sum(nil)); answer.Header.Get("X-Sum") != got ||
			hex.EncodeToString(sum.Sum(nil)) != got {
			t.Errorf("length %d: the bodies differ", length)
		}
	}
	for _, record := range w.ended(server, 2) {
		if record.Received != size || record.Sent != size {
			t.Errorf("audit has %+v", record)
		}
	}
}

// letters is an endless text.
type letters struct{ at int }

func (l *letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a' + byte((l.at+i)%23)
	}
	l.at += len(p)
	return len(p), nil
}

// upgraded requests a protocol switch and returns the connection with the answer.
func upgraded(t *testing.T, server *httptest.Server, head string) (*tls.Conn, reply, *bufio.Reader) {
	t.Helper()
	config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"http/1.1"}
	dialer := &tls.Dialer{NetDialer: &net.Dialer{}, Config: config}
	conn, err := dialer.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	check(t, err)
	t.Cleanup(func() { conn.Close() })
	check(t, conn.SetDeadline(time.Now().Add(soon)))
	_, err = io.WriteString(conn, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n\r\n")
	check(t, err)
	buffered := bufio.NewReader(conn)
	answer, err := http.ReadResponse(buffered, nil) //nolint:bodyclose // what follows is the other protocol
	check(t, err)
	return conn.(*tls.Conn), reply{answer.Proto, answer.StatusCode, answer.Header, answer.Body}, buffered
}

// echo switches protocols and sends back its input.
func echo(w http.ResponseWriter, r *http.Request) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = fmt.Fprintf(buffered,
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\nX-User: %s\r\nX-Protocols: "+
			"%s\r\nSet-Cookie: a=b\r\n\r\n",
		r.Header.Get("Upgrade"), r.Header.Get("Impersonate-User"), r.Header.Get("Sec-Websocket-Protocol"))
	_ = buffered.Flush()
	_, _ = io.Copy(conn, buffered)
}

func TestUpgrade_BytesPassBothWays(t *testing.T) {
	for name, head := range map[string]string{
		"WebSocket": "GET /k8s/clusters/c-m-a/api/v1/namespaces/x/pods/y/exec?command=sh HTTP/1.1\nHost: " +
			"h\nConnection: Upgrade\nUpgrade: websocket\n" +
			"Sec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nSec-WebSocket-Protocol: " +
			bearerProtocol + b64("token-of-jane") + ", v5.channel.k8s.io",
		"SPDY": "POST /k8s/clusters/c-m-a/api/v1/namespaces/x/pods/y/portforward HTTP/1.1\nHost: h\nConnection: " +
			"Upgrade\nUpgrade: SPDY/3.1\n" +
			"X-Stream-Protocol-Version: portforward.k8s.io\nAuthorization: Bearer token-of-jane\nContent-Length: 0",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.user("jane", "a")
			w.cluster("a", http.HandlerFunc(echo))
			w.options.RequestTimeout = 50 * time.Millisecond
			server := w.proxy()
			conn, answer, buffered := upgraded(t, server, head)
			if answer.StatusCode != 101 || answer.Header.Get("X-User") != "jane" ||
				answer.Header.Get("Set-Cookie") != "" {
				t.Fatalf("answer %d %v", answer.StatusCode, answer.Header)
			}
			if name == "WebSocket" && answer.Header.Get("X-Protocols") != "v5.channel.k8s.io" {
				t.Errorf("the cluster sees subprotocols %q", answer.Header.Get("X-Protocols"))
			}
			<-time.After(100 * time.Millisecond)
			big := bytes.Repeat([]byte("0123456789"), 100_000)
			go func() { _, _ = conn.Write(big) }()
			got := make([]byte, len(big))
			if _, err := io.ReadFull(buffered, got); err != nil || !bytes.Equal(got, big) {
				t.Fatalf("the echo differs: %v", err)
			}
			check(t, conn.CloseWrite())
			if rest, err := io.ReadAll(buffered); err != nil || len(rest) > 0 {
				t.Errorf("the end is %q, %v", rest, err)
			}
			record := w.ended(server, 1)[0]
			if record.Status != 101 || record.Received != int64(len(big)) || record.Sent < int64(len(big)) ||
				!record.LongRunning {
				t.Errorf("audit has %+v", record)
			}
		})
	}
}

// A cluster that switches protocols unasked, or to another protocol, gets no access to the connection.
func TestUpgrade_RefusesUnrequestedProtocols(t *testing.T) {
	for name, head := range map[string]string{
		"no upgrade": "GET /k8s/clusters/c-m-a/x HTTP/1.1\nHost: h\nAuthorization: Bearer token-of-jane",
		"h2c, removed": "GET /k8s/clusters/c-m-a/x HTTP/1.1\nHost: h\nConnection: Upgrade, " +
			"HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AA\nAuthorization: Bearer token-of-jane",
		"another upgrade": "GET /k8s/clusters/c-m-a/x HTTP/1.1\nHost: h\nConnection: Upgrade\nUpgrade: " +
			"websocket\nAuthorization: Bearer token-of-jane",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.user("jane", "a")
			w.cluster("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Header.Set("Upgrade", "h2c")
				echo(w, r)
			}))
			_, answer, _ := upgraded(t, w.proxy(), head)
			body, err := io.ReadAll(answer.rest)
			check(t, err)
			if status := statusOf(t, answer, string(body)); answer.StatusCode != 503 ||
				!strings.Contains(status.Message, "was lost") {
				t.Errorf("got %d %q", answer.StatusCode, status.Message)
			}
		})
	}
}

func TestStream_ADisconnectedClientEndsItsRequest(t *testing.T) {
	w := newWorld(t)
	token := w.user("jane", "a")
	came, ended := make(chan struct{}), make(chan struct{})
	w.cluster("a", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(came)
		<-r.Context().Done()
		close(ended)
	}))
	server := w.proxy()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/k8s/clusters/c-m-a/api/v1/pods", nil)
	check(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	go func() { <-came; cancel() }()
	if answer, err := server.Client().Do(r); err == nil {
		answer.Body.Close()
		t.Error("the answer arrived")
	}
	wait(t, ended, "the cluster's end of the request")
	if record := w.ended(server, 1)[0]; record.Status != 499 {
		t.Errorf("audit has %+v", record)
	}
}

func wait(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(soon):
		t.Fatalf("%s does not arrive", what)
	}
}

func TestStream_Timeout(t *testing.T) {
	w := newWorld(t)
	token := w.user("jane", "a")
	w.cluster("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" {
			_, _ = io.WriteString(w, "begun")
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}))
	w.options.RequestTimeout = 100 * time.Millisecond
	server := w.proxy()
	answer, body := ask(t, server, http.MethodGet, "/k8s/clusters/c-m-a/slow", token)
	if status := statusOf(t, answer, body); answer.StatusCode != 504 || status.Reason != "Timeout" ||
		status.Message != `cluster "c-m-a" did not answer within 100ms` {
		t.Errorf("got %d %+v", answer.StatusCode, status)
	}
	isCut(t, server, token, "/k8s/clusters/c-m-a/begun", "begun")
}

// impatient serves the world with listeners that allow 200 ms for a request and its answer, over HTTP/1.1 and HTTP/2.
func (w *world) impatient() []*httptest.Server {
	w.t.Helper()
	p, err := New(w.options)
	check(w.t, err)
	one, two := httptest.NewUnstartedServer(p), httptest.NewUnstartedServer(p)
	two.EnableHTTP2 = true
	for _, server := range []*httptest.Server{one, two} {
		server.Config.ReadTimeout, server.Config.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
		server.StartTLS()
		w.t.Cleanup(server.Close)
	}
	return []*httptest.Server{one, two}
}

// The listener's deadlines do not end a watch.
func TestStream_TheListenersDeadlinesEndNoWatch(t *testing.T) {
	w := newWorld(t)
	token := w.user("jane", "a")
	w.cluster("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 3 {
			_, _ = io.WriteString(w, "event\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(150 * time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
	}))
	for _, server := range w.impatient() {
		answer, body := ask(t, server, http.MethodGet, "/k8s/clusters/c-m-a/api/v1/pods?watch=true", token)
		if body != strings.Repeat("event\n", 3) {
			t.Errorf("%s: got %q", answer.Proto, body)
		}
	}
}

// slowBody returns three pieces, with a pause before each.
type slowBody struct{ left int }

func (b *slowBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(150 * time.Millisecond)
	b.left--
	return copy(p, "piece\n"), nil
}

// The listener's deadlines do not end a slow request body.
func TestStream_TheListenersDeadlinesEndNoBody(t *testing.T) {
	w := newWorld(t)
	token := w.user("jane", "a")
	w.cluster("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	for _, server := range w.impatient() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/k8s/clusters/c-m-a/api/v1/pods",
			&slowBody{3})
		check(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := server.Client().Do(r)
		check(t, err)
		body, err := io.ReadAll(answer.Body)
		check(t, answer.Body.Close())
		if string(body) != strings.Repeat("piece\n", 3) || err != nil {
			t.Errorf("%s: got %q, %v", answer.Proto, body, err)
		}
	}
}

func TestProxy_NotConnectedIsAnsweredAtOnce(t *testing.T) {
	w := newWorld(t)
	token := w.user("jane", "a")
	w.cluster("a", nil)
	server := w.proxy()
	ask(t, server, http.MethodGet, "/k8s/clusters/c-m-a/", token) // connects, and fills the caches
	began := time.Now()
	for range 50 {
		if answer, _ := ask(t, server, http.MethodGet, "/k8s/clusters/c-m-a/api/v1/pods?watch=true",
			token); answer.StatusCode != 503 {
			t.Fatalf("got %d", answer.StatusCode)
		}
	}
	if took := time.Since(began) / 50; took > 200*time.Millisecond {
		t.Errorf("an answer takes %s", took)
	}
}

func TestProxy_TooManyAtOnce(t *testing.T) {
	w := newWorld(t)
	token := w.user("jane", "a")
	came, done := make(chan struct{}, 1), make(chan struct{})
	w.cluster("a", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("wait") {
			came <- struct{}{}
			<-done
		}
	}))
	w.options.MaxInFlight = 1
	server := w.proxy()
	first := make(chan int, 1)
	go func() {
		answer, err := get(t.Context(), server, "/k8s/clusters/c-m-a/api/v1/pods?wait", token)
		if err != nil {
			first <- 0
			return
		}
		answer.Body.Close()
		first <- answer.StatusCode
	}()
	wait(t, came, "the first request")
	answer, body := ask(t, server, http.MethodGet, "/k8s/clusters/c-m-a/api/v1/pods?timeout=50ms", token)
	if status := statusOf(t, answer, body); answer.StatusCode != 429 || answer.Header.Get("Retry-After") != "1" ||
		status.Reason != "TooManyRequests" {
		t.Errorf("got %d %+v", answer.StatusCode, status)
	}
	if answer, _ := ask(t, server, http.MethodGet, "/k8s/clusters/c-m-a/api/v1/pods?watch=1",
		token); answer.StatusCode != 200 {
		t.Errorf("a watch is answered with %d", answer.StatusCode)
	}
	close(done)
	if code := <-first; code != 200 {
		t.Errorf("the first request is answered with %d", code)
	}
	// The client may have the complete answer before the slot is free.
	for ended := time.Now().Add(soon); ; {
		if answer, _ := ask(t, server, http.MethodGet, "/k8s/clusters/c-m-a/api/v1/pods",
			token); answer.StatusCode == 200 {
			return
		} else if time.Now().After(ended) {
			t.Fatalf("afterwards: %d", answer.StatusCode)
		}
	}
}

// A client that does not read its answer loses its slot at the deadline.
func TestProxy_StuckClientsAreDisconnected(t *testing.T) {
	w := newWorld(t)
	token := w.user("jane", "a")
	w.cluster("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("endless") {
			_, _ = io.Copy(w, &letters{})
		}
	}))
	w.options.MaxInFlight, w.options.RequestTimeout = 1, 200*time.Millisecond
	server := w.proxy()
	upgraded(t, server, "GET /k8s/clusters/c-m-a/api/v1/pods?endless HTTP/1.1\nHost: drover\nAuthorization: Bearer "+
		token)
	for ended := time.Now().Add(soon); ; {
		answer, _ := ask(t, server, http.MethodGet, "/k8s/clusters/c-m-a/api/v1/pods", token)
		if answer.StatusCode == 200 {
			return
		}
		if time.Now().After(ended) {
			t.Fatalf("another caller is answered with %d", answer.StatusCode)
		}
	}
}

func get(ctx context.Context, server *httptest.Server, target, token string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+target, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return server.Client().Do(r)
}
