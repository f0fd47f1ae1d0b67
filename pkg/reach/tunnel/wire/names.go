package wire

import (
	"fmt"
	"time"
)

// Paths under which the server accepts sessions. Agents use PathRegister the first time and PathConnect afterwards. The
// server treats both alike (docs/wire/endpoints.md#tunnel).
const (
	PathConnect  = "/v3/connect"
	PathRegister = "/v3/connect/register"
)

// Headers of the request that opens a session. All releases of agents send them (docs/wire/endpoints.md#tunnel).
const (
	// HeaderToken is the registration token.
	HeaderToken = "X-API-Tunnel-Token"
	// HeaderParams is the announcement of a stock agent (see Params).
	HeaderParams = "X-API-Tunnel-Params"
)

// Headers of Drover's own.
const (
	// HeaderHeartbeat is the interval of signs of life of Drover's agent, as a duration ("1.5s"). It distinguishes this
	// agent from a stock agent.
	HeaderHeartbeat = "X-Drover-Heartbeat"
	// HeaderReplica is the ID of the replica that answers.
	HeaderReplica = "X-Drover-Replica"
	// HeaderReplicas is the number of replicas. Pongs to Drover's agent carry the same number, so that it learns about
	// changes.
	HeaderReplicas = "X-Drover-Replicas"
)

// The single address that the server dials through a session of Drover's agent. The agent itself answers there, without
// name resolution.
const (
	AgentNetwork = "tcp"
	AgentHost    = "drover.cluster-agent"
	AgentAddress = AgentHost + ":80"
)

// Signs of life.
const (
	// Heartbeat is how often our agent pings.
	Heartbeat = 1500 * time.Millisecond
	// StockSilence is the longest silence of an agent that announces no heartbeat. Stock agents ping every 5 s
	// (docs/wire/endpoints.md#tunnel).
	StockSilence = 20 * time.Second
	// WriteStall is how long one write may take before the link counts as dead.
	WriteStall = 15 * time.Second
)

// MaxMessage is the longest accepted message, in bytes. Agents send at most the result of one read, about ten
// kilobytes.
const MaxMessage = 4 << 20

const (
	minHeartbeat = 50 * time.Millisecond
	// maxHeartbeat is short, so that requests to a dead agent fail soon: after Silence(maxHeartbeat).
	maxHeartbeat = 5 * time.Second
)

// Silence is the longest silence of a session, for a given heartbeat: two and a half intervals.
func Silence(heartbeat time.Duration) time.Duration { return heartbeat * 5 / 2 }

// ParseHeartbeat reads the value of HeaderHeartbeat.
func ParseHeartbeat(value string) (time.Duration, error) {
	heartbeat, err := time.ParseDuration(value)
	if err != nil || heartbeat < minHeartbeat || heartbeat > maxHeartbeat {
		return 0, fmt.Errorf("header %s must be a duration from %s to %s, such as %s",
			HeaderHeartbeat, minHeartbeat, maxHeartbeat, Heartbeat)
	}
	return heartbeat, nil
}
