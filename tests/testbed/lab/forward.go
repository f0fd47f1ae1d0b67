package lab

import (
	"context"
	"io"
	"net"
	"sync"
)

// Forwarder forwards connections from a socket on the host's loopback to an address inside a network namespace. Users
// can reach the lab with ordinary tools, and the lab listens nowhere else on the host.
type Forwarder struct {
	listener net.Listener
	wg       sync.WaitGroup
	cancel   context.CancelFunc
}

// Forward listens on a host address (port 0 for any) and dials target inside namespace for each connection.
func Forward(ctx context.Context, host, namespace, target string) (*Forwarder, error) {
	return ForwardTo(ctx, host, func(ctx context.Context) (net.Conn, error) { return DialIn(ctx, namespace, target) })
}

// ForwardTo listens on an address and forwards each connection to a connection from dial.
func ForwardTo(ctx context.Context, host string, dial func(context.Context) (net.Conn, error)) (*Forwarder, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &Forwarder{listener: listener, cancel: cancel}
	f.wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			f.wg.Go(func() { carry(ctx, conn, dial) })
		}
	})
	return f, nil
}

// Address returns the address on which the forwarder listens on the host.
func (f *Forwarder) Address() string { return f.listener.Addr().String() }

// Close closes the listener and every connection.
func (f *Forwarder) Close() {
	f.cancel()
	_ = f.listener.Close()
	f.wg.Wait()
}

func carry(ctx context.Context, outer net.Conn, dial func(context.Context) (net.Conn, error)) {
	defer outer.Close()
	inner, err := dial(ctx)
	if err != nil {
		return
	}
	defer inner.Close()
	stop := context.AfterFunc(ctx, func() { _ = outer.Close(); _ = inner.Close() })
	defer stop()
	var wg sync.WaitGroup
	for _, pair := range [][2]net.Conn{{outer, inner}, {inner, outer}} {
		wg.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			if half, ok := pair[0].(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
		})
	}
	wg.Wait()
}
