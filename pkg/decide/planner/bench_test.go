package planner

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// BenchmarkDecide is one pass over a settled cluster of which nothing is remembered: every machine is rendered and compared.
func BenchmarkDecide(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("machines=%d", n), func(b *testing.B) { benchDecide(b, n, false) })
	}
}

// BenchmarkDecideAgain is the pass after a node has reported: what is remembered is compared.
func BenchmarkDecideAgain(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("machines=%d", n), func(b *testing.B) { benchDecide(b, n, true) })
	}
}

// sizes of clusters; scripts/bench knows the budget of each.
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

// processorTime is what this process has used so far. Unlike the clock it does not run while others have the processor.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
