package planner

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// BenchmarkDecide is one pass over a settled cluster without a memo: every machine is rendered and compared.
func BenchmarkDecide(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("machines=%d", n), func(b *testing.B) { benchDecide(b, n, false) })
	}
}

// BenchmarkDecideAgain is the pass after a node has reported: remembered plans are compared.
func BenchmarkDecideAgain(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("machines=%d", n), func(b *testing.B) { benchDecide(b, n, true) })
	}
}

// sizes of clusters. scripts/bench knows the budget of each.
var sizes = []int{10, 100, 1000}

func benchDecide(b *testing.B, machines int, remembers bool) {
	b.Helper()
	s := fleetOf(b, machines).snapshot(b)
	if !remembers {
		s.Memo = nil
	}
	if d := Decide(s); d.Wait != nil || len(d.Effects) > 0 {
		b.Fatalf("the cluster is not settled: %+v", d.Wait)
	}
	b.ReportAllocs()
	began := processorTime(b)
	for b.Loop() {
		Decide(s)
	}
	b.ReportMetric(float64(processorTime(b)-began)/float64(b.N), "cpu-ns/op")
}

// processorTime is the processor time of this process so far. Unlike the clock, it stops while others use the
// processor.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
