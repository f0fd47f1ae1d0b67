package cmd

import (
	"io"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/drover-io/drover/pkg/kube/capi"
)

// readiness is what the health endpoints ask the server.
type readiness interface {
	Ready() error
}

// healthHandler serves liveness, readiness and metrics, separate from the endpoints for machines.
func healthHandler(s readiness) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(merged{prometheus.DefaultGatherer, capi.Metrics()},
		promhttp.HandlerOpts{}))
	return mux
}

// profilerHandler serves profiles of this process at the paths that go tool pprof expects.
func profilerHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	return mux
}

// merged joins registries. If several registries have a metric, for example of the process, the first one counts.
type merged []prometheus.Gatherer

// Gather implements prometheus.Gatherer.
func (m merged) Gather() ([]*dto.MetricFamily, error) {
	var all []*dto.MetricFamily
	seen := map[string]bool{}
	for _, registry := range m {
		families, err := registry.Gather()
		if err != nil {
			return nil, err
		}
		for _, family := range families {
			if !seen[family.GetName()] {
				seen[family.GetName()] = true
				all = append(all, family)
			}
		}
	}
	slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all, nil
}
