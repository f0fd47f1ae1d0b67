package connect

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Defaults of what one machine may request of its plan Secret.
const (
	// DefaultMachineWrites is the number of updates in a minute.
	DefaultMachineWrites = 60
	// DefaultMachineWriteBytes is the size of updates in a second, in bytes.
	DefaultMachineWriteBytes = 64 << 10
)

const (
	// writesAtOnce and bytesAtOnce are what a machine may use at once after a quiet time.
	writesAtOnce = 10
	bytesAtOnce  = 2 * maxBody
	// readsPerSecond and readsAtOnce limit all other requests of a machine, and its attempts to update, so that refused
	// updates are not free.
	readsPerSecond = 10
	readsAtOnce    = 50
	// maxUpdates and maxWatches are the requests of a machine at the same time. An agent has one of each, and may have
	// lost the connections of others.
	maxUpdates = 2
	maxWatches = 4
	// bodiesAtOnce limits the bodies of all updates that are under way, in bytes. A namespace gets more only while more
	// is free than it has.
	bodiesAtOnce = 128 << 20
	// idleTime is after how long without requests a machine is forgotten. Each bucket is full again by then.
	idleTime = 10 * time.Minute
)

// allowances limit what each machine requests. Only machines with a valid token have an entry, and idle ones are
// forgotten. It is safe for concurrent use.
type allowances struct {
	writes, bytes rate.Limit
	now           func() time.Time

	mu       sync.Mutex
	machines map[string]*allowance
	// bodies is the size of all updates that are under way, and bodiesOf that of the updates in each namespace.
	bodies    int64
	bodiesOf  map[string]int64
	forgotten time.Time
}

type allowance struct {
	writes, bytes, reads, attempts *rate.Limiter
	updates                        int
	// watches are the open watches, oldest first.
	watches []*lease
	used    time.Time
	// noted is when a refused report was last logged.
	noted time.Time
}

func newAllowances(writesPerMinute, bytesPerSecond int64, now func() time.Time) *allowances {
	return &allowances{
		writes: rate.Limit(float64(writesPerMinute) / 60), bytes: rate.Limit(bytesPerSecond), now: now,
		machines: map[string]*allowance{}, bodiesOf: map[string]int64{},
	}
}

// of returns the entry of a machine, by the key of its plan Secret. The caller holds the lock.
func (a *allowances) of(machine string, now time.Time) *allowance {
	if now.Sub(a.forgotten) >= idleTime {
		a.forgotten = now
		maps.DeleteFunc(a.machines, func(_ string, one *allowance) bool {
			return now.Sub(one.used) >= idleTime && one.updates == 0 && len(one.watches) == 0
		})
	}
	one := a.machines[machine]
	if one == nil {
		one = &allowance{writes: rate.NewLimiter(a.writes, writesAtOnce), bytes: rate.NewLimiter(a.bytes, bytesAtOnce),
			reads: rate.NewLimiter(readsPerSecond, readsAtOnce), attempts: rate.NewLimiter(readsPerSecond, readsAtOnce)}
		a.machines[machine] = one
	}
	one.used = now
	return one
}

// update begins an update with a body of a size. The update counts even if it fails later. A positive wait means that
// the machine must wait that long; then release is nil.
func (a *allowances) update(machine string, size int64) (release func(), wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	one := a.of(machine, now)
	if size < 0 || size > maxBody {
		size = maxBody // it is unknown, or readBody refuses it
	}
	if wait := take(one.attempts, now); wait > 0 {
		return nil, wait
	}
	namespace, _, _ := strings.Cut(machine, "/")
	if one.updates >= maxUpdates || a.bodies+a.bodiesOf[namespace]+size > bodiesAtOnce {
		return nil, time.Second
	}
	if debt := -one.bytes.TokensAt(now); debt > 0 {
		return nil, max(time.Millisecond, time.Duration(debt/float64(a.bytes)*float64(time.Second)))
	}
	if wait := take(one.writes, now); wait > 0 {
		return nil, wait
	}
	one.updates++
	a.bodies += size
	a.bodiesOf[namespace] += size
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		one.updates--
		a.bodies -= size
		if a.bodiesOf[namespace] -= size; a.bodiesOf[namespace] <= 0 {
			delete(a.bodiesOf, namespace)
		}
	}, 0
}

// spend counts the bytes of an update that has arrived.
func (a *allowances) spend(machine string, bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	a.of(machine, now).bytes.ReserveN(now, min(bytes, bytesAtOnce))
}

// read counts a request that only reads, and returns how long the machine must wait instead.
func (a *allowances) read(machine string) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	return take(a.of(machine, now).reads, now)
}

// take takes one token from a bucket, or returns the time until there is one.
func take(from *rate.Limiter, now time.Time) time.Duration {
	reserved := from.ReserveN(now, 1)
	wait := reserved.DelayFrom(now)
	if wait > 0 {
		reserved.CancelAt(now)
	}
	return wait
}

// watch registers an open watch until release. Beyond maxWatches it ends the oldest one, rather than refuse the new
// one, because the connection of the oldest may be lost without a sign.
func (a *allowances) watch(machine string, opened *lease) (release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.of(machine, a.now())
	one.watches = append(one.watches, opened)
	if len(one.watches) > maxWatches {
		one.watches[0].end()
		one.watches = slices.Delete(one.watches, 0, 1)
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		one.watches = slices.DeleteFunc(one.watches, func(each *lease) bool { return each == opened })
	}
}

// notes reports whether a refused report of a machine must be logged, at most once in idleTime.
func (a *allowances) notes(machine string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	one := a.of(machine, now)
	if !one.noted.IsZero() && now.Sub(one.noted) < idleTime {
		return false
	}
	one.noted = now
	return true
}

// seconds is the value of Retry-After for a time to wait.
func seconds(wait time.Duration) string {
	return strconv.Itoa(int(math.Ceil(wait.Seconds())))
}
