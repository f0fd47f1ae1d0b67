package clusteragent

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rancher/remotedialer"
	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

const (
	registration = "registration-token-of-the-cluster"
	account      = "token-of-the-agents-service-account"
	heartbeat    = 200 * time.Millisecond
	patience     = 30 * time.Second
)

// log collects the agent's log. A failing test shows it. It must not contain tokens.
type log struct {
	mu    sync.Mutex
	lines bytes.Buffer
	also  io.Writer
}

func (l *log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines.Write(line)
	return l.also.Write(line)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

// newLog returns a logger and its content. All tokens in tests share a word, which must not occur in the log.
func newLog(tb testing.TB) (logrus.FieldLogger, *log) {
	tb.Helper()
	written := &log{also: tb.Output()}
	logger := logrus.New()
	logger.SetLevel(logrus.TraceLevel)
	logger.SetOutput(written)
	tb.Cleanup(func() {
		for line := range strings.SplitSeq(written.String(), "\n") {
			if strings.Contains(line, "token-of") {
				tb.Errorf("a token is logged: %s", line)
			}
		}
	})
	return logger, written
}

func writeFile(tb testing.TB, path, content string) string {
	tb.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

func authority(server *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// apiServer stands in for a Kubernetes API server.
type apiServer struct {
	*httptest.Server
	goOn   chan struct{}
	gaveUp chan struct{}

	connections atomic.Int64 // number of open connections

	mu   sync.Mutex
	seen []*http.Request
}

func newAPIServer(tb testing.TB) *apiServer {
	tb.Helper()
	api := &apiServer{goOn: make(chan struct{}), gaveUp: make(chan struct{}, 10)}
	mux := http.NewServeMux()
	mux.HandleFunc("/small", func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "small") })
	mux.HandleFunc("/watch", func(rw http.ResponseWriter, r *http.Request) {
		if length := r.URL.Query().Get("length"); length != "" {
			rw.Header().Set("Content-Length", length)
		}
		for i := 0; ; i++ {
			fmt.Fprintf(rw, "event %d\n", i)
			_ = http.NewResponseController(rw).Flush()
			select {
			case <-r.Context().Done():
				api.gaveUp <- struct{}{}
				return
			case <-api.goOn:
			}
		}
	})
	mux.HandleFunc("/early", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Link", "</x>")
		rw.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(rw, "late")
	})
	mux.HandleFunc("/exec", api.exec)
	api.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		api.mu.Lock()
		api.seen = append(api.seen, r.Clone(context.WithoutCancel(r.Context())))
		api.mu.Unlock()
		mux.ServeHTTP(rw, r)
	}))
	api.EnableHTTP2 = true
	api.Listener = &counting{api.Listener, &api.connections}
	api.StartTLS()
	tb.Cleanup(func() {
		api.CloseClientConnections()
		api.Close()
	})
	return api
}

// counting counts open connections.
type counting struct {
	net.Listener
	open *atomic.Int64
}

func (c *counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return &countedConn{Conn: conn, closed: sync.OnceFunc(func() { c.open.Add(-1) })}, nil
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// last is the last request.
func (a *apiServer) last(tb testing.TB) *http.Request {
	tb.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.seen) == 0 {
		tb.Fatal("no request reached the API server")
	}
	return a.seen[len(a.seen)-1]
}

// exec switches to any protocol and echoes the input.
func (a *apiServer) exec(rw http.ResponseWriter, r *http.Request) {
	conn, buffered, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
		r.Header.Get("Upgrade"))
	_, _ = io.Copy(conn, buffered)
	a.gaveUp <- struct{}{}
}

// drover is the tunnel's server as the agent sees it: replicas behind one address, which answer in turn.
type drover struct {
	*httptest.Server
	opened chan *opening // every session

	mu          sync.Mutex
	replicas    []string
	turn        int
	refuse      func(*http.Request) (code int, text string) // code 0 accepts
	authorities string
	asked       []*http.Request
	sessions    []*opening
}

// opening is a session on the server's side.
type opening struct {
	replica string
	session *remotedialer.Session
	ws      *websocket.Conn
	over    chan struct{}
}

func newDrover(tb testing.TB, replicas ...string) *drover {
	tb.Helper()
	d := &drover{replicas: replicas, opened: make(chan *opening, 100)}
	mux := http.NewServeMux()
	mux.HandleFunc(settingCA, func(rw http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.asked = append(d.asked, r)
		_ = json.NewEncoder(rw).Encode(map[string]string{"name": "cacerts", "value": d.authorities})
	})
	mux.HandleFunc(wire.PathConnect, d.take)
	mux.HandleFunc(wire.PathRegister, d.take)
	d.Server = httptest.NewUnstartedServer(mux)
	d.Config.ErrorLog = nil
	d.StartTLS()
	d.authorities = authority(d.Server)
	tb.Cleanup(func() {
		d.mu.Lock()
		for _, each := range d.sessions {
			_ = each.ws.Close()
		}
		d.mu.Unlock()
		d.CloseClientConnections()
		d.Close()
	})
	return d
}

