package distro

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// balancer forwards each connection to the first target that accepts it, starting with the last one that did. A node
// can therefore continue when any single server fails.
type balancer struct {
	mu      sync.Mutex
	targets []string
}

// set replaces the targets, each HOST:PORT. The current target stays first if it is in the new list. An empty list
// changes nothing, because the known servers may still exist while they do not answer.
func (b *balancer) set(targets []string) {
	if len(targets) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	next := slices.Clone(targets)
	slices.Sort(next)
	next = slices.Compact(next)
	if len(b.targets) > 0 {
		if i := slices.Index(next, b.targets[0]); i > 0 {
			next = slices.Insert(slices.Delete(next, i, i+1), 0, b.targets[0])
		}
	}
	b.targets = next
}

func (b *balancer) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.targets)
}

// failed moves a target that did not answer to the end.
func (b *balancer) failed(target string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.targets, target); i >= 0 {
		b.targets = append(slices.Delete(b.targets, i, i+1), target)
	}
}

// dial connects to a target. It tries each target once.
func (b *balancer) dial(ctx context.Context) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 2 * time.Second}
	errs := []error{errors.New("no server answers")}
	for _, target := range b.all() {
		conn, err := dialer.DialContext(ctx, "tcp", target)
		if err == nil {
			return conn, nil
		}
		b.failed(target)
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// listenOwn listens on a port of this host's loopback.
func listenOwn(ctx context.Context, port int) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, fmt.Errorf("listen for the node's own programs: %w", err)
	}
	return listener, nil
}

// serve forwards connections until ctx ends.
func (b *balancer) serve(ctx context.Context, listener net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("take a connection: %w", err)
		}
		go func() {
			defer conn.Close()
			server, err := b.dial(ctx)
			if err != nil {
				return
			}
			defer server.Close()
			splice(ctx, conn, server)
		}()
	}
}

// splice copies in both directions until both have ended or ctx ends.
func splice(ctx context.Context, a, b net.Conn) {
	stop := context.AfterFunc(ctx, func() { _, _ = a.Close(), b.Close() })
	defer stop()
	var wg sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		wg.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			if half, ok := pair[0].(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			} else {
				_ = pair[0].Close()
			}
		})
	}
	wg.Wait()
}
