package server

import (
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
		var told []string
		s := newSteps(func(e events.Event) { told = append(told, e.Message) })
		create := func(names ...string) {
			for _, name := range names {
				s.add(events.MachineCreated(build.Cluster(demo), build.Machine(demo, name, "w"))[0])
			}
		}
		expect := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
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
		create("d")
		time.Sleep(20 * time.Second)
		expect("another step has its own window", "Machine old was removed")
		s.end()
		expect("at the end", "Machine d is created")
		create("e")
		time.Sleep(time.Hour)
		expect("after the end")
	})
}
