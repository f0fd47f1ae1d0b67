package planner

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

func restartAll(s *rkev1.RKEControlPlaneSpec) { s.ProvisionGeneration++ }

// servers is a cluster of three machines with etcd and control plane, and the given other machines.
func servers(t *testing.T, more map[string]string) *world {
	t.Helper()
	roles := map[string]string{"s1": "etcd,control-plane", "s2": "etcd,control-plane", "s3": "etcd,control-plane"}
	maps.Copy(roles, more)
	return ready(t, roles)
}

// roll lets machines finish, one after the other.
func (w *world) roll(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		h := w.machines[name]
		w.run(t)
		h.drainNode()
		w.run(t)
		h.applyPlan()
		h.probes(true)
		w.run(t)
		h.drainNode()
		w.run(t)
	}
}

func TestConcurrency(t *testing.T) {
	for name, tc := range map[string]struct {
		text     string
		machines int
		want     int
	}{
		"nothing is said":         {"", 10, 1},
		"a number":                {"3", 10, 3},
		"more than there are":     {"30", 10, 30},
		"no limit":                {"0", 10, 0},
		"a share":                 {"50%", 10, 5},
		"a share is rounded up":   {"10%", 11, 2},
		"a fraction":              {"12.5%", 16, 2},
		"without the sign":        {"12.5", 16, 2},
		"a small share is one":    {"1%", 3, 1},
		"a share of nothing":      {"50%", 0, 1},
		"all":                     {"100%", 7, 7},
		"more than all":           {"1e300%", 7, 7},
		"less than nothing":       {"-2", 7, 1},
		"what cannot be read":     {"many", 7, 1},
		"what is not even a name": {"NaN%", 7, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := concurrency(tc.text, tc.machines); got != tc.want {
				t.Errorf("%q of %d are %d, want %d", tc.text, tc.machines, got, tc.want)
			}
		})
	}
}

// An init node that is powered off is replaced. (docs/invariants.md#weaknesses, W10.)
func TestDecide_WhoTakesThePlaceOfTheInitNode(t *testing.T) {
	lose := func(w *world) { w.machines["s1"].m.NodeLostSince = w.now.Add(-lostAfter) }
	for name, tc := range map[string]struct {
		given func(w *world)
		want  string // empty: it stays with s1, or waits for it
	}{
		"it is deleted": {func(w *world) { w.machines["s1"].m.Deleting = true }, "s2"},
		"it failed":     {func(w *world) { w.machines["s1"].m.Phase = "Failed" }, "s2"},
		"its host is gone": {func(w *world) { w.machines["s1"].m.InfrastructureReady = false },
			"s2"},
		"it has lost a mark": {func(w *world) { w.machines["s1"].m.Marks.InitNode = false },
			"s1"},
		"its node is lost for long":    {lose, "s2"},
		"its node is lost for a while": {func(w *world) { w.machines["s1"].m.NodeLostSince = w.now }, ""},
		"its node is lost, and so is the majority": {func(w *world) {
			lose(w)
			w.machines["s3"].m.NodeLostSince = w.now
		}, ""},
		"another that does not work is passed over": {func(w *world) {
			w.machines["s1"].m.Deleting = true
			w.machines["s2"].probes(false)
		}, "s3"},
		"another without a join URL is passed over": {func(w *world) {
			w.machines["s1"].m.Deleting = true
			w.machines["s2"].m.Marks.JoinURL = ""
		}, "s3"},
		"no machine that never joined": {func(w *world) {
			for _, name := range []string{"s1", "s2", "s3"} {
				w.machines[name].m.Deleting = true
			}
			w.add("a", "etcd,control-plane")
		}, ""},
		"no machine except the one that the user chose": {func(w *world) {
			w.cp.Labels = map[string]string{"rke.cattle.io/init-node-machine-id": "x"}
			w.machines["s1"].m.Deleting = true
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			tc.given(w)
			d := Decide(w.snapshot(t))
			chosen := ""
			for _, e := range d.Effects {
				if mark, ok := e.(MarkMachine); ok && mark.Marks.InitNode {
					chosen = mark.Machine
				}
			}
			if chosen != tc.want {
				t.Errorf("the init node becomes %q, want %q; wait %+v", chosen, tc.want, d.Wait)
			}
			if tc.want == "" && (d.Wait == nil || len(d.Wait.Wakes) == 0) {
				t.Errorf("wait is %+v", d.Wait)
			}
		})
	}
}

