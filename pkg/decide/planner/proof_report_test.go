package planner

import (
	"slices"
	"strings"
	"testing"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// manifest is an edit that restarts nothing by itself.
func manifest(s *rkev1.RKEControlPlaneSpec) { s.AdditionalManifest = "kind: A\n" }

// unproven reports that a machine gets a restarting plan without its node's proof.
func unproven(t *testing.T, d Decision, name string) bool {
	t.Helper()
	return slices.Contains(deliveries(d), name) && !proves(t, d, name)
}

// notReported are the cases in which no report says that the member of s1 is down, and it works.
var notReported = map[string]func(*world, *host){
	"all is well":        func(*world, *host) {},
	"its kubelet is off": func(w *world, first *host) { first.m.NodeLostSince = w.now },
	"its plan secret was created again": func(_ *world, first *host) {
		first.data, first.probesSeen = nil, false
	},
	"its agent has not reported since a plan": func(_ *world, first *host) {
		delete(first.data, nodeplan.KeyProbeStatuses)
	},
}

// With one member left out, two of three are a bare majority. Neither restarts unless it reports that it is down.
func TestDecide_NoReportIsNoReasonToRestartABareMajority(t *testing.T) {
	for name, given := range notReported {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			w.machines["s3"].m.NodeLostSince, w.machines["s3"].m.Skip = w.now, true
			given(w, w.machines["s1"])
			w.edit(restartAll)
			if got := deliveries(Decide(w.snapshot(t))); len(got) > 0 {
				t.Errorf("plans go to %v", got)
			}
		})
	}
}

// A report that etcd is down may be old when the plan arrives. The node must then prove the same number of working
// members as other nodes.
func TestDecide_WhoIsLeftOutIsStillOneOfTheOthers(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.machines["s3"].m.NodeLostSince, w.machines["s3"].m.Skip = w.now, true
	w.machines["s1"].unwell("etcd")
	w.edit(restartAll)
	w.run(t)
	if first := w.machines["s1"]; !first.hasPlan() || othersOf(first) != 2 {
		t.Errorf("s1 has its plan: %t, with a proof of %d others", first.hasPlan(), othersOf(first))
	}
}

// An override for a machine whose member may work does not restart it while another member is lost.
func TestDecide_NoReportIsNoReasonForAnOverrideBesideALostMember(t *testing.T) {
	for name, given := range notReported {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			first, second := w.machines["s1"], w.machines["s2"]
			second.probes(false)
			second.m.NodeLostSince, first.m.SkipProof = w.now, true
			given(w, first)
			w.edit(restartAll)
			if unproven(t, Decide(w.snapshot(t)), "s1") {
				t.Error("s1 is restarted without proof")
			}
		})
	}
}

// failBesideLost lets a plan fail permanently that was delivered with an override, and then s2 is lost.
func failBesideLost(t *testing.T, w *world, first *host) {
	t.Helper()
	first.failPlan()
	first.spend()
	w.run(t)
	w.machines["s2"].probes(false)
	w.machines["s2"].m.NodeLostSince = w.now
}

// expectEditIsProven makes an edit that restarts nothing by itself, and expects s1 to need a proof, with an override or
// without.
func expectEditIsProven(t *testing.T, w *world, first *host) {
	t.Helper()
	w.edit(manifest)
	for _, skipped := range []bool{true, false} {
		if first.m.SkipProof = skipped; unproven(t, Decide(w.snapshot(t)), "s1") {
			t.Errorf("overridden %t: an edit restarts s1 without proof", skipped)
		}
	}
}

// A plan that was delivered with an override, and failed before a restart, needs a proof at its next delivery after the
// others have changed.
func TestDecide_AnOverrideIsOfTheMomentOfItsDelivery(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.edit(restartAll)
	w.run(t)
	first := w.machines["s1"]
	first.refusePlan(t, true)
	first.m.SkipProof = true
	w.run(t)
	failBesideLost(t, w, first)
	for _, skipped := range []bool{true, false} {
		first.m.SkipProof, first.m.Retry = skipped, true
		if unproven(t, Decide(w.snapshot(t)), "s1") {
			t.Errorf("overridden %t: another try restarts s1 without proof", skipped)
		}
	}
	expectEditIsProven(t, w, first)
}