// change changes the server's behavior.
func (d *drover) change(how func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	how()
}

// next records a request for a session and decides the answer.
func (d *drover) next(r *http.Request) (replica string, code int, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, r)
	if d.refuse != nil {
		if code, text = d.refuse(r); code != 0 {
			return "", code, text
		}
	}
	d.turn++
	return d.replicas[d.turn%len(d.replicas)], 0, ""
}

func (d *drover) count() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strconv.Itoa(len(d.replicas))
}

func (d *drover) take(rw http.ResponseWriter, r *http.Request) {
	replica, code, text := d.next(r)
	if code != 0 {
		http.Error(rw, text, code)
		return
	}
	header := http.Header{wire.HeaderReplicas: {d.count()}}
	if replica != "" {
		header.Set(wire.HeaderReplica, replica)
	}
	ws, err := (&websocket.Upgrader{}).Upgrade(rw, r, header)
	if err != nil {
		return
	}
	defer func() { _ = ws.Close() }()
	o := &opening{replica: replica, ws: ws, session: remotedialer.NewClientSession(nil, ws), over: make(chan struct{})}
	defer close(o.over)
	d.mu.Lock()
	d.sessions = append(d.sessions, o)
	d.mu.Unlock()
	tended, stop := context.WithCancel(context.Background())
	defer stop()
	wire.Tend(tended, ws, wire.Tending{Pong: d.count})
	d.opened <- o
	silent, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = o.session.Serve(silent)
	o.session.Close()
}

// requests are the requests for a path.
func (d *drover) requests(path string) []*http.Request {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.asked), func(r *http.Request) bool { return r.URL.Path != path })
}

// await waits for the next session.
func (d *drover) await(tb testing.TB) *opening {
	tb.Helper()
	select {
	case o := <-d.opened:
		return o
	case <-time.After(patience):
		tb.Fatalf("no session within %s", patience)
		return nil
	}
}

// open returns the sorted replicas with a session. Duplicates count twice.
func (d *drover) open() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, each := range d.sessions {
		select {
		case <-each.over:
		default:
			out = append(out, each.replica)
		}
	}
	slices.Sort(out)
	return out
}

// client sends requests to the agent through one connection of a session.
func (o *opening) client(tb testing.TB) *http.Client {
	tb.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return o.session.Dial(ctx, wire.AgentNetwork, wire.AgentAddress)
	}}
	tb.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// options are valid options of an agent.
func options(tb testing.TB, server, serverCA string, api *apiServer) Options {
	tb.Helper()
	dir := tb.TempDir()
	logger, _ := newLog(tb)
	o := Options{
		ServerURL: server, TokenFile: writeFile(tb, filepath.Join(dir, "registration"), registration+"\n"),
		APIServer: "https://127.0.0.1:1", APIServerCAFile: filepath.Join(dir, "ca"),
		APIServerTokenFile: writeFile(tb, filepath.Join(dir, "account"), account+"\n"),
		Heartbeat:          heartbeat, Version: "v0.0.0-test", Log: logger,
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
	}
	if api != nil {
		o.APIServer = api.URL
		writeFile(tb, o.APIServerCAFile, authority(api.Server))
	}
	if serverCA != "" {
		o.CAFile = writeFile(tb, filepath.Join(dir, "server-ca"), serverCA)
	}
	return o
}

// start runs an agent until stop is called or the test ends.
func start(tb testing.TB, o Options) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := Run(ctx, o); err != nil {
			tb.Errorf("the agent failed: %v", err)
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(patience):
			tb.Error("the agent does not end with its context")
		}
	})
	tb.Cleanup(stop)
	return stop
}

// poll waits for a condition that has no notification.
func poll(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.After(patience)
	for !condition() {
		select {
		case <-ticker.C:
		case <-timeout:
			tb.Fatalf("%s: not done within %s", what, patience)
		}
	}
}

// ask sends a user's request and returns the status and the body.
func ask(tb testing.TB, client *http.Client, address string) (int, string) {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, address, nil)
	if err != nil {
		tb.Fatal(err)
	}
	request.Header.Set(impersonateUser, "jane")
	response, err := client.Do(request)
	if err != nil {
		tb.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return response.StatusCode, string(body)
}
