package planner

import (
	"flag"
	"os"
	"testing"

	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// worldsVariable sets how many random worlds each model looks at.
const worldsVariable = "DROVER_TEST_WORLDS"

// TestMain asks for few random worlds, so that the tests can be run often, and for fewer with the race detector: decisions run in one
// goroutine, and the same tests run without it. The flag -rapid.checks goes before all of this.
func TestMain(m *testing.M) {
	worlds := "50"
	if crashpoints.Raced {
		worlds = "15"
	}
	if set := os.Getenv(worldsVariable); set != "" {
		worlds = set
	}
	if err := flag.Set("rapid.checks", worlds); err != nil {
		panic(err)
	}
	m.Run()
}
