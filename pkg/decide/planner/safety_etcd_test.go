package planner

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// proves reports that the delivered plan of a machine begins with the node's own proof.
func proves(t *testing.T, d Decision, machine string) bool {
	t.Helper()
	for _, e := range d.Effects {
		if e, ok := e.(DeliverPlan); ok && e.Machine == machine {
			p, err := nodeplan.Decode(e.Delivery.Plan)
			if err != nil {
				t.Fatal(err)
			}
			return len(p.Instructions) > 0 && p.Instructions[0].Name == render.EtcdProofInstruction
		}
	}
	t.Fatalf("%s gets no plan: %+v", machine, d.Wait)
	return false
}

// refusePlan is a pass of the agent whose node cannot prove that etcd can do without it. Other agents keep only the
// output.
func (h *host) refusePlan(t failer, ours bool) {
	t.Helper()
	h.failPlan()
	output := map[string][]byte{
		render.EtcdProofInstruction: []byte("etcd on this node is connected to 1 of 2 other members\n")}
	if ours {
		output[nodeplan.OutputFailure] = nodeplan.Failure{Instruction: render.EtcdProofInstruction,
			ExitCode: 1}.Encode()
	}
	packed, err := nodeplan.EncodeOutput(output)
	if err != nil {
		t.Fatal(err)
	}
	h.data[nodeplan.KeyFailedOutput] = packed
	statuses := map[string]plan.ProbeStatus{}
	for name := range h.state().Plan.Probes {
		statuses[name] = plan.ProbeStatus{Healthy: true}
	}
	h.data[nodeplan.KeyProbeStatuses], _ = nodeplan.EncodeProbeStatuses(statuses)
}

// Invariant 8: a plan that restarts an etcd member runs only after the node proves that the others suffice.
func TestDecide_ARestartOfAMemberBeginsWithItsProof(t *testing.T) {
	three := map[string]string{"s1": "etcd,control-plane", "s2": "etcd,control-plane", "s3": "etcd,control-plane",
		"w": "worker"}
	for name, tc := range map[string]struct {
		roles map[string]string
		given func(w *world)
		to    string
		want  bool
	}{
		"one of three is restarted": {three, func(w *world) { w.edit(restartAll) }, "s1", true},
		"the only one is restarted": {map[string]string{"s1": "etcd,control-plane", "w": "worker"},
			func(w *world) { w.edit(restartAll) }, "s1", false},
		"nothing is restarted": {three, func(w *world) {
			w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.AdditionalManifest = "kind: A\n" })
		}, "s1", false},
		"a newcomer gets its first plan": {three, func(w *world) { w.add("s4", "etcd") }, "s4", false},
		"a server without etcd": {map[string]string{"s1": "etcd", "s2": "etcd", "c": "control-plane",
			"w": "worker"}, func(w *world) { w.add("c2", "control-plane") }, "c2", false},
		"its plan secret was created again": {three, func(w *world) { w.machines["s2"].data = nil }, "s2", true},
		"a plan failed by state": {three, func(w *world) {
			w.machines["s2"].data[nodeplan.KeyPlanState] = []byte("failed")
		}, "s2", true},
		"one that does not work, of many": {three, func(w *world) {
			w.machines["s2"].probes(false)
			w.edit(restartAll)
		}, "s2", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(rke2Version)
			for name, roles := range tc.roles {
				w.add(name, roles)
			}
			for range 3 {
				w.run(t)
				for _, name := range w.names() {
					w.machines[name].captureAddress()
				}
			}
			if tc.roles["s1"] == "etcd" {
				bringUpSeparate(t, w)
			} else {
				w.bringUp(t)
			}
			tc.given(w)
			if got := proves(t, Decide(w.snapshot(t)), tc.to); got != tc.want {
				t.Errorf("the plan begins with a proof: %v, want %v", got, tc.want)
			}
		})
	}
}

// bringUpSeparate is bringUp for an init node that is no Kubernetes node and reports its address itself.
func bringUpSeparate(t *testing.T, w *world) {
	t.Helper()
	for range 20 {
		if d := w.run(t); d.Wait == nil {
			return
		}
		for _, name := range w.names() {
			h := w.machines[name]
			h.applyPlan()
			h.probes(true)
			h.joinCluster(rke2Version)
			if h.m.Marks.InitNode {
				h.captureAddress()
			}
		}
		w.connected = true
	}
	t.Fatalf("the cluster never gets ready: %+v", w.cp.Status.Conditions)
}

