package tunnel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rancher/remotedialer"
	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// farewell is the longest time to send the message that explains why a session ends.
const farewell = time.Second

// session is the WebSocket of one agent.
type session struct {
	server       *Server
	registration Registration
	key          string // unique per session
	log          logrus.FieldLogger
	link         *wire.Link
	ws           *websocket.Conn
	remote       *remotedialer.Session
	over         chan struct{}
	http         roundTripper

	// dialing makes connections in the order of their numbers.
	dialing sync.Mutex

	mu        sync.Mutex
	last      int64 // number of the last connection
	streams   map[int64]*stream
	backlog   int64 // bytes received and not yet read
	finished  bool
	finishing sync.WaitGroup
}

func newSession(s *Server, registration Registration) *session {
	key := fmt.Sprintf("%s#%d", registration.Cluster, s.number.Add(1))
	return &session{
		server: s, registration: registration, key: key,
		log: s.options.Log.WithFields(logrus.Fields{"cluster": registration.Cluster, "session": key,
			"agent": registration.kind()}),
		over:    make(chan struct{}),
		streams: map[int64]*stream{},
	}
}

// takeLink wraps the connection below the WebSocket in a link.
func (s *session) takeLink(conn net.Conn) net.Conn {
	inspector := &wire.Inspector{Data: s.received, Closing: s.remoteCloses}
	s.link = wire.NewLink(conn, wire.LinkOptions{
		Count: s.server.metrics.Bytes,
		Inspect: func(p []byte) error {
			if err := inspector.Inspect(p); err != nil {
				return fmt.Errorf("%w: %w", errProtocol, err)
			}
			return nil
		},
	})
	return s.link
}

// serve runs the session until it ends. It uses a client Session of remotedialer, because remotedialer exports no
// server Session without its server. The two differ in nothing else. The context of the Session is already canceled, so
// that it sends no pings and no lists of connections.
func (s *session) serve(ctx context.Context, ws *websocket.Conn) {
	s.ws = ws
	s.remote = remotedialer.NewClientSession(nil, ws)
	tending := wire.Tending{}
	if s.registration.Heartbeat > 0 {
		tending.Pong, tending.Pinged = s.server.replicas, sync.OnceFunc(s.enter)
	}
	tended, stop := context.WithCancel(ctx)
	defer stop()
	s.link.Watch(s.registration.silence())
	wire.Tend(tended, ws, tending)
	s.http = s.transport()

	if stands := s.registration.Stands; stands != nil {
		go s.recheck(tended, stands)
	}

	s.server.metrics.Begun(s.registration.kind())
	for _, replaced := range s.server.table.await(s, s.server.options.MaxSessions) {
		go replaced.dismiss(errReplaced)
	}
	if s.registration.Heartbeat == 0 {
		s.enter()
	}
	if s.server.drains() {
		s.dismiss(errDrained)
	}

	silent, cancel := context.WithCancel(ctx)
	cancel()
	_, err := s.remote.Serve(silent)
	s.end(err)
	s.server.table.remove(s)
	s.server.subscribers.notify(s.registration.Cluster)
	s.cleanUp()
	s.http.close()
	reason := s.link.Reason()
	s.server.metrics.Ended(s.registration.kind(), endReason(reason))
	s.log.WithField("reason", reason).Info("Agent disconnected")
}

// recheck ends the session when its registration is no longer valid.
func (s *session) recheck(ctx context.Context, stands func() bool) {
	revoked := func(context.Context) (bool, error) { return !stands(), nil }
	if wait.PollUntilContextCancel(ctx, s.server.options.Recheck, false, revoked) == nil {
		s.dismiss(errRevoked)
	}
}

// enter makes the session available for requests. For Drover's agent this happens at its first sign of life. The agent
// sends none through a session that it does not keep, such as a second session to the same replica.
func (s *session) enter() {
	for _, replaced := range s.server.table.add(s, s.server.options.MaxSessions) {
		go replaced.dismiss(errReplaced)
	}
	s.server.subscribers.notify(s.registration.Cluster)
	s.log.WithField("from", s.ws.RemoteAddr().String()).Info("Agent connected")
}

// dismiss tries to send the reason to the agent, and ends the session.
func (s *session) dismiss(reason error) {
	message := websocket.FormatCloseMessage(websocket.CloseServiceRestart, reason.Error())
	_ = s.ws.WriteControl(websocket.CloseMessage, message, time.Now().Add(farewell))
	s.link.Settle(farewell)
	s.end(reason)
}

