package highavailability

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/pkg/server"
	"github.com/drover-io/drover/tests/contract/stage"
)

// door is one replica's path to the API server. It appends the replica's name to the user agent of requests, so that
// the audit log distinguishes them. It can be closed, and can hold a write in flight.
type door struct {
	name       string
	kubeconfig string
	proxy      *httputil.ReverseProxy

	mu   sync.Mutex
	shut func(*http.Request) bool
	hold *heldWrite
}

// heldWrite is a write that has arrived and is not forwarded yet.
type heldWrite struct {
	// arrived receives a description of the write.
	arrived chan string
	// release forwards it. answered receives the status code of the API server, or 0 if the client no longer waits.
	release  chan struct{}
	answered chan int
}

func newDoor(t *testing.T, name string) *door {
	t.Helper()
	config := stage.AccountConfig(t, server.CAPIEmbedded)
	transport := func(config *rest.Config) http.RoundTripper {
		made, err := rest.TransportFor(config)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	d := &door{name: name, shut: func(*http.Request) bool { return false }}
	d.proxy = &httputil.ReverseProxy{
		Transport:     byCredential{agents: transport(rest.AnonymousClientConfig(config)), replica: transport(config)},
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, ""
			r.Out.Header.Set("User-Agent", r.In.UserAgent()+" "+d.name)
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewServer(d)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	d.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	content, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: name, Contexts: map[string]*clientcmdapi.Context{name: {Cluster: name}},
		Clusters: map[string]*clientcmdapi.Cluster{name: {Server: server.URL}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.kubeconfig, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

// byCredential forwards requests of agents with their own credentials, and requests of the replica with the chart's
// account.
type byCredential struct{ agents, replica http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b byCredential) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") != "" {
		return b.agents.RoundTrip(r)
	}
	return b.replica.RoundTrip(r)
}

// ServeHTTP implements http.Handler.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	shut, hold := d.shut(r), d.hold
	if hold != nil && isWrite(r) && !isLease(r) && isDrover(r) {
		d.hold = nil
	} else {
		hold = nil
	}
	d.mu.Unlock()
	if shut {
		panic(http.ErrAbortHandler) // as if no API server were there
	}
	if hold == nil {
		d.proxy.ServeHTTP(w, r)
		return
	}
	hold.arrived <- r.Method + " " + r.URL.Path
	<-hold.release
	note := &answerOf{ResponseWriter: w}
	if r.Context().Err() == nil {
		d.proxy.ServeHTTP(note, r)
	}
	hold.answered <- note.code
}

type answerOf struct {
	http.ResponseWriter
	code int
}

// WriteHeader records the code.
func (a *answerOf) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// Unwrap allows the proxy to flush.
func (a *answerOf) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func isWrite(r *http.Request) bool { return r.Method != http.MethodGet }

func isLease(r *http.Request) bool { return strings.Contains(r.URL.Path, "/leases") }

// isDrover reports whether a request comes from Drover's own controllers, and not from Cluster API's controllers or an
// agent.
func isDrover(r *http.Request) bool {
	return strings.HasPrefix(r.UserAgent(), "drover/") && r.Header.Get("Authorization") == ""
}

// isReplica reports whether a replica sends the request with its own credential.
func isReplica(r *http.Request) bool { return r.Header.Get("Authorization") == "" }

// close closes the door for some requests, and open opens it for all.
func (d *door) close(some func(*http.Request) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = some
}

func (d *door) open() { d.close(func(*http.Request) bool { return false }) }

// holdWrite holds the next write of Drover's own controllers.
func (d *door) holdWrite() *heldWrite {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hold = &heldWrite{arrived: make(chan string, 1), release: make(chan struct{}), answered: make(chan int, 1)}
	return d.hold
}
