package planner

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// othersOf is how many other members the proof of a machine's plan assumes.
func othersOf(h *host) int { return render.EtcdProofOf(h.state().Plan).Others }

// A proof has the number of other members at its delivery. When one of them leaves before the node gives the proof, it
// never succeeds. Then the node gets its plan again with a proof for the remaining members. Until then it keeps its
// plan.
func TestDecide_AProofOfMembersThatHaveLeft(t *testing.T) {
	for name, tc := range map[string]struct {
		given func(*host)
		gone  bool
		want  []string
	}{
		"it refuses, and all are there":       {func(h *host) { h.refusePlan(t, true) }, false, nil},
		"it refuses, and one has left":        {func(h *host) { h.refusePlan(t, true) }, true, []string{"s1"}},
		"an agent of another make refuses":    {func(h *host) { h.refusePlan(t, false) }, true, []string{"s1"}},
		"one has left, and it is at its plan": {func(*host) {}, true, nil},
		"it fails at something else":          {func(h *host) { h.failPlan() }, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"s4": "etcd", "w": "worker"})
			w.edit(restartAll)
			w.run(t)
			first := w.machines["s1"]
			if got := othersOf(first); got != 3 {
				t.Fatalf("the proof is of %d other members", got)
			}
			tc.given(first)
			if tc.gone {
				delete(w.machines, "s4")
			}
			d := Decide(w.snapshot(t))
			got := slices.DeleteFunc(deliveries(d), func(name string) bool { return name != "s1" })
			if diff := cmp.Diff(tc.want, got, cmp.Transformer("none", func(s []string) []string {
				return append([]string{}, s...)
			})); diff != "" {
				t.Fatalf("plans (-want +got):\n%s\nwait %+v", diff, d.Wait)
			}
			if tc.want == nil {
				return
			}
			w.run(t)
			if got := othersOf(first); got != 2 {
				t.Errorf("the new proof is of %d other members", got)
			}
			first.refusePlan(t, true)
			if again := deliveries(Decide(w.snapshot(t))); slices.Contains(again, "s1") {
				t.Error("the same plan is delivered over and over")
			}
		})
	}
}

// The same holds for an operation that restarts members, which would fail otherwise.
func TestDecide_ARotationOfMembersThatHaveLeft(t *testing.T) {
	w := servers(t, map[string]string{"s4": "etcd,control-plane", "w": "worker"})
	w.edit(askCertificates(1))
	w.run(t)
	first := w.machines["s1"]
	first.refusePlan(t, true)
	w.run(t)
	if got := othersOf(first); got != 3 {
		t.Fatalf("the proof is of %d other members", got)
	}
	delete(w.machines, "s4")
	w.run(t)
	if have := first.state().Plan; render.EtcdProofOf(have).Others != 2 ||
		render.OperationOf(have) != render.OperationCertificates {
		t.Errorf("the proof is of %d other members", render.EtcdProofOf(have).Others)
	}
}

// It does not hold while another member is not in order: the proof may be all that protects the data.
func TestDecide_ARotationBesideAMemberThatIsLost(t *testing.T) {
	w := servers(t, map[string]string{"s4": "etcd,control-plane", "w": "worker"})
	w.edit(askCertificates(1))
	w.run(t)
	first := w.machines["s1"]
	first.refusePlan(t, true)
	w.run(t)
	delete(w.machines, "s4")
	w.machines["s3"].m.NodeLostSince = w.now
	d := w.run(t)
	if othersOf(first) != 3 || !strings.Contains(d.Wait.Message, "s3") {
		t.Errorf("the proof is of %d other members; wait %+v", othersOf(first), d.Wait)
	}
	w.machines["s3"].m.NodeLostSince = time.Time{}
	if w.run(t); othersOf(first) != 2 {
		t.Errorf("the proof is of %d other members when all are well", othersOf(first))
	}
}

