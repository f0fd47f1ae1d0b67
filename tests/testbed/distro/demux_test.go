package distro

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/drover-io/drover/pkg/local/managementplane/pki"
)

// TestDemux_SeparatesSupervisorAndAPI: of two kinds of clients at one port, each reaches its own server.
func TestDemux_SeparatesSupervisorAndAPI(t *testing.T) {
	ca, err := pki.OpenAuthority(t.TempDir(), "ca", time.Now)
	must(t, err)
	pair, err := ca.Serving("server", "127.0.0.1")
	must(t, err)
	certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	must(t, err)
	authority, err := os.ReadFile(ca.CertFile)
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)

	say := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
	}
	api := serveTLS(t, listenLocal(t), &tls.Config{Certificates: []tls.Certificate{certificate}}, say("api"))
	shared := listenLocal(t)
	supervisor := newQueue(shared.Addr())
	serveTLS(t, supervisor, &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}},
		say("supervisor"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- demux(ctx, shared, supervisor, api) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})

	for want, protocols := range map[string][]string{"api": nil, "supervisor": {supervisorProtocol, "http/1.1"}} {
		client := httpClient(&tls.Config{RootCAs: roots, NextProtos: protocols})
		resp, err := client.Get("https://" + shared.Addr().String() + "/")
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		_ = resp.Body.Close()
		if string(body) != want {
			t.Errorf("client offering %v arrived at %q, want %q", protocols, body, want)
		}
	}
}

func listenLocal(t *testing.T) net.Listener {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

func serveTLS(t *testing.T, listener net.Listener, config *tls.Config, handler http.Handler) string {
	t.Helper()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(tls.NewListener(listener, config)) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
