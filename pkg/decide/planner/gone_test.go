package planner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// The object of a machine whose host is gone may stay while the cluster does not answer. Decisions ignore it, but only
// after the host is gone.
func TestDecide_MachineWithoutHostIsGone(t *testing.T) {
	restore := func(w *world) {
		w.snapshots = []ETCDSnapshot{{Name: "snap", MachineUID: "uid-s1", File: "f"}}
		w.edit(func(spec *rkev1.RKEControlPlaneSpec) {
			spec.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "snap", Generation: 1}
		})
	}
	last := func(w *world) { delete(w.machines, "s1"); delete(w.machines, "s3") }
	nobody := func(*world) {}
	for name, tc := range map[string]struct {
		machine string
		world   func(w *world)
		stays   func(h *host)
	}{
		"a server":                         {machine: "s2", world: nobody},
		"the init node":                    {machine: "s1", world: nobody},
		"a worker":                         {machine: "w1", world: nobody},
		"the last server":                  {machine: "s2", world: last},
		"a server, and a restore is asked": {machine: "s2", world: restore},
		"a server whose member is there":   {"s2", restore, func(h *host) { h.m.Held = true }},
		"a server whose host is there":     {"s2", restore, func(h *host) { h.m.InfrastructureReady = true }},
		"a server whose plan is there":     {"s2", restore, func(h *host) { h.registered = true }},
		"a server that is not deleted":     {"s2", restore, func(h *host) { h.m.Deleting = false }},
	} {
		t.Run(name, func(t *testing.T) {
			with, without := newWorld(k3sVersion), newWorld(k3sVersion)
			for _, w := range []*world{with, without} {
				for _, server := range []string{"s1", "s2", "s3"} {
					w.add(server, "etcd,control-plane")
				}
				w.add("w1", "worker")
				w.bringUp(t)
				tc.world(w)
			}
			h := with.machines[tc.machine]
			h.m.Deleting, h.m.InfrastructureReady, h.registered = true, false, false
			delete(without.machines, tc.machine)
			if tc.stays != nil {
				tc.stays(h)
			}
			differs := false
			for range 10 {
				differs = differs || cmp.Diff(Decide(without.snapshot(t)), Decide(with.snapshot(t))) != ""
				for _, w := range []*world{with, without} {
					w.run(t)
					for _, other := range w.machines {
						if other != h && other.hasPlan() {
							other.applyPlan()
							other.probes(true)
						}
					}
					w.now = w.now.Add(time.Minute)
				}
			}
			if differs != (tc.stays != nil) {
				t.Errorf("the machine matters: %v", differs)
			}
		})
	}
}
