package cmd

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// What is set in the environment is left as it is.
func TestBeSmall(t *testing.T) {
	const processors, percent = 7, 77
	for name, tc := range map[string]struct {
		environ             []string
		processors, percent int
	}{
		"by itself":                     {nil, agentProcessors, agentGCPercent},
		"variables with such beginning": {[]string{"GOGCX=1", "GOMAXPROCS_MORE=2"}, agentProcessors, agentGCPercent},
		"processors are given":          {[]string{"GOMAXPROCS=7"}, processors, agentGCPercent},
		"the collection is given":       {[]string{"GOGC=77"}, agentProcessors, percent},
		"both":                          {[]string{"GOGC=77", "GOMAXPROCS=7"}, processors, percent},
	} {
		t.Run(name, func(t *testing.T) {
			before, collected := runtime.GOMAXPROCS(processors), debug.SetGCPercent(percent)
			defer runtime.GOMAXPROCS(before)
			defer debug.SetGCPercent(collected)
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
