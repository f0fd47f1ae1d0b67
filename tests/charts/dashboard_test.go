package charts

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// panel is the checked part of a dashboard's panel.
type panel struct {
	ID         int    `json:"id"`
	Type       string `json:"type"`
	Title      string `json:"title"`
	Datasource struct {
		UID string `json:"uid"`
	} `json:"datasource"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
}

// TestDashboard_UsesExistingMetrics: the ConfigMap has a dashboard. Prometheus can parse all its expressions, and
// Drover has all their metrics. The reader chooses the Prometheus.
func TestDashboard_UsesExistingMetrics(t *testing.T) {
	objects, err := Objects(droverChart, Release{}, valuesOf(t, "everything"))
	check(t, err)
	seen := map[int]bool{}
	for _, object := range objects {
		text, _, err := unstructured.NestedString(object.Object, "data", "drover.json")
		check(t, err)
		if object.GetKind() != "ConfigMap" || text == "" {
			continue
		}
		var dashboard struct {
			Panels []panel `json:"panels"`
		}
		check(t, json.Unmarshal([]byte(text), &dashboard))
		for _, p := range dashboard.Panels {
			if seen[p.ID] {
				t.Errorf("panel %s: two panels have the number %d", p.Title, p.ID)
			}
			seen[p.ID] = true
			if p.Type != "row" && (len(p.Targets) == 0 || p.Datasource.UID != "${datasource}") {
				t.Errorf("panel %s has no query", p.Title)
			}
			for _, target := range p.Targets {
				expr := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h").Replace(target.Expr)
				if _, err := parser.ParseExpr(expr); err != nil {
					t.Errorf("panel %s: %v", p.Title, err)
				}
				known(t, "panel "+p.Title, expr)
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("found %d panels", len(seen))
	}
}
