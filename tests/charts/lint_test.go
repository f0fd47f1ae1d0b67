package charts

import (
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
)

// TestLint runs `helm lint`. A missing icon is only an information.
func TestLint(t *testing.T) {
	for name, tc := range map[string]struct {
		chart  string
		values map[string]any
	}{
		"drover, defaults":               {chart: droverChart},
		"drover, everything":             {chart: droverChart, values: valuesOf(t, "everything")},
		"drover, cert-manager":           {chart: droverChart, values: valuesOf(t, "cert-manager")},
		"drover-crd, defaults":           {chart: crdChart},
		"drover-crd, without clusterAPI": {chart: crdChart, values: map[string]any{"clusterAPI": false}},
	} {
		t.Run(name, func(t *testing.T) {
			linter := lint.RunAll(tc.chart, tc.values, SystemNamespace)
			for _, message := range linter.Messages {
				if message.Severity > support.InfoSev {
					t.Error(message.Error())
				}
			}
			if len(linter.Messages) == 0 {
				t.Error("the linter must report the missing icon")
			}
		})
	}
}
