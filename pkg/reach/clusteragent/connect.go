package clusteragent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rancher/remotedialer"
	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

const (
	handshakeTimeout = 10 * time.Second
	// Sizes of buffers, in bytes. The write buffer holds a whole message.
	readBuffer  = 16 << 10
	writeBuffer = wire.PipeBuffer + 64
)

// errDuplicate means that there is already a session to the replica that answered.
var errDuplicate = errors.New("a session to this replica exists already")

var writeBuffers sync.Pool

// opened is an open session.
type opened struct {
	ws      *websocket.Conn
	link    *wire.Link
	replica string
	count   int
}

// open opens a session.
func (a *agent) open(ctx context.Context) (*opened, error) {
	token, err := readToken(a.options.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("registration token: %w", err)
	}
	config, err := a.trust.config(ctx)
	if err != nil {
		return nil, err
	}
	var link *wire.Link
	dialer := a.dialer(config, &link)
	header := http.Header{
		wire.HeaderToken:     {token},
		wire.HeaderHeartbeat: {a.options.Heartbeat.String()},
		"User-Agent":         {"drover-cluster-agent/" + a.options.Version},
	}
	ws, response, err := dialer.DialContext(ctx, a.address(), header) //nolint:bodyclose // the dialer has it in memory
	if err != nil {
		return nil, fmt.Errorf("open a session (token %s): %w", fingerprint(token), refusal(err, response))
	}
	count, _ := strconv.Atoi(response.Header.Get(wire.HeaderReplicas))
	replica := response.Header.Get(wire.HeaderReplica)
	if replica == "" {
		_ = ws.Close()
		return nil, fmt.Errorf("the server's answer has no header %s: the server is not Drover, or a proxy removes "+
			"headers", wire.HeaderReplica)
	}
	return &opened{ws: ws, link: link, replica: replica, count: count}, nil
}

// address is the URL of the session. The first session uses another path, as the wire requires.
func (a *agent) address() string {
	target := url.URL{Scheme: "wss", Host: a.server.Host, Path: wire.PathRegister}
	if a.registered.Load() {
		target.Path = wire.PathConnect
	}
	return target.String()
}

// dialer opens a WebSocket on top of a Link.
func (a *agent) dialer(config *tls.Config, link **wire.Link) *websocket.Dialer {
	network := &net.Dialer{Timeout: handshakeTimeout}
	return &websocket.Dialer{
		Proxy: a.options.Proxy, HandshakeTimeout: handshakeTimeout, TLSClientConfig: config,
		ReadBufferSize: readBuffer, WriteBufferSize: writeBuffer, WriteBufferPool: &writeBuffers,
		NetDialContext: func(ctx context.Context, kind, address string) (net.Conn, error) {
			conn, err := network.DialContext(ctx, kind, address)
			if err != nil {
				return nil, err
			}
			*link = wire.NewLink(conn, wire.LinkOptions{Patient: true})
			return *link, nil
		},
	}
}

// noSession is an answer that refuses a session.
type noSession struct {
	code         int
	status, text string
}

// Error contains the server's answer.
func (r *noSession) Error() string {
	return fmt.Sprintf("the server answered %s: %q", r.status, r.text)
}

// refusal returns why the server refused a session, including the text of its answer.
func refusal(err error, response *http.Response) error {
	if response == nil || !errors.Is(err, websocket.ErrBadHandshake) {
		return err
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, 256))
	return &noSession{code: response.StatusCode, status: response.Status, text: strings.TrimSpace(string(text))}
}

// serve runs a session until it or the context ends, and returns the reason.
func (a *agent) serve(ctx context.Context, o *opened) error {
	defer func() { _ = o.ws.Close() }()
	// The dialer itself refuses other addresses. A refusal by this function would end the session.
	dialer := sessionDialer{switchboard: a.switchboard, room: o.link.Room}
	session := remotedialer.NewClientSessionWithDialer(func(string, string) bool { return true }, o.ws, dialer.dial)
	tended, stopTending := context.WithCancel(ctx)
	defer stopTending()
	o.link.Watch(wire.Silence(a.options.Heartbeat))
	wire.Tend(tended, o.ws, wire.Tending{Heartbeat: a.options.Heartbeat, Heard: func(carried string) {
		if n, err := strconv.Atoi(carried); err == nil {
			a.replicas.want(n)
		}
	}})
	stop := context.AfterFunc(ctx, func() {
		message := websocket.FormatCloseMessage(websocket.CloseGoingAway, "the agent is shutting down")
		_ = o.ws.WriteControl(websocket.CloseMessage, message, time.Now().Add(time.Second))
		o.link.Settle(time.Second)
		o.link.End(context.Cause(ctx))
	})
	defer stop()
	// With a canceled context the session sends no pings and no lists of connections of its own.
	silent, cancel := context.WithCancel(ctx)
	cancel()
	_, err := session.Serve(silent)
	o.link.End(err)
	// The session's Close would close connections concurrently with the goroutines that close them.
	dialer.stop()
	return o.link.Reason()
}

// run opens a session and serves it in the background. It returns the result of the attempt.
func (a *agent) run(ctx context.Context) error {
	o, err := a.open(ctx)
	if err != nil {
		return err
	}
	a.registered.Store(true)
	a.replicas.want(o.count)
	if !a.replicas.add(o.replica) {
		_ = o.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure,
			"duplicate"), time.Now().Add(time.Second))
		_ = o.ws.Close()
		return errDuplicate
	}
	log := a.options.Log.WithFields(logrus.Fields{"server": a.server.Host, "replica": o.replica})
	log.WithField("replicas", o.count).Info("Connected")
	a.sessions.Go(func() {
		begun := time.Now()
		reason := a.serve(ctx, o)
		if time.Since(begun) >= proven {
			a.proven.Store(true)
		}
		log.WithField("reason", reason).Info("Disconnected")
		a.replicas.remove(o.replica)
	})
	return nil
}
