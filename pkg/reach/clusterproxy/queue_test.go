package clusterproxy

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// visitors is a fair queue with the proxy's default limits, and what its visitors did.
type visitors struct {
	*testing.T
	*fairQueue
	leaves map[visitor][]func()
	// served are the callers in the order in which they got slots after waiting.
	served []string
}

func newVisitors(t *testing.T, slots, places int) *visitors {
	most := shares{DefaultMaxInFlightPerNamespace, DefaultMaxInFlightPerCluster, unlimited}
	return &visitors{T: t, leaves: map[visitor][]func(){},
		fairQueue: newFairQueue(slots, waitingNamespaces*places, most, shares{places, places, places}, func(int) {})}
}

// take enters as often as slots are free for a visitor, up to count, and returns the number.
func (v *visitors) take(who visitor, count int) int {
	v.Helper()
	for i := range count {
		ended, cancel := context.WithCancel(v.Context())
		cancel()
		leave, err := v.enter(ended, who, queueFor)
		if err != nil {
			return i
		}
		v.leaves[who] = append(v.leaves[who], leave)
	}
	return count
}

// leave returns a slot of a visitor.
func (v *visitors) leave(who visitor) {
	v.mu.Lock()
	leave := v.leaves[who][0]
	v.leaves[who] = v.leaves[who][1:]
	v.mu.Unlock()
	leave()
}

// wait enters in the background, within a bubble of synctest, and keeps its slot. The result is the error.
func (v *visitors) wait(ctx context.Context, who visitor, patience time.Duration) <-chan error {
	ended := make(chan error, 1)
	go func() {
		leave, err := v.enter(ctx, who, patience)
		if err == nil {
			v.mu.Lock()
			v.served, v.leaves[who] = append(v.served, who.caller), append(v.leaves[who], leave)
			v.mu.Unlock()
		}
		ended <- err
	}()
	synctest.Wait()
	return ended
}

func TestFairQueue_GreedyCallersLeaveSlots(t *testing.T) {
	t.Parallel()
	v := newVisitors(t, DefaultMaxInFlight, 400)
	for _, step := range []struct {
		name string
		who  visitor
		want int
	}{
		{"a caller alone", visitor{"greedy", "one", "jane"}, 50},
		{"another caller in the same cluster", visitor{"greedy", "one", "joe"}, 25},
		{"another cluster of the same namespace", visitor{"greedy", "two", "jane"}, 32},
		{"another namespace", visitor{"modest", "three", "mia"}, 37},
		{"a third namespace", visitor{"late", "four", "tom"}, 32},
		{"the first caller", visitor{"greedy", "one", "jane"}, 0},
	} {
		if got := v.take(step.who, 1000); got != step.want {
			t.Errorf("%s gets %d slots, want %d", step.name, got, step.want)
		}
	}
	for caller := range 1000 {
		v.take(visitor{"greedy", "cluster-" + strconv.Itoa(caller), "caller-" + strconv.Itoa(caller)}, 1)
	}
	if has := v.runs[party{1, visitor{namespace: "greedy"}}]; has > DefaultMaxInFlight/2 {
		t.Errorf("a namespace with many clusters and callers has %d slots", has)
	}
	if v.take(visitor{"last", "five", "ann"}, 1) != 1 {
		t.Error("a new namespace gets no slot")
	}
}

func TestFairQueue_OneSlotIsEnough(t *testing.T) {
	t.Parallel()
	v := newVisitors(t, 1, 400)
	one, two := visitor{"a", "a", "jane"}, visitor{"b", "b", "joe"}
	if v.take(one, 2) != 1 || v.take(two, 1) != 0 {
		t.Error("the only slot must be taken once")
	}
	v.leave(one)
	if v.take(two, 1) != 1 {
		t.Error("the free slot is lost")
	}
}

func TestFairQueue_NamespacesAndCallersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVisitors(t, 1, 400)
		running := visitor{"a", "one", "running"}
		v.take(running, 1)
		for _, who := range []visitor{
			{"a", "one", "jane"}, {"a", "one", "jane"}, {"a", "one", "jane"}, {"a", "one", "joe"}, {"b", "two", "mia"},
			{"b", "two", "mia"},
		} {
			v.wait(t.Context(), who, queueFor)
		}
		for range 6 {
			v.leave(running)
			synctest.Wait()
			last := v.served[len(v.served)-1]
			for who := range v.leaves {
				if who.caller == last {
					running = who
				}
			}
		}
		if want := []string{"jane", "mia", "joe", "mia", "jane", "jane"}; !slices.Equal(v.served, want) {
			t.Errorf("served are %q, want %q", v.served, want)
		}
		v.leave(running)
		v.isEmpty()
	})
}

func (v *visitors) isEmpty() {
	v.Helper()
	if len(v.runs)+len(v.waits)+len(v.turns)+len(v.lines)+len(v.queued) > 0 {
		v.Errorf("something is left: %v %v %v %v %v", v.runs, v.waits, v.turns, v.lines, v.queued)
	}
}

func TestFairQueue_WaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVisitors(t, 1, 4)
		running, jane := visitor{"a", "one", "running"}, visitor{"a", "one", "jane"}
		v.take(running, 1)
		ctx, cancel := context.WithCancel(t.Context())
		gone := v.wait(ctx, jane, queueFor)
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("a client that disconnects gets %v", err)
		}
		begun := time.Now()
		var no *refusal
		if err := <-v.wait(t.Context(), jane, queueFor); !errors.As(err, &no) || no.rejected != rejectedLate ||
			no.code != http.StatusTooManyRequests || time.Since(begun) != queueFor {
			t.Errorf("a request that waits too long gets %v after %s", err, time.Since(begun))
		}
		v.wait(t.Context(), jane, queueFor)
		if err := <-v.wait(t.Context(), jane, queueFor); !errors.As(err, &no) || no.rejected != rejectedFull {
			t.Errorf("a caller that fills its share of the queue gets %v", err)
		}
		joe := v.wait(t.Context(), visitor{"a", "one", "joe"}, queueFor)
		v.leave(running)
		synctest.Wait()
		v.leave(jane)
		if err := <-joe; err != nil {
			t.Errorf("another caller gets %v", err)
		}
		v.leave(visitor{"a", "one", "joe"})
		v.isEmpty()
	})
}

// has reports whether a visitor has a slot.
func (v *visitors) has(who visitor) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.leaves[who]) > 0
}

// isFair fails the test if too many requests run or wait, or if a waiting request may run.
func (v *visitors) isFair() {
	v.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	running, waiting, next := v.runs[party{}], v.waits[party{}], v.next()
	if running > v.slots || waiting > v.places || next != nil {
		v.Fatalf("%d run, %d wait, %v may run", running, waiting, next)
	}
}

// In any order of events, no slot stays free while a waiting request may have it, and nothing is left at the end.
func TestFairQueue_RandomVisitors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVisitors(t, 12, 20)
		random := rand.New(rand.NewPCG(1, 2))
		ctx, cancel := context.WithCancel(t.Context())
		for range 1000 {
			who := visitor{strconv.Itoa(random.IntN(3)), strconv.Itoa(random.IntN(2)), strconv.Itoa(random.IntN(3))}
			switch {
			case random.IntN(2) == 0:
				v.wait(ctx, who, time.Duration(1+random.IntN(10))*time.Second)
			case v.has(who):
				v.leave(who)
			default:
				time.Sleep(time.Second)
			}
			synctest.Wait()
			v.isFair()
		}
		cancel()
		synctest.Wait()
		for who := range v.leaves {
			for v.has(who) {
				v.leave(who)
			}
		}
		v.isEmpty()
	})
}
