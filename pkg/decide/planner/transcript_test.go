package planner

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/testkit/golden"
)

// transcript is a story in text: events, and the planner's decisions.
type transcript struct {
	strings.Builder
	lastWait string
}

func (tr *transcript) event(format string, args ...any) {
	fmt.Fprintf(tr, "\n== "+format+"\n", args...)
}

// pass writes down one decision.
func (tr *transcript) pass(d Decision) {
	var lines []string
	if d.Ticket != nil {
		uids := make([]string, 0, len(d.Ticket.Machines))
		for _, m := range d.Ticket.Machines {
			uids = append(uids, string(m.MachineUID))
		}
		lines = append(lines, fmt.Sprintf("ticket    %s (%s) %s", d.Ticket.Step, d.Ticket.Cause,
			strings.Join(uids, " ")))
	}
	for _, e := range d.Effects {
		lines = append(lines, describe(e))
	}
	for _, w := range d.Warnings {
		lines = append(lines, fmt.Sprintf("warning   %s %s", w.Reason, w.Field))
	}
	wait := "ready"
	if d.Wait != nil {
		wait = fmt.Sprintf("%s: %s", d.Wait.Reason, d.Wait.Message)
	}
	if wait != tr.lastWait {
		lines = append(lines, "["+d.Step+"] "+wait)
		tr.lastWait = wait
	}
	for _, line := range lines {
		tr.WriteString("   " + line + "\n")
	}
}

func describe(e Effect) string {
	switch e := e.(type) {
	case CreateTokens:
		return "create    the join tokens"
	case MarkMachine:
		text := "mark      " + e.Machine
		if e.Marks.InitNode {
			text += " init-node"
		}
		if e.Marks.JoinedTo != "" {
			text += " joined-to=" + e.Marks.JoinedTo
		}
		if e.Marks.JoinURL != "" {
			text += " join-url=" + e.Marks.JoinURL
		}
		if e.Marks.Version != "" {
			text += " version=" + e.Marks.Version
		}
		return text + " render-version=" + e.Marks.RenderVersion
	case DeliverPlan:
		what := "changed"
		if e.First {
			what = "first"
		}
		if p, err := nodeplan.Decode(e.Delivery.Plan); err == nil && render.OperationOf(p) != "" {
			what = render.OperationOf(p)
		}
		return fmt.Sprintf("deliver   %s plan to %s", what, e.Machine)
	case RequestDrain:
		return fmt.Sprintf("drain     %s with %s", e.Machine, e.Options)
	case RequestUncordon:
		return "uncordon  " + e.Machine
	case WithdrawInitLabel:
		return "unlabel   " + e.Secret
	case PublishJoinURL:
		return fmt.Sprintf("publish   %s on %s", e.JoinURL, e.Secret)
	case SetMachineCondition:
		return strings.TrimSpace(fmt.Sprintf("condition %s Reconciled=%s %s", e.Machine, e.Condition.Status,
			e.Condition.Message))
	case ResetClusterInitialized:
		return "reset     condition ControlPlaneInitialized of the CAPI cluster"
	case ForceRemoveMachine:
		return "let go    " + e.Machine
	case PauseCluster:
		return "pause     the CAPI cluster for " + e.Operation
	case ResumeCluster:
		return "resume    the CAPI cluster"
	}
	return fmt.Sprintf("%T", e)
}

// settle makes passes until nothing is written any more, and writes each pass down.
func (tr *transcript) settle(t *testing.T, w *world) {
	t.Helper()
	for range 20 {
		before := w.writes
		tr.pass(w.pass(t))
		if w.writes == before {
			return
		}
	}
	t.Fatal("the planner never comes to rest")
}

// do writes down an event on the named machines, and what follows.
func (tr *transcript) do(t *testing.T, w *world, text string, happen func(h *host), names ...string) {
	t.Helper()
	tr.event("%s: %s", strings.Join(names, ", "), text)
	for _, name := range names {
		happen(w.machines[name])
	}
	tr.settle(t, w)
}

