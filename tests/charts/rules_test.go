package charts

import (
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/observe/metrics"
)

// start is the start of a story. Faults begin half an hour later.
var start = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

const before = 30 * time.Minute

// fault is a failure and exactly the alerts that it must fire.
type fault struct {
	inject func(f *fleet)
	// early faults happen before the first scrape. They end at once, and their alerts end too.
	early bool
	// meanwhile runs every minute from the beginning.
	meanwhile func(f *fleet, broken bool)
	// lasts is the duration of the observation.
	lasts time.Duration
	want  []string
}

var faults = map[string]fault{
	"no fault: a machine joins, and a cluster progresses for a while": {
		inject: func(f *fleet) {
			machine := f.join()
			f.metrics.Reasons.Note("fleet-default/demo", &planner.Wait{Reason: planner.ReasonConfiguring})
			f.ready("Unknown", "Waiting")
			f.now = f.now.Add(5 * time.Minute)
			f.say(machine, clusterv1.MachineInfrastructureReadyCondition, "True", "Ready")
			machine.Status.NodeRef.Name = "b"
			f.metrics.Reasons.Note("fleet-default/demo", nil)
			f.ready("True", "")
			f.disruptions.Count(disruption.EditVersion, 1)
		},
		lasts: 3 * time.Hour,
	},
	"Drover is down": {
		inject: func(f *fleet) { f.down = true }, lasts: time.Hour, want: []string{"DroverAbsent"},
	},
	"the lease is lost, and no replica takes it": {
		inject: func(f *fleet) { f.stop() }, lasts: time.Hour, want: []string{"DroverNoLeader"},
	},
	"a cluster waits for a drain that does not end": {
		inject: func(f *fleet) {
			f.metrics.Reasons.Note("fleet-default/demo", &planner.Wait{Reason: planner.ReasonDrainOverdue})
			f.ready("Unknown", "Waiting")
		},
		lasts: 2 * time.Hour, want: []string{"DroverClusterStuck"},
	},
	"a paused cluster fires no alert": {inject: func(f *fleet) { f.pause() }, lasts: 3 * time.Hour},
	"a pause ends after hours, and waiting work continues": {
		inject: func(f *fleet) { f.pause() },
		meanwhile: func(f *fleet, _ bool) {
			if f.now.Equal(start.Add(before + 3*time.Hour)) {
				f.resume()
			}
		},
		lasts: 3*time.Hour + 20*time.Minute,
	},
	"a host never becomes ready": {
		inject: func(f *fleet) { f.join() }, lasts: time.Hour, want: []string{"DroverMachineStuck"},
	},
	"a node stops answering": {
		inject: func(f *fleet) {
			f.say(f.machines[0], clusterv1.MachineNodeHealthyCondition, "Unknown",
				clusterv1.MachineNodeHealthUnknownReason)
		},
		lasts: time.Hour, want: []string{"DroverNodeUnhealthy"},
	},
	"a machine is not removed": {
		inject: func(f *fleet) { f.machines[0].DeletionTimestamp = new(metav1.NewTime(f.now)) },
		lasts:  2 * time.Hour, want: []string{"DroverDeletionOverdue"},
	},
	"an agent does not run when a plan arrives": {
		inject: func(f *fleet) {
			f.plan = f.plan.DeepCopy()
			f.plan.Annotations = map[string]string{rkev1.PlanUpdatedTimeAnnotation: f.now.Format(time.RFC3339)}
			delete(f.plan.Data, "appliedPlan")
		},
		lasts: time.Hour, want: []string{"DroverPlanLag"},
	},
	"a plan fails": {
		inject: func(f *fleet) { f.say(f.machines[0], rkev1.ConditionPlanApplied, "False", "Error") },
		lasts:  time.Hour, want: []string{"DroverPlanFailed"},
	},
	"a plan fails directly after a new leader starts": {
		inject: func(f *fleet) { f.say(f.machines[0], rkev1.ConditionPlanApplied, "False", "Error") },
		early:  true, lasts: 3 * time.Hour, want: []string{"DroverPlanFailed"},
	},
	"the cloud has no more quota": {
		inject: func(f *fleet) { f.noQuota() }, lasts: time.Hour, want: []string{"DroverMachineFailed"},
	},
	"the cloud has no more quota for a new leader": {
		inject: func(f *fleet) { f.noQuota() }, early: true, lasts: 3 * time.Hour, want: []string{
			"DroverMachineFailed"},
	},
	"a restore fails": {
		inject: func(f *fleet) { f.restoreFails() }, lasts: time.Hour, want: []string{"DroverOperationFailed"},
	},
	"a restore fails directly after a new leader starts": {
		inject: func(f *fleet) { f.restoreFails() }, early: true, lasts: 3 * time.Hour, want: []string{
			"DroverOperationFailed"},
	},
	"a node is restarted without a reason": {
		inject: func(f *fleet) { f.disruptions.Count(disruption.Unknown, 1) }, lasts: time.Hour, want: []string{
			"DroverUnknownDisruption"},
	},
	"a new leader first restarts a node without a reason": {
		inject: func(f *fleet) {
			f.disruptions.Count(disruption.Unknown,
				1)
		}, early: true, lasts: 3 * time.Hour, want: []string{"DroverUnknownDisruption"},
	},
	"a right is missing": {
		meanwhile: func(f *fleet, broken bool) {
			for i := range 10 {
				var err error
				if broken && i > 2 {
					err = errors.New("forbidden")
				}
				f.reconciles.Observe("planner", time.Second, err)
			}
		},
		lasts: time.Hour, want: []string{"DroverReconcileErrors"},
	},
	"the API server is too slow": {
		inject: func(f *fleet) { f.queue.WithLabelValues("Cluster").Set(500) }, lasts: time.Hour, want: []string{
			"DroverQueueBacklog"},
	},
	"the serving certificate is not renewed": {
		inject: func(f *fleet) { f.serving = f.now.Add(13 * 24 * time.Hour) }, lasts: 2 * time.Hour, want: []string{
			"DroverCertificateExpires"},
	},
	"snapshots fail silently": {
		inject: func(f *fleet) { f.snapshot.SnapshotFile.CreatedAt = new(metav1.NewTime(f.now.Add(-37 * time.Hour))) },
		lasts:  time.Hour, want: []string{"DroverSnapshotOld"},
	},
}

