package clustercache

import "time"

// seen is the input of a decision about a cluster.
type seen struct {
	// wanted is true for a cluster that exists and has infrastructure.
	wanted bool
	// version is that of the way to the cluster, "" while there is none or it is closed.
	version string
	// connected is the version of the connection's way, "" without a connection.
	connected string
	// asked is the time of the last request by this way. took is how long the attempt to connect took. failures counts
	// consecutive failures and refusals.
	asked    time.Time
	took     time.Duration
	failures int
	// refused is true if the cluster refused the credential last.
	refused bool
}

// action is what to do about a cluster.
type action int

const (
	wait action = iota
	connect
	disconnect
	probe
	// miss records a failure, because there is no connection to the cluster.
	miss
)

// After an attempt to connect, the next one waits patience times as long as the attempt took, and at most longest. A
// cluster that never answers occupies a worker until the timeout. If it were tried every second, two dozen such
// clusters would occupy all workers.
const (
	patience = 6
	longest  = 30 * time.Second
)

// intervals are how often clusters are asked.
type intervals struct {
	// retry is the time between attempts to connect that fail at once. probe is the time between probes of a connected
	// cluster.
	retry, probe time.Duration
	// threshold is the number of consecutive failures that ends a connection.
	threshold int
}

// decide returns what to do now, and when to decide again if nothing happens; 0 is never.
func (i intervals) decide(now time.Time, s seen) (action, time.Duration) {
	switch {
	case s.connected != "" && (!s.wanted || s.connected != s.version || s.refused || s.failures >= i.threshold):
		return disconnect, 0
	case !s.wanted:
		return wait, 0
	case s.version == "":
		// Cluster API keeps the last known state of a cluster until it sees five failures, so a cluster without a way
		// counts as failing. A new way notifies the cache. Polling covers a notification that came before the caches
		// knew the cluster.
		if left := until(now, s.asked, i.probe); left > 0 {
			return wait, left
		}
		return miss, 0
	case s.connected == "":
		if left := until(now, s.asked, max(i.retry, min(patience*s.took, longest))); left > 0 {
			return wait, left
		}
		return connect, 0
	}
	if left := until(now, s.asked, i.probe); left > 0 {
		return wait, left
	}
	return probe, 0
}

// until returns how long it takes until an interval has passed since then.
func until(now, then time.Time, interval time.Duration) time.Duration {
	if then.IsZero() {
		return 0
	}
	return min(interval, max(0, then.Add(interval).Sub(now)))
}

// overdue reports whether a listener must be notified now of a cluster that has not answered for one of its limits, and
// otherwise after how long; 0 is never. told is the last notification.
func overdue(now, answered, told time.Time, limits []time.Duration) (bool, time.Duration) {
	var next time.Duration
	for _, limit := range limits {
		due := answered.Add(limit)
		if !told.Before(due) {
			continue
		}
		if due.Before(now) {
			return true, 0
		}
		if left := due.Sub(now) + 1; next == 0 || left < next {
			next = left
		}
	}
	return false, next
}
