package tunnel

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/reach/clusteragent"
)

const (
	registrationToken = "registration-token-of-the-cluster"
	agentCredential   = "credential-of-the-agent-in-its-cluster"
	clusterID         = "c-m-12345678"
	heartbeat         = 400 * time.Millisecond
	patience          = 20 * time.Second
)

// quiet returns a logger whose output appears only when the test fails.
func quiet(tb testing.TB) logrus.FieldLogger {
	tb.Helper()
	log := logrus.New()
	log.SetLevel(logrus.DebugLevel)
	log.SetOutput(tb.Output())
	return log
}

// apiServer stands in for a Kubernetes API server.
type apiServer struct {
	*httptest.Server
	name     string
	gaveUp   chan struct{}
	goOn     chan struct{}
	requests sync.Map // path → http.Header
}

func newAPIServer(tb testing.TB, name string) *apiServer {
	tb.Helper()
	api := &apiServer{name: name, gaveUp: make(chan struct{}, 10), goOn: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/small", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"kind":"Status","by":%q,"query":%q}`, api.name, r.URL.RawQuery)
	})
	mux.HandleFunc("/watch", api.watch)
	mux.HandleFunc("/idle", func(rw http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
		select {
		case api.gaveUp <- struct{}{}:
		default:
		}
	})
	mux.HandleFunc("/big", big)
	mux.HandleFunc("/upload", func(rw http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		n, err := io.Copy(sum, r.Body)
		fmt.Fprintln(rw, n, hex.EncodeToString(sum.Sum(nil)), err)
	})
	mux.HandleFunc("/exec", api.exec)
	api.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		api.requests.Store(r.URL.Path, r.Header.Clone())
		mux.ServeHTTP(rw, r)
	}))
	api.EnableHTTP2 = true
	api.Config.ErrorLog = nil
	api.StartTLS()
	tb.Cleanup(func() {
		api.CloseClientConnections()
		api.Close()
	})
	return api
}

var block = make([]byte, 1<<20)

func big(rw http.ResponseWriter, r *http.Request) {
	size, _ := strconv.Atoi(r.URL.Query().Get("size"))
	rw.Header().Set("Content-Length", strconv.Itoa(size))
	for size > 0 {
		n, err := rw.Write(block[:min(size, len(block))])
		if err != nil {
			return
		}
		size -= n
	}
}

func (a *apiServer) watch(rw http.ResponseWriter, r *http.Request) {
	for i := 0; ; i++ {
		fmt.Fprintf(rw, `{"type":"ADDED","object":{"i":%d}}`+"\n", i)
		_ = http.NewResponseController(rw).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-a.goOn:
		}
	}
}

// exec accepts every protocol and echoes the input.
func (a *apiServer) exec(rw http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.Header.Get("Upgrade") == "" {
		http.Error(rw, "upgrade is needed", http.StatusBadRequest)
		return
	}
	conn, buffered, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
		r.Header.Get("Upgrade"))
	_, _ = io.Copy(conn, buffered)
	select {
	case a.gaveUp <- struct{}{}:
	default:
	}
}

