package reach

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/drover-io/drover/tests/contract/replica"
)

// gate is an address that forwards each connection to the next replica that accepts it.
type gate struct {
	address string

	mu   sync.Mutex
	open map[net.Conn]bool
}

func newGate(t *testing.T, replicas ...*replica.Replica) *gate {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{address: listener.Addr().String(), open: map[net.Conn]bool{}}
	var connections sync.WaitGroup
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	dial := replica.Dial(replicas...)
	connections.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			g.keep(conn)
			connections.Go(func() {
				defer g.forget(conn)
				carry(ctx, conn, dial)
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		listener.Close()
		connections.Wait()
	})
	return g
}

func (g *gate) keep(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[conn] = true
}

func (g *gate) forget(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, conn)
}

// cut closes all connections through the gate, and returns their number.
func (g *gate) cut() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	for conn := range g.open {
		conn.Close()
	}
	return len(g.open)
}

// carry forwards a connection to a replica until one side closes it.
func carry(ctx context.Context, from net.Conn, dial func(context.Context, string) (net.Conn, error)) {
	defer from.Close()
	to, err := dial(ctx, "")
	if err != nil {
		return
	}
	defer to.Close()
	defer context.AfterFunc(ctx, func() { from.Close(); to.Close() })()
	over := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(way[0], way[1]) // either side may end in any way
			over <- struct{}{}
		}()
	}
	<-over
}
