package wire

import (
	"fmt"
	"time"
)

// Paths under which the server takes sessions. Agents ask for PathRegister the first time, and for PathConnect from then on; both mean
// the same here (docs/wire/endpoints.md#tunnel).
const (
	PathConnect  = "/v3/connect"
	PathRegister = "/v3/connect/register"
)

// Headers of the request that opens a session, as all generations of agents send them (docs/wire/endpoints.md#tunnel).
const (
	// HeaderToken holds the registration token.
	HeaderToken = "X-API-Tunnel-Token"
	// HeaderParams holds what a stock agent announces, see Params.
	HeaderParams = "X-API-Tunnel-Params"
)

// Headers of our own.
const (
	// HeaderHeartbeat is how often our agent gives a sign of life, as a duration ("1.5s"). It tells our agent from a stock one.
	HeaderHeartbeat = "X-Drover-Heartbeat"
	// HeaderReplica names the replica that answers.
	HeaderReplica = "X-Drover-Replica"
	// HeaderReplicas is how many replicas there are. Pongs to our agent carry the same number, so that it hears of changes.
	HeaderReplicas = "X-Drover-Replicas"
)

// The one address that the server dials through a session of our agent. The agent answers there itself; no name server is asked.
const (
	AgentNetwork = "tcp"
	AgentHost    = "drover.cluster-agent"
	AgentAddress = AgentHost + ":80"
)

// Signs of life.
const (
	// Heartbeat is how often our agent pings.
	Heartbeat = 1500 * time.Millisecond
	// StockSilence is for how long an agent may be silent that announces no heartbeat. Stock agents ping every 5 s
	// (docs/wire/endpoints.md#tunnel).
	StockSilence = 20 * time.Second
	// WriteStall is how long one write may take before the link counts as dead.
	WriteStall = 15 * time.Second
)

// MaxMessage is the longest message in bytes that is read from the other side. Agents send at most what they read at once, which is some
// ten kilobytes.
const MaxMessage = 4 << 20

const (
	minHeartbeat = 50 * time.Millisecond
	// maxHeartbeat is short enough for requests not to wait long for who is gone: what is sent to it counts as lost after Silence(maxHeartbeat).
	maxHeartbeat = 5 * time.Second
)

// Silence is for how long a session may be silent whose other side gives a sign of life every heartbeat: two and a half of them.
func Silence(heartbeat time.Duration) time.Duration { return heartbeat * 5 / 2 }

// ParseHeartbeat reads the value of HeaderHeartbeat.
func ParseHeartbeat(value string) (time.Duration, error) {
	heartbeat, err := time.ParseDuration(value)
	if err != nil || heartbeat < minHeartbeat || heartbeat > maxHeartbeat {
		return 0, fmt.Errorf("header %s has to be a duration from %s to %s, such as %s", HeaderHeartbeat, minHeartbeat, maxHeartbeat, Heartbeat)
	}
	return heartbeat, nil
}
