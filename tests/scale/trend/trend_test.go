package trend

import (
	"math/rand/v2"
	"testing"
)

// A figure that grows steadily is told from one that swings, one that grows until its caches are full, and one that grows by next to nothing.
func TestOf(t *testing.T) {
	tests := map[string]struct {
		value func(i int, noise float64) float64
		want  bool
	}{
		"flat":                      {func(int, float64) float64 { return 500 }, false},
		"noisy":                     {func(_ int, noise float64) float64 { return 500 + 200*noise }, false},
		"full after a while":        {func(i int, noise float64) float64 { return 500 + 20*noise + 10*float64(min(i, 80)) }, false},
		"smaller and smaller":       {func(i int, noise float64) float64 { return 5000 - 10*float64(i) + 100*noise }, false},
		"within the tolerance":      {func(i int, noise float64) float64 { return 5000 + float64(i) }, false},
		"one leak for each cluster": {func(i int, noise float64) float64 { return 500 + 2*float64(i) + 20*noise }, true},
		"a leak under a swing":      {func(i int, noise float64) float64 { return 500 + 4*float64(i) + 100*noise }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			s := Series{Floor: 20}
			for i := range 200 {
				s.Add(5*float64(i), test.value(i, 2*random.Float64()-1))
			}
			if got := Of(s); got.Growing != test.want {
				t.Errorf("growing %t: %+v", got.Growing, got)
			}
		})
	}
}
