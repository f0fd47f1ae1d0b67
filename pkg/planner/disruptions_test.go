package planner

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/pkg/disruption"
	"github.com/drover-io/drover/pkg/metrics"
	"github.com/drover-io/drover/pkg/testkit/disruptions"
)

// counted are the disruptions in all worlds of this package.
var counted = sync.OnceValues(func() (*prometheus.Registry, *metrics.Disruptions) {
	registry := prometheus.NewRegistry()
	counter, err := metrics.NewDisruptions(registry)
	if err != nil {
		panic(err)
	}
	return registry, counter
})

// countDisruption is what an interpreter of decisions does when it has carried one out that disrupts.
func countDisruption(cause disruption.Cause) {
	if cause == disruption.Unknown {
		panic("a disruption that nobody wished for")
	}
	if cause != "" {
		_, counter := counted()
		counter.Count(cause, 1)
	}
}

// runAndCheck runs the tests, and fails when any world was disrupted without anybody's wish.
func runAndCheck(m *testing.M) int {
	code := m.Run()
	registry, _ := counted()
	counts, err := disruptions.Gathered(registry)
	problem := fmt.Sprint(err)
	if err == nil {
		problem = counts.Problem()
	}
	if problem != "" {
		fmt.Fprintln(os.Stderr, "FAIL: "+problem)
		return max(code, 1)
	}
	return code
}
