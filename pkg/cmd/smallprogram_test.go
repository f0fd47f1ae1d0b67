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
func TestLimitResources(t *testing.T) {
	const processors, percent = 7, 77
	for name, tc := range map[string]struct {
		environ             []string
		processors, percent int
	}{
		"without variables":              {nil, smallProcessors, smallGCPercent},
		"variables with the same prefix": {[]string{"GOGCX=1", "GOMAXPROCS_MORE=2"}, smallProcessors, smallGCPercent},
		"GOMAXPROCS is set":              {[]string{"GOMAXPROCS=7"}, processors, smallGCPercent},
		"GOGC is set":                    {[]string{"GOGC=77"}, smallProcessors, percent},
		"both":                           {[]string{"GOGC=77", "GOMAXPROCS=7"}, processors, percent},
	} {
		t.Run(name, func(t *testing.T) {
			stayLarge(t, processors, percent)
			limitResources(tc.environ)
			if got := runtime.GOMAXPROCS(0); got != tc.processors {
				t.Errorf("GOMAXPROCS is %d, want %d", got, tc.processors)
			}
			if got := debug.SetGCPercent(percent); got != tc.percent {
				t.Errorf("GOGC is %d %%, want %d", got, tc.percent)
			}
		})
	}
}
