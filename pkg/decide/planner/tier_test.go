package planner

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// ready is a world with a cluster at rest.
func ready(t *testing.T, roles map[string]string) *world {
	t.Helper()
	w := newWorld(rke2Version)
	for name, r := range roles {
		w.add(name, r)
	}
	w.bringUp(t)
	return w
}

func small(t *testing.T) *world {
	t.Helper()
	return ready(t, map[string]string{"s": "etcd,control-plane", "w": "worker"})
}

func TestDecide_AMissingWorkerTakesNothingAway(t *testing.T) {
	w := small(t)
	w.cluster.Initialized = true
	w.machines["w"].m.Deleting = true
	d := w.run(t)
	if d.Wait == nil || d.Wait.Reason != ReasonMissingRole {
		t.Fatalf("wait is %+v", d.Wait)
	}
	if !w.cluster.Initialized || !*w.cp.Status.Initialization.ControlPlaneInitialized {
		t.Error("the control plane works as before")
	}
	if status, _ := w.condition("Stable"); status != "False" {
		t.Errorf("Stable is %s", status)
	}
}

// A deleting etcd machine is released only when no machine is left that could remove its member.
func TestDecide_OnlyTheLastEtcdMachineIsForced(t *testing.T) {
	w := ready(t, map[string]string{"c": "control-plane,worker", "e1": "etcd,control-plane",
		"e2": "etcd,control-plane"})
	for _, name := range []string{"c", "e2"} {
		w.machines[name].m.Deleting = true
	}
	w.run(t)
	if len(w.forced) > 0 {
		t.Fatalf("%v were forced although e1 lives", w.forced)
	}
	w.machines["e1"].m.Deleting = true
	w.run(t)
	w.run(t)
	if diff := cmp.Diff([]string{"e1", "e2"}, w.forced); diff != "" {
		t.Errorf("forced (-want +got):\n%s", diff)
	}
}

func TestDecide_DesignatedInitNode(t *testing.T) {
	w := newWorld(k3sVersion)
	w.cp.Labels = map[string]string{"rke.cattle.io/init-node-machine-id": "abc"}
	w.add("a", allRoles)
	w.add("b", allRoles).m.Labels["rke.cattle.io/machine-id"] = "abc"
	w.run(t)
	if w.machines["a"].hasPlan() || !w.machines["b"].hasPlan() || !w.machines["b"].m.Marks.InitNode {
		t.Error("the machine that the user chose must start the cluster")
	}
	w.add("c", allRoles).m.Labels["rke.cattle.io/machine-id"] = "abc"
	if d := w.run(t); d.Wait.Reason != ReasonConfiguring {
		t.Errorf("a second machine with the id stops a cluster that has started: %+v", d.Wait)
	}
	w.machines["b"].m.Marks, w.machines["b"].data, w.cp.Status.Ticket = Marks{}, nil, nil
	if d := Decide(w.snapshot(t)); !d.Wait.Failed || d.Wait.Reason != ReasonDesignatedAbsent {
		t.Errorf("two machines with the id: %+v", d.Wait)
	}
}

// Only a user can have marked several machines. The machine that others joined stays.
func TestDecide_SeveralInitMarks(t *testing.T) {
	w := ready(t, map[string]string{"a": allRoles, "b": allRoles, "c": allRoles})
	w.machines["c"].m.Marks.InitNode = true
	d := w.run(t)
	if w.machines["c"].m.Marks.InitNode || !w.machines["a"].m.Marks.InitNode || d.Wait != nil {
		t.Errorf("marks are a %v, c %v; wait %+v", w.machines["a"].m.Marks.InitNode, w.machines["c"].m.Marks.InitNode,
			d.Wait)
	}
}