func authority(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// drover is a replica of the server.
type drover struct {
	*Server
	web *httptest.Server
}

func newDrover(tb testing.TB, change func(*Options)) *drover {
	tb.Helper()
	options := Options{
		Cluster: func(token string) (string, bool) { return clusterID, token == registrationToken },
		Replica: "replica-" + strings.ReplaceAll(tb.Name(), "/", "-"), Metrics: prometheus.NewRegistry(),
		Log: quiet(tb),
	}
	if change != nil {
		change(&options)
	}
	server, err := New(options)
	if err != nil {
		tb.Fatal(err)
	}
	d := &drover{Server: server, web: httptest.NewTLSServer(server)}
	tb.Cleanup(func() {
		d.Drain()
		d.web.CloseClientConnections()
		d.web.Close()
	})
	return d
}

// startAgent runs an agent until stop is called or the test ends.
func startAgent(tb testing.TB, d *drover, api *apiServer, change func(*clusteragent.Options)) (stop func()) {
	tb.Helper()
	dir := tb.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			tb.Fatal(err)
		}
		return path
	}
	options := clusteragent.Options{
		ServerURL: d.web.URL, TokenFile: file("registration", []byte(registrationToken+"\n")),
		CAFile:    file("server-ca", authority(d.web)),
		APIServer: api.URL, APIServerCAFile: file("ca", authority(api.Server)),
		APIServerTokenFile: file("token", []byte(agentCredential)),
		Heartbeat:          heartbeat, Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }, Log: quiet(tb),
	}
	if change != nil {
		change(&options)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := clusteragent.Run(ctx, options); err != nil {
			tb.Errorf("the agent failed: %v", err)
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	tb.Cleanup(stop)
	return stop
}

// await waits for a condition that depends on sessions.
func (d *drover) await(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	changed := make(chan struct{}, 100)
	d.Subscribe(ctx, func(string) { changed <- struct{}{} })
	for !condition() {
		select {
		case <-changed:
		case <-ctx.Done():
			tb.Fatalf("%s: not within %s", what, patience)
		}
	}
}

func (d *drover) awaitConnected(tb testing.TB) {
	tb.Helper()
	d.await(tb, "connected", func() bool { return d.Connected(clusterID) })
}

// connected returns a server, an API server whose agent is connected, and a transport to it.
func connected(tb testing.TB) (*drover, *apiServer, http.RoundTripper) {
	tb.Helper()
	d, api := newDrover(tb, nil), newAPIServer(tb, "one")
	startAgent(tb, d, api, nil)
	d.awaitConnected(tb)
	return d, api, d.transport(tb)
}

func (d *drover) transport(tb testing.TB) http.RoundTripper {
	tb.Helper()
	transport, err := d.Transport(clusterID)
	if err != nil {
		tb.Fatal(err)
	}
	return transport
}

func newRequest(tb testing.TB, method, path string, body io.Reader) *http.Request {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), method, "https://ignored.example"+path, body)
	if err != nil {
		tb.Fatal(err)
	}
	request.Header.Set("Impersonate-User", "jane")
	return request
}

// get sends a GET request and returns the body.
func get(tb testing.TB, transport http.RoundTripper, path string) string {
	tb.Helper()
	response, err := transport.RoundTrip(newRequest(tb, http.MethodGet, path, nil))
	if err != nil {
		tb.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		tb.Fatalf("%s: %s: %s", path, response.Status, body)
	}
	return string(body)
}

// relay forwards connections until it is cut. Then it accepts bytes and delivers none, like a network with a broken
// cable.
type relay struct {
	net.Listener
	targets func() string
	mu      sync.Mutex
	cut     bool
	conns   []net.Conn
}

func newRelay(tb testing.TB, targets func() string) *relay {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &relay{Listener: listener, targets: targets}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	tb.Cleanup(func() {
		listener.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, conn := range r.conns {
			conn.Close()
		}
	})
	return r
}

func (r *relay) url() string { return "https://" + r.Addr().String() }

func (r *relay) serve(conn net.Conn) {
	other, err := net.Dial("tcp", r.targets())
	if err != nil {
		conn.Close()
		return
	}
	swallowed := new(bool)
	r.mu.Lock()
	r.conns = append(r.conns, conn, other)
	*swallowed = r.cut
	r.mu.Unlock()
	go r.copy(other, conn)
	r.copy(conn, other)
}

func (r *relay) copy(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			if !r.cut {
				to.Close()
			}
			return
		}
		r.mu.Lock()
		cut := r.cut
		r.mu.Unlock()
		if cut {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			from.Close()
			return
		}
	}
}

// setCut cuts all connections, or lets new ones pass. Connections that were cut stay silent.
func (r *relay) setCut(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut && !cut {
		r.conns = nil
	}
	r.cut = cut
}

func readLine(tb testing.TB, reader *bufio.Reader) string {
	tb.Helper()
	line, err := reader.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		tb.Fatal(err)
	}
	return strings.TrimSpace(line)
}
