package planner

import (
	"strings"
	"testing"
	"time"
)

const initLabel = "rke.cattle.io/init-node-machine-id"

// withMachineIDs is a cluster of three servers with machine IDs and a worker. The init node is s1.
func withMachineIDs(t *testing.T) *world {
	t.Helper()
	w := newWorld(k3sVersion)
	for _, name := range []string{"s1", "s2", "s3"} {
		w.add(name, "etcd,control-plane").m.Labels["rke.cattle.io/machine-id"] = "id-" + name
	}
	w.add("w1", "worker")
	w.bringUp(t)
	w.now = start.Add(time.Hour)
	return w
}

// A designated init node does not stay while it is deleted: its machine waits for the joined machines, and they need
// another server to join.
func TestDecide_WhoFollowsTheDesignatedInitNode(t *testing.T) {
	leaves := func(h *host) { h.m.Deleting, h.m.Held = true, true }
	for name, tc := range map[string]struct {
		id      string
		happens func(w *world)
		want    string
		says    string
	}{
		"it is deleted": {"id-s1", func(w *world) { leaves(w.machines["s1"]) }, "s2",
			"machine s2 is the init node: remove the label"},
		"it is lost": {"id-s1", func(w *world) { w.machines["s1"].m.NodeLostSince = start }, "s1", ""},
		"it has failed": {"id-s1", func(w *world) { w.machines["s1"].m.Phase = phaseFailed }, "",
			"=id-s1 of the Cluster lets no other machine take its place"},
		"the label names another machine, and it is deleted": {"id-s3", func(w *world) { leaves(w.machines["s1"]) },
			"s3", ""},
		"the label names no machine, and it is deleted": {"id-s9", func(w *world) { leaves(w.machines["s1"]) }, "",
			"=id-s9 of the Cluster lets no other machine take its place"},
	} {
		t.Run(name, func(t *testing.T) {
			w := withMachineIDs(t)
			w.cp.Labels = map[string]string{initLabel: tc.id}
			tc.happens(w)
			d := w.run(t)
			says := ""
			if d.Wait != nil {
				says = d.Wait.Message
			}
			_, warning := w.condition(ConditionConfigurationUnderstood)
			if says += warning; !strings.Contains(says, tc.says) || strings.Contains(says, "force-remove") {
				t.Errorf("it says %q", says)
			}
			if lost := d.Wait != nil && d.Wait.Reason == ReasonInitNodeLost; lost != (tc.want == "") || tc.want != "" &&
				!w.machines[tc.want].m.Marks.InitNode {
				t.Errorf("wait %+v", d.Wait)
			}
		})
	}
}

// Machines that joined the designated init node join its successor, so that it can leave.
func TestDecide_TheDesignatedInitNodeIsLeft(t *testing.T) {
	w := withMachineIDs(t)
	w.cp.Labels = map[string]string{initLabel: "id-s1"}
	s1 := w.machines["s1"]
	s1.m.Deleting, s1.m.Held = true, true
	for range 30 {
		w.run(t)
		for _, name := range w.names() {
			if h := w.machines[name]; h.hasPlan() {
				h.applyPlan()
				h.probes(true)
			}
		}
		w.now = w.now.Add(time.Minute)
	}
	for _, name := range []string{"s3", "w1"} {
		if w.machines[name].m.Marks.JoinedTo == s1.m.Marks.JoinURL {
			t.Errorf("%s stays joined to it", name)
		}
	}
	delete(w.machines, "s1")
	if d := w.run(t); d.Wait != nil || !w.machines["s2"].m.Marks.InitNode {
		t.Errorf("it is gone, and the cluster waits: %+v", d.Wait)
	}
}