func TestDecide_TroubleOfOneMachineIsItsOwn(t *testing.T) {
	for name, tc := range map[string]struct {
		sabotage    func(w *world)
		wantMessage string
		wantFailed  bool
	}{
		"an unreadable plan secret": {
			func(w *world) { w.machines["w1"].data = map[string][]byte{nodeplan.KeyPlan: []byte("{")} },
			`configuring worker node(s) w1: the plan secret w1-machine-plan is unreadable: malformed key "plan" of plan secret w1: must be JSON of the documented form`, false,
		},
		"reports beyond their budget": {
			func(w *world) {
				many := bytes.Repeat([]byte("x"), 3<<20)
				packed, _ := nodeplan.EncodeOutput(map[string][]byte{"a": many})
				w.machines["w1"].data = map[string][]byte{nodeplan.KeyFailedOutput: packed}
			},
			`configuring worker node(s) w1: the plan secret w1-machine-plan is unreadable: key "failed-output" of plan secret w1 is too large: more than 1 MiB in all reports, decompressed`, false,
		},
		"a configuration that cannot be rendered": {
			func(w *world) { w.machines["w1"].m.Annotations = map[string]string{"rke.cattle.io/labels": "{"} },
			"", true,
		},
		"a driver that has not saved addresses": {
			func(w *world) { w.machines["w1"].m.Provisioned = true },
			"", false,
		},
		"an agent that failed": {
			func(w *world) { w.run(&testing.T{}); w.machines["w1"].failPlan() },
			"configuring worker node(s) w1: failure while applying plan", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := ready(t, map[string]string{"s": "etcd,control-plane", "w0": "worker"})
			w.add("w1", "worker")
			w.add("w2", "worker")
			tc.sabotage(w)
			d := w.run(t)
			if !w.machines["w2"].hasPlan() {
				t.Error("the other machine of the tier does not get its plan")
			}
			w.machines["w2"].applyPlan()
			w.machines["w2"].probes(true)
			d = w.run(t)
			if tc.wantMessage != "" && d.Wait.Message != tc.wantMessage {
				t.Errorf("message is %q\nwant %q", d.Wait.Message, tc.wantMessage)
			}
			if !strings.HasPrefix(d.Wait.Message, "configuring worker node(s) w1: ") || d.Wait.Failed != tc.wantFailed {
				t.Errorf("wait is %+v", d.Wait)
			}
			if got := w.machines["w1"].m.Reconciled; got.Status != "Unknown" ||
				!strings.HasSuffix(d.Wait.Message, got.Message) {
				t.Errorf("the machine says %+v", got)
			}
		})
	}
}

func TestDecide_MessagesNameThreeMachines(t *testing.T) {
	w := ready(t, map[string]string{"s": "etcd,control-plane", "w": "worker"})
	for i := range 5 {
		w.add(fmt.Sprintf("n%d", i), "worker")
	}
	d := w.run(t)
	if want := "configuring worker node(s) n0,n1,n2 and 2 more"; d.Wait == nil || d.Wait.Message != want {
		t.Errorf("wait is %+v, want %q", d.Wait, want)
	}
}

// A plan that its Secret cannot hold is reported before it is written. (docs/invariants.md#weaknesses, W7.)
func TestDecide_PlansThatDoNotFitAreNotDelivered(t *testing.T) {
	w := newWorld(rke2Version)
	w.add("s", allRoles)
	w.cp.Spec.AdditionalManifest = "# " + strings.Repeat("x", MaxPlanSize)
	d := w.run(t)
	if w.machines["s"].hasPlan() || d.Wait == nil || !d.Wait.Failed ||
		!strings.Contains(d.Wait.Message,
			"the plan has 538 KiB, at most 400 KiB are delivered; the largest parts are "+
				"spec.rkeConfig.additionalManifest (533 KiB)") {
		t.Errorf("wait is %+v", d.Wait)
	}
	if status, message := w.condition("Ready"); status != "False" || message != d.Wait.Message {
		t.Errorf("Ready is %s %q", status, message)
	}
}

