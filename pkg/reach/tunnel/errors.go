package tunnel

import (
	"errors"
	"fmt"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// Errors of requests and connections. A caller answers the first three with 503.
var (
	// ErrNotConnected means that the cluster has no session with this replica.
	ErrNotConnected = errors.New("the cluster's agent is not connected")
	// ErrSessionEnded means that the session ended during the request or connection. It is also an ErrNotConnected.
	ErrSessionEnded = fmt.Errorf("the session has ended: %w", ErrNotConnected)
	// ErrTooManyStreams means that the session has reached its limit of open connections.
	ErrTooManyStreams = errors.New("too many connections to the cluster are open")
	// ErrRefused means that the address may not be dialed.
	ErrRefused = errors.New("address may not be dialed")
	// ErrUnauthenticated means that a request to open a session has no token.
	ErrUnauthenticated = errors.New("failed authentication")
	// ErrUnknownCluster means that the token belongs to no cluster. The wire defines the text, which reveals no more
	// (docs/wire/endpoints.md#tunnel).
	ErrUnknownCluster = errors.New("cluster not found")
)

// Reasons for which the server ends a session.
var (
	errBacklog    = errors.New("the agent sent more than the server could forward")
	errReplaced   = errors.New("the cluster has too many sessions")
	errRevoked    = errors.New("the registration token is no longer valid")
	errDrained    = errors.New("this replica is shutting down")
	errConnection = errors.New("the shared connection has ended")
	errProtocol   = errors.New("the agent sent a forbidden message")
)

// Reasons of ends in metrics.
const (
	endClosed   = "closed"
	endSilent   = "silent"
	endStalled  = "stalled"
	endBacklog  = "backlog"
	endReplaced = "replaced"
	endRevoked  = "revoked"
	endProtocol = "protocol"
	endDrained  = "drained"
)

var endReasons = []string{endClosed, endSilent, endStalled, endBacklog, endReplaced, endRevoked, endProtocol,
	endDrained}

// endReason returns the reason of an end in metrics.
func endReason(err error) string {
	for reason, of := range map[string]error{
		endSilent: wire.ErrSilent, endStalled: wire.ErrStalled, endBacklog: errBacklog, endReplaced: errReplaced,
		endRevoked:  errRevoked,
		endProtocol: errProtocol, endDrained: errDrained,
	} {
		if errors.Is(err, of) {
			return reason
		}
	}
	return endClosed
}
