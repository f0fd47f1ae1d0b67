package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

func TestDecide_WhatIsDrained(t *testing.T) {
	hook := []rkev1.DrainHook{{Annotation: "h"}}
	all := func(options rkev1.DrainOptions) func(*rkev1.RKEControlPlaneSpec) {
		return func(s *rkev1.RKEControlPlaneSpec) {
			s.UpgradeStrategy.ControlPlaneDrainOptions, s.UpgradeStrategy.WorkerDrainOptions = options, options
		}
	}
	for name, tc := range map[string]struct {
		roles   map[string]string
		options rkev1.DrainOptions
		given   func(w *world)
		machine string
		want    string // empty: not drained
	}{
		"nothing is asked for": {map[string]string{"s": "etcd,control-plane", "w": "worker"},
			rkev1.DrainOptions{}, nil, "w", ""},
		"a worker": {map[string]string{"s": "etcd,control-plane", "w": "worker"},
			rkev1.DrainOptions{Enabled: true, Timeout: 5}, nil, "w",
			`{"deleteEmptyDirData":false,"disableEviction":false,"enabled":true,"force":false,"gracePeriod":0,"skipWaitForDeleteTimeoutSeconds":0,"timeout":5}`},
		"the only server is not emptied": {map[string]string{"s": "etcd,control-plane", "w": "worker"},
			rkev1.DrainOptions{Enabled: true}, nil, "s", ""},
		"the only machine with etcd": {map[string]string{"s": allRoles, "c": "control-plane"},
			rkev1.DrainOptions{Enabled: true}, nil, "s", ""},
		"hooks of the only machine are asked": {map[string]string{"s": allRoles},
			rkev1.DrainOptions{Enabled: true, PostDrainHooks: hook}, nil, "s",
			`{"deleteEmptyDirData":false,"disableEviction":false,"enabled":false,"force":false,"gracePeriod":0,"postDrainHooks":[{"annotation":"h"}],"skipWaitForDeleteTimeoutSeconds":0,"timeout":0}`},
		"hooks alone": {map[string]string{"s": "etcd,control-plane", "w": "worker"},
			rkev1.DrainOptions{PreDrainHooks: hook}, nil, "w",
			`{"deleteEmptyDirData":false,"disableEviction":false,"enabled":false,"force":false,"gracePeriod":0,"preDrainHooks":[{"annotation":"h"}],"skipWaitForDeleteTimeoutSeconds":0,"timeout":0}`},
		"a machine that is no node": {map[string]string{"s": "etcd,control-plane", "w": "worker"},
			rkev1.DrainOptions{Enabled: true}, func(w *world) { w.machines["w"].m.HasNode = false }, "w", ""},
		"a node that is lost, and so emptied": {map[string]string{"s": "etcd,control-plane", "w": "worker"},
			rkev1.DrainOptions{Enabled: true}, func(w *world) {
				w.machines["w"].m.NodeLostSince = w.now.Add(-lostAfter)
			}, "w", ""},
		"the plan before was of another product": {map[string]string{"s": "etcd,control-plane", "w": "worker"},
			rkev1.DrainOptions{Enabled: true}, func(w *world) { delete(w.machines["w"].data, "appliedPlan") }, "w", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(rke2Version)
			for name, roles := range tc.roles {
				w.add(name, roles)
			}
			w.bringUp(t)
			if tc.given != nil {
				tc.given(w)
			}
			w.edit(all(tc.options))
			w.edit(restartAll)
			for range 6 {
				if w.run(t); w.machines[tc.machine].drain.Requested != "" {
					break
				}
				for _, name := range w.names() {
					if h := w.machines[name]; name != tc.machine {
						h.drainNode()
						h.applyPlan()
						h.probes(true)
					}
				}
			}
			if diff := cmp.Diff(tc.want, w.machines[tc.machine].drain.Requested); diff != "" {
				t.Errorf("drain (-want +got):\n%s", diff)
			}
			if tc.want != "" && !w.machines[tc.machine].state().InSync {
				t.Error("the plan was delivered before the node was drained")
			}
		})
	}
}

// draining is a cluster whose worker w1 is being drained.
func draining(t *testing.T) *world {
	t.Helper()
	w := ready(t, map[string]string{"s": "etcd,control-plane", "w1": "worker", "w2": "worker"})
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.UpgradeStrategy.WorkerDrainOptions.Enabled = true })
	w.edit(restartAll)
	w.roll(t, "s")
	if w.machines["w1"].drain.Requested == "" || w.machines["w2"].drain.Requested != "" {
		t.Fatalf("w1 is at %+v, w2 at %+v", w.machines["w1"].drain, w.machines["w2"].drain)
	}
	return w
}

func TestDecide_AChangeIsTakenBackDuringTheDrain(t *testing.T) {
	w := draining(t)
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.ProvisionGeneration = 0 })
	w.roll(t, "s", "w1")
	if h := w.machines["w1"]; h.drain != (Drain{}) || h.hasPlan() || h.drains > 0 {
		t.Errorf("w1 is at %+v", h.drain)
	}
	if d := w.run(t); d.Wait != nil {
		t.Errorf("wait is %+v", d.Wait)
	}
}

func TestDecide_OptionsChangeDuringTheDrain(t *testing.T) {
	w := draining(t)
	before := w.machines["w1"].drain.Requested
	w.machines["w1"].drainNode()
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.UpgradeStrategy.WorkerDrainOptions.Force = true })
	w.run(t)
	if h := w.machines["w1"]; h.drain.Requested == before || h.drain.Done != "" || h.hasPlan() {
		t.Errorf("w1 is at %+v", h.drain)
	}
	w.bringUp(t)
}

// A node whose uncordon is in progress is drained again for the next change, because its progress is unknown.
func TestDecide_AnotherChangeDuringTheUncordon(t *testing.T) {
	w := draining(t)
	h := w.machines["w1"]
	h.drainNode()
	w.run(t)
	h.applyPlan()
	h.probes(true)
	w.run(t)
	if h.drain.Uncordon == "" {
		t.Fatalf("w1 is at %+v", h.drain)
	}
	w.edit(restartAll)
	w.machines["s"].applyPlan()
	w.run(t)
	w.machines["s"].applyPlan()
	w.machines["s"].probes(true)
	w.run(t)
	if h.drain.Requested == "" || h.drain.Uncordon != "" || h.drain.Done != "" || h.hasPlan() {
		t.Errorf("w1 is at %+v", h.drain)
	}
	w.bringUp(t)
	if h.drain != (Drain{}) {
		t.Errorf("w1 ends at %+v", h.drain)
	}
}
