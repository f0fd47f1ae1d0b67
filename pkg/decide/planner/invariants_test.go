package planner

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// The random models check these invariants too. Here each is checked in the smallest world that can break it
// (docs/invariants.md#invariants).

// begun are the machines that have a plan they have not applied.
func (w *world) begun() []string {
	return slices.DeleteFunc(w.names(), func(name string) bool { return !w.machines[name].hasPlan() })
}

func (w *world) finish(names ...string) {
	for _, name := range names {
		w.machines[name].applyPlan()
		w.machines[name].probes(true)
	}
}

// Invariant 3: no machine joins, or stays joined to, a server that is being deleted.
func TestDecide_AWorkerLeavesAServerThatIsDeleted(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	joined := w.machines["w"].m.Marks.JoinedTo
	i := slices.IndexFunc(w.names(), func(name string) bool {
		return w.machines[name].m.Marks.JoinURL == joined && !w.machines[name].m.Marks.InitNode
	})
	if i < 0 { // it has joined the init node; make the init node go like others
		i = slices.IndexFunc(w.names(), func(name string) bool { return w.machines[name].m.Marks.JoinURL == joined })
	}
	gone := w.names()[i]
	w.machines[gone].m.Deleting = true
	for range 10 {
		w.run(t)
		w.finish(w.names()...)
	}
	if got := w.machines["w"].m.Marks.JoinedTo; got == joined || got == "" {
		t.Errorf("the worker is joined to %q, of %s, which is being deleted", got, gone)
	}
}

// Invariant 6: a tier changes when all tiers before it work with the change.
func TestDecide_ATierWaitsForTheChangeOfThoseBefore(t *testing.T) {
	w := ready(t, map[string]string{"a-worker": "worker", "b-server": "control-plane", "c-etcd": "etcd,control-plane"})
	w.edit(restartAll)
	for _, name := range []string{"c-etcd", "b-server", "a-worker"} {
		w.run(t)
		if diff := cmp.Diff([]string{name}, w.begun()); diff != "" {
			t.Fatalf("begun (-want +got):\n%s", diff)
		}
		w.machines[name].applyPlan()
		w.run(t)
		if begun := w.begun(); len(begun) > 0 {
			t.Fatalf("%v are begun while the probes of %s fail", begun, name)
		}
		w.finish(name)
	}
}

// Invariant 7: no more machines of a tier are unavailable at a time than allowed.
func TestDecide_NoMoreAreBegunThanIsAllowed(t *testing.T) {
	for concurrency, want := range map[string]int{"": 1, "1": 1, "2": 2, "3": 3, "50%": 3, "30%": 2, "0": 6} {
		t.Run(concurrency, func(t *testing.T) {
			w := ready(t, map[string]string{"s": "etcd,control-plane", "w1": "worker", "w2": "worker", "w3": "worker",
				"w4": "worker", "w5": "worker", "w6": "worker"})
			w.edit(restartAll)
			w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.UpgradeStrategy.WorkerConcurrency = concurrency })
			w.run(t)
			w.finish("s")
			for done := 0; done < 6; {
				w.run(t)
				begun := w.begun()
				if len(begun) != min(want, 6-done) {
					t.Fatalf("%v are begun when %d are done", begun, done)
				}
				w.finish(begun[0])
				done++
			}
		})
	}
}

// Invariant 11: the answer of the drainer counts only for the request that it repeats.
func TestDecide_AnAnswerToAnotherRequestDrainsNothing(t *testing.T) {
	w := draining(t)
	h := w.machines["w1"]
	h.drain.Done = `{"enabled":true,"force":true}`
	w.run(t)
	if h.hasPlan() {
		t.Error("w1 gets its plan although the drainer has not answered this request")
	}
	h.drainNode()
	w.run(t)
	if !h.hasPlan() {
		t.Error("w1 is drained and gets no plan")
	}
}

// Invariant 24: an operation that finds a half-delivered change builds on what the node has applied.
func TestDecide_AnOperationBuildsOnWhatWasApplied(t *testing.T) {
	w := small(t)
	before := w.machines["s"].state().Plan
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.MachineGlobalConfig.Data = map[string]any{"selinux": true} })
	w.run(t)
	if diff := cmp.Diff([]string{"s"}, w.begun()); diff != "" {
		t.Fatalf("begun (-want +got):\n%s", diff)
	}
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.RotateCertificates = &rkev1.RotateCertificates{Generation: 1} })
	w.run(t)
	after, err := nodeplan.Decode(w.machines["s"].data[nodeplan.KeyPlan])
	if err != nil {
		t.Fatal(err)
	}
	if render.OperationOf(after) != render.OperationCertificates {
		t.Fatalf("the rotation has not begun: the plan is one of %q", render.OperationOf(after))
	}
	if diff := cmp.Diff(before.Files, after.Files); diff != "" {
		t.Errorf("the operation takes the change along; files (-applied +operation):\n%s", diff)
	}
}

// W3: the agent keeps trying a failing ordinary plan within its budget, and the server reports the failure at once.
func TestDecide_AFailureOfAnOrdinaryPlanIsNotFinal(t *testing.T) {
	w := small(t)
	w.edit(restartAll)
	w.run(t)
	state := w.machines["s"].state()
	if state.MaxFailures != retryBudget || state.FailureThreshold != 1 {
		t.Errorf("the agent makes %d attempts, and after %d of them the plan counts as failed", state.MaxFailures,
			state.FailureThreshold)
	}
}

// Invariant 28: the pause of an operation does not keep a cluster that is deleted during the operation.
func TestDecide_ThePauseOfAnOperationEndsWithItsCluster(t *testing.T) {
	w := small(t)
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.RotateCertificates = &rkev1.RotateCertificates{Generation: 1} })
	w.run(t)
	if w.cluster.PausedBy == "" {
		t.Fatal("the rotation has not paused the cluster")
	}
	w.cluster.Deleting = true
	if d := w.run(t); w.cluster.Paused || w.cluster.PausedBy != "" {
		t.Errorf("the cluster stays paused by %s: %+v", w.cluster.PausedBy, d.Wait)
	}
}

// Invariant 8: a working etcd member does not restart while another one does not work.
func TestDecide_AnotherMemberThatFailsIsInTheWay(t *testing.T) {
	for name, fails := range map[string]func(h *host){
		"its probes fail":  func(h *host) { h.probes(false) },
		"its node is lost": func(h *host) { h.m.NodeLostSince = start },
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			fails(w.machines["s3"])
			w.edit(restartAll)
			d := w.run(t)
			for _, other := range []string{"s1", "s2"} {
				if w.machines[other].hasPlan() {
					t.Errorf("%s is restarted while s3 does not work: %+v", other, d.Wait)
				}
			}
		})
	}
}