// W13: there are never two init nodes, on Machines or on plan Secrets.
func TestDecide_TheFormerInitNodeIsToldFirst(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.machines["s1"].m.Deleting = true
	w.machines["s3"].m.Marks, w.machines["s1"].m.Marks = w.machines["s1"].m.Marks, w.machines["s3"].m.Marks
	w.machines["s3"].initLabel, w.machines["s1"].initLabel = true, false
	w.machines["s3"].m.Deleting = true
	w.machines["s1"].m.Deleting = false
	d := Decide(w.snapshot(t))
	var order []string
	for _, e := range d.Effects {
		switch e := e.(type) {
		case MarkMachine:
			order = append(order, describe(e)[:len("mark      s1")])
		case WithdrawInitLabel:
			order = append(order, "unlabel "+e.Machine)
		}
	}
	if len(order) < 3 || order[0] != "mark      s3" || order[1] != "unlabel s3" {
		t.Errorf("order is %v", order)
	}
}

// W10: without other events, the timer wakes the planner.
func TestDecide_ALostInitNodeIsLookedAtAgain(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.machines["s1"].m.NodeLostSince = w.now.Add(-4 * time.Minute)
	d := Decide(w.snapshot(t))
	if d.Wait == nil || d.Wait.After != 6*time.Minute {
		t.Errorf("wait is %+v", d.Wait)
	}
}

// A change of the join server restarts, and never drains.
func TestDecide_ANewJoinServerDrainsNobody(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.edit(func(s *rkev1.RKEControlPlaneSpec) {
		s.UpgradeStrategy.ControlPlaneDrainOptions.Enabled, s.UpgradeStrategy.WorkerDrainOptions.Enabled = true, true
	})
	w.machines["s1"].m.Deleting = true
	w.roll(t, "s2", "s3", "w")
	for _, name := range w.names() {
		if w.machines[name].drains > 0 {
			t.Errorf("%s was drained", name)
		}
	}
	if got := w.machines["s3"].m.Marks.JoinedTo; got != w.machines["s2"].m.Marks.JoinURL {
		t.Errorf("s3 is joined to %s", got)
	}
}

// A member that waits for its repair gets it, although the init node would come first.
func TestDecide_TheMemberThatDoesNotWorkComesFirst(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.edit(restartAll)
	w.roll(t, "s1")
	w.machines["s2"].failPlan()
	w.run(t)
	w.edit(restartAll)
	d := Decide(w.snapshot(t))
	if diff := cmp.Diff([]string{"s2"}, deliveries(d)); diff != "" {
		t.Fatalf("plans (-want +got):\n%s\nwait %+v", diff, d.Wait)
	}
	w.bringUp(t)
}