// With four others a proof needs three healthy members, and with three others as many. It is not replaced during an
// attempt that may succeed.
func TestDecide_AProofThatCanStillBeMade(t *testing.T) {
	w := servers(t, map[string]string{"s4": "etcd", "s5": "etcd", "w": "worker"})
	w.edit(restartAll)
	w.run(t)
	first := w.machines["s1"]
	first.refusePlan(t, true)
	delete(w.machines, "s5")
	if got := deliveries(Decide(w.snapshot(t))); othersOf(first) != 4 || slices.Contains(got, "s1") {
		t.Errorf("plans go to %v, and the proof was of %d", got, othersOf(first))
	}
	delete(w.machines, "s4")
	if got := deliveries(Decide(w.snapshot(t))); !slices.Contains(got, "s1") {
		t.Errorf("plans go to %v", got)
	}
}

// Other members wait for a member whose plan is unknown.
func TestDecide_AProofBesideALostPlanSecret(t *testing.T) {
	w := servers(t, map[string]string{"s4": "etcd", "w": "worker"})
	w.edit(restartAll)
	w.run(t)
	w.machines["s1"].refusePlan(t, true)
	delete(w.machines, "s4")
	w.machines["s3"].registered = false
	d := Decide(w.snapshot(t))
	if got := deliveries(d); slices.Contains(got, "s1") || !strings.Contains(d.Wait.Message, "s3") {
		t.Errorf("plans go to %v; wait %+v", got, d.Wait)
	}
}

// A node that knows other members is not overruled when Drover knows none any more: it proves that it is alone.
func TestDecide_AProofOfNobody(t *testing.T) {
	w := ready(t, map[string]string{"s1": "etcd,control-plane", "s2": "etcd,control-plane", "w": "worker"})
	w.edit(restartAll)
	w.run(t)
	first := w.machines["s1"]
	first.refusePlan(t, true)
	w.machines["s2"].m.Deleting = true // nothing holds it, though its member may exist
	d := Decide(w.snapshot(t))
	if !slices.Contains(deliveries(d), "s1") || !proves(t, d, "s1") {
		t.Errorf("plans go to %v", deliveries(d))
	}
	w.run(t)
	if first.refusePlan(t, true); slices.Contains(deliveries(Decide(w.snapshot(t))), "s1") {
		t.Error("the same plan is delivered over and over")
	}
	first.spend()
	if !proves(t, Decide(w.snapshot(t)), "s1") {
		t.Error("what the node refuses until it has given up is done without its proof")
	}
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.ProvisionGeneration = 7 })
	if !proves(t, Decide(w.snapshot(t)), "s1") {
		t.Error("an edit restarts what the node refuses to restart")
	}
	first.m.SkipProof = true
	if proves(t, Decide(w.snapshot(t)), "s1") {
		t.Error("the override does not restart s1")
	}
}

// A node whose plan had to prove something when the other one left is not overruled either.
func TestDecide_AnEditBeforeAProofWasMade(t *testing.T) {
	w := ready(t, map[string]string{"s1": "etcd,control-plane", "s2": "etcd,control-plane", "w": "worker"})
	w.edit(restartAll)
	w.run(t)
	delete(w.machines, "s2")
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.ProvisionGeneration = 7 })
	if !proves(t, Decide(w.snapshot(t)), "s1") {
		t.Error("the proof is gone with what was edited")
	}
	w.run(t)
	w.finish("s1")
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.ProvisionGeneration = 8 })
	if proves(t, Decide(w.snapshot(t)), "s1") {
		t.Error("a member that is alone has to prove it for ever")
	}
}

// A plan that a node has carried out needs no proof any more, whatever it reports about a second run.
func TestDecide_AProofThatWasMade(t *testing.T) {
	w := servers(t, map[string]string{"s4": "etcd", "w": "worker"})
	w.edit(restartAll)
	w.run(t)
	first := w.machines["s1"]
	first.refusePlan(t, true)
	first.data[nodeplan.KeyAppliedChecksum] = []byte(first.state().Checksum)
	delete(w.machines, "s4")
	if d := Decide(w.snapshot(t)); slices.Contains(deliveries(d), "s1") {
		t.Errorf("plans go to %v", deliveries(d))
	}
}

