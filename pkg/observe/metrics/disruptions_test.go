package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/pkg/decide/disruption"
)

func TestDisruptions_EveryCauseExistsFromTheStart(t *testing.T) {
	registry := prometheus.NewRegistry()
	first, err := NewDisruptions(registry)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(values(t, registry)), len(disruption.Causes()); got != want {
		t.Errorf("%d series, want %d", got, want)
	}
	second, err := NewDisruptions(registry)
	if err != nil {
		t.Fatal(err)
	}
	first.Count(disruption.CommandRoll, 1)
	second.Count(disruption.CommandRoll, 2)
	second.Count(disruption.CommandRoll, -1)
	if got := values(t, registry)[string(disruption.CommandRoll)]; got != 3 {
		t.Errorf("counted %v, want 3: both must share a counter", got)
	}
	var none *Disruptions
	none.Count(disruption.Unknown, 1)
}

// values returns the values of the counter by label value.
func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != DisruptionsName {
		t.Fatalf("families %v, %v", families, err)
	}
	out := map[string]float64{}
	for _, metric := range families[0].GetMetric() {
		out[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
	}
	return out
}

func TestDisruptions_DuplicateNameIsAnError(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: DisruptionsName}))
	if _, err := NewDisruptions(registry); err == nil || !strings.Contains(err.Error(), DisruptionsName) {
		t.Errorf("error %v", err)
	}
}
