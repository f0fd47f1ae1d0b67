package disruptions

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/observe/metrics"
)

// told records the errors that Check reports.
type told struct{ errors []string }

func (t *told) Helper() {}

func (t *told) Errorf(format string, args ...any) {
	t.errors = append(t.errors, fmt.Sprintf(format, args...))
}

func TestCheck_FailsForUnknownCauses(t *testing.T) {
	for name, tc := range map[string]struct {
		causes []disruption.Cause
		want   string
	}{
		"no disruption":      {nil, ""},
		"edits and commands": {[]disruption.Cause{disruption.EditVersion, disruption.CommandRestore}, ""},
		"an unknown cause": {[]disruption.Cause{disruption.EditVersion, disruption.Unknown},
			"the cause of 1 disruptions is not an edit, a health policy or a command: map[edit-version:1 unknown:1]"},
		"an undefined cause": {[]disruption.Cause{"weather"}, "the cause of 1 disruptions"},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			counter, err := metrics.NewDisruptions(registry)
			if err != nil {
				t.Fatal(err)
			}
			for _, cause := range tc.causes {
				counter.Count(cause, 1)
			}
			story := &told{}
			Check(story, registry)
			if got := strings.Join(story.errors, "\n"); !strings.HasPrefix(got, tc.want) ||
				(got == "") != (tc.want == "") {
				t.Errorf("the test fails with %q, want %q", got, tc.want)
			}
			if got := scrape(t, registry).Problem(); (got == "") != (tc.want == "") {
				t.Errorf("scraped: %q, want %q", got, tc.want)
			}
		})
	}
}

// scrape reads a registry as a metrics endpoint shows it.
func scrape(t *testing.T, registry *prometheus.Registry) Counts {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	counts, err := Scraped(&text)
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

func TestCheck_FailsWithoutTheMetric(t *testing.T) {
	story := &told{}
	Check(story, prometheus.NewRegistry())
	if len(story.errors) != 1 {
		t.Errorf("the test fails with %q", story.errors)
	}
	if _, err := Scraped(strings.NewReader("other_total 1\n")); err == nil {
		t.Error("an answer without the metric passes")
	}
	if _, err := Scraped(strings.NewReader("{")); err == nil {
		t.Error("an invalid answer passes")
	}
}
