package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ProxyRequests measures requests to downstream clusters that pass through Drover.
type ProxyRequests struct {
	total    *prometheus.CounterVec
	inFlight *prometheus.GaugeVec
	waiting  prometheus.Gauge
	rejected *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewProxyRequests registers the metrics; nil is the process-wide registerer.
func NewProxyRequests(registerer prometheus.Registerer) (*ProxyRequests, error) {
	total, err := register(registerer, proxyRequests.Name, proxyRequests.counter())
	if err != nil {
		return nil, err
	}
	inFlight, err := register(registerer, proxyInFlight.Name, proxyInFlight.gauge())
	if err != nil {
		return nil, err
	}
	waiting, err := register(registerer, proxyWaiting.Name, proxyWaiting.gauge())
	if err != nil {
		return nil, err
	}
	rejected, err := register(registerer, proxyRejected.Name, proxyRejected.counter())
	if err != nil {
		return nil, err
	}
	duration, err := register(registerer, proxyDuration.Name, proxyDuration.histogram(fast))
	if err != nil {
		return nil, err
	}
	return &ProxyRequests{total, inFlight, waiting.WithLabelValues(), rejected, duration}, nil
}

// Begin counts a request as in flight. The result ends that.
func (p *ProxyRequests) Begin(longRunning bool) func() {
	gauge := p.inFlight.WithLabelValues(strconv.FormatBool(longRunning))
	gauge.Inc()
	return gauge.Dec
}

// Waiting sets the number of requests that wait for a slot.
func (p *ProxyRequests) Waiting(requests int) { p.waiting.Set(float64(requests)) }

// Reject counts a request that exceeds a limit. The reason is from a small set.
func (p *ProxyRequests) Reject(reason string) { p.rejected.WithLabelValues(reason).Inc() }

// Observe records the end of a request, with its verb, from a small set, and its status code. The duration of a
// long-running request is not recorded, because it depends on the client.
func (p *ProxyRequests) Observe(verb string, code int, longRunning bool, took time.Duration) {
	p.total.WithLabelValues(verb, codeClass(code)).Inc()
	if !longRunning {
		p.duration.WithLabelValues(verb).Observe(took.Seconds())
	}
}

// codeClass returns 2xx and so on; 0 is for responses that were cut before they began.
func codeClass(code int) string {
	if code < 100 || code > 599 {
		return "none"
	}
	return strconv.Itoa(code/100) + "xx"
}
