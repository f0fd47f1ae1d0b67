package server

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/observe/events"
	"github.com/drover-io/drover/pkg/testkit/build"
)

// Machines that take a step within half a minute share one Event. The end of the term records what is left.
func TestSteps_CombineMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // timers record in other goroutines
		var told []string
		s := newSteps(func(e events.Event) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e.Message)
		})
		create := func(names ...string) {
			for _, name := range names {
				s.add(events.MachineCreated(build.Cluster(demo), build.Machine(demo, name, "w"))[0])
			}
		}
		expect := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff(want, told); diff != "" {
				t.Errorf("%s: messages (-want +got):\n%s", when, diff)
			}
			told = nil
		}
		create("a")
		time.Sleep(20 * time.Second)
		create("b", "c")
		s.add(events.MachineRemoved(build.Cluster(demo), build.Machine(demo, "old", "w"))[0])
		expect("within the window")
		time.Sleep(11 * time.Second)
		expect("after the window", "3 machines are created: a, b, c")
		time.Sleep(20 * time.Second)
		expect("another step has its own window", "Machine old was removed")
		time.Sleep(time.Hour)
		expect("nothing is left")
		s.mu.Lock()
		if len(s.open) > 0 {
			t.Errorf("%d windows are open although nothing happens", len(s.open))
		}
		s.mu.Unlock()
		create("d")
		time.Sleep(20 * time.Second)
		s.end()
		expect("at the end", "Machine d is created")
		create("e")
		time.Sleep(time.Hour)
		expect("after the end")
	})
}

// A rollout of many machines has few Events, and none of its machines is lost.
func TestSteps_WindowsOfALongRollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		told, machines := 0, 0
		s := newSteps(func(e events.Event) {
			mu.Lock()
			defer mu.Unlock()
			told++
			count := 1 // the message names the machine
			_, _ = fmt.Sscanf(e.Message, "%d machines", &count)
			machines += count
		})
		const all = 120
		for i := range all {
			s.add(events.MachineCreated(build.Cluster(demo), build.Machine(demo, fmt.Sprint("m", i), "w"))[0])
			time.Sleep(time.Minute)
		}
		time.Sleep(lastWindow)
		synctest.Wait()
		mu.Lock()
		// 5 in the first quarter of an hour, then one in 5 minutes.
		if told > 30 || machines != all {
			t.Errorf("%d events for %d of %d machines in two hours", told, machines, all)
		}
		mu.Unlock()
		s.end()
	})
}
