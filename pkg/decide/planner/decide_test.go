package planner

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// failer is the common interface of a test and a model.
type failer interface {
	Helper()
	Fatal(args ...any)
}

// config is the configuration file of RKE2 or K3s in a plan.
func config(t failer, raw []byte) map[string]any {
	t.Helper()
	p, err := nodeplan.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(p.Files, func(f plan.File) bool { return strings.HasSuffix(f.Path, "/50-rancher.yaml") })
	if i < 0 {
		t.Fatal("the plan has no 50-rancher.yaml")
	}
	text, err := base64.StdEncoding.DecodeString(p.Files[i].Content)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// effectsOf are the effects of one kind.
func effectsOf[E Effect](d Decision) []E {
	var out []E
	for _, e := range d.Effects {
		if e, ok := e.(E); ok {
			out = append(out, e)
		}
	}
	return out
}

func deliveries(d Decision) []string {
	var out []string
	for _, e := range effectsOf[DeliverPlan](d) {
		out = append(out, e.Machine)
	}
	return out
}

func TestDecide_NewCluster_EveryTopologyGetsReady(t *testing.T) {
	for name, tc := range map[string]struct {
		version string
		roles   map[string]string
	}{
		"one RKE2 server": {rke2Version, map[string]string{"a": allRoles}},
		"one K3s server":  {k3sVersion, map[string]string{"a": allRoles}},
		"three servers, workers": {rke2Version,
			map[string]string{"a": "etcd,control-plane", "b": "etcd,control-plane", "c": "etcd,control-plane",
				"w1": "worker", "w2": "worker"}},
		"three K3s servers": {k3sVersion, map[string]string{"a": allRoles, "b": allRoles, "c": allRoles,
			"w1": "worker"}},
		"control plane on its own": {rke2Version, map[string]string{"a": "etcd,control-plane", "c": "control-plane",
			"w": "worker"}},
		"worker sorts first": {k3sVersion, map[string]string{"a": "worker", "b": "etcd,control-plane"}},
		"two workers":        {rke2Version, map[string]string{"a": "etcd,control-plane", "b": "worker", "c": "worker"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(tc.version)
			for machine, roles := range tc.roles {
				w.add(machine, roles)
			}
			w.bringUp(t)
			if status, _ := w.condition("Ready"); status != "True" {
				t.Fatalf("Ready is %s", status)
			}
			for _, kind := range []string{"Reconciled", "Provisioned", "Stable", "Bootstrapped"} {
				if status, _ := w.condition(kind); status != "True" {
					t.Errorf("%s is %q", kind, status)
				}
			}
			for _, kind := range []string{"ScalingUp", "ScalingDown", "RollingOut"} {
				if status, _ := w.condition(kind); status != "False" {
					t.Errorf("%s is %q", kind, status)
				}
			}
			if !w.cp.Status.AgentConnected || w.cp.Status.AppliedSpec == nil ||
				!*w.cp.Status.Initialization.ControlPlaneInitialized {
				t.Errorf("status is incomplete: %+v", w.cp.Status)
			}
			before := w.writes
			for range 10 {
				w.pass(t)
			}
			if w.writes != before {
				t.Errorf("%d writes in a settled cluster", w.writes-before)
			}
		})
	}
}

func TestDecide_JoiningMachinesJoinTheInitNode(t *testing.T) {
	w := newWorld(k3sVersion)
	for _, name := range []string{"a", "b", "c"} {
		w.add(name, "etcd,control-plane")
	}
	w.add("w", "worker")
	w.bringUp(t)
	want := map[string]any{"a": nil, "b": "https://10.0.0.10:6443", "c": "https://10.0.0.10:6443"}
	for name, server := range want {
		got := config(t, w.machines[name].data["plan"])
		if got["server"] != server {
			t.Errorf("%s joins %v, want %v", name, got["server"], server)
		}
		if (got["cluster-init"] == true) != (server == nil) {
			t.Errorf("cluster-init of %s is %v", name, got["cluster-init"])
		}
	}
	worker := config(t, w.machines["w"].data["plan"])
	servers := []any{"https://10.0.0.10:6443", "https://10.0.0.11:6443", "https://10.0.0.12:6443"}
	if !slices.Contains(servers, worker["server"]) || worker["token"] != "agent-token" {
		t.Errorf("the worker joins %v with %v", worker["server"], worker["token"])
	}
	for name, h := range w.machines {
		if joined, _ := config(t, h.data["plan"])["server"].(string); h.m.Marks.JoinedTo != joined {
			t.Errorf("mark of %s says %q, its plan %q", name, h.m.Marks.JoinedTo, joined)
		}
	}
}

func TestDecide_TiersComeInOrder(t *testing.T) {
	w := newWorld(rke2Version)
	w.add("a-worker", "worker")
	w.add("b-cp", "control-plane")
	w.add("c-etcd", "etcd")
	w.add("d-etcd", "etcd")
	var order []string
	for range 30 {
		order = append(order, deliveries(w.run2(t))...)
		for _, name := range w.names() {
			h := w.machines[name]
			h.applyPlan()
			h.probes(true)
			h.joinCluster(rke2Version)
		}
		if h := w.machines["c-etcd"]; len(h.data["plan"]) > 0 {
			h.captureAddress()
		}
		w.connected = len(w.machines["b-cp"].data["plan"]) > 0 && w.machines["b-cp"].m.HasNode
	}
	if diff := cmp.Diff([]string{"c-etcd", "d-etcd", "b-cp", "a-worker"}, order); diff != "" {
		t.Errorf("order of first plans (-want +got):\n%s", diff)
	}
	if got := config(t, w.machines["d-etcd"].data["plan"])["server"]; got != "https://10.9.9.12:9345" {
		t.Errorf("the second etcd machine joins %v, want the address the first one captured", got)
	}
}

// run2 is one pass. Transcripts of deliveries need every decision.
func (w *world) run2(t *testing.T) Decision {
	t.Helper()
	for range 20 {
		before := w.writes
		d := w.pass(t)
		if len(deliveries(d)) > 0 || w.writes == before {
			return d
		}
	}
	t.Fatal("the planner never comes to rest")
	return Decision{}
}

func TestDecide_EtcdPlansAreTickets(t *testing.T) {
	w := newWorld(rke2Version)
	w.add("a", "etcd,control-plane")
	w.add("b", "worker")
	w.pass(t)
	d := w.pass(t)
	if d.Ticket == nil || d.Ticket.Step != "init" || len(d.Ticket.Machines) != 1 ||
		d.Ticket.Machines[0].MachineUID != "uid-a" {
		t.Fatalf("ticket is %+v", d.Ticket)
	}
	if got := nodeplan.Checksum(w.machines["a"].data["plan"]); got != d.Ticket.Machines[0].PlanChecksum {
		t.Errorf("the ticket names plan %s, delivered is %s", d.Ticket.Machines[0].PlanChecksum, got)
	}
	for range 20 {
		for _, name := range w.names() {
			h := w.machines[name]
			h.applyPlan()
			h.probes(true)
			h.joinCluster(rke2Version)
		}
		w.connected = true
		if d := w.pass(t); slices.Contains(deliveries(d), "b") && d.Ticket != nil {
			t.Error("a worker's first plan disrupts nothing and needs no ticket")
		}
	}
}

// A crash after the ticket and before the mark does not lead to another choice.
func TestDecide_TicketRemembersTheInitNode(t *testing.T) {
	w := newWorld(rke2Version)
	w.add("b", allRoles)
	w.pass(t)
	d := Decide(w.snapshot(t))
	w.cp.Status.Ticket = d.Ticket // nothing else was written
	w.add("a", allRoles)
	d = Decide(w.snapshot(t))
	if diff := cmp.Diff([]string{"b"}, deliveries(d)); diff != "" {
		t.Errorf("plans (-want +got):\n%s", diff)
	}
}

func TestDecide_DoesNothingWhileACacheIsBehind(t *testing.T) {
	w := newWorld(rke2Version)
	w.add("a", allRoles)
	s := w.snapshot(t)
	s.Behind = []string{"Secret fleet-default/a-machine-plan"}
	d := Decide(s)
	if d.Step != "fresh" || len(d.Effects) > 0 || d.Ticket != nil || d.Wait == nil || !d.Wait.Quiet ||
		d.Wait.After == 0 {
		t.Errorf("decision is %+v", d)
	}
	if diff := cmp.Diff(s.ControlPlane.Status, d.Status); diff != "" {
		t.Errorf("the status must stay (-want +got):\n%s", diff)
	}
}

func TestDecide_Waits(t *testing.T) {
	for name, tc := range map[string]struct {
		world       func(w *world)
		wantReason  Reason
		wantMessage string
		wantFailed  bool
	}{
		"cluster is deleted": {func(w *world) { w.cluster.Deleting = true }, ReasonDeleting,
			"The cluster is being deleted", false},
		"no version": {func(w *world) { w.cp.Spec.KubernetesVersion = "latest" }, ReasonInvalidVersion,
			`spec.kubernetesVersion "latest" must be a semantic version such as v1.36.2+rke2r1`, true},
		"no cluster": {func(w *world) { w.cluster = nil }, ReasonNoCluster, "CAPI cluster does not exist",
			false},
		"no infrastructure": {func(w *world) { w.cluster.InfrastructureProvisioned = false }, ReasonInfrastructure,
			"waiting for infrastructure ready", false},
		"no machine": {func(w *world) { clear(w.machines) }, ReasonMissingRole,
			"waiting for at least one control plane, etcd, and worker node to be registered", false},
		"not registered": {func(w *world) { w.machines["a"].registered = false }, ReasonMissingRole,
			"waiting for at least one control plane, etcd, and worker node to be registered", false},
		"tokens are being made": {func(*world) {}, ReasonTokens, "waiting for the join tokens of the cluster", false},
		"tokens are lost": {func(w *world) { w.machines["a"].m.Marks.RenderVersion = "1" }, ReasonTokensLost,
			"The cluster state secret is missing although plans were delivered; restore it from a backup", true},
		"tokens and a plan secret are lost": {func(w *world) {
			w.addBare("b", allRoles).m.Marks.RenderVersion = "1"
		}, ReasonTokensLost,
			"The cluster state secret is missing although plans were delivered; restore it from a backup", true},
		"tokens are unusable": {func(w *world) { w.tokens.Problem = "secret x must have type y" }, ReasonTokensUnusable,
			"The cluster state secret cannot be used: secret x must have type y", true},
		"the agent's manifest cannot be made": {func(w *world) {
			w.tokens.Exists, w.awaits, w.agentProblem = true, true, "the registry is none"
		}, ReasonAgentInvalid, "the manifest of the cluster's agent cannot be made: the registry is none", true},
		"the agent's manifest is being made": {func(w *world) { w.tokens.Exists, w.awaits = true, true },
			ReasonAgentManifest, "waiting for the manifest of the cluster's agent", false},
		"paused": {func(w *world) { w.tokens.Exists = true; w.cluster.Paused = true }, ReasonPaused,
			"CAPI cluster or RKEControlPlane is paused", false},
		"no host yet": {func(w *world) { w.tokens.Exists = true; w.machines["a"].m.InfrastructureReady = false },
			ReasonNoInitNode, "waiting for viable init node", false},
		"designated is not here": {func(w *world) {
			w.tokens.Exists = true
			w.cp.Labels = map[string]string{"rke.cattle.io/init-node-machine-id": "xyz"}
		}, ReasonDesignatedAbsent,
			"unable to find designated init node matching machine ID xyz: register it, or remove the label " +
				"rke.cattle.io/init-node-machine-id of the Cluster", false},
		"agent not there yet": {func(w *world) { w.tokens.Exists = true }, ReasonConfiguring,
			"configuring bootstrap node(s) a: waiting for agent to check in and apply initial plan", false},
		"etcd was replaced": {func(w *world) {
			w.tokens.Exists = true
			w.cp.Status.Conditions = []rkev1.GenericCondition{{Type: "Bootstrapped", Status: "True"}}
		}, ReasonRestoreRequired,
			"rkecontrolplane was already initialized but no etcd machines exist that have plans, indicating the " +
				"etcd plane has been entirely replaced. Restoration from etcd snapshot is required.", true},
		"init node is lost": {func(w *world) {
			w.tokens.Exists = true
			w.machines["a"].m.Marks = Marks{InitNode: true, RenderVersion: "1"}
			w.machines["a"].m.Phase = "Failed"
		}, ReasonInitNodeLost,
			"waiting for the init node, which is deleting, failed or without infrastructure; etcd is on a. If they " +
				"do not come back, delete them, " + giveUp, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(rke2Version)
			w.add("a", allRoles)
			tc.world(w)
			d := Decide(w.snapshot(t))
			if d.Wait == nil {
				t.Fatal("want a wait")
			}
			if d.Wait.Reason != tc.wantReason || d.Wait.Message != tc.wantMessage || d.Wait.Failed != tc.wantFailed {
				t.Errorf("wait is %s %q failed=%v\nwant    %s %q failed=%v", d.Wait.Reason, d.Wait.Message,
					d.Wait.Failed, tc.wantReason, tc.wantMessage, tc.wantFailed)
			}
			if len(d.Wait.Wakes) == 0 {
				t.Error("nothing ends the wait")
			}
			w.apply(d)
			if !d.Wait.Quiet {
				want := map[bool]string{false: "Unknown", true: "False"}[tc.wantFailed]
				if status, message := w.condition("Ready"); message != tc.wantMessage || status != want {
					t.Errorf("Ready is %s and says %q, want %s", status, message, want)
				}
			}
		})
	}
}

