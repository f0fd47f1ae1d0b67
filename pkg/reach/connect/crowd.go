package connect

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// Default limits of the endpoints, for each replica.
const (
	// DefaultMaxWaitingHosts limits the machine requests of new hosts of one cluster.
	DefaultMaxWaitingHosts = 50
	// DefaultMaxConnecting limits the requests for connections that are in progress.
	DefaultMaxConnecting = 2000
	// DefaultMaxClusterConnecting limits those of one cluster.
	DefaultMaxClusterConnecting = 200
)

// maxMachineConnecting limits the requests for the connection of one machine. An install script sends one at a time,
// and a second one after its connection broke.
const maxMachineConnecting = 2

// retrySeconds is the pause between the attempts of install scripts.
const retrySeconds = "5"

func crowded(message string) error { return refused(http.StatusTooManyRequests, message) }

// Answers to machines beyond a limit.
var (
	errMachineCrowded = crowded("this machine is already connecting; try again")
	errClusterCrowded = crowded("too many machines of this cluster are connecting; try again")
	errServerCrowded  = crowded("too many machines are connecting; try again")
	errHostHasty      = crowded("this host asks too often; try again")
	errHostsCrowded   = crowded("too many new hosts of this cluster are waiting; try again")
)

// crowd counts the requests for connections. Each may wait long, and reads the caches meanwhile. The credential of a
// request is verified first, so strangers occupy nothing.
type crowd struct {
	// max and maxCluster are the limits, in total and for one cluster. A namespace gets more only while more is free
	// than it has.
	max, maxCluster int
	mu              sync.Mutex
	total           int
	namespaces      map[string]int
	clusters        map[types.NamespacedName]int
	machines        map[string]int
}

// enter counts a request until leave is called, or returns the limit that it exceeds.
func (c *crowd) enter(cluster types.NamespacedName, machine string) (leave func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	machine = cluster.String() + "/" + machine
	switch {
	case c.machines[machine] >= maxMachineConnecting:
		return nil, errMachineCrowded
	case c.clusters[cluster] >= c.maxCluster:
		return nil, errClusterCrowded
	case c.total+c.namespaces[cluster.Namespace] >= c.max:
		return nil, errServerCrowded
	}
	if c.clusters == nil {
		c.namespaces, c.clusters, c.machines = map[string]int{}, map[types.NamespacedName]int{}, map[string]int{}
	}
	c.total++
	c.namespaces[cluster.Namespace]++
	c.clusters[cluster]++
	c.machines[machine]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.total--
		lower(c.namespaces, cluster.Namespace)
		lower(c.clusters, cluster)
		lower(c.machines, machine)
	}, nil
}

// lower subtracts one and removes zeros.
func lower[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

const (
	// shownAfter is how long the caches may take to show a machine request that this replica has made.
	shownAfter = 30 * time.Second
	// hostBurst is how often a host may ask without a pause, and hostPause is the pause after that. Each time costs
	// several calls of the Kubernetes API. An install script makes longer pauses.
	hostBurst = 5
	hostPause = 2 * time.Second
	// hostBytes is what the hosts of one cluster may send in machine requests in a second, in bytes. hostBytesAtOnce is
	// what they may send after a quiet time. Each request is stored up to three times.
	hostBytes       = 64 << 10
	hostBytesAtOnce = 2 << 20
)

// arrivals are the machine requests that this replica makes, by the namespace of the cluster. The caches may not show
// them yet, and a flood must not get through meanwhile.
type arrivals struct {
	mu   sync.Mutex
	made map[string]map[string]*arrival
	sent map[string]*rate.Limiter
}

// arrival is the machine request of one host.
type arrival struct {
	// open counts the host's requests to the endpoint that are in progress.
	open int
	// until is when the caches show the machine request, if it still exists.
	until time.Time
	// pace limits how often the host asks.
	pace *rate.Limiter
}

// counts reports whether the machine request may exist although the caches do not show it.
func (a *arrival) counts(now time.Time) bool { return a != nil && (a.open > 0 || a.until.After(now)) }

// idle reports whether the arrival says nothing more.
func (a *arrival) idle(now time.Time) bool {
	return !a.counts(now) && a.pace.TokensAt(now) >= hostBurst
}

// reserve lets a host make its machine request of a size, unless as many others exist as the limit says. shown are the
// names of those in the cache. The caller reports with done whether the machine request is gone.
func (a *arrivals) reserve(namespace, name string, size int, shown []string, limit int,
	now func() time.Time) (done func(gone bool), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := now()
	own := a.made[namespace]
	exist := 0
	for each, other := range own {
		switch {
		case other.counts(at):
			exist++
		case other.idle(at):
			delete(own, each)
		}
	}
	for _, each := range shown {
		if !own[each].counts(at) {
			exist++
		}
	}
	mine := own[name]
	if exist >= limit && !mine.counts(at) && !slices.Contains(shown, name) {
		return nil, errHostsCrowded
	}
	if mine == nil {
		mine = a.add(namespace, name)
	}
	if !mine.pace.AllowN(at, 1) {
		return nil, errHostHasty
	}
	if !a.sent[namespace].AllowN(at, size) {
		return nil, errHostsCrowded
	}
	mine.open++
	return func(gone bool) { a.end(mine, gone, now()) }, nil
}

func (a *arrivals) add(namespace, name string) *arrival {
	if a.made == nil {
		a.made, a.sent = map[string]map[string]*arrival{}, map[string]*rate.Limiter{}
	}
	if a.made[namespace] == nil {
		a.made[namespace] = map[string]*arrival{}
		a.sent[namespace] = rate.NewLimiter(hostBytes, hostBytesAtOnce)
	}
	added := &arrival{pace: rate.NewLimiter(rate.Every(hostPause), hostBurst)}
	a.made[namespace][name] = added
	return added
}

// end ends a host's request to the endpoint. Later requests remove the arrival.
func (a *arrivals) end(mine *arrival, gone bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	mine.open--
	if gone {
		mine.until = now
	} else {
		mine.until = now.Add(shownAfter)
	}
}