// While two members are out, no working member restarts until the user says that one of the two does not matter.
// (docs/invariants.md#weaknesses, W26.)
func TestDecide_AMinorityOfEtcdIsLeftAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		members int
		given   func(w *world)
		want    []string
	}{
		"one of three is off, and gets its plan for later": {3, func(w *world) { w.off(w.machines["s3"]) },
			[]string{"s3"}},
		"left out, the others are no majority without one": {3, func(w *world) {
			w.off(w.machines["s3"])
			w.machines["s3"].m.Skip = true
		}, nil},
		"left out, and the others are a majority": {5, func(w *world) {
			w.off(w.machines["s5"])
			w.machines["s5"].m.Skip = true
		}, []string{"s1"}},
		"one is leaving": {3, func(w *world) { w.machines["s3"].m.Deleting, w.machines["s3"].m.Held = true, true },
			nil},
		"one was let go": {3, func(w *world) { w.machines["s3"].m.Deleting = true }, []string{"s1"}},
		"a newcomer was never heard of for too long to join": {3, func(w *world) {
			w.now = w.now.Add(-lostAfter)
			w.add("s4", "etcd")
			w.run(t)
			w.now = w.now.Add(lostAfter)
		}, []string{"s1"}},
		"a newcomer is joining": {3, func(w *world) { w.add("s4", "etcd"); w.run(t) }, nil},
		"a newcomer may have joined": {3, func(w *world) { w.add("s4", "etcd"); w.run(t); w.machines["s4"].failPlan() },
			[]string{"s4"}},
	} {
		t.Run(name, func(t *testing.T) {
			roles := map[string]string{"w": "worker"}
			for i := range tc.members {
				roles["s"+string(rune('1'+i))] = "etcd,control-plane"
			}
			w := ready(t, roles)
			tc.given(w)
			w.edit(restartAll)
			d := Decide(w.snapshot(t))
			got := slices.DeleteFunc(deliveries(d), func(name string) bool { return name == "s4" && tc.want == nil })
			if !slices.Equal(got, tc.want) {
				t.Errorf("plans go to %v, want %v; wait %+v", got, tc.want, d.Wait)
			}
		})
	}
}

// While the init node cannot change and no other machine changes, the cluster does not count as in order.
func TestDecide_ABlockedInitNodeIsTold(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.machines["s1"].m.Annotations = map[string]string{"rke.cattle.io/labels": `{"a":"b"}`}
	w.machines["s3"].registered = false
	d := Decide(w.snapshot(t))
	want := "configuring bootstrap node(s) s1: configuration change pending; waiting for the etcd members of s3"
	if d.Wait == nil || d.Wait.Reason != ReasonEtcdUnhealthy || d.Wait.Message != want || len(deliveries(d)) > 0 {
		t.Errorf("wait is %+v", d.Wait)
	}
}

