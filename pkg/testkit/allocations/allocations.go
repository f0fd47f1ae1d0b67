// Package allocations measures the memory that a call allocates. Tests use it to bound what untrusted input costs.
package allocations

import (
	"runtime"
	"testing"

	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// Of runs f and returns the bytes that the program allocates meanwhile, freed bytes included. Other goroutines count
// too, so a caller that compares exactly must not run in parallel with other tests.
func Of(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// AtMost fails the test if f allocates more than limit bytes. It runs f up to three times, because the fuzzing engine
// and the garbage collector allocate in other goroutines. With the race detector, which allocates much itself, it only
// runs f. So the name of the test must match names.regexp of package crashpoints, and the test runs without it as well.
func AtMost(tb testing.TB, limit uint64, f func()) {
	tb.Helper()
	if crashpoints.Raced {
		f()
		return
	}
	least := Of(f)
	for range 2 {
		if least <= limit {
			return
		}
		least = min(least, Of(f))
	}
	if least > limit {
		tb.Errorf("the call allocates %d bytes, more than %d", least, limit)
	}
}