// end ends the session, so that its connections fail immediately. serve does the rest.
func (s *session) end(reason error) {
	s.mu.Lock()
	if s.finished {
		s.mu.Unlock()
		return
	}
	s.finished = true
	close(s.over)
	streams := slices.Collect(maps.Values(s.streams))
	s.mu.Unlock()
	for _, each := range streams {
		each.abort(ErrSessionEnded)
	}
	s.link.End(reason)
}

func (s *session) ended() bool {
	if s.link.Reason() != nil {
		return true
	}
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// cleanUp waits until all connections are unused, and closes them.
func (s *session) cleanUp() {
	s.dialing.Lock()
	defer s.dialing.Unlock()
	s.mu.Lock()
	streams := s.streams
	s.streams = map[int64]*stream{}
	s.server.backlog.Add(-s.backlog)
	s.backlog = 0
	s.mu.Unlock()
	for _, each := range streams {
		each.settle()
	}
	s.finishing.Wait()
	s.remote.Close()
	s.server.metrics.Streams(-len(streams))
}

// allows reports whether a tunnel session may dial an address.
func (s *session) allows(network, address string) bool {
	if network != wire.AgentNetwork {
		return false
	}
	if s.registration.Heartbeat > 0 {
		return address == wire.AgentAddress
	}
	return address == s.registration.Params.Address
}

// dial opens a connection through the session. It returns before the agent has accepted. If the agent refuses, the
// first read fails.
func (s *session) dial(network, address string) (net.Conn, error) {
	if !s.allows(network, address) {
		s.server.metrics.Refused()
		s.log.WithField("address", network+"/"+address).Warn("Refused to dial")
		return nil, fmt.Errorf("dial %s/%s: %w", network, address, ErrRefused)
	}
	s.dialing.Lock()
	defer s.dialing.Unlock()
	opened, err := s.open()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), wire.WriteStall)
	defer cancel()
	inner, err := s.remote.Dial(ctx, network, address)
	if err != nil {
		s.forget(opened)
		return nil, s.explain(fmt.Errorf("dial through the session: %w", err))
	}
	opened.connect(inner)
	return opened, nil
}

// open registers the next connection before the agent learns about it. Both remotedialer and open number connections
// from 1 in order, and only this code dials in the session.
func (s *session) open() (*stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return nil, ErrSessionEnded
	}
	if len(s.streams) >= s.server.options.MaxStreams {
		s.server.metrics.Refused()
		s.log.WithField("limit", s.server.options.MaxStreams).Warn("Refused to dial: too many connections are open")
		return nil, ErrTooManyStreams
	}
	s.last++
	opened := newStream(s, s.last)
	s.streams[s.last] = opened
	s.server.metrics.Streams(1)
	return opened, nil
}

// forget removes a closed connection.
func (s *session) forget(closed *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[closed.number] != closed {
		return
	}
	delete(s.streams, closed.number)
	s.backlog -= closed.backlog
	s.server.backlog.Add(-closed.backlog)
	s.server.metrics.Streams(-1)
}

// received counts bytes that arrived for a connection. The connection ends when its backlog is too large, and the
// session when its own is, or when all sessions together have too much.
func (s *session) received(number int64, n int) {
	s.mu.Lock()
	each := s.streams[number]
	var one, all int64
	if each != nil {
		each.backlog += int64(n)
		s.backlog += int64(n)
		one, all = each.backlog, s.server.backlog.Add(int64(n))
	}
	excess := s.backlog > s.server.options.MaxBacklog || all > maxAllBacklogs
	s.mu.Unlock()
	switch {
	case excess:
		s.end(errBacklog)
	case one > maxStreamBacklog:
		each.abort(errBacklog)
	}
}

// taken counts bytes that were read from a connection.
func (s *session) taken(by *stream, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[by.number] == by {
		by.backlog -= int64(n)
		s.backlog -= int64(n)
		s.server.backlog.Add(int64(-n))
	}
}

// remoteCloses is called when the agent ends a connection. The same goroutine closes it next.
func (s *session) remoteCloses(number int64) {
	s.mu.Lock()
	each := s.streams[number]
	s.mu.Unlock()
	if each != nil {
		each.remoteCloses()
	}
}

// explain wraps an error in ErrSessionEnded if the session has ended.
func (s *session) explain(err error) error {
	if err == nil || errors.Is(err, ErrNotConnected) || !s.ended() {
		return err
	}
	return fmt.Errorf("%w (%v)", ErrSessionEnded, err) //nolint:errorlint // the cause is one of many, and nobody branches on it
}

// roundTripper sends requests through one session.
type roundTripper interface {
	roundTrip(request *http.Request, upgrade bool) (*http.Response, error)
	close()
}