// Invariants 14 and 15: the proof is a part of the delivery, and a cluster that has settled with it stays settled.
func TestDecide_AProofIsNoChangeOfASettledCluster(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.edit(restartAll)
	w.roll(t, "s1", "s2", "s3", "w")
	w.bringUp(t)
	if !render.HasEtcdProof(w.machines["s2"].state().Plan) {
		t.Fatal("s2 was restarted without a proof")
	}
	before := w.writes
	for range 3 {
		if d := w.pass(t); d.Wait != nil || len(d.Effects) > 0 {
			t.Errorf("effects %v, wait %+v", d.Effects, d.Wait)
		}
	}
	if w.writes != before {
		t.Error("the planner writes although nothing happens")
	}
	for _, tier := range Assess(w.snapshot(t)).Tiers {
		for _, m := range tier.Machines {
			if m.Class != ClassNone {
				t.Errorf("%s is said to expect %s", m.Name, m.Class)
			}
		}
	}
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.AdditionalManifest = "kind: A\n" })
	if d := Decide(w.snapshot(t)); proves(t, d, "s1") || d.Ticket != nil {
		t.Errorf("a change that restarts nothing asks for a proof, or has a ticket: %+v", d.Ticket)
	}
}

// A plan that follows on an outstanding plan may restart the node too, so it needs a proof.
func TestDecide_AnOutstandingRestartIsProvenToo(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.edit(restartAll)
	w.run(t)
	w.machines["s1"].refusePlan(t, true)
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.AdditionalManifest = "kind: A\n" })
	d := Decide(w.snapshot(t))
	if !proves(t, d, "s1") || d.Ticket == nil {
		t.Errorf("no proof, or no ticket: %+v", d.Ticket)
	}
}

// A machine with an operator's override gets a plan without a proof, at once after a refusal, and no other machine
// does. The reports of the others still hold it up.
func TestDecide_AnOperatorDoesWithoutTheProof(t *testing.T) {
	for name, tc := range map[string]struct {
		given func(t *testing.T, w *world)
		want  []string
		proof bool
	}{
		"from the start": {func(_ *testing.T, w *world) { w.machines["s1"].m.SkipProof = true }, []string{"s1"},
			false},
		"of another member": {func(_ *testing.T, w *world) { w.machines["s2"].m.SkipProof = true }, []string{"s1"},
			true},
		"after the node has refused": {func(t *testing.T, w *world) {
			w.run(t)
			w.machines["s1"].refusePlan(t, true)
			w.machines["s1"].m.SkipProof = true
		}, []string{"s1"}, false},
		"another member is off": {func(_ *testing.T, w *world) {
			w.off(w.machines["s2"])
			w.machines["s1"].m.SkipProof = true
		}, []string{"s2"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			w.edit(restartAll)
			tc.given(t, w)
			d := Decide(w.snapshot(t))
			if diff := cmp.Diff(tc.want, deliveries(d)); diff != "" {
				t.Fatalf("plans (-want +got):\n%s\nwait %+v", diff, d.Wait)
			}
			if proves(t, d, tc.want[0]) != tc.proof {
				t.Errorf("the plan has a proof: %v", !tc.proof)
			}
		})
	}
}

func TestDecide_ARefusedRestartIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		ours bool
		want string
	}{
		"by our agent": {true,
			"failure while applying plan, instruction etcd-healthy, exit code 1: etcd on this node is connected to " +
				"1 of 2 other members" + msgRefused},
		"by an agent of other make": {false,
			"failure while applying plan, instruction etcd-healthy: etcd on this node is connected to 1 of 2 other " +
				"members" + msgRefused},
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			w.edit(restartAll)
			w.run(t)
			w.machines["s1"].refusePlan(t, tc.ours)
			w.run(t)
			if diff := cmp.Diff(tc.want, w.machines["s1"].m.Reconciled.Message); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

// A node that refused its restart works as before, and may restart at any moment, so the working others wait for it.
// The member that caused the refusal does not, or both would wait forever.
func TestDecide_WhoRefusedARestart(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.edit(restartAll)
	w.run(t)
	w.machines["s1"].refusePlan(t, true)
	if d := Decide(w.snapshot(t)); len(deliveries(d)) > 0 {
		t.Errorf("plans go to %v", deliveries(d))
	}
	w.machines["s2"].probes(false)
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.ProvisionGeneration = 7 })
	d := Decide(w.snapshot(t))
	if diff := cmp.Diff([]string{"s2"}, deliveries(d)); diff != "" || !proves(t, d, "s2") {
		t.Errorf("plans (-want +got):\n%s\nwait %+v", diff, d.Wait)
	}
}

