package metrics

import "github.com/prometheus/client_golang/prometheus"

// NewUnread registers the metric of streams that end because their reader stops reading. nil is the process-wide
// registerer. The result counts one stream, by a reason of the given ones.
func NewUnread(registerer prometheus.Registerer, reasons []string) (ended func(reason string), err error) {
	streams, err := register(registerer, unreadStreams.Name, unreadStreams.counter())
	if err != nil {
		return nil, err
	}
	for _, reason := range reasons {
		streams.WithLabelValues(reason)
	}
	return func(reason string) { streams.WithLabelValues(reason).Inc() }, nil
}

// Connections measures the connections to one listener.
type Connections struct {
	open    prometheus.Gauge
	refused prometheus.Counter
}

// NewConnections registers the metrics of a listener; nil is the process-wide registerer.
func NewConnections(registerer prometheus.Registerer, listener string) (*Connections, error) {
	open, err := register(registerer, connectionsOpen.Name, connectionsOpen.gauge())
	if err != nil {
		return nil, err
	}
	refused, err := register(registerer, connectionsRefused.Name, connectionsRefused.counter())
	if err != nil {
		return nil, err
	}
	return &Connections{open: open.WithLabelValues(listener), refused: refused.WithLabelValues(listener)}, nil
}

// Opened records an accepted connection.
func (c *Connections) Opened() { c.open.Inc() }

// Closed records the end of an accepted connection.
func (c *Connections) Closed() { c.open.Dec() }

// Refused records a connection that was closed at once.
func (c *Connections) Refused() { c.refused.Inc() }
