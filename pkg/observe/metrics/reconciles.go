package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Reconciles measures the runs of handlers.
type Reconciles struct {
	duration *prometheus.HistogramVec
	errors   *prometheus.CounterVec
}

// NewReconciles registers the metrics; nil is the process-wide registerer.
func NewReconciles(registerer prometheus.Registerer) (*Reconciles, error) {
	duration, err := register(registerer, reconcileDuration.Name, reconcileDuration.histogram(fast))
	if err != nil {
		return nil, err
	}
	failed, err := register(registerer, reconcileErrors.Name, reconcileErrors.counter())
	if err != nil {
		return nil, err
	}
	return &Reconciles{duration, failed}, nil
}

// Observe records one run of a handler. The handler's error counter exists from its first run on.
func (r *Reconciles) Observe(handler string, took time.Duration, err error) {
	r.duration.WithLabelValues(handler).Observe(took.Seconds())
	count := r.errors.WithLabelValues(handler)
	if err != nil {
		count.Inc()
	}
}