// come lets machines go all the way from the first report to the node.
func (tr *transcript) come(t *testing.T, w *world, names ...string) {
	t.Helper()
	tr.do(t, w, "the plan is applied", (*host).applyPlan, names...)
	tr.do(t, w, "all probes pass", func(h *host) { h.probes(true) }, names...)
	tr.do(t, w, "the node is found", func(h *host) { h.joinCluster(w.cp.Spec.KubernetesVersion) }, names...)
}

func TestTranscripts(t *testing.T) {
	for name, story := range map[string]func(t *testing.T, tr *transcript){
		"new-cluster-one-server-k3s":  storyOneServer(k3sVersion),
		"new-cluster-one-server-rke2": storyOneServer(rke2Version),
		"new-cluster-ha-k3s":          storyHA(k3sVersion),
		"new-cluster-ha-rke2":         storyHA(rke2Version),
		"separate-roles-rke2":         storySeparateRoles,
		"first-plan-fails":            storyFailingFirstPlan,
		"worker-replaced":             storyWorkerReplaced,
		"configuration-change":        storyConfigurationChange,
		"upgrade-with-drain":          storyUpgradeWithDrain,
		"failed-gate-stops":           storyFailedGate,
		"powered-off-worker":          storyPoweredOffWorker,
		"init-node-deleted":           storyInitDeleted,
		"init-node-powered-off":       storyInitPoweredOff,
		"percent-concurrency":         storyPercent,
		"paused-pool":                 storyPausedPool,
		"left-out-server":             storyLeftOutServer,
		"etcd-replaced":               storyEtcdReplaced,
		"etcd-pool-renamed":           storyPoolRenamed("s1", "s2", "s3"),
		"etcd-pool-of-one-renamed":    storyPoolRenamed("s1"),
		"init-dies-before-it-starts":  storyInitDies,
	} {
		t.Run(name, func(t *testing.T) {
			tr := &transcript{}
			story(t, tr)
			golden.Check(t, filepath.Join("testdata", name+".txt"), tr.String())
		})
	}
}

func storyOneServer(version string) func(t *testing.T, tr *transcript) {
	return func(t *testing.T, tr *transcript) {
		t.Helper()
		w := newWorld(version)
		tr.event("the cluster is applied")
		tr.settle(t, w)
		w.addBare("server", allRoles)
		tr.do(t, w, "the machine is registered", func(h *host) { h.registered = true }, "server")
		tr.do(t, w, "the host exists", func(h *host) { h.m.InfrastructureReady = true }, "server")
		tr.come(t, w, "server")
		tr.event("the cluster's API has answered")
		w.connected = true
		tr.settle(t, w)
	}
}

func storyHA(version string) func(t *testing.T, tr *transcript) {
	return func(t *testing.T, tr *transcript) {
		t.Helper()
		w := newWorld(version)
		servers, workers := []string{"s1", "s2", "s3"}, []string{"w1", "w2"}
		for _, name := range servers {
			w.add(name, "etcd,control-plane")
		}
		for _, name := range workers {
			w.add(name, "worker")
		}
		tr.event("three servers and two workers are registered, their hosts exist")
		tr.settle(t, w)
		tr.come(t, w, "s1")
		tr.event("the cluster's API has answered")
		w.connected = true
		tr.settle(t, w)
		tr.come(t, w, "s2")
		tr.come(t, w, "s3")
		tr.come(t, w, workers...)
	}
}

func storySeparateRoles(t *testing.T, tr *transcript) {
	t.Helper()
	w := newWorld(rke2Version)
	w.add("c", "control-plane")
	w.add("e1", "etcd")
	w.add("e2", "etcd")
	w.add("w", "worker")
	tr.event("two etcd, one control-plane and one worker machine are registered, their hosts exist")
	tr.settle(t, w)
	tr.do(t, w, "the plan is applied", (*host).applyPlan, "e1")
	tr.do(t, w, "all probes pass", func(h *host) { h.probes(true) }, "e1")
	tr.do(t, w, "the agent captures its address", (*host).captureAddress, "e1")
	tr.do(t, w, "the plan is applied and all probes pass", func(h *host) { h.applyPlan(); h.probes(true) }, "e2")
	tr.come(t, w, "c")
	tr.event("the cluster's API has answered")
	w.connected = true
	tr.settle(t, w)
	tr.come(t, w, "w")
}

