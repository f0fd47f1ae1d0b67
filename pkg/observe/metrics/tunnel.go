package metrics

import "github.com/prometheus/client_golang/prometheus"

// Directions of bytes in the tunnel, as the server sees them.
const (
	TunnelIn  = "in"
	TunnelOut = "out"
)

// Tunnel measures the tunnel that connects agents. Gauges of several tunnels in one process are added up.
type Tunnel struct {
	sessions *prometheus.GaugeVec
	connects *prometheus.CounterVec
	ends     *prometheus.CounterVec
	refused  prometheus.Counter
	streams  prometheus.Gauge
	in, out  prometheus.Counter
}

// NewTunnel registers the metrics; nil is the process-wide registerer. kinds are the kinds of sessions, and reasons the
// reasons for their ends. All exist from the beginning.
func NewTunnel(registerer prometheus.Registerer, kinds, reasons []string) (*Tunnel, error) {
	sessions, err := register(registerer, tunnelSessions.Name, tunnelSessions.gauge())
	if err != nil {
		return nil, err
	}
	connects, err := register(registerer, tunnelConnects.Name, tunnelConnects.counter())
	if err != nil {
		return nil, err
	}
	ends, err := register(registerer, tunnelEnds.Name, tunnelEnds.counter())
	if err != nil {
		return nil, err
	}
	refused, err := register(registerer, tunnelRefused.Name, tunnelRefused.counter())
	if err != nil {
		return nil, err
	}
	streams, err := register(registerer, tunnelStreams.Name, tunnelStreams.gauge())
	if err != nil {
		return nil, err
	}
	bytes, err := register(registerer, tunnelBytes.Name, tunnelBytes.counter())
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		sessions.WithLabelValues(kind)
		connects.WithLabelValues(kind)
	}
	for _, reason := range reasons {
		ends.WithLabelValues(reason)
	}
	return &Tunnel{
		sessions: sessions, connects: connects, ends: ends,
		refused: refused.WithLabelValues(), streams: streams.WithLabelValues(),
		in: bytes.WithLabelValues(TunnelIn), out: bytes.WithLabelValues(TunnelOut),
	}, nil
}

// Begun records the start of a session.
func (t *Tunnel) Begun(kind string) {
	t.connects.WithLabelValues(kind).Inc()
	t.sessions.WithLabelValues(kind).Inc()
}

// Ended records the end of a session.
func (t *Tunnel) Ended(kind, reason string) {
	t.sessions.WithLabelValues(kind).Dec()
	t.ends.WithLabelValues(reason).Inc()
}

// Refused records a refused connection.
func (t *Tunnel) Refused() { t.refused.Inc() }

// Streams adds n opened connections through sessions. A negative n is for closed ones.
func (t *Tunnel) Streams(n int) { t.streams.Add(float64(n)) }

// Bytes adds received and sent bytes.
func (t *Tunnel) Bytes(in, out int) {
	t.in.Add(float64(in))
	t.out.Add(float64(out))
}
