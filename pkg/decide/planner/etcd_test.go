package planner

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A deleting member counts toward the quorum until it is gone, no matter which machines are joined to it.
func TestDecide_ADeletingMemberCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		given func(h *host)
		want  []string
	}{
		"it works, and a worker is joined to it": {func(*host) {}, []string{"s1"}},
		"its node is lost":                       {func(h *host) { h.m.NodeLostSince = start }, nil},
		"its probes do not pass":                 {func(h *host) { h.probes(false) }, nil},
		"its plan is not applied": {func(h *host) {
			delete(h.data, "applied-checksum")
			delete(h.data, "appliedPlan")
		}, nil},
		"its plan secret cannot be read": {func(h *host) { h.data["probe-statuses"] = []byte("{") }, nil},
		"it is lost and was let go": {func(h *host) { h.m.NodeLostSince, h.m.Held = start, false },
			[]string{"s1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			s3 := w.machines["s3"]
			w.machines["w"].m.Marks.JoinedTo = s3.m.Marks.JoinURL
			s3.m.Deleting, s3.m.Held = true, true
			tc.given(s3)
			w.edit(restartAll)
			if d := Decide(w.snapshot(t)); !slices.Equal(deliveries(d), tc.want) {
				t.Errorf("plans go to %v, want %v; wait %+v", deliveries(d), tc.want, d.Wait)
			}
		})
	}
}

// The init node is off permanently and is deleted. Its member leaves first; then the others join the next init node.
func TestDecide_ALostInitNodeLeavesBeforeAnybodyIsRestarted(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	s1 := w.machines["s1"]
	w.off(s1)
	s1.m.Deleting, s1.m.Held = true, true
	if w.run(t); w.machines["s2"].hasPlan() || w.machines["s3"].hasPlan() || !w.machines["s2"].m.Marks.InitNode {
		t.Fatal("a member is restarted while the lost one counts")
	}
	delete(w.machines, "s1")
	w.bringUp(t)
	if got := w.machines["s3"].m.Marks.JoinedTo; got != w.machines["s2"].m.Marks.JoinURL {
		t.Errorf("s3 is joined to %s", got)
	}
}

// The replacement of a lost machine joins before the two remaining ones restart, if it comes soon.
func TestDecide_TwoMembersWaitForTheThird(t *testing.T) {
	for name, comes := range map[string]bool{"it comes": true, "it does not come": false} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			w.machines["s1"].m.Deleting = true // its member has left
			s4 := w.addBare("s4", "etcd,control-plane")
			s4.m.CreatedAt = w.now
			s2, s3 := w.machines["s2"], w.machines["s3"]
			d := w.run(t)
			if s2.hasPlan() || s3.hasPlan() || d.Wait.After <= 0 || d.Wait.After > lostAfter {
				t.Fatalf("s2 or s3 is restarted, or the planner does not run again in time: %+v", d.Wait)
			}
			if !comes {
				w.now = w.now.Add(lostAfter)
				if w.run(t); !s2.hasPlan() {
					t.Error("s2 waits for ever")
				}
				return
			}
			s4.registered, s4.m.InfrastructureReady = true, true
			if w.run(t); !s4.hasPlan() || s2.hasPlan() {
				t.Fatalf("s4 has a plan: %v, s2: %v", s4.hasPlan(), s2.hasPlan())
			}
			s4.applyPlan()
			s4.probes(true)
			if w.run(t); !s2.hasPlan() {
				t.Error("s2 is not changed although there are three members")
			}
		})
	}
}

// A machine that never got a plan starts no second cluster, neither by the user's choice nor by a mark.
func TestDecide_ANewcomerStartsNoSecondCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		given       func(w *world, h *host)
		want        []string
		wantMessage string
	}{
		"the user's choice came back as another machine": {func(w *world, h *host) {
			delete(w.machines, "s1")
			w.cp.Labels = map[string]string{"rke.cattle.io/init-node-machine-id": "x"}
			h.m.Labels["rke.cattle.io/machine-id"] = "x"
		}, nil, "=x of the Cluster lets no other machine take its place, and one could"},
		"it carries the mark instead of the init node": {func(w *world, h *host) {
			w.machines["s1"].m.Marks.InitNode, h.m.Marks.InitNode = false, true
		}, []string{"s4"}, ""},
		"it carries the mark as well": {func(_ *world, h *host) { h.m.Marks.InitNode = true }, []string{"s4"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			url := w.machines["s1"].m.Marks.JoinURL
			tc.given(w, w.add("s4", "etcd,control-plane"))
			d := w.run(t)
			if d.Wait == nil || !strings.Contains(d.Wait.Message, tc.wantMessage) {
				t.Errorf("wait is %+v", d.Wait)
			}
			if h := w.machines["s4"]; h.hasPlan() != (tc.want != nil) || h.m.Marks.InitNode && h.hasPlan() {
				t.Fatalf("s4 has a plan: %v, marks %+v", h.hasPlan(), h.m.Marks)
			}
			if tc.want != nil {
				if diff := cmp.Diff(url, w.machines["s4"].m.Marks.JoinedTo); diff != "" {
					t.Errorf("joined to (-want +got):\n%s", diff)
				}
			}
		})
	}
}