// A node that refuses because others do not work does not hold up their repair, with any annotation.
func TestDecide_AnInitNodeThatRefusesHoldsUpNobodyThatItWaitsFor(t *testing.T) {
	for name, given := range map[string]func(*host){
		"with tries left":                   func(*host) {},
		"with tries left and overridden":    func(h *host) { h.m.SkipProof = true },
		"with tries left in a paused pool":  func(h *host) { h.m.PoolPaused = true },
		"without tries":                     func(h *host) { h.spend() },
		"without tries, and overridden":     func(h *host) { h.spend(); h.m.SkipProof = true },
		"without tries, in a paused pool":   func(h *host) { h.spend(); h.m.PoolPaused = true },
		"without tries, and it is left out": func(h *host) { h.spend(); h.m.Skip = true },
	} {
		t.Run(name, func(t *testing.T) {
			w, first, second := refusedBesideBroken(t)
			given(first)
			if d := w.run(t); !second.hasPlan() {
				t.Errorf("s2 waits: %s", d.Wait.Message)
			}
		})
	}
}

// An edit of something else brings new tries of a refused plan only with a drain, and only where a restart is allowed.
func TestDecide_AnEditBringsNoTriesThatNobodyWishedFor(t *testing.T) {
	for name, given := range map[string]func(*world, *host){
		"a paused pool":              func(_ *world, first *host) { first.m.PoolPaused = true },
		"one that is left out":       func(_ *world, first *host) { first.m.Skip = true },
		"drains that were asked for": func(w *world, _ *host) { w.edit(drainServers) },
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			w.edit(restartAll)
			w.run(t)
			first := w.machines["s1"]
			first.refusePlan(t, true)
			first.spend()
			given(w, first)
			w.edit(manifest)
			d := Decide(w.snapshot(t))
			if slices.Contains(deliveries(d), "s1") {
				t.Error("s1 gets new tries")
			}
			if drains := effectsOf[RequestDrain](d); (len(drains) == 1) != (name == "drains that were asked for") {
				t.Errorf("drains of %+v are asked for", drains)
			}
		})
	}
}

// Of two machines that refused and have an override, the one whose agent may still prove its plan comes first, because
// it may restart at any time.
func TestDecide_OfTwoOverridesWhoMayStillProveComesFirst(t *testing.T) {
	w, first, second := twoRefused(t)
	first.spend()
	first.m.SkipProof, second.m.SkipProof = true, true
	if d := Decide(w.snapshot(t)); !slices.Equal(deliveries(d), []string{"s2"}) || !unproven(t, d, "s2") {
		t.Errorf("plans go to %v: %+v", deliveries(d), d.Wait)
	}
}

// A snapshot restarts nothing. When it fails, a machine that gets its own plan back needs no proof, because it may be
// unable to give one: s3 is off, and left out.
func TestDecide_AFailedSnapshotIsFollowedByNoProof(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	third := w.machines["s3"]
	third.probes(false)
	third.m.NodeLostSince, third.m.Skip = w.now, true
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 1} })
	for range 8 {
		w.run(t)
		for _, h := range []*host{w.machines["s1"], w.machines["s2"]} {
			switch {
			case render.HasEtcdProof(h.state().Plan):
				t.Fatal("a member has to prove that it may be restarted")
			case render.OperationOf(h.state().Plan) != "":
				h.failPlan()
				h.spend()
			case h.hasPlan():
				h.applyPlan()
				h.probes(true)
			}
		}
		w.now = w.now.Add(time.Hour)
	}
}

// Without a plan, an agent reports nothing. When the working members are no majority anyway, a member that is left out
// does not hold up others.
func TestDecide_WhoHasNoPlanIsNotHeldUpByWhoIsLeftOutOfALostQuorum(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	first, third := w.machines["s1"], w.machines["s3"]
	third.m.NodeLostSince, third.m.Skip = w.now, true
	third.probes(false)
	w.machines["s2"].probes(false)
	first.data, first.probesSeen = nil, false
	if d := w.run(t); !first.hasPlan() || othersOf(first) != 2 {
		t.Errorf("s1 has its plan: %t, to be proven %t: %s", first.hasPlan(), render.HasEtcdProof(first.state().Plan),
			d.Wait.Message)
	}
}

// The plan of a recreated Secret was delivered with an override and failed before its end. It is unknown what it
// restarted, so the next plan needs a proof.
func TestDecide_AnOverrideWithoutAnAppliedPlanIsOfTheMomentToo(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	first := w.machines["s1"]
	first.data, first.probesSeen = nil, false
	first.m.SkipProof = true
	w.run(t)
	failBesideLost(t, w, first)
	expectEditIsProven(t, w, first)
}

