package cmd

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/observe/metrics"
)

// shares limits what all clients use of something together, so that one address leaves a part to the others: it gets
// another one only while more are free than it has. One address alone gets half, and two get two thirds.
type shares struct {
	limit int

	mu    sync.Mutex
	total int
	of    map[netip.Prefix]int
}

func newShares(limit int) *shares { return &shares{limit: limit, of: map[netip.Prefix]int{}} }

// enter takes one for an address. ok is false if it may have no more. Otherwise leave gives it back.
func (s *shares) enter(from netip.Prefix) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit-s.total <= s.of[from] {
		return nil, false
	}
	s.total++
	s.of[from]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.total--
		if s.of[from]--; s.of[from] == 0 {
			delete(s.of, from)
		}
	}), true
}

// addressOf returns the address that shares count. In IPv6 it is a network of 64 bits, because each host may have one.
// Unknown addresses count together.
func addressOf(address string) netip.Prefix {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Prefix{}
	}
	ip := parsed.Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	prefix, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

// sharedListener closes connections beyond the share of their address at once.
type sharedListener struct {
	net.Listener
	shares  *shares
	metrics *metrics.Connections
	log     logrus.FieldLogger
	warned  time.Time // used by Accept
}

// Accept implements net.Listener.
func (l *sharedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := addressOf(conn.RemoteAddr().String())
		if leave, ok := l.shares.enter(from); ok {
			l.metrics.Opened()
			bufferLittle(conn)
			return &sharedConn{Conn: conn, leave: func() { leave(); l.metrics.Closed() }}, nil
		}
		l.metrics.Refused()
		l.warn(from)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // leaves no state in the kernel
		}
		_ = conn.Close()
	}
}

// warn names the address of a refused connection, at most once a minute.
func (l *sharedListener) warn(from netip.Prefix) {
	if now := time.Now(); now.Sub(l.warned) >= time.Minute {
		l.warned = now
		l.log.WithField("from", from.String()).WithField("limit", l.shares.limit).Warn("Refused a connection: too " +
			"many are open")
	}
}

// sharedConn gives its share back when it is closed.
type sharedConn struct {
	net.Conn
	once  sync.Once
	leave func()
}

// Close implements net.Conn.
func (c *sharedConn) Close() error {
	c.once.Do(c.leave)
	return c.Conn.Close()
}

// shareRequests ends requests beyond the share of their address. A connection of HTTP/2 has many requests at once, and
// each holds memory while its client does not read the answer.
func shareRequests(limit int, next http.Handler) http.Handler {
	requests := newShares(limit)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, ok := requests.enter(addressOf(r.RemoteAddr))
		if !ok {
			panic(http.ErrAbortHandler) // an answer would hold the memory until it is read
		}
		defer leave()
		next.ServeHTTP(w, r)
	})
}