// No message advises to give up members that may work again.
func TestDecide_WhatIsSaidOfALostInitNode(t *testing.T) {
	const goAway = "If they do not come back, delete them"
	others := func(f func(h *host)) func(w *world) {
		return func(w *world) { f(w.machines["s2"]); f(w.machines["s3"]) }
	}
	all := func(f func(h *host)) func(w *world) {
		return func(w *world) { w.machines["s1"].m.NodeLostSince = time.Time{}; f(w.machines["s1"]); others(f)(w) }
	}
	unseen := func(h *host) {
		h.m.NodeUnknown, h.m.NodeUnknownSince = true, start.Add(time.Hour-time.Minute)
		h.probes(false)
	}
	for name, tc := range map[string]struct {
		happens func(w *world)
		want    string
	}{
		"others fail probes for a moment": {others(func(h *host) {
			h.probes(false)
		}), "as soon as its etcd works and it can be joined; that may be s2,s3"},
		"one of them is lost for long": {func(w *world) {
			others(func(h *host) { h.probes(false) })(w)
			w.machines["s2"].m.NodeLostSince = start
		}, "that may be s3"},
		"the nodes of the others cannot be checked": {others(unseen),
			"Drover cannot check the nodes of s2,s3: repair the connection"},
		"the node of one of them cannot be checked": {func(w *world) {
			w.machines["s2"].probes(false)
			unseen(w.machines["s3"])
		}, "that may be s2"},
		"others have failed": {others(func(h *host) { h.m.Phase, h.m.NodeLostSince = phaseFailed, start }), goAway},
		"others have failed, and their nodes are there": {others(func(h *host) {
			h.m.Phase = phaseFailed
			h.probes(false)
		}), "that may be s2,s3"},
		"others never had nodes": {others(func(h *host) {
			h.m.InfrastructureReady, h.m.HasNode = false, false
			h.probes(false)
		}), goAway},
		"others are lost for long": {others(func(h *host) { h.m.NodeLostSince = start }), goAway},
		"others are lost just now": {others(func(h *host) {
			h.m.NodeLostSince = start.Add(time.Hour)
		}), "that may be s2,s3"},
		"the infrastructure of all machines is not ready": {all(func(h *host) { h.m.InfrastructureReady = false }),
			"InfrastructureReady is not True: s1,s2,s3. Repair that, or else delete one such Machine"},
		"all Machines have failed, and etcd works": {all(func(h *host) {
			h.m.Phase = phaseFailed
		}), "the Machine has failed or its condition"},
		"the others are gone, and its etcd does not work": {func(w *world) {
			others(func(h *host) { h.m.NodeLostSince = start })(w)
			w.machines["s1"].m.NodeLostSince = time.Time{}
			w.machines["s1"].probes(false)
		}, "Repair etcd on s1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := withMachineIDs(t)
			w.machines["s1"].m.Phase, w.machines["s1"].m.NodeLostSince = phaseFailed, start
			tc.happens(w)
			d := w.run(t)
			if d.Wait == nil || !strings.Contains(d.Wait.Message, tc.want) ||
				strings.Contains(d.Wait.Message, giveUp) != (tc.want == goAway) {
				t.Errorf("wait %+v", d.Wait)
			}
		})
	}
}

// A failed Machine whose etcd works can be deleted as its message says: others join it before it goes.
func TestDecide_AFailedServerThatWorksIsJoinedWhenItIsDeleted(t *testing.T) {
	w := withMachineIDs(t)
	for _, name := range []string{"s1", "s2", "s3"} {
		w.machines[name].m.Phase = phaseFailed
	}
	w.add("t1", "etcd,control-plane")
	if d := w.run(t); d.Wait == nil || d.Wait.Reason != ReasonInitNodeLost || w.machines["t1"].hasPlan() {
		t.Fatalf("wait %+v", d.Wait)
	}
	w.machines["s2"].m.Deleting, w.machines["s2"].m.Held = true, true
	w.run(t)
	if t1 := w.machines["t1"]; !t1.hasPlan() || t1.m.Marks.JoinedTo != w.machines["s2"].m.Marks.JoinURL {
		t.Errorf("t1 has a plan: %v, and joins %q", t1.hasPlan(), t1.m.Marks.JoinedTo)
	}
}

