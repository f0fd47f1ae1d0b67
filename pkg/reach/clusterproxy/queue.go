package clusterproxy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// queueFor is the longest time that a request waits for a slot.
const queueFor = 10 * time.Second

// fairQueue gives slots to requests. A request that finds no slot waits. Namespaces take turns, and so do the callers
// of a namespace. k8s.io/apiserver has a similar queue set. It shares all slots among those that wait, and so keeps
// none free for a tenant that comes later. It also imports the client of etcd.
type fairQueue struct {
	// slots is the number of requests that run. places is the number of requests that wait.
	slots, places    int
	running, waiting shares
	// changed is called with the number of waiting requests, while it cannot change.
	changed func(waiting int)

	mu     sync.Mutex
	runs   counts
	waits  counts
	turns  []string            // namespaces with waiting requests, the next one first
	lines  map[string][]string // their callers with waiting requests, the next one first
	queued map[line][]*waiter  // in the order of their arrival
}

// line is a queue of one caller.
type line struct{ namespace, caller string }

// waiter is a waiting request.
type waiter struct {
	who visitor
	// served is closed when the request has its slot.
	served chan struct{}
}

func (w *waiter) line() line { return line{w.who.namespace, w.who.caller} }

func newFairQueue(slots, places int, running, waiting shares, changed func(int)) *fairQueue {
	return &fairQueue{
		slots: slots, places: places, running: running, waiting: waiting, changed: changed,
		runs: counts{}, waits: counts{}, lines: map[string][]string{}, queued: map[line][]*waiter{},
	}
}

// enter waits for a slot, at most for patience and until ctx ends. leave returns the slot. The error is a refusal or
// the cause of ctx's end.
func (q *fairQueue) enter(ctx context.Context, who visitor, patience time.Duration) (leave func(), err error) {
	w, no := q.join(who)
	if no != nil {
		return nil, no
	}
	leave = sync.OnceFunc(func() { q.exit(who) })
	if w == nil {
		return leave, nil
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-w.served:
		return leave, nil
	case <-late.C:
		if q.abandon(w) {
			return nil, tooMany(rejectedLate)
		}
		return leave, nil // served at the same time
	case <-ctx.Done():
		if !q.abandon(w) {
			leave()
		}
		return nil, fmt.Errorf("wait for other requests: %w", context.Cause(ctx))
	}
}

// join takes a slot and returns nil, or joins the queue.
func (q *fairQueue) join(who visitor) (*waiter, *refusal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	// Requests that already wait cannot have this slot, or they would have it.
	if q.runs.leavesRoom(who, q.slots, q.running) {
		q.runs.add(who, 1)
		return nil, nil
	}
	if !q.waits.leavesRoom(who, q.places, q.waiting) {
		return nil, tooMany(rejectedFull)
	}
	w := &waiter{who: who, served: make(chan struct{})}
	if len(q.lines[who.namespace]) == 0 {
		q.turns = append(q.turns, who.namespace)
	}
	if len(q.queued[w.line()]) == 0 {
		q.lines[who.namespace] = append(q.lines[who.namespace], who.caller)
	}
	q.queued[w.line()] = append(q.queued[w.line()], w)
	q.count(who, 1)
	return w, nil
}

func (q *fairQueue) count(who visitor, change int) {
	q.waits.add(who, change)
	q.changed(q.waits[party{}])
}

// exit returns a slot, and gives free slots to waiting requests.
func (q *fairQueue) exit(who visitor) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.runs.add(who, -1)
	for next := q.next(); next != nil; next = q.next() {
		q.remove(next)
		q.pass(next.line())
		q.runs.add(next.who, 1)
		close(next.served)
	}
}

// next is the first waiting request in turn that may have a slot, or nil.
func (q *fairQueue) next() *waiter {
	for _, namespace := range q.turns {
		for _, caller := range q.lines[namespace] {
			for _, w := range q.queued[line{namespace, caller}] {
				if q.runs.leavesRoom(w.who, q.slots, q.running) {
					return w
				}
			}
		}
	}
	return nil
}

// pass ends the turn of a namespace and of a caller, if they have more waiting requests.
func (q *fairQueue) pass(l line) {
	q.turns = toEnd(q.turns, l.namespace)
	if callers := q.lines[l.namespace]; len(callers) > 0 {
		q.lines[l.namespace] = toEnd(callers, l.caller)
	}
}

func toEnd(all []string, one string) []string {
	i := slices.Index(all, one)
	if i < 0 {
		return all
	}
	return append(slices.Delete(all, i, i+1), one)
}

// abandon removes a waiting request. It returns false if the request has a slot.
func (q *fairQueue) abandon(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-w.served:
		return false
	default:
	}
	q.remove(w)
	return true
}

// remove takes a request out of the queue.
func (q *fairQueue) remove(w *waiter) {
	l := w.line()
	q.queued[l] = slices.DeleteFunc(q.queued[l], func(each *waiter) bool { return each == w })
	q.count(w.who, -1)
	if len(q.queued[l]) > 0 {
		return
	}
	delete(q.queued, l)
	q.lines[l.namespace] = slices.DeleteFunc(q.lines[l.namespace], func(each string) bool { return each == l.caller })
	if len(q.lines[l.namespace]) == 0 {
		delete(q.lines, l.namespace)
		q.turns = slices.DeleteFunc(q.turns, func(each string) bool { return each == l.namespace })
	}
}
