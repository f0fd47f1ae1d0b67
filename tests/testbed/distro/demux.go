package distro

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"time"
)

// supervisorProtocol is an additional protocol that a joining stand-in node offers in its TLS ClientHello. No server
// ever selects it. Real K3s serves supervisor and API from one process. The stand-in has two processes, and the
// ClientHello decides between them.
const supervisorProtocol = "supervisor"

// demux accepts connections on listener. It passes a connection to the supervisor if its ClientHello offers
// supervisorProtocol. It forwards all others unchanged to the API server at the address api, so that client
// certificates reach the API server.
func demux(ctx context.Context, listener net.Listener, supervisor *queue, api string) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		go route(ctx, conn, supervisor, api)
	}
}

func route(ctx context.Context, conn net.Conn, supervisor *queue, api string) {
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	greeting, protocols, err := readGreeting(conn)
	_ = conn.SetReadDeadline(time.Time{})
	if err != nil {
		_ = conn.Close()
		return
	}
	replayed := &replayConn{Conn: conn, reader: io.MultiReader(bytes.NewReader(greeting), conn)}
	if slices.Contains(protocols, supervisorProtocol) {
		supervisor.put(replayed)
		return
	}
	defer conn.Close()
	var dialer net.Dialer
	inner, err := dialer.DialContext(ctx, "tcp", api)
	if err != nil {
		return
	}
	defer inner.Close()
	splice(ctx, replayed, inner)
}

// readGreeting reads a TLS ClientHello. It returns its bytes and the offered protocols.
func readGreeting(conn net.Conn) ([]byte, []string, error) {
	var seen bytes.Buffer
	var protocols []string
	errStop := errors.New("greeting read")
	err := tls.Server(readOnlyConn{io.TeeReader(conn, &seen)}, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			protocols = hello.SupportedProtos
			return nil, errStop
		},
	}).HandshakeContext(context.Background())
	if !errors.Is(err, errStop) {
		return nil, nil, err
	}
	return seen.Bytes(), protocols, nil
}

// readOnlyConn lets the TLS library read a ClientHello without writing.
type readOnlyConn struct{ reader io.Reader }

func (c readOnlyConn) Read(p []byte) (int, error)     { return c.reader.Read(p) }
func (readOnlyConn) Write(p []byte) (int, error)      { return len(p), nil }
func (readOnlyConn) Close() error                     { return nil }
func (readOnlyConn) LocalAddr() net.Addr              { return nil }
func (readOnlyConn) RemoteAddr() net.Addr             { return nil }
func (readOnlyConn) SetDeadline(time.Time) error      { return nil }
func (readOnlyConn) SetReadDeadline(time.Time) error  { return nil }
func (readOnlyConn) SetWriteDeadline(time.Time) error { return nil }

// replayConn is a connection whose first bytes have been read already.
type replayConn struct {
	net.Conn
	reader io.Reader
}

func (c *replayConn) Read(p []byte) (int, error) { return c.reader.Read(p) }

// queue is a listener that gets its connections from demux.
type queue struct {
	address net.Addr
	conns   chan net.Conn
	done    chan struct{}
}

func newQueue(address net.Addr) *queue {
	return &queue{address: address, conns: make(chan net.Conn), done: make(chan struct{})}
}

func (q *queue) put(conn net.Conn) {
	select {
	case q.conns <- conn:
	case <-q.done:
		_ = conn.Close()
	}
}

// Accept waits for the next connection.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

// Close ends the queue.
func (q *queue) Close() error {
	close(q.done)
	return nil
}

// Addr is the address of the shared listener.
func (q *queue) Addr() net.Addr { return q.address }
