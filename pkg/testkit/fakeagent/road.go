package fakeagent

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// road is the proxy through which cluster agents reach the server when Options.Dial redirects the server's names.
type road struct {
	dial     func(ctx context.Context, address string) (net.Conn, error)
	listener net.Listener
}

func newRoad(dial func(context.Context, string) (net.Conn, error)) (*road, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ended by run
	if err != nil {
		return nil, fmt.Errorf("listen for agents: %w", err)
	}
	return &road{dial: dial, listener: listener}, nil
}

// proxy is the Proxy function of the agents' transports. Unlike the environment's proxies, it also applies to loopback
// addresses.
func (r *road) proxy(*http.Request) (*url.URL, error) {
	if r == nil {
		return nil, nil
	}
	return &url.URL{Scheme: "http", Host: r.listener.Addr().String()}, nil
}

// run forwards connections until ctx ends.
func (r *road) run(ctx context.Context) {
	var connections sync.WaitGroup
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, request *http.Request) {
			connections.Add(1)
			defer connections.Done()
			r.connect(ctx, rw, request)
		})}
	defer connections.Wait()
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	_ = server.Serve(r.listener) // ends with ctx
}

func (r *road) connect(ctx context.Context, rw http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodConnect {
		http.Error(rw, "only CONNECT", http.StatusMethodNotAllowed)
		return
	}
	to, err := r.dial(ctx, request.Host)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadGateway)
		return
	}
	defer to.Close()
	from, buffered, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return
	}
	defer from.Close()
	defer context.AfterFunc(ctx, func() { _, _ = from.Close(), to.Close() })()
	if _, err := io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	ended := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(to, buffered); ended <- struct{}{} }()
	go func() { _, _ = io.Copy(from, to); ended <- struct{}{} }()
	<-ended // either side may end in any way
	_, _ = from.Close(), to.Close()
	<-ended
}