// A machine whose plan cannot be delivered says what to do, and all later machines still get their plans.
func TestDecide_APlanThatDoesNotFitHoldsUpNobodyElse(t *testing.T) {
	const remedy = "the plan does not fit into plan secret e-machine-plan together with the reports of its node; " +
		"delete the keys with the names of outputs from the secret"
	for name, roles := range map[string]string{"an etcd machine": "etcd", "a control-plane machine": "control-plane",
		"a worker": "worker"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(rke2Version)
			w.add("a-init", "etcd")
			for machine, of := range map[string]string{"c": "control-plane", "w": "worker", "x": "etcd"} {
				w.add(machine, of)
			}
			w.add("e", roles).reports = MaxSecretSize
			var d Decision
			for range 12 {
				d = w.run(t)
				for _, machine := range w.names() {
					h := w.machines[machine]
					h.applyPlan()
					h.probes(true)
					h.joinCluster(rke2Version)
					if h.m.Marks.InitNode && h.probesSeen {
						h.captureAddress()
					}
				}
				w.connected = w.machines["c"].m.HasNode
			}
			for _, machine := range w.names() {
				if h := w.machines[machine]; h.m.HasNode != (machine != "e") {
					t.Errorf("%s became a node: %v", machine, h.m.HasNode)
				}
			}
			if d.Wait == nil || !d.Wait.Failed || d.Wait.Reason != ReasonPlanTooLarge ||
				!strings.HasSuffix(d.Wait.Message, "node(s) e: "+remedy) {
				t.Errorf("wait is %+v", d.Wait)
			}
			if got := w.machines["e"].m.Reconciled.Message; got != remedy {
				t.Errorf("the machine says %q", got)
			}
			if marks := w.machines["e"].m.Marks; marks.RenderVersion != "" || marks.JoinedTo != "" {
				t.Errorf("it is noted as if a plan was delivered: %+v", marks)
			}
			if w.cp.Status.AppliedSpec != nil {
				t.Error("the spec counts as applied")
			}
			w.machines["e"].reports = 0
			w.bringUp(t)
		})
	}
}

// A change may be what brings the agent back, so it goes from server to server without the agent. Before the agent
// connected for the first time, a new server waits for it.
func TestDecide_ALostAgent(t *testing.T) {
	for name, c := range map[string]struct{ deployed, changed bool }{
		"an agent that was connected once": {deployed: true, changed: true},
		"an agent that never came":         {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(k3sVersion)
			for _, server := range []string{"a", "b", "c"} {
				w.add(server, allRoles)
			}
			w.bringUp(t)
			before := map[string]string{}
			for _, server := range w.names() {
				before[server] = string(w.machines[server].data["plan"])
			}
			w.connected, w.deployed = false, c.deployed
			w.cp.Spec.AdditionalManifest = "kind: ConfigMap\n"
			w.cp.Spec.MachineGlobalConfig.Data = map[string]any{"write-kubeconfig-mode": "0640"}
			for range 12 {
				w.run(t)
				for _, server := range w.names() {
					w.machines[server].applyPlan()
					w.machines[server].probes(true)
				}
			}
			changed := 0
			for _, server := range w.names() {
				if string(w.machines[server].data["plan"]) != before[server] {
					changed++
				}
			}
			if all := changed == 3; all != c.changed {
				t.Errorf("%d of 3 servers have the change", changed)
			}
		})
	}
}

// Machines that are joined to a running init node do not wait for the init node's next plan.
func TestDecide_ANextPlanThatDoesNotFit(t *testing.T) {
	w := small(t)
	w.machines["s"].reports = MaxSecretSize
	w.cp.Spec.AdditionalManifest = "kind: ConfigMap\n"
	w.add("new", "worker")
	d := w.run(t)
	if !w.machines["new"].hasPlan() || w.machines["s"].hasPlan() {
		t.Errorf("plans: the new worker %v, the init node %v", w.machines["new"].hasPlan(), w.machines["s"].hasPlan())
	}
	if d.Wait == nil || d.Wait.Reason != ReasonPlanTooLarge ||
		!strings.HasPrefix(d.Wait.Message, "configuring bootstrap node(s) s: ") {
		t.Errorf("wait is %+v", d.Wait)
	}
}

// A cluster that was controlled by state has agents that have given up permanently.
func TestDecide_APlanThatFailedByStateIsDeliveredAgain(t *testing.T) {
	w := small(t)
	w.machines["w"].data[nodeplan.KeyPlanState] = []byte("failed")
	d := Decide(w.snapshot(t))
	if diff := cmp.Diff([]string{"w"}, deliveries(d)); diff != "" {
		t.Fatalf("plans (-want +got):\n%s", diff)
	}
	w.apply(d)
	if _, state := w.machines["w"].data[nodeplan.KeyPlanState]; state {
		t.Error("the agent would not start again")
	}
	if again := Decide(w.snapshot(t)); len(deliveries(again)) > 0 {
		t.Error("delivered twice")
	}
}

