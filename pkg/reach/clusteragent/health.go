package clusteragent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// health answers the kubelet's probes: /healthz while the process runs, /readyz while there is a session.
func health(connected func() bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(rw http.ResponseWriter, _ *http.Request) {
		if !connected() {
			http.Error(rw, "not connected to the server", http.StatusServiceUnavailable)
			return
		}
		_, _ = rw.Write([]byte("ok\n"))
	})
	return mux
}

// healthNetwork splits an address into network and address. "unix:" is followed by the path of a socket.
func healthNetwork(address string) (network, at string) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return "unix", path
	}
	return "tcp", address
}

// Ready asks the agent at a health address whether it is connected to its server. nil means connected.
func Ready(ctx context.Context, address string) error {
	network, at := healthNetwork(address)
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, at)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent/readyz", http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask the agent at %s: %w", address, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return errors.New("the agent is not connected to its server")
	}
	return nil
}

// serveHealth serves until the context ends.
func serveHealth(ctx context.Context, address string, connected func() bool) error {
	network, at := healthNetwork(address)
	if network == "unix" {
		_ = os.Remove(at) // left by a previous process that was killed
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, network, at)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: health(connected), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
