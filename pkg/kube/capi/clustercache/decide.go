package clustercache

import "time"

// seen is what a decision about a cluster depends on.
type seen struct {
	// wanted is true for a cluster that exists and has infrastructure.
	wanted bool
	// version is that of the way to the cluster, "" while there is none or it is closed.
	version string
	// connected is the version of the way by which it is connected, "" when it is not.
	connected string
	// asked is when it was asked last by this way, whatever the answer, and took how long connecting it took then; failures is how often in a row it
	// did not answer, or refused.
	asked    time.Time
	took     time.Duration
	failures int
	// refused is true when the last answer was that the credential is no good.
	refused bool
}

// action is what to do about a cluster.
type action int

const (
	wait action = iota
	connect
	disconnect
	probe
	// miss takes note that nobody can be asked.
	miss
)

// patience is how many times as long as an attempt to connect took the next one waits, and longest how long at most. A cluster that swallows what is sent
// to it keeps a worker until the time-out: tried every second, two dozen of them would keep all workers from clusters that answer.
const (
	patience = 6
	longest  = 30 * time.Second
)

// intervals are how often clusters are asked.
type intervals struct {
	// retry is the time between attempts to connect that fail at once, probe that between probes of a cluster that is connected.
	retry, probe time.Duration
	// threshold is after how many failures in a row a cluster is not connected any more.
	threshold int
}

// decide says what to do now, and after how long to decide again if nothing happens; 0 is never.
func (i intervals) decide(now time.Time, s seen) (action, time.Duration) {
	switch {
	case s.connected != "" && (!s.wanted || s.connected != s.version || s.refused || s.failures >= i.threshold):
		return disconnect, 0
	case !s.wanted:
		return wait, 0
	case s.version == "":
		// Cluster API says of a cluster what it last knew, until it is told five times that there is no answer: one without a way counts as one that
		// does not answer. Whoever opens the way tells; looking again is also for the case that it told before the caches knew whose way it is.
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

// until is how long it is until an interval has passed since then.
func until(now, then time.Time, interval time.Duration) time.Duration {
	if then.IsZero() {
		return 0
	}
	return min(interval, max(0, then.Add(interval).Sub(now)))
}

// overdue tells whether somebody who wants to know of a cluster that has not answered for so long is to be told now, and otherwise after how long; 0 is
// never. told is when they were told of it last.
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
