package trend

import (
	"math/rand/v2"
	"testing"
)

// Of detects a growing figure with a dozen samples. A fluctuating figure, a figure that grows until its caches are
// full, and a negligible growth do not count as growing, whatever the noise.
func TestOf(t *testing.T) {
	tests := map[string]struct {
		value func(lap int, noise float64) float64
		want  bool
	}{
		"flat":  {func(int, float64) float64 { return 500 }, false},
		"noisy": {func(_ int, noise float64) float64 { return 500 + 5*noise }, false},
		"full after a while": {func(lap int, noise float64) float64 {
			return 500 + 5*noise + 50*float64(min(lap, 4))
		}, false},
		"smaller and smaller": {func(lap int, noise float64) float64 {
			return 5000 - 10*float64(lap) + 5*noise
		}, false},
		"within the limit": {func(lap int, noise float64) float64 {
			return 5000 + float64(lap) + noise
		}, false},
		"one outlier": {func(lap int, _ float64) float64 {
			return map[bool]float64{true: 5000, false: 500}[lap == 11]
		}, false},
		"one leak for every tenth cluster": {func(lap int, noise float64) float64 {
			return 500 + 7*float64(lap) + 5*noise
		}, true},
		"a leak under a swing": {func(lap int, noise float64) float64 { return 500 + 20*float64(lap) + 20*noise },
			true},
		"a permanent jump": {func(lap int, noise float64) float64 {
			return map[bool]float64{true: 900, false: 500}[lap >= 10] + 5*noise
		}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			const runs = 200
			wrong := 0
			for run := range runs {
				random := rand.New(rand.NewPCG(1, uint64(run)))
				s := Series{Allowed: 20}
				for lap := range 12 {
					s.Add(150*float64(lap), test.value(lap, 2*random.Float64()-1))
				}
				if got := Of(s); got.Growing != test.want {
					wrong++
				}
			}
			if wrong > runs/50 {
				t.Errorf("%d of %d runs have the wrong verdict", wrong, runs)
			}
		})
	}
}
