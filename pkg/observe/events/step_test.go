package events

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/testkit/build"
)

// created returns the Event of a new machine.
func created(cluster, machine string) Event {
	return MachineCreated(build.Cluster(cluster), build.Machine(cluster, machine, "w"))[0]
}

func TestBatch(t *testing.T) {
	many := func(count int) (names []string) {
		for i := range count {
			names = append(names, fmt.Sprintf("m%02d", i))
		}
		return names
	}
	for name, tc := range map[string]struct {
		machines []string
		want     string
	}{
		"one machine":                {[]string{"a"}, "Machine a is created"},
		"three machines":             {[]string{"c", "a", "b"}, "3 machines are created: a, b, c"},
		"the same machine twice":     {[]string{"a", "a"}, "Machine a is created"},
		"as many as a message names": {many(5), "5 machines are created: m00, m01, m02, m03, m04"},
		"a large pool":               {many(17), "17 machines are created: m00, m01, m02, m03, m04 and 12 more"},
	} {
		t.Run(name, func(t *testing.T) {
			var batch Batch
			for _, machine := range tc.machines {
				batch.Add(created("demo", machine))
			}
			expect(t, []Event{batch.Event()}, "Cluster demo Normal MachineCreated "+tc.want)
		})
	}
}

// Long names fit in one Event.
func TestBatch_EdgeLongNames(t *testing.T) {
	var batch Batch
	for i := range 9 {
		batch.Add(created("demo", strings.Repeat("a", 252)+strconv.Itoa(i)))
	}
	if got := batch.Event().Message; len(got) > MaxMessage || !strings.HasPrefix(got, "9 machines are created: aaa") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// Steps of another kind, cause or cluster have their own Event.
func TestStep_KindTellsApart(t *testing.T) {
	other := build.Cluster("other")
	other.UID = "another"
	one, two := build.Machine("demo", "a", "w"), build.Machine("demo", "b", "w")
	kinds := map[string]bool{}
	for _, event := range []Event{
		MachineCreated(build.Cluster("demo"), one)[0], MachineCreated(build.Cluster("demo"), two)[0],
		MachineRemoved(build.Cluster("demo"), one)[0], MachineCreated(other, one)[0],
	} {
		kinds[event.Step.Kind] = true
	}
	if diff := cmp.Diff(3, len(kinds)); diff != "" {
		t.Errorf("kinds of steps (-want +got):\n%s\n%v", diff, kinds)
	}
}