// A wait without an end names the way out after there was time for a repair, and does not change its advice afterward.
func TestDecide_AnInitNodeThatIsLostForLong(t *testing.T) {
	w := newWorld(k3sVersion)
	s1 := w.add("s1", "etcd,control-plane")
	w.add("w1", "worker")
	w.bringUp(t)
	w.now = start.Add(time.Hour)
	s1.m.Deleting, s1.m.Held = true, true
	s1.probes(false)
	w.add("s2", "etcd,control-plane")
	for _, step := range []struct {
		after   time.Duration
		advised bool
	}{{0, false}, {lostAfter - time.Minute, false}, {time.Minute, true}, {time.Minute, true}, {20 * time.Hour, true}} {
		w.now = w.now.Add(step.after)
		d := w.run(t)
		if d.Wait == nil || d.Wait.Reason != ReasonInitNodeLost ||
			strings.Contains(d.Wait.Message, "Another machine") ||
			!strings.Contains(d.Wait.Message, ". Repair etcd on s1") {
			t.Fatalf("wait %+v", d.Wait)
		}
		if advised := strings.HasSuffix(d.Wait.Message, ". Only if etcd can be repaired on none of s1, delete them, "+
			giveUp); advised != step.advised || advised != strings.Contains(d.Wait.Message, giveUp) {
			t.Errorf("at %s it says %q", w.now, d.Wait.Message)
		}
		if !step.advised && d.Wait.After == 0 {
			t.Error("nothing wakes it when it is time")
		}
	}
	s1.probes(true)
	w.run(t)
	if s2 := w.machines["s2"]; !s2.hasPlan() {
		t.Error("its etcd works again, and no server joins it")
	}
}

// Drover does not wait for a designated init node that is gone: the cluster has started, and the message says which
// machine can follow.
func TestDecide_TheDesignatedInitNodeIsGone(t *testing.T) {
	atOnce := func(_ *testing.T, w *world) { delete(w.machines, "s1") }
	for name, tc := range map[string]struct {
		id   string
		goes func(t *testing.T, w *world)
		says string
		want string
	}{
		"at once": {"id-s1", atOnce, "=id-s1 of the Cluster lets no other machine take its place, and one could", ""},
		"before another machine took its place": {"id-s1", func(t *testing.T, w *world) {
			t.Helper()
			s1, others := w.machines["s1"], []*host{w.machines["s2"], w.machines["s3"]}
			s1.m.Deleting, s1.m.Held, s1.m.NodeLostSince = true, true, start
			for _, h := range others {
				h.probes(false)
			}
			w.run(t)
			delete(w.machines, "s1")
			for _, h := range others {
				h.probes(true)
			}
		}, "=id-s1 of the Cluster lets no other machine take its place, and one could", ""},
		"and no machine can take its place yet": {"id-s1", func(_ *testing.T, w *world) {
			delete(w.machines, "s1")
			w.machines["s2"].probes(false)
			w.machines["s3"].probes(false)
		}, "that may be s2,s3", ""},
		"and another one is named": {"id-s3", atOnce, "", "s3"},
		"and the label is removed": {"", atOnce, "", "s2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := withMachineIDs(t)
			w.cp.Labels = map[string]string{initLabel: tc.id}
			tc.goes(t, w)
			var d Decision
			for range 3 {
				w.now = w.now.Add(time.Minute)
				d = w.run(t)
			}
			if tc.want != "" {
				if !w.machines[tc.want].m.Marks.InitNode {
					t.Errorf("%s does not follow: %+v", tc.want, d.Wait)
				}
				return
			}
			if d.Wait == nil || d.Wait.Reason != ReasonInitNodeLost || !strings.Contains(d.Wait.Message, tc.says) ||
				strings.Contains(d.Wait.Message, giveUp) {
				t.Errorf("wait %+v", d.Wait)
			}
		})
	}
}
