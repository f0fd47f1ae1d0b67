package clusterproxy

import "sync"

// limiter limits concurrent requests of one user and of all users. Where the cluster is given, each cluster has its own
// count. Negative limits mean unlimited.
type limiter struct {
	all, each int

	mu    sync.Mutex
	total map[string]int
	of    map[visitor]int
}

// visitor is a caller and a cluster.
type visitor struct{ cluster, caller string }

func newLimiter(all, each int) *limiter {
	return &limiter{all: all, each: each, total: map[string]int{}, of: map[visitor]int{}}
}

// enter counts a request. leave must be called at its end, unless the request was refused.
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

// enter counts a request that is not yet authorized, among long-running or other requests.
func (e *exchange) enter() (leave func(), no *refusal) {
	if e.long {
		return e.proxy.longLimiter.enter(visitor{caller: e.caller.Name})
	}
	return e.proxy.limiter.enter(visitor{caller: e.caller.Name})
}

// stay counts an authorized long-running request to a cluster. Such a request occupies a stream of the tunnel, and
// streams are limited. Users leave some for the machine identity, which Cluster API's controllers use when they run
// outside Drover. Unauthorized requests take no slot here.
func (e *exchange) stay() (leave func(), no *refusal) {
	if !e.long || e.caller.Machine {
		return func() {}, nil
	}
	return e.proxy.longLimiter.enter(visitor{cluster: e.at.Cluster, caller: e.caller.Name})
}
