package reach

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	userinfo "k8s.io/apiserver/pkg/authentication/user"

	"github.com/drover-io/drover/pkg/reach/clusteragent"
	"github.com/drover-io/drover/pkg/reach/clusterproxy"
	"github.com/drover-io/drover/pkg/reach/tunnel"
	"github.com/drover-io/drover/tests/contract/plane"
)

const (
	// reached is the ID of the cluster.
	reached = "c-m-reached"
	// A large answer consists of such pieces, as an API server encodes it.
	pieceBytes = 16 << 10
	pieces     = 50 << 20 / pieceBytes
	smallBytes = 300
)

// way is proxy, tunnel and agent in one process, with an API server that costs nothing.
type way struct {
	api, proxy  *httptest.Server
	authorities *x509.CertPool
}

func newWay(b *testing.B) *way {
	b.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	server, err := tunnel.New(tunnel.Options{
		Cluster: func(string) (string, bool) {
			return reached,
				true
		}, Replica: "one", Metrics: prometheus.NewRegistry(), Log: log,
	})
	check(b, err)
	proxy, err := clusterproxy.New(clusterproxy.Options{
		Transport: server.Transport, NotConnected: tunnel.ErrNotConnected, Log: log,
		Registerer: prometheus.NewRegistry(),
		Lookup: func(string) (string, string, bool) {
			return "fleet-default", "reached",
				true
		}, Authenticator: everybody{}, Authorizer: everybody{},
	})
	check(b, err)
	mux := http.NewServeMux()
	for _, path := range tunnel.Paths() {
		mux.Handle(path, server)
	}
	mux.Handle("/", proxy)
	piece := []byte(noise(1, pieceBytes))
	w := &way{api: serve(b, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, large) {
			_, _ = rw.Write(piece[:smallBytes])
			return
		}
		for range pieces {
			_, _ = rw.Write(piece)
		}
	})), proxy: serve(b, mux), authorities: x509.NewCertPool()}
	w.authorities.AddCert(w.api.Certificate())
	w.authorities.AddCert(w.proxy.Certificate())
	w.connect(b, log)
	for begin := time.Now(); !server.Connected(reached); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			b.Fatal("the agent does not connect")
		}
	}
	return w
}

func serve(b *testing.B, handler http.Handler) *httptest.Server {
	b.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	b.Cleanup(server.Close)
	return server
}

// connect runs the agent until the end.
func (w *way) connect(b *testing.B, log logrus.FieldLogger) {
	b.Helper()
	dir := b.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		check(b, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	authority := func(server *httptest.Server) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	}
	options := clusteragent.Options{
		ServerURL: w.proxy.URL, TokenFile: file("token", "token"), CAFile: file("server-ca", authority(w.proxy)),
		Log:       log,
		APIServer: w.api.URL, APIServerTokenFile: file("account", "account"),
		APIServerCAFile: file("api-server-ca", authority(w.api)),
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	b.Cleanup(func() {
		cancel()
		check(b, <-ended)
	})
	go func() { ended <- clusteragent.Run(ctx, options) }()
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// everybody authorizes every request.
type everybody struct{}

func (everybody) Authenticate(*http.Request) (userinfo.Info, bool, error) {
	return &userinfo.DefaultInfo{Name: user, Groups: []string{userinfo.AllAuthenticated}}, true, nil
}

func (everybody) CanAccessCluster(context.Context, userinfo.Info, string, string) (bool, error) {
	return true, nil
}

func (everybody) CanImpersonate(context.Context, userinfo.Info, userinfo.Info) (bool, error) {
	return true, nil
}

// BenchmarkWay measures the CPU time of proxy, tunnel and agent, without API servers and process switches. It compares
// with the API server's own answers to the same client on one connection.
func BenchmarkWay(b *testing.B) {
	w := newWay(b)
	ways := []struct {
		name, base string
	}{{"direct", w.api.URL}, {"tunnel", w.proxy.URL + clusterproxy.DefaultPrefixes()[0] + reached}}
	for _, size := range []string{small, large} {
		for _, way := range ways {
			b.Run(size+"/"+way.name, func(b *testing.B) {
				client := &http.Client{Transport: &http.Transport{
					TLSClientConfig:   &tls.Config{RootCAs: w.authorities, MinVersion: tls.VersionTLS12},
					ForceAttemptHTTP2: true, DisableCompression: true,
				}}
				defer client.CloseIdleConnections()
				begin := plane.UsageOfProcess(b, os.Getpid()).CPU
				for b.Loop() {
					w.get(b, client, way.base+"/"+size)
				}
				spent := plane.UsageOfProcess(b, os.Getpid()).CPU - begin
				b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

func (w *way) get(b *testing.B, client *http.Client, url string) {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, http.NoBody)
	check(b, err)
	response, err := client.Do(request)
	check(b, err)
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
		b.Fatalf("the answer is %s, and ends with %v", response.Status, err)
	}
}
