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
		"a cluster without infrastructure is let alone":        {seen{version: "1"}, wait, 0},
		"a cluster without a way counts as one that is silent": {seen{wanted: true}, miss, 0},
		"but no more often than one that is asked":             {seen{wanted: true, asked: ago(4 * time.Second)}, wait, 6 * time.Second},
		"one that keeps a worker for long is tried less often": {seen{wanted: true, version: "1", asked: ago(2 * time.Second), took: 4 * time.Second}, wait, 22 * time.Second},
		"but often enough":                                     {seen{wanted: true, version: "1", asked: ago(2 * time.Second), took: time.Minute}, wait, 28 * time.Second},
		"a way that opens is tried at once":                    {seen{wanted: true, version: "1"}, connect, 0},
		"one that failed is tried again soon":                  {seen{wanted: true, version: "1", asked: ago(200 * time.Millisecond), failures: 9}, wait, 800 * time.Millisecond},
		"one that failed a while ago is tried again":           {seen{wanted: true, version: "1", asked: ago(time.Second), failures: 9}, connect, 0},
		"one that answers is asked now and then":               {seen{wanted: true, version: "1", connected: "1", asked: ago(4 * time.Second)}, wait, 6 * time.Second},
		"one that answered long ago is asked":                  {seen{wanted: true, version: "1", connected: "1", asked: ago(10 * time.Second)}, probe, 0},
		"a few answers may be missed":                          {seen{wanted: true, version: "1", connected: "1", asked: ago(time.Second), failures: 4}, wait, 9 * time.Second},
		"many may not":                                         {seen{wanted: true, version: "1", connected: "1", asked: ago(time.Second), failures: 5}, disconnect, 0},
		"a credential that is refused is not used again":       {seen{wanted: true, version: "1", connected: "1", asked: ago(time.Second), failures: 1, refused: true}, disconnect, 0},
		"a way that is lost ends the connection":               {seen{wanted: true, connected: "1", asked: ago(time.Second)}, disconnect, 0},
		"another way ends it, too":                             {seen{wanted: true, version: "2", connected: "1", asked: ago(time.Second)}, disconnect, 0},
		"so does the loss of infrastructure":                   {seen{version: "1", connected: "1", asked: ago(time.Second)}, disconnect, 0},
		"a clock that was set back makes nobody wait for ever": {seen{wanted: true, version: "1", asked: now.Add(time.Hour)}, wait, time.Second},
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
		"nobody asks":                              {answered: ago(time.Hour)},
		"it has just answered":                     {answered: now, limits: limits, next: 50*time.Second + 1},
		"it has not for the shorter time":          {answered: ago(time.Minute), told: ago(2 * time.Minute), limits: limits, want: true},
		"that was told":                            {answered: ago(time.Minute), told: ago(5 * time.Second), limits: limits, next: 4*time.Minute + 1},
		"it has not for the longer time":           {answered: ago(6 * time.Minute), told: ago(5 * time.Minute), limits: limits, want: true},
		"both were told":                           {answered: ago(6 * time.Minute), told: ago(time.Second), limits: limits},
		"it never has, which is told once":         {limits: limits, want: true},
		"it never has, which was told":             {limits: limits, told: ago(time.Hour)},
		"it is exactly the time, which is not yet": {answered: ago(50 * time.Second), limits: limits[:1], next: 1},
	} {
		if got, next := overdue(now, test.answered, test.told, test.limits); got != test.want || next != test.next {
			t.Errorf("%s: %t, again in %s, want %t in %s", name, got, next, test.want, test.next)
		}
	}
}
