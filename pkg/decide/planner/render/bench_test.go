package render_test

import (
	"testing"

	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// BenchmarkPlan measures one machine's plan, with little and with much configuration.
func BenchmarkPlan(b *testing.B) {
	for _, name := range []string{"minimal", "registries-s3", "configured"} {
		m := loadManifest(b, name)
		for _, place := range []string{"server", "worker"} {
			in := m.input(distro.RKE2, positions[place])
			b.Run(name+"/"+place, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, _, err := render.Plan(in); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
