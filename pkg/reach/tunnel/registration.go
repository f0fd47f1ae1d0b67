package tunnel

import (
	"net/http"
	"time"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// Kinds of agents.
const (
	// KindAgent is our own agent.
	KindAgent = "agent"
	// KindStock is an agent that announces its cluster as rancher/rancher's does.
	KindStock = "stock"
)

// Registration is who wants to open a session.
type Registration struct {
	// Cluster is the ID of the cluster.
	Cluster string
	// Heartbeat is how often our own agent gives a sign of life; 0 is a stock agent.
	Heartbeat time.Duration
	// Params is what a stock agent announces.
	Params wire.Params
	// Stands tells whether the agent would be let in again. It is asked while the session lasts; nil lets it last.
	Stands func() bool
}

func (r Registration) kind() string {
	if r.Heartbeat > 0 {
		return KindAgent
	}
	return KindStock
}

// silence is for how long a session may be silent.
func (r Registration) silence() time.Duration {
	if r.Heartbeat > 0 {
		return wire.Silence(r.Heartbeat)
	}
	return wire.StockSilence
}

// late is for how long a session is silent that is not quite well: its next sign of life should have come.
func (r Registration) late() time.Duration {
	if r.Heartbeat > 0 {
		return r.Heartbeat * 3 / 2
	}
	return wire.StockSilence / 2
}

// FromHeaders reads registrations from the headers of the wire (docs/wire/endpoints.md#tunnel). The function finds the
// ID of the cluster a registration token belongs to; it has to take the same time for all tokens.
func FromHeaders(cluster func(token string) (id string, ok bool)) func(*http.Request) (Registration, error) {
	return func(r *http.Request) (Registration, error) {
		token := r.Header.Get(wire.HeaderToken)
		if token == "" {
			return Registration{}, ErrUnauthenticated
		}
		id, ok := cluster(token)
		if !ok || id == "" {
			return Registration{}, ErrUnknownCluster
		}
		registration := Registration{Cluster: id, Stands: func() bool {
			now, ok := cluster(token)
			return ok && now == id
		}}
		var err error
		if value := r.Header.Get(wire.HeaderHeartbeat); value != "" {
			registration.Heartbeat, err = wire.ParseHeartbeat(value)
		} else {
			registration.Params, err = wire.ParseParams(r.Header.Get(wire.HeaderParams))
		}
		if err != nil {
			return Registration{}, err
		}
		return registration, nil
	}
}
