package clusterproxy

import (
	"strings"
	"sync"
	"time"
)

// Slots that no administrator needs to change.
const (
	// maxChecks is the number of requests whose permissions are checked at the same time. A further number waits.
	maxChecks, maxWaitingChecks = 256, 1024
	// waitingNamespaces is how many times as many requests wait in all namespaces as in one.
	waitingNamespaces = 4
)

// limiter limits concurrent long-running requests.
type limiter struct {
	most shares

	mu   sync.Mutex
	held counts
}

func newLimiter(most shares) *limiter { return &limiter{most: most, held: counts{}} }

// enter counts a request. leave must be called at its end, unless the request was refused.
func (l *limiter) enter(who visitor) (leave func(), no *refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.held.below(who, l.most) {
		return nil, tooMany(rejectedLong)
	}
	l.held.add(who, 1)
	return sync.OnceFunc(func() { l.exit(who) }), nil
}

func (l *limiter) exit(who visitor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held.add(who, -1)
}

// newQueue returns the queue of authorized requests.
func (p *Proxy) newQueue() *fairQueue {
	o := p.options
	waiting := atMost(o.MaxWaitingPerNamespace)
	return newFairQueue(atMost(o.MaxInFlight), min(unlimited, waitingNamespaces*waiting),
		shares{atMost(o.MaxInFlightPerNamespace), atMost(o.MaxInFlightPerCluster), atMost(o.MaxInFlightPerCaller)},
		shares{waiting, waiting, waiting}, p.metrics.Waiting)
}

// newChecks returns the queue of requests whose permissions are checked. They take no slots of the tenant whose cluster
// they name. Each check may need an answer of the management cluster.
func newChecks() *fairQueue {
	all := shares{unlimited, unlimited, unlimited}
	return newFairQueue(maxChecks, maxWaitingChecks, all, all, func(int) {})
}

// enterChecks waits for a slot to check the permissions of the caller.
func (e *exchange) enterChecks() (leave func(), err error) {
	who := visitor{namespace: tenantOf(e.caller.Name), caller: e.caller.Name}
	return e.proxy.checks.enter(e.r.Context(), who, e.patience())
}

// enter counts an authorized request. A long-running request occupies a stream of the tunnel, and streams are limited.
// Users leave some for the machine identity, which Cluster API's controllers use when they run outside Drover. Other
// requests wait for a slot.
func (e *exchange) enter() (leave func(), err error) {
	namespace, _, _ := e.proxy.options.Lookup(e.at.Cluster)
	who := visitor{namespace, e.at.Cluster, e.caller.Name}
	switch {
	case !e.long:
		return e.proxy.queue.enter(e.r.Context(), who, e.patience())
	case e.caller.Machine:
		return func() {}, nil
	}
	leave, no := e.proxy.longLimiter.enter(who)
	if no != nil {
		return nil, no
	}
	return leave, nil
}

// patience is how long the request may wait for a slot. Clients of Kubernetes tell how long they wait for an answer.
func (e *exchange) patience() time.Duration {
	patience := min(queueFor, e.proxy.options.RequestTimeout)
	if !strings.Contains(e.r.URL.RawQuery, "timeout") {
		return patience
	}
	asked, err := time.ParseDuration(e.r.URL.Query().Get("timeout"))
	if err == nil && asked > 0 {
		patience = min(patience, asked)
	}
	return patience
}