// twoRefused is a cluster with servers s1, s2 and s3. s1 and s2 have refused their current plan, and work.
func twoRefused(t *testing.T) (w *world, first, second *host) {
	t.Helper()
	w = servers(t, map[string]string{"w": "worker"})
	w.edit(restartAll)
	w.run(t)
	first, second = w.machines["s1"], w.machines["s2"]
	first.refusePlan(t, true)
	second.probes(false)
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.ProvisionGeneration = 7 })
	w.run(t)
	first.refusePlan(t, true)
	second.refusePlan(t, true) // and works again
	w.run(t)
	if othersOf(first) != 2 || othersOf(second) != 2 {
		t.Fatalf("the proofs are of %d and %d other members", othersOf(first), othersOf(second))
	}
	return w, first, second
}

// askFor changes the proof of a machine's refused plan to the given number of other members.
func (h *host) askFor(t *testing.T, others int) {
	t.Helper()
	p := h.state().Plan
	i := slices.IndexFunc(p.Instructions, func(i plan.OneTimeInstruction) bool {
		return i.Name == render.EtcdProofInstruction
	})
	p.Instructions[i].Args[slices.Index(p.Instructions[i].Args, strconv.Itoa(othersOf(h)))] = strconv.Itoa(others)
	data, err := nodeplan.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	h.data[nodeplan.KeyPlan] = data
	if h.refusePlan(t, true); othersOf(h) != others {
		t.Fatalf("the proof is of %d other members", othersOf(h))
	}
}

// spend uses up the agent's attempts at its plan.
func (h *host) spend() { h.data[nodeplan.KeyFailureCount] = h.data[nodeplan.KeyMaxFailures] }

// Two members that refused, and both ask for a member that has left, do not wait for each other. One gets its plan
// again, and then the other.
func TestDecide_TwoProofsOfAMemberThatHasLeft(t *testing.T) {
	w, first, second := twoRefused(t)
	others := func() [2]int { return [2]int{othersOf(first), othersOf(second)} }
	delete(w.machines, "s3")
	w.run(t)
	if others() != [2]int{1, 2} {
		t.Fatalf("the proofs are of %v other members after one has left", others())
	}
	first.applyPlan()
	first.probes(true)
	w.run(t)
	if others()[1] != 1 {
		t.Errorf("the proofs are of %v other members after the first one was restarted", others())
	}
}

// They do not when the first one has refused that plan too, because the other one asks in vain. The advice for the user
// helps.
func TestDecide_OneOfTwoRefusesOnceMore(t *testing.T) {
	for name, tc := range map[string]struct {
		given func(w *world, first *host)
		want  []string
	}{
		"its agent tries again":  {func(*world, *host) {}, nil},
		"its agent has given up": {func(_ *world, h *host) { h.spend() }, []string{"s1"}},
		"a user asks for another attempt": {func(_ *world, h *host) { h.spend(); h.m.Retry = true },
			[]string{"s1"}},
		"it is edited": {func(w *world, _ *host) {
			w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.ProvisionGeneration = 8 })
		}, []string{"s1"}},
		"a user skips its proof": {func(_ *world, h *host) { h.m.SkipProof = true },
			[]string{"s1"}},
		"it is left out, and its agent has given up": {func(_ *world, h *host) { h.spend(); h.m.Skip = true },
			[]string{"s2"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, first, second := twoRefused(t)
			delete(w.machines, "s3")
			w.run(t)
			if first.refusePlan(t, true); othersOf(first) != 1 || othersOf(second) != 2 {
				t.Fatalf("the proofs are of %d and %d other members", othersOf(first), othersOf(second))
			}
			tc.given(w, first)
			d := Decide(w.snapshot(t))
			if diff := cmp.Diff(tc.want, deliveries(d), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("plans (-want +got):\n%s\nwait %+v", diff, d.Wait)
			}
		})
	}
}