// TestRules_EachFaultFiresItsAlert injects faults into Drover's objects, one at a time. Like promtool, it evaluates the
// chart's rules with Prometheus' own rules package on Drover's metrics. Every alert has a fault, and no fault fires
// another alert.
func TestRules_EachFaultFiresItsAlert(t *testing.T) {
	rules := rulesOf(t)
	var shown, all []string
	for name, fault := range faults {
		shown = append(shown, fault.want...)
		t.Run(name, func(t *testing.T) { fault.tell(t, newServer(t)) })
	}
	for _, rule := range rules {
		all = append(all, rule.Alert)
	}
	slices.Sort(all)
	slices.Sort(shown)
	shown = slices.Compact(shown)
	if diff := cmp.Diff(all, shown); diff != "" {
		t.Errorf("alerts (-defined +tested):\n%s", diff)
	}
	if len(shown) < 10 {
		t.Errorf("only %d faults were injected", len(shown))
	}
}

func (c fault) tell(t *testing.T, s *server) {
	t.Helper()
	f, begins := newFleet(t, start), start.Add(before)
	if c.early {
		begins = start
	}
	for f.now.Before(begins.Add(c.lasts)) {
		broken := !f.now.Before(begins)
		if broken && c.inject != nil {
			c.inject(f)
			c.inject = nil
		}
		if c.meanwhile != nil {
			c.meanwhile(f, broken)
		}
		s.scrape(f.answer(), f.now)
		s.evaluate(f.now)
		f.now = f.now.Add(interval)
	}
	for alert, at := range s.fired {
		if at.Before(begins) {
			t.Errorf("%s fired %v before the fault", alert, begins.Sub(at))
		}
	}
	if diff := cmp.Diff(c.want, slices.Sorted(maps.Keys(s.fired))); diff != "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
	if firing := s.firing(); c.early && len(firing) > 0 {
		t.Errorf("does not end: %v", firing)
	}
}

// TestRules_AreComplete: every alert has a severity, a description and a remedy, and is in the documentation.
func TestRules_AreComplete(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	check(t, err)
	var want, got []string
	for _, rule := range rulesOf(t) {
		if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s has severity %q", rule.Alert, severity)
		}
		if rule.Annotations["summary"] == "" || !strings.HasSuffix(rule.Annotations["description"], ".") {
			t.Errorf("%s has no summary, or no description", rule.Alert)
		}
		want = append(want, rule.Alert+" "+rule.Labels["severity"])
		known(t, rule.Alert, rule.Expr)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `(Drover[A-Za-z]+)` \\| ([a-z]+) \\|").FindAllStringSubmatch(
		string(text), -1) {
		got = append(got, row[1]+" "+row[2])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("alerts (-chart +docs/metrics.md):\n%s", diff)
	}
}

var metricName = regexp.MustCompile(`\bdrover_[a-z_]+`)

// known fails unless all Drover metrics in an expression exist.
func known(t *testing.T, where, expression string) {
	t.Helper()
	for _, name := range metricName.FindAllString(expression, -1) {
		if !slices.ContainsFunc(metrics.Definitions(), func(d metrics.Definition) bool {
			return name == d.Name || d.Type == metrics.TypeHistogram &&
				slices.Contains([]string{d.Name + "_count", d.Name + "_sum", d.Name + "_bucket"}, name)
		}) {
			t.Errorf("%s uses %s, which is not a metric", where, name)
		}
	}
}