func TestDecide_WhoDoesNotWorkAnywayComesFirst(t *testing.T) {
	w := ready(t, map[string]string{"s": "etcd,control-plane", "w1": "worker", "w2": "worker", "w3": "worker"})
	w.machines["w3"].probes(false)
	w.machines["w1"].m.NodeLostSince = w.now
	w.edit(restartAll)
	w.roll(t, "s")
	var order []string
	for range 3 {
		for _, name := range []string{"w1", "w2", "w3"} {
			if h := w.machines[name]; h.hasPlan() {
				order = append(order, name)
				h.m.NodeLostSince = time.Time{}
				h.applyPlan()
				h.probes(true)
			}
		}
		w.run(t)
	}
	if diff := cmp.Diff([]string{"w3", "w2", "w1"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// A change that only informs a node is delivered at once, whatever the others do.
func TestDecide_MinorChangesWaitForNobody(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	told := func() Decision {
		s := w.snapshot(t)
		s.ClusterAgent.Manifest = "kind: ConfigMap\n"
		return Decide(s)
	}
	w.apply(told())
	w.machines["s1"].applyPlan()
	w.machines["s1"].probes(true)
	w.machines["s2"].probes(false)
	d := told()
	if diff := cmp.Diff([]string{"s2", "s3"}, deliveries(d)); diff != "" || d.Ticket != nil {
		t.Errorf("ticket %+v, plans (-want +got):\n%s", d.Ticket, diff)
	}
}

// A worker that is powered off does not hold up the others forever. (docs/invariants.md#weaknesses, W9.)
func TestDecide_WhoIsUnreachable(t *testing.T) {
	for name, tc := range map[string]struct {
		given func(w *world, h *host)
		want  bool
	}{
		"its node is lost for long":               {func(w *world, h *host) { w.off(h) }, true},
		"its node is there, only its agent quiet": {func(*world, *host) {}, false},
		"its agent reported a failure":            {func(w *world, h *host) { w.off(h); h.failPlan() }, false},
		"its agent applied the plan":              {func(w *world, h *host) { w.off(h); h.applyPlan() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := ready(t, map[string]string{"s": "etcd,control-plane", "w1": "worker", "w2": "worker"})
			w.edit(restartAll)
			w.roll(t, "s")
			tc.given(w, w.machines["w1"])
			d := w.run(t)
			if tc.want && (d.Wait.After <= 0 || d.Wait.After > lostAfter) {
				t.Errorf("the planner does not run again in time: %+v", d.Wait)
			}
			w.now = w.now.Add(lostAfter)
			if got := slices.Contains(deliveries(Decide(w.snapshot(t))), "w2"); got != tc.want {
				t.Errorf("the roll-out goes on: %v, want %v", got, tc.want)
			}
		})
	}
}

// A worker whose agent never reported holds up an upgrade as long as one whose node is lost.
func TestDecide_AWorkerThatNeverCame(t *testing.T) {
	w := ready(t, map[string]string{"s": "etcd,control-plane", "w2": "worker"})
	w.add("w1", "worker")
	w.run(t)
	w.edit(restartAll)
	w.roll(t, "s")
	if d := Decide(w.snapshot(t)); slices.Contains(deliveries(d), "w2") {
		t.Errorf("w1 has just got its plan: %+v", d.Wait)
	}
	w.now = w.now.Add(lostAfter)
	w.run(t)
	if got := w.machines["w2"].state(); got.InSync {
		t.Error("w2 waits for a machine that does not come")
	}
	if got := w.machines["w1"].m.Reconciled.Message; !strings.HasPrefix(got, "is unreachable since 2026-") {
		t.Errorf("the machine says %q", got)
	}
}

func TestDecide_FailuresAreTold(t *testing.T) {
	w := small(t)
	w.edit(restartAll)
	w.run(t)
	s := w.machines["s"]
	fail := func(count, output string) string {
		s.failPlan()
		s.data[nodeplan.KeyFailureCount] = []byte(count)
		packed, err := nodeplan.EncodeOutput(map[string][]byte{
			"install": []byte(output), "later": []byte("of another plan"),
			nodeplan.OutputFailure: nodeplan.Failure{Instruction: "install", ExitCode: 7}.Encode(),
		})
		if err != nil {
			t.Fatal(err)
		}
		s.data[nodeplan.KeyFailedOutput] = packed
		w.run(t)
		return s.m.Reconciled.Message
	}
	first := "failure while applying plan, instruction install, exit code 7: 10:01 no route to host"
	if got := fail("1", "10:01 no route\n to host\n"); got != first {
		t.Errorf("message is %q", got)
	}
	if got := fail("1", "10:02 no route\n to host\n"); got != first {
		t.Errorf("the message changes with every attempt: %q", got)
	}
	want := "failure while applying plan, instruction install, exit code 7 (4 attempts or more): curl --token *** " +
		"https://u*** password: *** failed with ***"
	if got := fail("5", "curl --token server-token https://u:hunter2@x password: hunter2 failed with "+
		strings.Repeat("Ab3", 20)); strings.Contains(got, "hunter2") ||
		strings.Contains(got, "server-token") || strings.Contains(got, "Ab3") || !strings.HasPrefix(got, want[:90]) {
		t.Errorf("message is %q", got)
	}
	if got := fail("8", "joined with server-token"); strings.Contains(got, "server-token") {
		t.Errorf("message is %q", got)
	}
	if got := fail("16", strings.Repeat("word ", 300)); len(got) > 2*maxTail ||
		!strings.Contains(got, "(16 attempts or more): … word") {
		t.Errorf("message is %q", got)
	}
}

func TestDecide_EvenNumbersOfEtcdMachines(t *testing.T) {
	w := ready(t, map[string]string{"s1": "etcd,control-plane", "w": "worker"})
	if status, _ := w.condition(ConditionEtcdQuorum); status != "" {
		t.Errorf("condition is %q", status)
	}
	w.add("s2", "etcd,control-plane")
	w.bringUp(t)
	if status, message := w.condition(ConditionEtcdQuorum); status != "False" ||
		!strings.HasPrefix(message, "The cluster has 2 machines with etcd") {
		t.Errorf("condition is %q %q", status, message)
	}
	w.add("s3", "etcd,control-plane")
	w.bringUp(t)
	if status, _ := w.condition(ConditionEtcdQuorum); status != "True" {
		t.Errorf("condition is %q", status)
	}
}