// An edit does not drain a machine that cannot restart yet because of others, and the machine does not hold up their
// repair.
func TestDecide_AnEditDrainsNobodyThatWaitsForOthers(t *testing.T) {
	for name, given := range map[string]func(*host){
		"given up":                  func(h *host) { h.spend() },
		"given up in a paused pool": func(h *host) { h.spend(); h.m.PoolPaused = true },
	} {
		t.Run(name, func(t *testing.T) {
			w, first, second := refusedBesideBroken(t)
			given(first)
			w.edit(manifest)
			if d := w.run(t); first.drain.Requested != "" || !second.hasPlan() {
				t.Errorf("s1 is at %+v, s2 has its plan %t: %s", first.drain, second.hasPlan(), d.Wait.Message)
			}
			w.edit(drainServers)
			w.run(t)
			second.drainNode()
			if d := w.run(t); first.drain.Requested != "" || !second.hasPlan() {
				t.Errorf("with drains: s1 is at %+v, s2 has its plan %t: %s", first.drain, second.hasPlan(),
					d.Wait.Message)
			}
		})
	}
}

// A member whose join URL an operator does not set is a member like others: with another one lost, its new plan needs a
// proof.
func TestDecide_AMemberWithoutAJoinURLIsProvenWhenItIsEdited(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	third := w.machines["s3"]
	third.m.Annotations = map[string]string{rkev1.JoinURLAutosetDisabledAnnotation: "true"}
	third.m.Marks.JoinURL, third.joinURL = "", ""
	w.run(t)
	third.data, third.probesSeen, third.evidence = nil, false, ""
	third.m.SkipProof = true
	w.run(t)
	if !third.hasPlan() {
		t.Fatal("s3 has no plan")
	}
	third.m.SkipProof = false
	w.machines["s2"].probes(false)
	w.machines["s2"].m.NodeLostSince = w.now
	w.edit(manifest)
	w.run(t)
	w.machines["s1"].applyPlan()
	w.machines["s1"].probes(true)
	if d := Decide(w.snapshot(t)); unproven(t, d, "s3") {
		t.Errorf("plans go to %v, s3's without a proof", deliveries(d))
	}
}

// A machine that refused and gave up gets no new tries while another member is lost, even if that one is left out. The
// lost member may return and restart at any moment, so its Machine has to be deleted.
func TestDecide_AnEditWaitsForALostMemberUntilItIsDeleted(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.edit(restartAll)
	w.run(t)
	first := w.machines["s1"]
	first.refusePlan(t, true)
	first.spend()
	w.machines["s3"].probes(false)
	w.machines["s3"].m.NodeLostSince, w.machines["s3"].m.Skip = w.now, true
	w.run(t)
	w.machines["s2"].applyPlan()
	w.machines["s2"].probes(true)
	w.edit(manifest)
	if d := Decide(w.snapshot(t)); slices.Contains(deliveries(d), "s1") ||
		!strings.Contains(d.Wait.Message, "s3; repair them or delete their Machines") {
		t.Errorf("plans go to %v: %s", deliveries(d), d.Wait.Message)
	}
	delete(w.machines, "s3")
	w.run(t)
	if !w.machines["s1"].hasPlan() || gaveUp(w.machines["s1"].state()) {
		t.Errorf("s1 gets nothing: %s", Decide(w.snapshot(t)).Wait.Message)
	}
}

// A lost node may have a working agent, for example when only its kubelet is off. A machine that gave up gets no new
// tries while the lost one may prove its plan, or retry a plan that failed after the proof.
func TestDecide_AnEditWaitsForALostMemberThatMayBeRestarted(t *testing.T) {
	for name, tc := range map[string]struct {
		overridden bool
		given      func(*host)
	}{
		"it refused, and tries again":                 {given: func(h *host) { h.refusePlan(t, true) }},
		"it has said nothing yet":                     {given: func(*host) {}},
		"it failed later, with a proof":               {given: (*host).failPlan},
		"it failed, and had its plan without a proof": {given: (*host).failPlan, overridden: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			w.edit(restartAll)
			w.run(t)
			first, third := w.machines["s1"], w.machines["s3"]
			first.refusePlan(t, true)
			third.probes(false) // so it gets its plan, which may repair it
			third.m.SkipProof = tc.overridden
			w.run(t)
			if !third.hasPlan() {
				t.Fatal("s3 has no plan")
			}
			tc.given(third)
			third.m.SkipProof = false
			first.spend()
			third.m.NodeLostSince, third.m.Skip = w.now, true
			w.edit(manifest)
			if d := Decide(w.snapshot(t)); slices.Contains(deliveries(d), "s1") {
				t.Error("s1 gets new tries while s3 may be restarted")
			}
		})
	}
}
