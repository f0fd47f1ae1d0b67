package clustercache

import (
	"testing"
	"time"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	every := intervals{retry: time.Second, probe: 10 * time.Second, threshold: 5}
	for name, test := range map[string]struct {
		seen  seen
		want  action
		after time.Duration
	}{
		"a cluster without infrastructure is ignored":     {seen{version: "1"}, wait, 0},
		"a cluster without a connection counts as silent": {seen{wanted: true}, miss, 0},
		"a cluster without a connection counts at the interval of probes": {
			seen{wanted: true, asked: ago(4 * time.Second)}, wait, 6 * time.Second},
		"a cluster that blocks a worker is tried less often": {seen{wanted: true, version: "1",
			asked: ago(2 * time.Second), took: 4 * time.Second}, wait, 22 * time.Second},
		"a cluster that blocks a worker is tried often enough": {seen{wanted: true, version: "1",
			asked: ago(2 * time.Second), took: time.Minute}, wait, 28 * time.Second},
		"a new connection is tried at once": {seen{wanted: true, version: "1"}, connect, 0},
		"a failed connection is retried soon": {seen{wanted: true, version: "1",
			asked: ago(200 * time.Millisecond), failures: 9}, wait, 800 * time.Millisecond},
		"a connection that failed earlier is retried": {seen{wanted: true, version: "1", asked: ago(time.Second),
			failures: 9}, connect, 0},
		"an answering cluster is probed at the interval": {seen{wanted: true, version: "1", connected: "1",
			asked: ago(4 * time.Second)}, wait, 6 * time.Second},
		"a cluster with an old answer is probed": {seen{wanted: true, version: "1", connected: "1",
			asked: ago(10 * time.Second)}, probe, 0},
		"a few failed probes keep the connection": {seen{wanted: true, version: "1", connected: "1",
			asked: ago(time.Second), failures: 4}, wait, 9 * time.Second},
		"many failed probes end the connection": {seen{wanted: true, version: "1", connected: "1",
			asked: ago(time.Second), failures: 5}, disconnect, 0},
		"a refused credential is not used again": {seen{wanted: true, version: "1", connected: "1",
			asked: ago(time.Second), failures: 1, refused: true}, disconnect, 0},
		"a lost way ends the connection": {seen{wanted: true, connected: "1", asked: ago(time.Second)},
			disconnect, 0},
		"another way ends the connection": {seen{wanted: true, version: "2", connected: "1",
			asked: ago(time.Second)}, disconnect, 0},
		"the loss of infrastructure ends the connection": {seen{version: "1", connected: "1", asked: ago(time.Second)},
			disconnect, 0},
		"a clock that is set back causes no endless wait": {seen{wanted: true, version: "1", asked: now.Add(time.Hour)},
			wait, time.Second},
	} {
		if got, after := every.decide(now, test.seen); got != test.want || after != test.after {
			t.Errorf("%s: action %d after %s, want %d after %s", name, got, after, test.want, test.after)
		}
	}
}

func TestOverdue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	limits := []time.Duration{50 * time.Second, 5 * time.Minute}
	for name, test := range map[string]struct {
		answered, told time.Time
		limits         []time.Duration
		want           bool
		next           time.Duration
	}{
		"no watcher":      {answered: ago(time.Hour)},
		"a recent answer": {answered: now, limits: limits, next: 50*time.Second + 1},
		"no answer for the shorter time": {answered: ago(time.Minute), told: ago(2 * time.Minute), limits: limits,
			want: true},
		"the shorter time was reported": {answered: ago(time.Minute), told: ago(5 * time.Second), limits: limits,
			next: 4*time.Minute + 1},
		"no answer for the longer time": {answered: ago(6 * time.Minute), told: ago(5 * time.Minute),
			limits: limits, want: true},
		"both times were reported":          {answered: ago(6 * time.Minute), told: ago(time.Second), limits: limits},
		"never an answer, reported once":    {limits: limits, want: true},
		"never an answer, already reported": {limits: limits, told: ago(time.Hour)},
		"exactly the time is too early":     {answered: ago(50 * time.Second), limits: limits[:1], next: 1},
	} {
		if got, next := overdue(now, test.answered, test.told, test.limits); got != test.want || next != test.next {
			t.Errorf("%s: %t, again in %s, want %t in %s", name, got, next, test.want, test.next)
		}
	}
}
