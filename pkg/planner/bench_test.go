package planner

import (
	"fmt"
	"testing"
)

// BenchmarkDecide is one pass over a settled cluster: every machine is rendered and compared.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("machines=%d", n), func(b *testing.B) {
			w := newWorld(rke2Version)
			for i := range 3 {
				w.add(fmt.Sprintf("s%d", i), "etcd,control-plane")
			}
			for i := 3; i < n; i++ {
				w.add(fmt.Sprintf("w%04d", i), "worker")
			}
			for range 30 {
				w.apply(Decide(w.snapshot(b)))
				for _, h := range w.machines {
					h.applyPlan()
					h.probes(true)
					h.joinCluster(rke2Version)
				}
				w.connected = true
			}
			s := w.snapshot(b)
			if d := Decide(s); d.Wait != nil || len(d.Effects) > 0 {
				b.Fatalf("the cluster is not settled: %+v", d.Wait)
			}
			b.ReportAllocs()
			for b.Loop() {
				Decide(s)
			}
		})
	}
}
