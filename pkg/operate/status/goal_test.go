package status_test

import (
	"testing"

	"github.com/drover-io/drover/pkg/operate/status"
)

func TestGoal(t *testing.T) {
	const old, now = "v1.36.2+k3s1", "v1.36.3+k3s1"
	cluster := func(state status.State, observed int64) status.Cluster {
		return status.Cluster{Namespace: "ns", Name: "demo", State: state, Observed: observed, Version: now,
			Message: "no such image", Pools: []status.Pool{{Name: "all", Wanted: 2}, {Name: "free", Wanted: 1,
				Scaled: true}}}
	}
	machine := func(pool string, state status.State, version string) status.Machine {
		return status.Machine{Pool: pool, State: state, Version: version}
	}
	two := []status.Machine{machine("all", status.Running, now), machine("all", status.Running, now)}
	goal := status.Goal{Generation: 3}
	for name, tc := range map[string]struct {
		goal     status.Goal
		cluster  status.Cluster
		machines []status.Machine
		unread   bool
		reached  bool
		obstacle string
		mayPass  bool
	}{
		"all machines run":                   {goal, cluster(status.Ready, 3), two, false, true, "", false},
		"the server has not seen the change": {goal, cluster(status.Ready, 2), two, false, false, "", false},
		"a machine is missing":               {goal, cluster(status.Ready, 3), two[:1], false, false, "", false},
		"a machine still goes": {goal, cluster(status.Ready, 3),
			[]status.Machine{two[0], two[1], machine("all", status.Deleting, now)}, false, false, "", false},
		"a machine has the old version": {goal, cluster(status.Ready, 3),
			[]status.Machine{two[0], machine("all", status.Running, old)}, false, false, "", false},
		"a pool without a size": {goal, cluster(status.Ready, 3),
			[]status.Machine{two[0], two[1], machine("free", status.Running, now),
				machine("free", status.Running, now)}, false, true, "", false},
		"unknown machines": {goal, cluster(status.Ready, 3), nil, true, true, "", false},
		"no machines":      {goal, status.Cluster{State: status.Ready, Observed: 3}, nil, false, false, "", false},
		"a failure of the change": {goal, cluster(status.Failed, 3), two, false, false, "cluster ns/demo failed: no " +
			"such image", true},
		"a failure from before the change": {goal, cluster(status.Failed, 2), two, false, false, "", false},
		"a pause": {goal, cluster(status.Paused, 3), two, false, false,
			"cluster ns/demo is paused", false},
		"a deletion": {goal, cluster(status.Deleting, 3), two, false, false,
			"cluster ns/demo is being deleted", false},
		"the end of a deletion": {status.Goal{Gone: true}, cluster(status.Deleting, 3), two,
			false, false, "", false},
		"before the deletion": {status.Goal{Gone: true}, cluster(status.Ready, 3), two, false, false, "", false},
	} {
		if got := tc.goal.Reached(&tc.cluster, tc.machines, !tc.unread); got != tc.reached {
			t.Errorf("%s: reached is %v", name, got)
		}
		if got, pass := tc.goal.Obstacle(&tc.cluster); got != tc.obstacle || pass != tc.mayPass {
			t.Errorf("%s: obstacle %q, %v; want %q, %v", name, got, pass, tc.obstacle, tc.mayPass)
		}
	}
}