func TestDecide_OthersMayFindFaultWithMachines(t *testing.T) {
	w := small(t)
	w.machines["w"].m.Health = Health{NotReady: true, Message: "no node"}
	if d := w.run(t); d.Wait == nil || d.Wait.Message != "non-ready worker machine(s) w: no node" {
		t.Errorf("wait is %+v", d.Wait)
	}
	w.machines["s"].m.Health = Health{Failing: true, Message: "error applying plan"}
	if d := w.run(t); d.Wait == nil || d.Wait.Message != "failing bootstrap machine(s) s: error applying plan" {
		t.Errorf("wait is %+v", d.Wait)
	}
	w.machines["w"].m.Health, w.machines["s"].m.Health = Health{}, Health{}
	if d := w.run(t); d.Wait != nil {
		t.Errorf("the wait must end with its cause: %+v", d.Wait)
	}
}

func TestDecide_OldKubelets(t *testing.T) {
	w := small(t)
	w.machines["w"].m.KubeletVersion = "v1.36.1+rke2r1"
	if d := w.run(t); d.Wait == nil || d.Wait.Message != "configuring worker node(s) w: waiting for kubelet to update" {
		t.Errorf("wait is %+v", d.Wait)
	}
	w.machines["w"].m.KubeletVersion = "v1.36.2+rke2r9"
	if d := w.run(t); d.Wait != nil {
		t.Errorf("builds of a version are not told apart: %+v", d.Wait)
	}
}

func TestDecide_OddConfigurationIsReportedAndPassedOn(t *testing.T) {
	w := small(t)
	odd := func() Snapshot {
		s := w.snapshot(t)
		s.Release = distro.Release{Version: rke2Version}
		return s
	}
	d := Decide(odd())
	if len(d.Warnings) == 0 || d.Wait != nil {
		t.Fatalf("warnings %v, wait %+v", d.Warnings, d.Wait)
	}
	w.apply(d)
	status, message := w.condition(ConditionConfigurationUnderstood)
	if status != "False" || !strings.HasPrefix(message, "spec.kubernetesVersion: ") {
		t.Errorf("condition is %s %q", status, message)
	}
	if again := Decide(odd()); !cmp.Equal(again.Status, w.cp.Status) {
		t.Error("the warning is written again and again")
	}
	w.run(t)
	if status, _ := w.condition(ConditionConfigurationUnderstood); status != "True" {
		t.Errorf("condition is %s after the cause is gone", status)
	}
}

// A machine may be unhealthy in the eyes of other controllers for long. Meanwhile edits reach all machines, and
// oddities of the configuration are still reported.
func TestDecide_OddConfigurationIsReportedWhileAMachineIsUnwell(t *testing.T) {
	w := small(t)
	w.machines["w"].m.Health = Health{Failing: true, Message: "the disk is full"}
	for _, key := range []string{"odd", "odder"} {
		w.edit(func(s *rkev1.RKEControlPlaneSpec) {
			s.MachineGlobalConfig.Data = map[string]any{key: map[string]any{"a": "b"}}
		})
		w.roll(t, "s", "w")
		if d := w.run(t); d.Wait == nil || d.Wait.Reason != ReasonMachinesUnhealthy {
			t.Fatalf("wait is %+v", d.Wait)
		}
		if status, message := w.condition(ConditionConfigurationUnderstood); status != "False" ||
			!strings.Contains(message, key) {
			t.Errorf("with %s the condition is %s %q", key, status, message)
		}
	}
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.MachineGlobalConfig.Data = nil })
	w.roll(t, "s", "w")
	if status, message := w.condition(ConditionConfigurationUnderstood); status != "True" {
		t.Errorf("in the end the condition is %s %q", status, message)
	}
}

func TestDecide_JoinURLByHand(t *testing.T) {
	w := newWorld(k3sVersion)
	h := w.add("s", "etcd,control-plane")
	h.m.Annotations = map[string]string{"rke.cattle.io/join-url-autoset-disabled": "",
		"rke.cattle.io/join-url": "https://lb.example:6443"}
	w.add("w", "worker")
	w.bringUp(t)
	if got := w.machines["w"].m.Marks.JoinedTo; got != "https://lb.example:6443" {
		t.Errorf("the worker joins %q", got)
	}
}