func storyFailingFirstPlan(t *testing.T, tr *transcript) {
	t.Helper()
	w := newWorld(rke2Version)
	w.add("server", allRoles)
	tr.event("one server, with a mistake in its configuration")
	tr.settle(t, w)
	tr.do(t, w, "the plan fails", (*host).failPlan, "server")
	tr.event("the user corrects the configuration")
	w.cp.Generation++
	w.cp.Spec.ProvisionGeneration = 2
	tr.settle(t, w)
	tr.come(t, w, "server")
}

func storyWorkerReplaced(t *testing.T, tr *transcript) {
	t.Helper()
	w := newWorld(k3sVersion)
	w.add("s", "etcd,control-plane")
	w.add("w1", "worker")
	w.add("w2", "worker")
	w.bringUp(t)
	tr.event("a cluster of one server and two workers is ready")
	tr.settle(t, w)
	tr.do(t, w, "is deleted", func(h *host) { h.m.Deleting = true }, "w1")
	tr.event("w1: is gone; w3: is registered, its host exists")
	delete(w.machines, "w1")
	w.add("w3", "worker")
	tr.settle(t, w)
	tr.come(t, w, "w3")
}

func storyEtcdReplaced(t *testing.T, tr *transcript) {
	t.Helper()
	w := newWorld(rke2Version)
	w.add("s", "etcd,control-plane")
	w.add("w", "worker")
	w.bringUp(t)
	w.cluster.Initialized = true
	tr.do(t, w, "is deleted", func(h *host) { h.m.Deleting = true }, "s")
	tr.event("s: is gone; t: is registered, its host exists")
	delete(w.machines, "s")
	w.add("t", "etcd,control-plane")
	tr.settle(t, w)
}

func storyInitDies(t *testing.T, tr *transcript) {
	t.Helper()
	w := newWorld(k3sVersion)
	w.add("a", allRoles)
	w.add("b", allRoles)
	tr.event("two servers are registered, their hosts exist")
	tr.settle(t, w)
	tr.do(t, w, "is deleted before it has started", func(h *host) { h.m.Deleting = true }, "a")
	tr.event("a: is gone")
	delete(w.machines, "a")
	tr.settle(t, w)
	tr.come(t, w, "b")
}

// Snapshots are values: written to a file and read again, they lead to the same decision.
func TestSnapshot_SurvivesAFile(t *testing.T) {
	w := newWorld(rke2Version)
	w.add("s1", "etcd,control-plane")
	w.add("s2", "etcd,control-plane")
	w.add("w", "worker")
	for range 4 {
		w.pass(t)
		for _, name := range w.names() {
			w.machines[name].applyPlan()
		}
	}
	s := w.snapshot(t)
	file, err := yaml.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var again Snapshot
	if err := yaml.UnmarshalStrict(file, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Decide(s), Decide(again)); diff != "" {
		t.Errorf("decision (-from memory +from file):\n%s", diff)
	}
}

// The order of machines in a snapshot does not matter.
func TestDecide_OrderOfMachinesDoesNotMatter(t *testing.T) {
	w := newWorld(rke2Version)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.add(name, allRoles)
	}
	for range 3 {
		w.pass(t)
		s := w.snapshot(t)
		want := Decide(s)
		slices.Reverse(s.Machines)
		if diff := cmp.Diff(want, Decide(s)); diff != "" {
			t.Fatalf("decision (-sorted +reversed):\n%s", diff)
		}
		w.machines["a"].applyPlan()
		w.machines["a"].probes(true)
	}
}
