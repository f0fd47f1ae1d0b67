// Package disruptions checks at the end of a story, in tests of any tier, that a user wish caused every restart, drain
// and replacement of a machine.
package disruptions

import (
	"fmt"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/observe/metrics"
)

// Counts are disruptions by cause.
type Counts map[disruption.Cause]int

// Gathered reads the counter of a server in this process.
func Gathered(from prometheus.Gatherer) (Counts, error) {
	families, err := from.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather metrics: %w", err)
	}
	for _, family := range families {
		if family.GetName() == metrics.DisruptionsName {
			return count(family), nil
		}
	}
	return nil, errMissing
}

// Scraped reads the counter of another process from the text of its metrics endpoint.
func Scraped(text io.Reader) (Counts, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	if family := families[metrics.DisruptionsName]; family != nil {
		return count(family), nil
	}
	return nil, errMissing
}

// errMissing makes a story fail when the metric does not exist.
var errMissing = fmt.Errorf("there is no metric %s", metrics.DisruptionsName)

func count(family *dto.MetricFamily) Counts {
	out := Counts{}
	for _, metric := range family.GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == metrics.CauseLabel {
				out[disruption.Cause(label.GetValue())] += int(metric.GetCounter().GetValue())
			}
		}
	}
	return out
}

// Problem describes the disruptions without a user's wish. It returns "" when there are none.
func (c Counts) Problem() string {
	total := 0
	for cause, n := range c {
		if cause.Kind() == disruption.KindNone {
			total += n
		}
	}
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("the cause of %d disruptions is not an edit, a health policy or a command: %v",
		total, c.happened())
}

// happened drops causes with a count of zero.
func (c Counts) happened() Counts {
	out := Counts{}
	for cause, n := range c {
		if n > 0 {
			out[cause] = n
		}
	}
	return out
}

// T is the part of testing.T that Check needs.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

// Check fails a story whose server is in this process.
func Check(t T, from prometheus.Gatherer) {
	t.Helper()
	counts, err := Gathered(from)
	if err != nil {
		t.Errorf("disruptions: %v", err)
		return
	}
	if problem := counts.Problem(); problem != "" {
		t.Errorf("%s", problem)
	}
}
