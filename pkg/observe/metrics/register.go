package metrics

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// register registers a collector; nil is the process-wide registerer. Several Drovers in one process share the first
// one's collectors.
func register[T prometheus.Collector](registerer prometheus.Registerer, name string, collector T) (T, error) {
	if registerer == nil {
		registerer = prometheus.DefaultRegisterer
	}
	err := registerer.Register(collector)
	if known, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if shared, same := known.ExistingCollector.(T); same {
			return shared, nil
		}
		return collector, fmt.Errorf("register %s: another metric has this name", name)
	}
	if err != nil {
		return collector, fmt.Errorf("register %s: %w", name, err)
	}
	return collector, nil
}
