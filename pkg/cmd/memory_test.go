package cmd

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/sirupsen/logrus"
)

func TestLimitMemory_FollowsTheContainer(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	log := logrus.New()
	log.SetOutput(io.Discard)
	unlimited := func() (uint64, error) { return 0, memlimit.ErrNoLimit }
	unknown := func() (uint64, error) { return 0, errors.New("none") }
	for name, tc := range map[string]struct {
		limit       memlimit.Provider
		environment string
		want        int64
	}{
		"nine tenths of the limit":    {limit: memlimit.Limit(1000 << 20), want: 900 << 20},
		"no limit":                    {limit: unlimited, want: math.MaxInt64},
		"no control group":            {limit: unknown, want: math.MaxInt64},
		"the environment is stronger": {limit: memlimit.Limit(1000 << 20), environment: "1GiB", want: math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			t.Setenv("GOMEMLIMIT", tc.environment)
			if tc.environment == "" {
				_ = os.Unsetenv("GOMEMLIMIT") // it fails only for invalid names
			}
			limitMemory(log, tc.limit)
			if got := debug.SetMemoryLimit(-1); got != tc.want {
				t.Errorf("the limit is %d bytes, want %d", got, tc.want)
			}
		})
	}
}

// TestHeap_ReturnsMemoryWhenSettled: a busy server keeps its memory, and small amounts are not worth a collection.
func TestHeap_ReturnsMemoryWhenSettled(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		now  heap
		want bool
	}{
		"settled after growth":          {heap{live: 100, garbage: 60, free: 40, allocated: 1010}, true},
		"settled, and memory is free":   {heap{live: 100, free: 30, allocated: 1010}, true},
		"settled, and memory was freed": {heap{live: 100, garbage: 10, free: 10, allocated: 1010}, false},
		"busy":                          {heap{live: 100, garbage: 60, free: 40, allocated: 1060}, false},
		"at the limit of busy":          {heap{live: 100, garbage: 60, free: 40, allocated: 1050}, true},
		"at the limit of what is worth": {heap{live: 100, garbage: 15, free: 10, allocated: 1010}, false},
	} {
		if got := tc.now.returns(heap{allocated: 1000}); got != tc.want {
			t.Errorf("%s: returns memory: %t, want %t", name, got, tc.want)
		}
	}
}

// TestReturnMemory_OnceAfterGrowth: memory is returned in the first minute without growth, and then only when some has
// accumulated again.
func TestReturnMemory_OnceAfterGrowth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		now, collected := heap{live: 100, garbage: 50, free: 50}, 0
		go returnMemory(ctx, func() heap {
			mu.Lock()
			defer mu.Unlock()
			return now
		}, func() {
			mu.Lock()
			defer mu.Unlock()
			collected++
			now.garbage, now.free = 0, 0
		})
		for minute, step := range []struct {
			allocates uint64
			collected int
		}{{200, 0}, {200, 0}, {10, 1}, {10, 1}, {10, 1}, {10, 2}, {0, 2}} {
			synctest.Wait()
			mu.Lock()
			now.allocated += step.allocates
			now.garbage += min(step.allocates, 10)
			mu.Unlock()
			time.Sleep(lookAtHeap)
			synctest.Wait()
			mu.Lock()
			if collected != step.collected {
				t.Errorf("minute %d: memory was returned %d times, want %d", minute, collected, step.collected)
			}
			mu.Unlock()
		}
		cancel()
	})
}

func TestReadHeap_SeesGarbage(t *testing.T) {
	runtime.GC()
	before := readHeap()
	garbage := make([]byte, 8<<20)
	runtime.KeepAlive(garbage)
	after := readHeap()
	if before.live == 0 || after.allocated-before.allocated < 8<<20 {
		t.Errorf("%+v, and after an allocation of 8 MiB %+v", before, after)
	}
}
