package tunnel

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/observe/metrics"
	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// Default limits of Options.
const (
	DefaultMaxSessions = 16
	DefaultMaxStreams  = 1000
	DefaultMaxBacklog  = 64 << 20
	DefaultRecheck     = 30 * time.Second
)

const (
	// maxStreamBacklog limits the unread bytes of one connection. A stock agent pauses after 2 MiB, and sends what it
	// has already read. maxAllBacklogs limits those of all sessions.
	maxStreamBacklog = 16 << 20
	maxAllBacklogs   = 256 << 20

	handshakeTimeout = 5 * time.Second
	// Sizes of WebSocket buffers, in bytes. Each session has a read buffer, and large reads bypass it. Write buffers
	// are shared, and each holds a whole message.
	readBuffer  = 8 << 10
	writeBuffer = 36 << 10
)

// Options are what a Server needs.
type Options struct {
	// Cluster returns the ID of the cluster that a registration token belongs to. It is called for every session,
	// concurrently, and must take the same time for all tokens.
	Cluster func(token string) (id string, ok bool)
	// Authorize identifies an agent by the request that opens its session. nil means FromHeaders(Cluster). The server
	// answers 401 for ErrUnauthenticated and 400 for other errors, with the error text.
	Authorize func(*http.Request) (Registration, error)
	// Replica is the unique ID of this replica, fixed for the life of the process. Agents use it to keep a session to
	// every replica.
	Replica string
	// Replicas returns the number of replicas. nil means one. It is called for every sign of life of an agent.
	Replicas func() int
	// MaxSessions limits the sessions of one cluster. MaxStreams limits the open connections through one session.
	// Drover's agent has one connection, with up to wire.MaxRequests requests. MaxBacklog limits the unread bytes of
	// one session. 0 means the default.
	MaxSessions, MaxStreams int
	MaxBacklog              int64
	// Recheck is how often registrations are checked again. A session ends when its token was replaced or its cluster
	// was deleted. 0 means DefaultRecheck.
	Recheck time.Duration
	// Metrics is the registerer of metrics. nil means the process-wide registerer.
	Metrics prometheus.Registerer
	// Log receives a line for each session that begins or ends and for each refused connection. nil means the standard
	// logger.
	Log logrus.FieldLogger
}

// Server accepts sessions of agents and sends requests through them. It is an http.Handler for Paths.
type Server struct {
	options     Options
	metrics     *metrics.Tunnel
	upgrader    websocket.Upgrader
	table       table
	subscribers subscribers
	number      atomic.Uint64
	backlog     atomic.Int64 // of all sessions

	mu       sync.Mutex
	draining bool
	serving  sync.WaitGroup
}

// Paths are the paths that a Server handles (docs/wire/endpoints.md#tunnel).
func Paths() []string { return []string{wire.PathConnect, wire.PathRegister} }

// New creates a Server. Errors name the option.
func New(options Options) (*Server, error) {
	if options.Authorize == nil {
		if options.Cluster == nil {
			return nil, errors.New("options: Cluster or Authorize must be set")
		}
		options.Authorize = FromHeaders(options.Cluster)
	}
	if options.Replica == "" {
		return nil, errors.New("options: Replica must be set and must differ from every other replica")
	}
	if options.Replicas == nil {
		options.Replicas = func() int { return 1 }
	}
	if options.MaxSessions == 0 {
		options.MaxSessions = DefaultMaxSessions
	}
	if options.MaxStreams == 0 {
		options.MaxStreams = DefaultMaxStreams
	}
	if options.MaxBacklog == 0 {
		options.MaxBacklog = DefaultMaxBacklog
	}
	if options.Recheck == 0 {
		options.Recheck = DefaultRecheck
	}
	if options.Log == nil {
		options.Log = logrus.StandardLogger()
	}
	m, err := metrics.NewTunnel(options.Metrics, []string{KindAgent, KindStock}, endReasons)
	if err != nil {
		return nil, err
	}
	s := &Server{options: options, metrics: m}
	s.upgrader = websocket.Upgrader{
		HandshakeTimeout: handshakeTimeout, ReadBufferSize: readBuffer, WriteBufferSize: writeBuffer,
		WriteBufferPool: &sync.Pool{},
		Error:           func(rw http.ResponseWriter, _ *http.Request, code int, err error) { refuse(rw, code, err) },
	}
	return s, nil
}

// replicas is the number of replicas, at least one.
func (s *Server) replicas() string { return strconv.Itoa(max(1, s.options.Replicas())) }

// ServeHTTP accepts a session and returns when it has ended.
func (s *Server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if !slices.Contains(Paths(), r.URL.Path) {
		http.NotFound(rw, r)
		return
	}
	if r.Method != http.MethodGet {
		rw.Header().Set("Allow", http.MethodGet)
		refuse(rw, http.StatusMethodNotAllowed, errors.New("method must be GET"))
		return
	}
	if _, browser := r.Header["Origin"]; browser {
		refuse(rw, http.StatusForbidden, errors.New("header Origin must not be set: browsers may not open sessions"))
		return
	}
	registration, err := s.options.Authorize(r)
	if err == nil && registration.Cluster == "" {
		err = ErrUnknownCluster
	}
	if err != nil {
		code := http.StatusBadRequest
		if errors.Is(err, ErrUnauthenticated) {
			code = http.StatusUnauthorized
		}
		refuse(rw, code, err)
		return
	}
	s.serve(rw, r, registration)
}

func (s *Server) serve(rw http.ResponseWriter, r *http.Request, registration Registration) {
	if !s.begin() {
		rw.Header().Set("Retry-After", "1")
		refuse(rw, http.StatusServiceUnavailable, errDrained)
		return
	}
	defer s.serving.Done()
	session := newSession(s, registration)
	ws, err := s.upgrader.Upgrade(&hijacker{rw, session.takeLink}, r, http.Header{
		wire.HeaderReplica: {s.options.Replica}, wire.HeaderReplicas: {s.replicas()},
	})
	if err != nil {
		s.options.Log.WithField("cluster", registration.Cluster).WithError(err).Debug("An agent sent an invalid " +
			"handshake")
		return
	}
	session.serve(r.Context(), ws)
}

// begin registers a handshake. It reports false while the server drains.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.serving.Add(1)
	return true
}

func (s *Server) drains() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// refuse answers a request that opens no session, in plain text as on the wire.
func refuse(rw http.ResponseWriter, code int, err error) {
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rw.Header().Set("X-Content-Type-Options", "nosniff")
	rw.WriteHeader(code)
	_, _ = fmt.Fprint(rw, err)
}

// Connected reports whether a cluster has a session with this replica.
func (s *Server) Connected(cluster string) bool { return s.table.best(cluster) != nil }

// Clusters returns the sorted IDs of all clusters with a session to this replica.
func (s *Server) Clusters() []string { return s.table.ids() }

// Drain ends all sessions and accepts no new ones, so that agents immediately connect elsewhere. It returns when all
// sessions have ended.
func (s *Server) Drain() {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	var ending sync.WaitGroup
	for _, session := range s.table.all() {
		ending.Go(func() { session.dismiss(errDrained) })
	}
	ending.Wait()
	s.serving.Wait()
}

// hijacker passes the hijacked connection to the session's link.
type hijacker struct {
	http.ResponseWriter
	take func(net.Conn) net.Conn
}

// Hijack hijacks the connection.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if rw.Reader.Buffered() > 0 {
		_ = conn.Close()
		return nil, nil, errors.New("the agent sent data before the end of the handshake")
	}
	return h.take(conn), rw, nil
}
