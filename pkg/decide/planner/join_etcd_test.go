package planner

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// W35: etcd accepts one learner at a time. A machine that fails, or takes long, does not hold up the others.
func TestDecide_NewMembersJoinEtcdOneAfterTheOther(t *testing.T) {
	for name, tc := range map[string]struct {
		// then is what happens to s2, the first to join the init node.
		then func(w *world, s2 *host)
		want []string
	}{
		"it is at its plan": {func(*world, *host) {}, nil},
		"it has applied it, its etcd does not work": {func(_ *world, s2 *host) { s2.applyPlan(); s2.probes(false) },
			nil},
		"its etcd works": {func(_ *world, s2 *host) { s2.applyPlan(); s2.probes(true) },
			[]string{"s3"}},
		"its plan failed": {func(_ *world, s2 *host) { s2.failPlan() }, []string{"s3"}},
		"it takes long": {func(w *world, _ *host) { w.now = w.now.Add(joinAfter) },
			[]string{"s3"}},
		"it takes long after it was applied": {func(w *world, s2 *host) {
			s2.applyPlan()
			s2.probes(false)
			w.now = w.now.Add(joinAfter)
		}, []string{"s3"}},
		"its plan is of a time to come": {func(w *world, _ *host) { w.now = w.now.Add(-time.Hour) }, []string{"s3"}},
		"it is left out":                {func(_ *world, s2 *host) { s2.m.Skip = true }, []string{"s3"}},
		"it is deleted":                 {func(_ *world, s2 *host) { s2.m.Deleting = true }, []string{"s3"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := ready(t, map[string]string{"s1": "etcd,control-plane", "w": "worker"})
			for _, added := range []string{"s2", "s3", "s4"} {
				w.add(added, "etcd,control-plane")
			}
			w.add("w2", "worker")
			w.run(t)
			if diff := cmp.Diff([]string{"s2"}, slices.DeleteFunc(w.begun(), func(n string) bool {
				return n == "w2"
			})); diff != "" {
				t.Fatalf("first plans (-want +got):\n%s", diff)
			}
			tc.then(w, w.machines["s2"])
			s := w.snapshot(t)
			got := Decide(s)
			if diff := cmp.Diff(tc.want, deliveries(got)); diff != "" {
				t.Errorf("first plans (-want +got):\n%s", diff)
			}
			if tc.want == nil && (got.Wait == nil || got.Wait.After <= 0 || got.Wait.After > joinAfter) {
				t.Errorf("the planner does not run again when the time is over: %+v", got.Wait)
			}
			if got.Wait == nil || strings.Contains(got.Wait.Message, msgStopped) {
				t.Errorf("no change is held back, others only wait for their turn: %+v", got.Wait)
			}
		})
	}
}

// All machines join, each when the previous one works with its plan, and the wait names the machine that is joining.
func TestDecide_AllNewMembersJoinInTheEnd(t *testing.T) {
	w := ready(t, map[string]string{"s1": allRoles})
	for _, added := range []string{"s2", "s3", "s4", "s5"} {
		w.add(added, "etcd,control-plane")
	}
	var order []string
	for range 10 {
		before := w.now
		w.run(t)
		if w.now = before.Add(time.Second); len(w.begun()) > 1 {
			t.Fatalf("%v join at once", w.begun())
		}
		for _, name := range w.begun() {
			order = append(order, name)
			w.finish(name)
		}
	}
	if diff := cmp.Diff([]string{"s2", "s3", "s4", "s5"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
