package charts

import (
	"context"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// interval is how often Prometheus scrapes metrics and evaluates rules here.
const interval = time.Minute

// ruleFile returns the chart's PrometheusRule in the operator's format for Prometheus.
func ruleFile(t *testing.T) []byte {
	t.Helper()
	objects, err := Objects(droverChart, Release{}, valuesOf(t, "everything"))
	check(t, err)
	at := slices.IndexFunc(objects, func(object *unstructured.Unstructured) bool {
		return object.GetKind() == "PrometheusRule"
	})
	if at < 0 {
		t.Fatal("the chart has no rules")
	}
	text, err := yaml.Marshal(objects[at].Object["spec"])
	check(t, err)
	return text
}

// rulesOf returns the chart's alert rules as Prometheus reads them, with expressions and templates checked.
func rulesOf(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.Parse(ruleFile(t), false, model.LegacyValidation)
	check(t, errors.Join(errs...))
	var out []rulefmt.Rule
	for _, group := range groups.Groups {
		out = append(out, group.Rules...)
	}
	return out
}

// server is a Prometheus with its own storage, engine and rules, but without a clock and a network.
type server struct {
	*testing.T
	storage storage.Storage
	groups  []*rules.Group
	// told are the series of the last scrape.
	told map[uint64]labels.Labels
	// instance is the scraped replica.
	instance string
	// fired are the sent alerts and their first times.
	fired map[string]time.Time
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{T: t, storage: teststorage.New(t), fired: map[string]time.Time{}, instance: "drover-0"}
	t.Cleanup(func() { check(t, s.storage.Close()) })
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
	t.Cleanup(func() { check(t, engine.Close()) })
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(engine, s.storage), Appendable: s.storage, Queryable: s.storage,
		NotifyFunc: s.notify, Context: t.Context(),
		Logger: promslog.NewNopLogger(), NameValidationScheme: model.LegacyValidation,
	})
	file := filepath.Join(t.TempDir(), "rules.yaml")
	check(t, os.WriteFile(file, ruleFile(t), 0o600))
	groups, errs := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, file)
	check(t, errors.Join(errs...))
	s.groups = slices.Collect(maps.Values(groups))
	return s
}

// notify receives every alert that fires or has ended. A real Prometheus sends it to the Alertmanager.
func (s *server) notify(_ context.Context, _ string, alerts ...*rules.Alert) {
	for _, alert := range alerts {
		name := alert.Labels.Get(labels.AlertName)
		if _, known := s.fired[name]; !known && alert.State == rules.StateFiring {
			s.fired[name] = alert.FiredAt
		}
		alert.Annotations.Range(func(annotation labels.Label) {
			if strings.Contains(annotation.Value, "<error expanding template") ||
				strings.Contains(annotation.Value, "<no value>") {
				s.Errorf("%s contains %q", name, annotation.Value)
			}
		})
	}
}

// scrape reads a registry. A series that is gone ends at once, as in Prometheus.
func (s *server) scrape(registry *prometheus.Registry, at time.Time) {
	s.Helper()
	families, err := registry.Gather()
	check(s.T, err)
	appender, told := s.storage.Appender(s.Context()), map[uint64]labels.Labels{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			sample := metric.GetGauge().GetValue()
			switch family.GetType() {
			case dto.MetricType_COUNTER:
				sample = metric.GetCounter().GetValue()
			case dto.MetricType_HISTOGRAM: // the rules use only these parts
				name, sample = name+"_count", float64(metric.GetHistogram().GetSampleCount())
			default:
			}
			series := s.seriesOf(name, metric.GetLabel())
			told[series.Hash()] = series
			_, err := appender.Append(0, series, at.UnixMilli(), sample)
			check(s.T, err)
		}
	}
	for key, series := range s.told {
		if _, still := told[key]; !still {
			_, err := appender.Append(0, series, at.UnixMilli(), math.Float64frombits(value.StaleNaN))
			check(s.T, err)
		}
	}
	check(s.T, appender.Commit())
	s.told = told
}

func (s *server) seriesOf(name string, pairs []*dto.LabelPair) labels.Labels {
	builder := labels.NewBuilder(labels.FromStrings(labels.MetricName, name, "instance", s.instance))
	for _, pair := range pairs {
		builder.Set(pair.GetName(), pair.GetValue())
	}
	return builder.Labels()
}

// firing returns the alerts that fire now, one for each set of labels.
func (s *server) firing() []string {
	var out []string
	for _, group := range s.groups {
		for _, rule := range group.AlertingRules() {
			for _, alert := range rule.ActiveAlerts() {
				if alert.State == rules.StateFiring {
					out = append(out, alert.Labels.Get(labels.AlertName))
				}
			}
		}
	}
	return out
}

// evaluate evaluates all rules once.
func (s *server) evaluate(at time.Time) {
	s.Helper()
	for _, group := range s.groups {
		group.Eval(s.Context(), at)
		for _, rule := range group.Rules() {
			if err := rule.LastError(); err != nil {
				s.Fatalf("%s: %v", rule.Name(), err)
			}
		}
	}
}
