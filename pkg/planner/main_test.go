package planner

import (
	"flag"
	"testing"

	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// TestMain asks for fewer random worlds with the race detector: decisions run in one goroutine, and the same tests run without it.
func TestMain(m *testing.M) {
	if crashpoints.Raced {
		if err := flag.Set("rapid.checks", "15"); err != nil {
			panic(err)
		}
	}
	m.Run()
}
