// Package metrics counts what operators watch.
package metrics

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/pkg/disruption"
)

// DisruptionsName is the counter of restarts, drains and replacements.
const DisruptionsName = "drover_disruptions_total"

// CauseLabel is its one label.
const CauseLabel = "cause"

// Disruptions counts every restart, drain and replacement that Drover begins, by its cause.
type Disruptions struct{ counter *prometheus.CounterVec }

// NewDisruptions registers the counter; nil is the process-wide registerer. Several in one process share a counter. All causes are there
// from the beginning, so that the first disruption of a kind is seen as a step from zero.
func NewDisruptions(registerer prometheus.Registerer) (*Disruptions, error) {
	if registerer == nil {
		registerer = prometheus.DefaultRegisterer
	}
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: DisruptionsName,
		Help: "Restarts, drains and replacements of machines that Drover has begun, by cause. The cause \"unknown\" is a mistake of Drover's.",
	}, []string{CauseLabel})
	err := registerer.Register(counter)
	if known, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		shared, same := known.ExistingCollector.(*prometheus.CounterVec)
		if !same {
			return nil, fmt.Errorf("register %s: something else has that name", DisruptionsName)
		}
		counter, err = shared, nil
	}
	if err != nil {
		return nil, fmt.Errorf("register %s: %w", DisruptionsName, err)
	}
	for _, cause := range disruption.Causes() {
		counter.WithLabelValues(string(cause))
	}
	return &Disruptions{counter}, nil
}

// Count counts some. A nil Disruptions counts nothing.
func (d *Disruptions) Count(cause disruption.Cause, n int) {
	if d == nil || n <= 0 {
		return
	}
	d.counter.WithLabelValues(string(cause)).Add(float64(n))
}