// A cluster with its agent continues, and warns why the agent can get no other manifest.
func TestDecide_WarnsOfAnAgentThatCannotFollow(t *testing.T) {
	w := newWorld(rke2Version)
	w.add("a", allRoles)
	w.bringUp(t)
	w.agentProblem = "the registry is none"
	s := w.snapshot(t)
	s.ClusterAgent.Manifest = "manifest"
	d := Decide(s)
	if d.Step == "agent" || len(d.Warnings) != 1 || d.Warnings[0].Reason != "AgentManifestInvalid" ||
		!strings.HasSuffix(d.Warnings[0].Message, ": the registry is none") {
		t.Errorf("step %s, warnings %+v", d.Step, d.Warnings)
	}
}

// A cluster that was begun without an agent continues without one, and the plans of its servers stay as they are.
func TestDecide_WaitsForTheAgentBeforeTheFirstPlanOnly(t *testing.T) {
	w := newWorld(rke2Version)
	w.tokens.Exists, w.awaits = true, true
	w.add("a", allRoles)
	if d := Decide(w.snapshot(t)); d.Step != "agent" || len(deliveries(d)) > 0 {
		t.Fatalf("step %s delivers %v", d.Step, deliveries(d))
	}
	w.awaits = false
	w.pass(t)
	w.awaits = true
	if d := Decide(w.snapshot(t)); d.Step == "agent" {
		t.Errorf("a cluster with plans waits: %+v", d.Wait)
	}
}
