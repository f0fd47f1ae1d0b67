package cmd

import (
	"context"
	"math"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/util/wait"
)

// memoryRatio is the part of the container's memory that the garbage collector may fill. The rest is for memory that it
// does not count, such as that of the kernel.
const memoryRatio = 0.9

// limitMemory makes the garbage collector work harder near the memory limit of the container or service, which
// otherwise ends the program first. GOMEMLIMIT in the environment has priority. Without a limit, nothing changes.
func limitMemory(log logrus.FieldLogger, limit memlimit.Provider) {
	got, err := memlimit.Set(memlimit.WithRatio(memoryRatio), memlimit.WithProvider(limit))
	switch {
	case err != nil:
		log.WithError(err).Debug("The memory limit is unknown")
	case got < math.MaxInt64:
		log.WithField("bytes", got).Debug("The garbage collector knows the memory limit")
	}
}

// lookAtHeap is how often the server looks whether it returns memory.
const lookAtHeap = time.Minute

// heap is a look at the heap, in bytes.
type heap struct {
	// live is what the last collection has left, garbage what was allocated since then. free is memory of the process
	// without objects.
	live, garbage, free uint64
	// allocated is the sum of all allocations of the process.
	allocated uint64
}

// returns reports whether to collect garbage and return memory to the system. Go lets the heap grow to twice its live
// size, and keeps that memory. A busy server needs it, because collecting costs processor time. A fleet that is settled
// needs only the live part. A quarter of it accumulates more slowly than Go collects garbage anyway, every two minutes.
func (h heap) returns(before heap) bool {
	busy := h.allocated-before.allocated > h.live/2
	return !busy && h.garbage+h.free > h.live/4
}

// returnMemory returns memory that a settled server does not need, until the context ends.
func returnMemory(ctx context.Context, look func() heap, collect func()) {
	before := look()
	_ = wait.PollUntilContextCancel(ctx, lookAtHeap, false, func(context.Context) (bool, error) {
		now := look()
		if now.returns(before) {
			collect()
			now = look()
		}
		before = now
		return false, nil
	})
}

// readHeap looks at the heap of this process.
func readHeap() heap {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	live, objects := samples[0].Value.Uint64(), samples[1].Value.Uint64()
	return heap{live: live, garbage: max(objects, live) - live, free: samples[2].Value.Uint64(),
		allocated: samples[3].Value.Uint64()}
}
