package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/pkg/decide/disruption"
)

// DisruptionsName is the counter of restarts, drains and replacements.
const DisruptionsName = "drover_disruptions_total"

// CauseLabel is its only label.
const CauseLabel = "cause"

// Disruptions counts every restart, drain and replacement that Drover begins, by its cause.
type Disruptions struct{ counter *prometheus.CounterVec }

// NewDisruptions registers the counter; nil is the process-wide registerer. Several instances in one process share a
// counter. All causes exist from the beginning, so that the first disruption of a kind is a step from zero.
func NewDisruptions(registerer prometheus.Registerer) (*Disruptions, error) {
	counter, err := register(registerer, DisruptionsName, disruptionsTotal.counter())
	if err != nil {
		return nil, err
	}
	for _, cause := range disruption.Causes() {
		counter.WithLabelValues(string(cause))
	}
	return &Disruptions{counter}, nil
}

// Count adds n disruptions. A nil Disruptions counts nothing.
func (d *Disruptions) Count(cause disruption.Cause, n int) {
	if d == nil || n <= 0 {
		return
	}
	d.counter.WithLabelValues(string(cause)).Add(float64(n))
}
