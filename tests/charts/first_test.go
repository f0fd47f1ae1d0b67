package charts

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/disruption"
)

// run scrapes and evaluates for a duration, and returns for how long an alert fired.
func (s *server) run(f *fleet, d time.Duration, alert string) time.Duration {
	s.Helper()
	fired := time.Duration(0)
	for end := f.now.Add(d); f.now.Before(end); f.now = f.now.Add(interval) {
		s.scrape(f.answer(), f.now)
		s.evaluate(f.now)
		if n := count(s.firing(), alert); n > 1 {
			s.Errorf("%s fires %d times at once", alert, n)
		} else if n == 1 {
			fired += interval
		}
	}
	return fired
}

func count(list []string, of string) (n int) {
	for _, one := range list {
		if one == of {
			n++
		}
	}
	return n
}

// An event before the first scrape fires at that scrape and for the window of the rule, although the counter stays.
func TestRules_AlertsForEarlyFailuresEnd(t *testing.T) {
	for alert, c := range map[string]struct {
		inject func(f *fleet)
		window time.Duration
	}{
		"DroverUnknownDisruption": {func(f *fleet) { f.disruptions.Count(disruption.Unknown, 3) }, time.Hour},
		"DroverOperationFailed":   {func(f *fleet) { f.restoreFails() }, time.Hour},
		"DroverMachineFailed":     {func(f *fleet) { f.noQuota() }, 15 * time.Minute},
		"DroverPlanFailed": {func(f *fleet) {
			f.say(f.machines[0], rkev1.ConditionPlanApplied, "False", "Error")
		}, 15 * time.Minute},
	} {
		t.Run(alert, func(t *testing.T) {
			s, f := newServer(t), newFleet(t, start)
			c.inject(f)
			fired := s.run(f, 4*time.Hour, alert)
			if !s.fired[alert].Equal(start) || fired != c.window {
				t.Errorf("fired at %v for %v, want %v from the first evaluation", s.fired[alert], fired, c.window)
			}
		})
	}
}

// Each process has its own counters. A new process's counter is no event of the old process, and the old process's
// events do not hide those of the new one.
func TestRules_AnotherProcess(t *testing.T) {
	const alert = "DroverUnknownDisruption"
	for name, c := range map[string]struct {
		instance string
		first    bool // the first process has counted one too
		inject   func(f *fleet)
		want     time.Duration
	}{
		"another pod without failures": {instance: "drover-1", inject: func(*fleet) {}},
		"another pod without failures, after a pod with failures": {instance: "drover-1", first: true,
			inject: func(*fleet) {}},
		"another pod with failures at once": {instance: "drover-1", inject: func(f *fleet) {
			f.disruptions.Count(disruption.Unknown, 1)
		}, want: time.Hour},
		"another pod with failures at once, after a pod with failures": {
			instance: "drover-1", first: true, inject: func(f *fleet) {
				f.disruptions.Count(disruption.Unknown,
					1)
			}, want: time.Hour,
		},
		"the same pod restarted, without failures": {instance: "drover-0", first: true, inject: func(*fleet) {}},
		// The last sample of the previous process is in the window for less than that.
		"the same pod restarted, with failures at once": {
			instance: "drover-0", inject: func(f *fleet) {
				f.disruptions.Count(disruption.Unknown,
					1)
			}, want: 59 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, f := newServer(t), newFleet(t, start)
			if c.first {
				f.disruptions.Count(disruption.Unknown, 1)
			}
			s.run(f, 3*time.Hour, alert)
			next := newFleet(t, f.now)
			s.instance = c.instance
			c.inject(next)
			if fired := s.run(next, 3*time.Hour, alert); fired != c.want {
				t.Errorf("fired for %v, want %v", fired, c.want)
			}
		})
	}
}

// A Prometheus that was down for a while does not treat known counts as new.
func TestRules_GapsFireNoAlert(t *testing.T) {
	s, f := newServer(t), newFleet(t, start)
	f.disruptions.Count(disruption.Unknown, 1)
	s.run(f, 3*time.Hour, "DroverUnknownDisruption")
	f.now = f.now.Add(50 * time.Minute)
	if fired := s.run(f, 4*time.Hour, "DroverUnknownDisruption"); fired != 0 {
		t.Errorf("fired for %v after a gap", fired)
	}
	f.say(f.machines[0], rkev1.ConditionPlanApplied, "False", "Error")
	s.run(f, 2*time.Hour, "DroverPlanFailed")
	f.down = true // its target does not answer
	s.run(f, 8*time.Minute, "DroverPlanFailed")
	f.down = false
	if diff := cmp.Diff(time.Duration(0), s.run(f, 2*time.Hour, "DroverPlanFailed")); diff != "" {
		t.Errorf("fired after the target was unavailable (-want +got):\n%s", diff)
	}
}
