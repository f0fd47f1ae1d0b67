package charts

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"sigs.k8s.io/yaml"
)

// rulesOf are the alert rules in the chart, as Prometheus reads them: expressions and templates are checked.
func rulesOf(t *testing.T) []rulefmt.Rule {
	t.Helper()
	objects, err := Objects(droverChart, Release{}, valuesOf(t, "everything"))
	check(t, err)
	var out []rulefmt.Rule
	for _, object := range objects {
		if object.GetKind() != "PrometheusRule" {
			continue
		}
		text, err := yaml.Marshal(object.Object["spec"])
		check(t, err)
		groups, errs := rulefmt.Parse(text, false, model.LegacyValidation)
		for _, err := range errs {
			t.Fatal(err)
		}
		for _, group := range groups.Groups {
			out = append(out, group.Rules...)
		}
	}
	if len(out) == 0 {
		t.Fatal("the chart has no rules")
	}
	return out
}

// memory is what a Prometheus has read: the series of one target.
type memory struct {
	series map[uint64]*promql.Series
}

// scrape reads a registry. What is not told any more ends, as it does when Prometheus finds it gone.
func (m *memory) scrape(t *testing.T, registry *prometheus.Registry, at time.Time) {
	t.Helper()
	families, err := registry.Gather()
	check(t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			value := metric.GetGauge().GetValue()
			switch family.GetType() {
			case dto.MetricType_COUNTER:
				value = metric.GetCounter().GetValue()
			case dto.MetricType_HISTOGRAM: // the rules use no more of it
				name, value = name+"_count", float64(metric.GetHistogram().GetSampleCount())
			default:
			}
			m.append(name, metric.GetLabel(), at, value)
		}
	}
}

func (m *memory) append(name string, pairs []*dto.LabelPair, at time.Time, value float64) {
	builder := labels.NewBuilder(labels.FromStrings(labels.MetricName, name, "instance", "drover-0"))
	for _, pair := range pairs {
		builder.Set(pair.GetName(), pair.GetValue())
	}
	metric := builder.Labels()
	if m.series == nil {
		m.series = map[uint64]*promql.Series{}
	}
	if m.series[metric.Hash()] == nil {
		m.series[metric.Hash()] = &promql.Series{Metric: metric}
	}
	series := m.series[metric.Hash()]
	series.Floats = append(series.Floats, promql.FPoint{T: at.UnixMilli(), F: value})
}

// Querier implements storage.Queryable.
func (m *memory) Querier(int64, int64) (storage.Querier, error) { return m, nil }

// Select implements storage.Querier.
func (m *memory) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []promql.Series
	for _, key := range slices.Sorted(maps.Keys(m.series)) {
		series := m.series[key]
		if !slices.ContainsFunc(matchers, func(matcher *labels.Matcher) bool { return !matcher.Matches(series.Metric.Get(matcher.Name)) }) {
			found = append(found, *series)
		}
	}
	return &seriesSet{found: found, at: -1}
}

// LabelValues implements storage.Querier. The engine does not need it.
func (m *memory) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// LabelNames implements storage.Querier. The engine does not need it.
func (m *memory) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// Close implements storage.Querier.
func (m *memory) Close() error { return nil }

type seriesSet struct {
	found []promql.Series
	at    int
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at < len(s.found) }
func (s *seriesSet) At() storage.Series                { return promql.NewStorageSeries(s.found[s.at]) }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// evaluator evaluates rules again and again, as Prometheus does: an alert fires when its expression has held, for the same labels,
// since as long as its `for` says.
type evaluator struct {
	engine *promql.Engine
	memory *memory
	rules  []rulefmt.Rule
	// since is when each alert began to hold, by its labels.
	since map[string]map[string]time.Time
	// fired are the alerts that have fired, and when first.
	fired map[string]time.Time
}

func newEvaluator(t *testing.T, rules []rulefmt.Rule) *evaluator {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
	t.Cleanup(func() { _ = engine.Close() })
	return &evaluator{engine: engine, memory: &memory{}, rules: rules, since: map[string]map[string]time.Time{}, fired: map[string]time.Time{}}
}

func (e *evaluator) evaluate(t *testing.T, at time.Time) {
	t.Helper()
	for _, rule := range e.rules {
		query, err := e.engine.NewInstantQuery(t.Context(), e.memory, nil, rule.Expr, at)
		check(t, err)
		result := query.Exec(t.Context())
		check(t, result.Err)
		vector, err := result.Vector()
		check(t, err)
		before, now := e.since[rule.Alert], map[string]time.Time{}
		for _, sample := range vector {
			key := sample.Metric.String()
			now[key] = at
			if began, held := before[key]; held {
				now[key] = began
			}
			if _, fired := e.fired[rule.Alert]; !fired && at.Sub(now[key]) >= time.Duration(rule.For) {
				e.fired[rule.Alert] = at
			}
		}
		e.since[rule.Alert] = now
		query.Close()
	}
}
