package tunnel

import (
	"errors"
	"fmt"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// Errors of requests and connections. A caller answers the first three with 503.
var (
	// ErrNotConnected: the cluster has no session with this replica.
	ErrNotConnected = errors.New("the cluster's agent is not connected")
	// ErrSessionEnded: the session ended while something went through it. It is an ErrNotConnected, too.
	ErrSessionEnded = fmt.Errorf("the session has ended: %w", ErrNotConnected)
	// ErrTooManyStreams: as many connections are open through the session as there may be.
	ErrTooManyStreams = errors.New("too many connections to the cluster are open")
	// ErrRefused: the address is none that may be dialed.
	ErrRefused = errors.New("address may not be dialed")
	// ErrUnauthenticated: a request to open a session carries no token.
	ErrUnauthenticated = errors.New("failed authentication")
	// ErrUnknownCluster: the token is that of no cluster. The text is that of the wire
	// (docs/wire/endpoints.md#tunnel), and says no more.
	ErrUnknownCluster = errors.New("cluster not found")
)

// Why a session was ended by the server.
var (
	errBacklog    = errors.New("the agent sent more than was taken from it")
	errReplaced   = errors.New("the cluster has too many sessions")
	errRevoked    = errors.New("the registration token is not good any more")
	errDrained    = errors.New("this replica is ending")
	errConnection = errors.New("the connection that requests share has ended")
	errProtocol   = errors.New("the agent sent what it must not")
)

// Reasons of ends, as metrics tell them.
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

var endReasons = []string{endClosed, endSilent, endStalled, endBacklog, endReplaced, endRevoked, endProtocol, endDrained}

// endReason is the reason of an end as metrics tell it.
func endReason(err error) string {
	for reason, of := range map[string]error{
		endSilent: wire.ErrSilent, endStalled: wire.ErrStalled, endBacklog: errBacklog, endReplaced: errReplaced, endRevoked: errRevoked,
		endProtocol: errProtocol, endDrained: errDrained,
	} {
		if errors.Is(err, of) {
			return reason
		}
	}
	return endClosed
}