// When two have given up, each waits only for the other's restart.
func TestDecide_TwoHaveGivenUp(t *testing.T) {
	w, first, second := twoRefused(t)
	first.spend()
	second.spend()
	if got := deliveries(Decide(w.snapshot(t))); !slices.Equal(got, []string{"s1"}) {
		t.Errorf("plans go to %v", got)
	}
}

// A machine gets its plan again only while the other members work and stay.
func TestDecide_AProofIsMadeAnewBesideMembersThatWork(t *testing.T) {
	for name, given := range map[string]func(w *world, second *host){
		"the other one's probes fail": func(_ *world, h *host) { delete(h.data, nodeplan.KeyProbeStatuses) },
		"its node is lost":            func(w *world, h *host) { h.m.NodeLostSince = w.now },
		"its node cannot be seen": func(w *world, h *host) {
			h.m.NodeUnknown, h.m.NodeUnknownSince = true, w.now
		},
		"it is drained":                       func(_ *world, h *host) { h.drain.Requested = `{"enabled":true}` },
		"it may prove what it needs any time": func(_ *world, h *host) { h.askFor(t, 1) },
		"it has no plan secret":               func(_ *world, h *host) { h.registered = false },
		"it was just restarted":               func(_ *world, h *host) { h.applyPlan() },
	} {
		t.Run(name, func(t *testing.T) {
			w, first, second := twoRefused(t)
			delete(w.machines, "s3")
			given(w, second)
			d := Decide(w.snapshot(t))
			if slices.Contains(deliveries(d), "s1") {
				t.Error("s1 is restarted")
			}
			if message := d.Wait.Message; !strings.Contains(message, "s2") || first.m.Name != "s1" {
				t.Errorf("the message does not name s2: %q", message)
			}
		})
	}
}

// Of two machines in one tier that ask too much, one restarts per pass, whatever the last report of the other says.
func TestDecide_OneOfATierIsRestartedInAPass(t *testing.T) {
	w := servers(t, map[string]string{"s4": "etcd,control-plane", "w": "worker"})
	w.edit(restartAll)
	w.roll(t, "s1")
	w.run(t)
	second, third := w.machines["s2"], w.machines["s3"]
	second.refusePlan(t, true)
	third.probes(false)
	third.probesSeen = false
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.ProvisionGeneration = 7 })
	w.run(t)
	second.refusePlan(t, true)
	third.refusePlan(t, true)
	w.run(t)
	delete(w.machines, "s4")
	if got := deliveries(Decide(w.snapshot(t))); len(got) != 1 {
		t.Errorf("while both work plans go to %v", got)
	}
	delete(third.data, nodeplan.KeyProbeStatuses)
	if got := deliveries(Decide(w.snapshot(t))); !slices.Equal(got, []string{"s3"}) {
		t.Errorf("plans go to %v", got)
	}
}

// Where nothing is delivered, the message shows the node's report.
func TestDecide_AProofOfAMachineThatIsLeftOut(t *testing.T) {
	for name, given := range map[string]func(*host){"its pool is paused": func(h *host) { h.m.PoolPaused = true },
		"it is left out": func(h *host) { h.m.Skip = true }} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"s4": "etcd", "w": "worker"})
			w.edit(restartAll)
			w.run(t)
			first := w.machines["s1"]
			first.refusePlan(t, true)
			given(first)
			delete(w.machines, "s4")
			w.run(t)
			if got := first.m.Reconciled.Message; !strings.Contains(got, "etcd-healthy") || othersOf(first) != 3 {
				t.Errorf("message %q, a proof of %d other members", got, othersOf(first))
			}
		})
	}
}