func TestDecide_UnmanagedConfigurationHasNoTokens(t *testing.T) {
	w := newWorld(rke2Version)
	w.cp.Spec.UnmanagedConfig = true
	w.add("s", allRoles)
	w.run(t)
	if w.tokens.Exists || !w.machines["s"].hasPlan() {
		t.Errorf("tokens %v, plan %v", w.tokens.Exists, w.machines["s"].hasPlan())
	}
}

// What a node writes about itself in its plan Secret gives it no role and no address.
func TestDecide_NothingIsBelievedFromAPlanSecret(t *testing.T) {
	w := small(t)
	s := w.snapshot(t)
	for i := range s.Machines {
		if s.Machines[i].Name == "w" {
			lying := *s.Machines[i].Plan
			lying.JoinURL = "https://6.6.6.6:9345"
			s.Machines[i].Plan = &lying
		}
	}
	d := Decide(s)
	want := []Effect{PublishJoinURL{Machine: "w", Secret: "w-machine-plan", JoinURL: ""}}
	if diff := cmp.Diff(want, d.Effects); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// spec.version of a Machine is the version of its plan, because Cluster API compares it with that of its node.
func TestDecide_MachinesTellTheVersionOfTheirPlans(t *testing.T) {
	const before, after = "v1.36.2+rke2r1", "v1.36.3+rke2r1"
	w := small(t)
	w.run(t)
	versions := func() map[string]string {
		return map[string]string{"s": w.machines["s"].m.Marks.Version, "w": w.machines["w"].m.Marks.Version}
	}
	if diff := cmp.Diff(map[string]string{"s": before, "w": before}, versions()); diff != "" {
		t.Fatalf("versions (-want +got):\n%s", diff)
	}
	w.machines["w"].m.Marks.Version = "" // reset by a MachineSet that has seen an older Machine
	want := []Effect{MarkMachine{Machine: "w", Marks: Marks{JoinedTo: w.machines["w"].m.Marks.JoinedTo,
		RenderVersion: render.Version, Version: before}}}
	if diff := cmp.Diff(want, Decide(w.snapshot(t)).Effects); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
	w.run(t)
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.KubernetesVersion = after })
	w.run(t)
	if diff := cmp.Diff(map[string]string{"s": after, "w": before}, versions()); diff != "" {
		t.Errorf("versions in the middle of an upgrade (-want +got):\n%s", diff)
	}
}

func TestDecide_PinnedRenderVersionIsKept(t *testing.T) {
	w := small(t)
	w.machines["w"].m.Marks.RenderVersion = "0-unknown"
	d := w.run(t)
	if status, message := w.condition(ConditionRenderVersions); d.Wait != nil || status != "False" ||
		!strings.Contains(message, "render version 0-unknown, which") || !strings.Contains(message, ": w") {
		t.Errorf("wait is %+v, condition %s %q", d.Wait, status, message)
	}
	if got := w.machines["w"].m.Marks.RenderVersion; got != "0-unknown" {
		t.Errorf("the machine is pinned to %q now", got)
	}
	if w.machines["s"].m.Marks.RenderVersion != render.Version {
		t.Errorf("new machines are pinned to %q", w.machines["s"].m.Marks.RenderVersion)
	}
}

func TestDecide_AppliedSpecFollowsTheSpec(t *testing.T) {
	w := small(t)
	w.cp.Generation++
	w.cp.Spec.AdditionalManifest = "kind: ConfigMap\n"
	w.run(t)
	if status, message := w.condition("Reconciled"); status != "Unknown" ||
		message != "RKEControlPlane has not been fully reconciled yet" {
		t.Errorf("Reconciled is %s %q", status, message)
	}
	if w.cp.Status.AppliedSpec.AdditionalManifest != "" || w.cp.Status.ObservedGeneration != w.cp.Generation {
		t.Error("the spec counts as applied before it is")
	}
	w.bringUp(t)
	if w.cp.Status.AppliedSpec.AdditionalManifest != w.cp.Spec.AdditionalManifest ||
		!conditions.IsTrue(w.cp.Status.Conditions, rkev1.ConditionReconciled) {
		t.Errorf("status is %+v", w.cp.Status)
	}
}
