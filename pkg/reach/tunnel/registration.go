package tunnel

import (
	"net/http"
	"time"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// Kinds of agents.
const (
	// KindAgent is Drover's own agent.
	KindAgent = "agent"
	// KindStock is an agent that announces its cluster as rancher/rancher's agent does.
	KindStock = "stock"
)

// Registration identifies the agent that opens a session.
type Registration struct {
	// Cluster is the ID of the cluster.
	Cluster string
	// Heartbeat is the interval between signs of life of Drover's agent. It is 0 for a stock agent.
	Heartbeat time.Duration
	// Params is the announcement of a stock agent.
	Params wire.Params
	// Stands reports whether the registration is still valid. It is called repeatedly during the session. nil means
	// always valid.
	Stands func() bool
}

func (r Registration) kind() string {
	if r.Heartbeat > 0 {
		return KindAgent
	}
	return KindStock
}

// silence is the longest silence of a session. Longer silence ends it.
func (r Registration) silence() time.Duration {
	if r.Heartbeat > 0 {
		return wire.Silence(r.Heartbeat)
	}
	return wire.StockSilence
}

// late is the silence after which a session counts as impaired, because its next sign of life is overdue.
func (r Registration) late() time.Duration {
	if r.Heartbeat > 0 {
		return r.Heartbeat * 3 / 2
	}
	return wire.StockSilence / 2
}

// FromHeaders reads registrations from the headers of the wire (docs/wire/endpoints.md#tunnel). cluster returns the ID
// of the cluster that a registration token belongs to. It must take the same time for all tokens.
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
