package planner

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// offer is the agent of a server with that version.
func offer(version string) *render.Agent {
	return &render.Agent{Version: version, Server: "https://drover.example.com", CAChecksum: "ca",
		Sums: map[string]string{"amd64": "sum-of-" + version}}
}

// requestedID is the identifier of the upgrade in the plan of a host, empty without one.
func (h *host) requestedID() string {
	state := h.state()
	if !render.HasAgentStep(state.Plan) {
		return ""
	}
	for _, file := range state.Plan.Files {
		if strings.HasSuffix(file.Path, "/agent-upgrade/settings") {
			content, _ := base64.StdEncoding.DecodeString(file.Content)
			id, _, _ := strings.Cut(strings.TrimPrefix(string(content), "ID="), "\n")
			return id
		}
	}
	return ""
}

// upgradeAgent is the node carrying out the upgrade in its plan, with that result.
func (h *host) upgradeAgent(result string) {
	if id := h.requestedID(); id != "" && !h.hasPlan() {
		h.report(nodeplan.KeyAgentUpgrade, []byte(id+" "+result))
	}
}

// upgrading are the hosts whose plan contains an upgrade without a result.
func (w *world) upgrading() []string {
	var out []string
	for _, name := range w.names() {
		h := w.machines[name]
		if id := h.requestedID(); id != "" && !strings.HasPrefix(h.state().AgentUpgrade, id+" ") {
			out = append(out, name)
		}
	}
	return out
}

// settle lets the nodes apply their plans, without upgrades.
func (w *world) settle(t *testing.T) Decision {
	t.Helper()
	for range 5 {
		w.run(t)
		for _, name := range w.names() {
			w.machines[name].applyPlan()
			w.machines[name].probes(true)
		}
	}
	return w.run(t)
}

func agentWorld(t *testing.T) *world {
	t.Helper()
	w := rollWorld(t)
	w.agents = AgentRequests{Offer: offer("v2")}
	return w
}

