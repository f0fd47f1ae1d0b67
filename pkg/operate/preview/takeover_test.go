package preview

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/decide/planner"
)

// Takeover reports that a health check replaces a machine whose host is gone, and only in a pool with a health check.
func TestTakeover_NamesMachinesThatAHealthCheckReplaces(t *testing.T) {
	for name, tc := range map[string]struct {
		checked bool
		lost    time.Time
		want    planner.Class
	}{
		"reporting":                    {checked: true, want: planner.ClassNone},
		"lost, with a health check":    {checked: true, lost: start.Add(-time.Minute), want: planner.ClassReplace},
		"lost, without a health check": {lost: start.Add(-time.Minute), want: planner.ClassNone},
		"lost, and being deleted":      {checked: true, lost: start.Add(-time.Minute), want: planner.ClassNone},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tc.checked {
				w.cluster.Spec.RKEConfig.MachinePools[1].UnhealthyNodeTimeout = &metav1.Duration{
					Duration: 5 * time.Minute}
			}
			in := w.input(w.cluster, w.configs)
			_, deployments, err := desired(in)
			if err != nil {
				t.Fatal(err)
			}
			w.machine("worker-1").NodeLostSince = tc.lost
			w.machine("worker-1").Deleting = strings.HasSuffix(name, "being deleted")
			w.machine("server-1").NodeLostSince = tc.lost // its pool has no health check
			report, _, err := Takeover(TakeoverInput{Cluster: in, Deployments: deployments, Snapshot: w.snapshot,
				Release: release})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]planner.Class{}
			for _, m := range report.Machines {
				got[m.Name] = m.Class
			}
			want := map[string]planner.Class{}
			for _, m := range w.snapshot.Machines {
				want[m.Name] = planner.ClassNone
			}
			want["worker-1"] = tc.want
			if diff := cmp.Diff(want, got); diff != "" || report.Result != tc.want {
				t.Errorf("%s (-want +got):\n%s", report.Result, diff)
			}
			told := strings.Contains(strings.Join(report.Notes, "\n"),
				"machine worker-1: its node has not reported since 2026-09-01T11:59:00Z, and the health check of "+
					"pool worker")
			if told != (tc.want == planner.ClassReplace) {
				t.Errorf("notes %q", report.Notes)
			}
		})
	}
}