// A member that cannot be seen does not count as healthy for a step that takes a member down.
func TestDecide_MembersThatNobodyCanSee(t *testing.T) {
	unseen := func(w *world) {
		for _, h := range w.machines {
			h.m.NodeUnknown = true
		}
	}
	for name, tc := range map[string]struct {
		given func(w *world)
		want  []string
	}{
		"the connection is there": {func(*world) {}, []string{"s1"}},
		"the connection is down":  {unseen, nil},
		"one cannot be checked, and may be changed itself": {func(w *world) { w.machines["s3"].m.NodeUnknown = true },
			[]string{"s3"}},
		"only the one to be restarted cannot": {func(w *world) { w.machines["s1"].m.NodeUnknown = true },
			[]string{"s1"}},
		"down, and one does not work: it may be mended": {func(w *world) {
			unseen(w)
			w.machines["s2"].probes(false)
		}, []string{"s2"}},
		"down, since no API server works: the node's proof has to do": {func(w *world) {
			unseen(w)
			for _, name := range []string{"s1", "s2", "s3"} {
				w.machines[name].failProbe(render.ProbeAPIServer)
			}
		}, []string{"s1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			tc.given(w)
			w.edit(restartAll)
			d := Decide(w.snapshot(t))
			if !slices.Equal(deliveries(d), tc.want) {
				t.Fatalf("plans go to %v, want %v; wait %+v", deliveries(d), tc.want, d.Wait)
			}
			for _, machine := range tc.want {
				if !proves(t, d, machine) {
					t.Errorf("%s is restarted without a proof", machine)
				}
			}
			if tc.want == nil &&
				(d.Wait.Reason != ReasonEtcdUnhealthy ||
					!strings.HasSuffix(d.Wait.Message,
						"; Drover cannot check nodes while the connection to the cluster is down") &&
						!strings.HasPrefix(d.Wait.Message, "configuring etcd node(s) s2,s3")) {
				t.Errorf("wait is %+v", d.Wait)
			}
		})
	}
}

// An unseen member holds up others as long as a lost one does, unless an operator decides earlier. Then the node's own
// proof has to suffice.
func TestDecide_MembersThatNobodyCanSeeForLong(t *testing.T) {
	for name, tc := range map[string]struct {
		since time.Duration
		skip  bool
		want  []string
	}{
		"for a while":               {lostAfter - time.Second, false, nil},
		"for long":                  {lostAfter, false, []string{"s1"}},
		"they are left out by hand": {time.Second, true, []string{"s1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			for name, h := range w.machines {
				h.m.NodeUnknown, h.m.NodeUnknownSince, h.m.Skip = true, w.now.Add(-tc.since), tc.skip && name != "s1"
			}
			w.edit(restartAll)
			d := Decide(w.snapshot(t))
			if !slices.Equal(deliveries(d), tc.want) {
				t.Fatalf("plans go to %v, want %v; wait %+v", deliveries(d), tc.want, d.Wait)
			}
			if tc.want != nil && !proves(t, d, "s1") {
				t.Error("s1 is restarted without a proof")
			}
			if tc.want == nil && d.Wait.After != time.Second {
				t.Errorf("it is looked at again after %s", d.Wait.After)
			}
		})
	}
}

// failProbe lets one probe fail.
func (h *host) failProbe(name string) {
	statuses := maps.Clone(h.state().ProbeStatuses)
	statuses[name] = plan.ProbeStatus{}
	h.data = maps.Clone(h.data)
	h.data[nodeplan.KeyProbeStatuses], _ = nodeplan.EncodeProbeStatuses(statuses)
}

