package cmd

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// stayLarge sets GOMAXPROCS and GOGC, and restores them at the end of the test.
func stayLarge(t *testing.T, processors, percent int) {
	t.Helper()
	before, collected := runtime.GOMAXPROCS(processors), debug.SetGCPercent(percent)
	t.Cleanup(func() {
		runtime.GOMAXPROCS(before)
		debug.SetGCPercent(collected)
	})
}

// Settings in the environment remain unchanged.
func TestBeSmall(t *testing.T) {
	const processors, percent = 7, 77
	for name, tc := range map[string]struct {
		environ             []string
		processors, percent int
	}{
		"by itself":                     {nil, smallProcessors, smallGCPercent},
		"variables with such beginning": {[]string{"GOGCX=1", "GOMAXPROCS_MORE=2"}, smallProcessors, smallGCPercent},
		"processors are given":          {[]string{"GOMAXPROCS=7"}, processors, smallGCPercent},
		"the collection is given":       {[]string{"GOGC=77"}, smallProcessors, percent},
		"both":                          {[]string{"GOGC=77", "GOMAXPROCS=7"}, processors, percent},
	} {
		t.Run(name, func(t *testing.T) {
			stayLarge(t, processors, percent)
			beSmall(tc.environ)
			if got := runtime.GOMAXPROCS(0); got != tc.processors {
				t.Errorf("it runs on %d processors, want %d", got, tc.processors)
			}
			if got := debug.SetGCPercent(percent); got != tc.percent {
				t.Errorf("it collects at %d %%, want %d", got, tc.percent)
			}
		})
	}
}
