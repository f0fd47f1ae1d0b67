package clusterproxy

import "sync"

// limiter counts requests that go on, so that neither one user nor all together take more than there is. They are counted for each cluster apart where the
// cluster is named, and otherwise for all clusters together. Negative limits are none.
type limiter struct {
	all, each int

	mu    sync.Mutex
	total map[string]int
	of    map[visitor]int
}

// visitor is who asks a cluster.
type visitor struct{ cluster, caller string }

func newLimiter(all, each int) *limiter {
	return &limiter{all: all, each: each, total: map[string]int{}, of: map[visitor]int{}}
}

// enter counts a request in. leave must be called at its end, unless the request was refused.
func (l *limiter) enter(who visitor) (leave func(), no *refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= 0 && l.total[who.cluster] >= l.all || l.each >= 0 && l.of[who] >= l.each {
		return nil, tooMany()
	}
	l.total[who.cluster]++
	l.of[who]++
	return sync.OnceFunc(func() { l.exit(who) }), nil
}

func (l *limiter) exit(who visitor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total[who.cluster]--; l.total[who.cluster] == 0 {
		delete(l.total, who.cluster)
	}
	if l.of[who]--; l.of[who] == 0 {
		delete(l.of, who)
	}
}

// enter counts a request in among those like it, which has to be allowed yet.
func (e *exchange) enter() (leave func(), no *refusal) {
	if e.long {
		return e.proxy.longLimiter.enter(visitor{caller: e.caller.Name})
	}
	return e.proxy.limiter.enter(visitor{caller: e.caller.Name})
}

// stay counts a request in that is allowed, among those to its cluster. One that goes on for as long as it likes takes a stream to it, of which there are so
// many: users leave some for the machine identity, which Cluster API's controllers have where they are not in Drover. Who is not allowed takes nothing there.
func (e *exchange) stay() (leave func(), no *refusal) {
	if !e.long || e.caller.Machine {
		return func() {}, nil
	}
	return e.proxy.longLimiter.enter(visitor{cluster: e.at.Cluster, caller: e.caller.Name})
}