// Two members that do not work do not wait for each other. One after the other gets the plan that may repair it, and
// the working ones get none.
func TestDecide_TwoBrokenMembersAreMendedOneAfterTheOther(t *testing.T) {
	for name, breakdown := range map[string]func(h *host){
		"their probes fail": func(h *host) { h.probes(false) },
		"their plan fails":  func(h *host) { h.data[nodeplan.KeyPlanState] = []byte("failed") },
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			breakdown(w.machines["s2"])
			breakdown(w.machines["s3"])
			w.edit(restartAll)
			d := w.run(t)
			if !w.machines["s2"].hasPlan() || w.machines["s1"].hasPlan() ||
				w.machines["s3"].state().Checksum == w.machines["s2"].state().Checksum {
				t.Fatalf("s1 has a plan: %v, s2: %v; wait %+v", w.machines["s1"].hasPlan(), w.machines["s2"].hasPlan(),
					d.Wait)
			}
			if w.machines["s3"].hasPlan() {
				t.Error("two members get a plan at once")
			}
			w.bringUp(t)
		})
	}
}

// The message of a machine that waits for a broken member says what the user can do.
func TestDecide_TheWayOutOfABrokenMemberIsTold(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.edit(restartAll)
	w.roll(t, "s1")
	w.machines["s2"].failPlan()
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.ProvisionGeneration = 9 })
	w.run(t)
	w.machines["s2"].failPlan()
	w.run(t)
	for _, want := range []string{"waiting for the etcd members of s2", "delete their Machines",
		rkev1.RollOutSkipAnnotation} {
		if got := w.machines["s1"].m.Reconciled.Message; !strings.Contains(got, want) {
			t.Errorf("message of s1 %q lacks %q", got, want)
		}
	}
}

// W33: a plan that an agent has given up permanently is delivered again under the same rules as the first time.
func TestDecide_APlanThatFailedByStateWaitsForEtcd(t *testing.T) {
	for name, tc := range map[string]struct {
		given func(w *world)
		want  []string
	}{
		"all others work": {func(*world) {}, []string{"s2"}},
		"another one is at a restart": {func(w *world) {
			delete(w.machines["s3"].data, nodeplan.KeyAppliedChecksum)
			delete(w.machines["s3"].data, nodeplan.KeyAppliedPlan)
		}, nil},
		"it is left out":     {func(w *world) { w.machines["s2"].m.Skip = true }, nil},
		"its pool is paused": {func(w *world) { w.machines["s2"].m.PoolPaused = true }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			w.machines["s3"].m.HasNode = true
			w.machines["s2"].data[nodeplan.KeyPlanState] = []byte("failed")
			tc.given(w)
			d := Decide(w.snapshot(t))
			if got := deliveries(d); !slices.Equal(got, tc.want) {
				t.Errorf("plans go to %v, want %v; wait %+v", got, tc.want, d.Wait)
			}
			if d.Wait == nil {
				t.Error("the cluster is said to be in order")
			}
			if tc.want != nil && d.Ticket == nil {
				t.Error("there is no ticket")
			}
		})
	}
}

// Of two members that do not work, one at a time is drained and changed.
func TestDecide_TwoBrokenMembersAreNotDrainedAtOnce(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.machines["s2"].probes(false)
	w.machines["s3"].probes(false)
	w.edit(func(s *rkev1.RKEControlPlaneSpec) {
		s.UpgradeStrategy.ControlPlaneDrainOptions.Enabled = true
		s.ProvisionGeneration++
	})
	for range 3 {
		if w.pass(t); w.machines["s3"].drain.Requested != "" || w.machines["s3"].hasPlan() {
			t.Fatal("s3 is changed while s2 is")
		}
	}
	if w.machines["s2"].drain.Requested == "" {
		t.Error("nothing is done about s2")
	}
	w.bringUp(t)
}

// Others wait for a machine that had its plan and has neither a plan Secret nor a node now.
func TestDecide_NothingIsThereOfAMember(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	third := w.machines["s3"]
	third.registered, third.m.HasNode, third.m.Marks.JoinURL = false, false, ""
	w.machines["s2"].probes(false)
	w.edit(restartAll)
	for _, drain := range []Drain{{}, drained} {
		w.machines["s2"].drain = drain
		if d := Decide(w.snapshot(t)); len(deliveries(d)) > 0 || !strings.Contains(d.Wait.Message, "s3") {
			t.Errorf("s2 is at %+v: plans go to %v; wait %+v", drain, deliveries(d), d.Wait)
		}
	}
}