// Without a request a newer server changes nothing. With one, a worker comes first, and then one machine after the
// other. Nothing but the agent restarts.
func TestAgents_CanaryThenOthers(t *testing.T) {
	w := agentWorld(t)
	before, writes := w.plans(), w.writes
	if d := w.run(t); d.Wait != nil || w.writes != writes {
		t.Fatalf("a newer agent alone writes %d times, wait %+v", w.writes-writes, d.Wait)
	}
	stamps := map[string]render.Stamps{}
	for name, h := range w.machines {
		stamps[name] = render.StampsOf(h.state().Plan)
	}
	w.agents.Command = "v2"
	var order []string
	for range 20 {
		d := w.settle(t)
		now := w.upgrading()
		if len(now) == 0 {
			if d.Wait != nil {
				t.Errorf("wait %+v", d.Wait)
			}
			break
		}
		if d.Wait == nil || d.Wait.Reason != ReasonUpgradingAgents || len(now) != 1 || d.Wait.After == 0 {
			t.Fatalf("upgrading %v, wait %+v", now, d.Wait)
		}
		order = append(order, now...)
		w.machines[now[0]].upgradeAgent("succeeded")
	}
	if diff := cmp.Diff([]string{"w1", "s1", "s2", "s3", "w2"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	for name, h := range w.machines {
		if render.StampsOf(h.state().Plan) != stamps[name] || before[name] == w.plans()[name] {
			t.Errorf("the plan of %s has other stamps, or no upgrade", name)
		}
		if h.drains > 0 {
			t.Errorf("%s was drained", name)
		}
	}
	if status, _ := w.condition(ConditionAgentsUpgraded); status != "True" {
		t.Errorf("condition %q", status)
	}
	// The next server changes nothing, and neither does the end of the request.
	writes = w.writes
	for _, requests := range []AgentRequests{{Offer: offer("v3"), Command: "v2"}, {Offer: offer("v3")}} {
		w.agents = requests
		if d := w.run(t); d.Wait != nil || w.writes != writes {
			t.Errorf("%+v writes %d times, wait %+v", requests, w.writes-writes, d.Wait)
		}
	}
}

// A share of the agents is upgraded at a time, after the first one.
func TestAgents_Share(t *testing.T) {
	w := newWorld(rke2Version)
	w.add("s1", "etcd,control-plane")
	for i := range 29 {
		w.add(fmt.Sprintf("w%02d", i), "worker")
	}
	w.cp.Spec.UpgradeStrategy.WorkerConcurrency = "0"
	w.bringUp(t)
	w.agents = AgentRequests{Offer: offer("v2"), Auto: true}
	var sizes []int
	for range 20 {
		w.settle(t)
		now := w.upgrading()
		if len(now) == 0 {
			break
		}
		sizes = append(sizes, len(now))
		for _, name := range now {
			w.machines[name].upgradeAgent("succeeded")
		}
	}
	if diff := cmp.Diff([]int{1, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2}, sizes); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
	w.agents.Offer = offer("v3")
	if w.settle(t); len(w.upgrading()) != 1 {
		t.Errorf("a newer server upgrades %v", w.upgrading())
	}
}

// A failure stops the upgrade, and is not a failure of the cluster. A new request begins again.
func TestAgents_FailureStops(t *testing.T) {
	for name, fail := range map[string]func(*world, *host){
		"the node went back": func(_ *world, h *host) { h.upgradeAgent("failed: the new agent did not report") },
		"no report":          func(w *world, _ *host) { w.now = w.now.Add(agentDeadline + time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			w := agentWorld(t)
			w.agents.Command = "v2"
			w.settle(t)
			fail(w, w.machines["w1"])
			d := w.settle(t)
			status, message := w.condition(ConditionAgentsUpgraded)
			if d.Wait != nil || status != "False" || !strings.Contains(message, "w1: ") {
				t.Errorf("wait %+v, condition %s %q", d.Wait, status, message)
			}
			for name, h := range w.machines {
				if name != "w1" && h.requestedID() != "" {
					t.Errorf("%s is upgraded after a failure", name)
				}
			}
			w.agents.Command, w.agents.Offer = "v2-2", offer("v2.1")
			w.settle(t)
			w.machines["w1"].upgradeAgent("succeeded")
			if w.settle(t); !slices.Equal(w.upgrading(), []string{"s1"}) {
				t.Errorf("after a new request: %v", w.upgrading())
			}
		})
	}
}

// A node writes the reason of a failure. It reaches conditions as a line of text without secrets, so that a second pass
// has the same condition.
func TestAgents_ReasonOfANode(t *testing.T) {
	w := agentWorld(t)
	w.agents.Command = "v2"
	w.settle(t)
	w.machines["w1"].upgradeAgent("failed: \xff\x1b[31mno\nproxy http://u:hunter2@proxy")
	w.settle(t)
	_, message := w.condition(ConditionAgentsUpgraded)
	if !strings.Contains(message, "proxy") || strings.Contains(message, "hunter2") || !utf8.ValidString(message) ||
		strings.ContainsFunc(message, unicode.IsControl) {
		t.Errorf("condition %q", message)
	}
}

// Machines that cannot be upgraded now are left alone, and get their turn later.
func TestAgents_LeftAlone(t *testing.T) {
	for name, tc := range map[string]struct{ hold, release func(*world) }{
		"the cluster is paused": {
			func(w *world) { w.cluster.Paused = true }, func(w *world) { w.cluster.Paused = false },
		},
		"the pools are paused": {
			func(w *world) { w.each(func(h *host) { h.m.PoolPaused = true }) },
			func(w *world) { w.each(func(h *host) { h.m.PoolPaused = false }) },
		},
		"the machines are left out": {
			func(w *world) { w.each(func(h *host) { h.m.Skip = true }) },
			func(w *world) { w.each(func(h *host) { h.m.Skip = false }) },
		},
		"the nodes are lost": {
			func(w *world) { w.each(func(h *host) { h.m.NodeLostSince = w.now }) },
			func(w *world) { w.each(func(h *host) { h.m.NodeLostSince = time.Time{} }) },
		},
		"the server offers no agent": {
			func(w *world) { w.agents.Offer = nil }, func(w *world) { w.agents.Offer = offer("v2") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := agentWorld(t)
			w.agents.Command = "v2"
			tc.hold(w)
			before := w.plans()
			w.settle(t)
			if diff := cmp.Diff(before, w.plans()); diff != "" {
				t.Errorf("plans are changed:\n%s", diff)
			}
			tc.release(w)
			if w.settle(t); !slices.Equal(w.upgrading(), []string{"w1"}) {
				t.Errorf("later: %v", w.upgrading())
			}
		})
	}
}

func (w *world) each(change func(*host)) {
	for _, h := range w.machines {
		change(h)
	}
}

// A new machine has the server's agent already.
func TestAgents_NewMachine(t *testing.T) {
	w := agentWorld(t)
	w.agents.Command = "v2"
	for range 6 {
		w.settle(t)
		w.each(func(h *host) { h.upgradeAgent("succeeded") })
	}
	w.add("w3", "worker")
	w.bringUp(t)
	if id := w.machines["w3"].requestedID(); id != "" {
		t.Error("a new machine is upgraded")
	}
	if w.settle(t); len(w.upgrading()) > 0 {
		t.Errorf("upgrading %v", w.upgrading())
	}
}

// An edit of the variables reaches the agents that run, with the plan that the edit brings anyway. No request is
// needed. An agent of another vendor cannot tell when it has them.
func TestAgents_Environment(t *testing.T) {
	for _, version := range []string{"", "v1"} {
		w := rollWorld(t)
		w.each(func(h *host) {
			if version != "" {
				h.report(nodeplan.KeyAgentVersion, []byte(version))
			}
		})
		w.edit(func(spec *rkev1.RKEControlPlaneSpec) {
			spec.AgentEnvVars = []rkev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy"}}
		})
		for range 8 {
			w.settle(t)
		}
		for name, h := range w.machines {
			if h.requestedID() == "" {
				t.Errorf("agent %q: %s has no upgrade", version, name)
			}
		}
		if d := w.run(t); (d.Wait == nil) != (version == "") {
			t.Errorf("agent %q: wait %+v", version, d.Wait)
		}
		w.each(func(h *host) { h.upgradeAgent("succeeded") })
		if d := w.settle(t); d.Wait != nil {
			t.Errorf("agent %q: wait %+v", version, d.Wait)
		}
		before := w.machines["w1"].requestedID()
		w.edit(func(spec *rkev1.RKEControlPlaneSpec) { spec.AgentEnvVars = nil })
		for range 8 {
			w.settle(t)
		}
		if after := w.machines["w1"].requestedID(); after == before || after == "" {
			t.Errorf("agent %q: the removal is upgrade %q after %q", version, after, before)
		}
		pin := render.ParseAgentPin(w.machines["w1"].m.Marks.AgentPin)
		if diff := cmp.Diff([]string{"HTTPS_PROXY"}, pin.Names); diff != "" {
			t.Errorf("names (-want +got):\n%s", diff)
		}
	}
}

// An edit of the variables does not install an agent again: one that failed must not hold it back, and the server of
// one that runs may have another address now. An agent that is still to come comes with the edit.
func TestAgents_EnvironmentAfterAnUpgrade(t *testing.T) {
	for result, wantAgent := range map[string]bool{"failed: broken": false, "succeeded": false, "": true} {
		w := agentWorld(t)
		w.agents.Command = "v2"
		w.settle(t)
		if result != "" {
			w.machines["w1"].upgradeAgent(result)
		}
		w.edit(func(spec *rkev1.RKEControlPlaneSpec) {
			spec.AgentEnvVars = []rkev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy"}}
		})
		for range 8 {
			w.settle(t)
		}
		pin := render.ParseAgentPin(w.machines["w1"].m.Marks.AgentPin)
		if pin.Agent != nil != wantAgent || pin.Environment == wantAgent || pin.Command != "v2" {
			t.Errorf("%q: pin %+v", result, pin)
		}
	}
}

// A machine that keeps the plan of another manager gets only the upgrade.
func TestAgents_Adopted(t *testing.T) {
	w := rollWorld(t)
	w.theirs(t)
	w.adopt(t)
	w.settle(t)
	w.agents = AgentRequests{Offer: offer("v2"), Command: "v2"}
	before := w.machines["w1"].state().Plan
	w.settle(t)
	h := w.machines["w1"]
	if h.requestedID() == "" || h.m.Marks.RenderVersion != AsFound {
		t.Fatalf("upgrade %q, render version %q", h.requestedID(), h.m.Marks.RenderVersion)
	}
	after := h.state().Plan
	if diff := cmp.Diff(before.Instructions, render.WithoutAgentStep(after.Instructions)); diff != "" {
		t.Errorf("instructions (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before.Files, after.Files[:len(before.Files)]); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
	h.upgradeAgent("succeeded")
	writes := w.writes
	if w.settle(t); w.writes == writes {
		t.Error("the next machine gets no upgrade")
	}
}
