package planner

import (
	"fmt"
	"testing"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// fleet is a ready cluster of three servers and some workers.
func fleet(t *testing.T, version string, workers int) *world {
	t.Helper()
	w := newWorld(version)
	for _, name := range []string{"s1", "s2", "s3"} {
		w.add(name, "etcd,control-plane")
	}
	for i := range workers {
		w.add(fmt.Sprintf("w%d", i+1), "worker")
	}
	w.bringUp(t)
	return w
}

// edit is an edit by the user.
func (tr *transcript) edit(t *testing.T, w *world, text string, change func(spec *rkev1.RKEControlPlaneSpec)) {
	t.Helper()
	tr.event("the user %s", text)
	w.edit(change)
	tr.settle(t, w)
}

// finish lets a machine apply its plan and its probes pass, as one event.
func (tr *transcript) finish(t *testing.T, w *world, names ...string) {
	t.Helper()
	tr.do(t, w, "the plan is applied, all probes pass", func(h *host) {
		h.applyPlan()
		h.probes(true)
		h.joinCluster(w.cp.Spec.KubernetesVersion)
	}, names...)
}

func storyConfigurationChange(t *testing.T, tr *transcript) {
	t.Helper()
	w := fleet(t, rke2Version, 2)
	tr.edit(t, w, "forces all machines to be restarted", func(s *rkev1.RKEControlPlaneSpec) {
		s.ProvisionGeneration = 2
	})
	for _, name := range w.names() {
		tr.do(t, w, "the plan is applied, not all probes pass yet", (*host).applyPlan, name)
		tr.do(t, w, "all probes pass", func(h *host) { h.probes(true) }, name)
	}
	tr.edit(t, w, "adds a manifest, which restarts nothing", func(s *rkev1.RKEControlPlaneSpec) {
		s.AdditionalManifest = "kind: ConfigMap\n"
	})
	tr.finish(t, w, "s1")
	tr.finish(t, w, "s2", "s3")
}

const newerRKE2 = "v1.36.3+rke2r1"

// drained finishes a machine that needs a drain first.
func (tr *transcript) drained(t *testing.T, w *world, name string) {
	t.Helper()
	tr.do(t, w, "the node is drained", (*host).drainNode, name)
	tr.do(t, w, "the plan is applied, all probes pass", func(h *host) { h.applyPlan(); h.probes(true) }, name)
	tr.do(t, w, "the node is uncordoned", (*host).drainNode, name)
	tr.do(t, w, "the kubelet reports the new version", func(h *host) { h.joinCluster(w.cp.Spec.KubernetesVersion) },
		name)
}

func storyUpgradeWithDrain(t *testing.T, tr *transcript) {
	t.Helper()
	w := fleet(t, rke2Version, 1)
	tr.edit(t, w, "asks for drains, which changes no plan", func(s *rkev1.RKEControlPlaneSpec) {
		s.UpgradeStrategy.ControlPlaneDrainOptions.Enabled = true
		s.UpgradeStrategy.WorkerDrainOptions = rkev1.DrainOptions{Enabled: true,
			PreDrainHooks: []rkev1.DrainHook{{Annotation: "hook"}}}
	})
	tr.edit(t, w, "asks for a newer version", func(s *rkev1.RKEControlPlaneSpec) { s.KubernetesVersion = newerRKE2 })
	for _, name := range []string{"s1", "s2", "s3"} {
		tr.drained(t, w, name)
	}
	tr.do(t, w, "the drain makes no progress", func(h *host) { h.drain.Error = "pod a/b has a disruption budget" },
		"w1")
	tr.do(t, w, "it does again", func(h *host) { h.drain.Error = "" }, "w1")
	tr.drained(t, w, "w1")
}

func storyFailedGate(t *testing.T, tr *transcript) {
	t.Helper()
	w := fleet(t, k3sVersion, 4)
	tr.edit(t, w, "allows two workers at a time", func(s *rkev1.RKEControlPlaneSpec) {
		s.UpgradeStrategy.WorkerConcurrency = "2"
	})
	tr.edit(t, w, "changes something in a way that does not work", func(s *rkev1.RKEControlPlaneSpec) {
		s.ProvisionGeneration = 1
	})
	tr.finish(t, w, "s1")
	tr.finish(t, w, "s2")
	tr.finish(t, w, "s3")
	tr.do(t, w, "the plan fails", (*host).failPlan, "w1")
	tr.finish(t, w, "w2")
	tr.edit(t, w, "corrects it", func(s *rkev1.RKEControlPlaneSpec) { s.ProvisionGeneration = 2 })
	for _, name := range []string{"s1", "s2", "s3"} {
		tr.finish(t, w, name)
	}
	tr.finish(t, w, "w1")
	tr.finish(t, w, "w2", "w3")
	tr.finish(t, w, "w4")
}

// off is a host without power: its agent and its kubelet report nothing.
func (w *world) off(h *host) { h.m.NodeLostSince = w.now }

func (tr *transcript) later(t *testing.T, w *world, d time.Duration) {
	t.Helper()
	tr.event("%s later", d)
	w.now = w.now.Add(d)
	tr.settle(t, w)
}

func storyPoweredOffWorker(t *testing.T, tr *transcript) {
	t.Helper()
	w := fleet(t, k3sVersion, 3)
	tr.edit(t, w, "forces all machines to be restarted", func(s *rkev1.RKEControlPlaneSpec) {
		s.ProvisionGeneration = 1
	})
	for _, name := range []string{"s1", "s2", "s3"} {
		tr.finish(t, w, name)
	}
	tr.do(t, w, "has no power any more", w.off, "w1")
	tr.later(t, w, 10*time.Minute)
	tr.finish(t, w, "w2")
	tr.finish(t, w, "w3")
	tr.event("w1: comes back")
	w.machines["w1"].m.NodeLostSince = time.Time{}
	tr.settle(t, w)
	tr.finish(t, w, "w1")
}

func storyInitDeleted(t *testing.T, tr *transcript) {
	t.Helper()
	w := fleet(t, rke2Version, 1)
	tr.do(t, w, "is deleted", func(h *host) { h.m.Deleting, h.m.Held = true, true }, "s1")
	tr.finish(t, w, "s2")
	tr.finish(t, w, "s3")
	tr.event("s1: its member has left etcd and it is gone; s4: is registered, its host exists")
	delete(w.machines, "s1")
	w.add("s4", "etcd,control-plane").serial = 20
	tr.settle(t, w)
	tr.finish(t, w, "s4")
}

func storyInitPoweredOff(t *testing.T, tr *transcript) {
	t.Helper()
	w := fleet(t, rke2Version, 1)
	tr.do(t, w, "has no power any more", w.off, "s1")
	tr.later(t, w, 10*time.Minute)
	tr.event("s4: is registered, its host exists")
	w.add("s4", "etcd,control-plane").serial = 20
	tr.settle(t, w)
	tr.finish(t, w, "s4")
	tr.do(t, w, "is deleted", func(h *host) { h.m.Deleting = true }, "s1")
	tr.finish(t, w, "s2")
	tr.finish(t, w, "s3")
	tr.event("s1: is gone")
	delete(w.machines, "s1")
	tr.settle(t, w)
}

func storyPercent(t *testing.T, tr *transcript) {
	t.Helper()
	w := newWorld(k3sVersion)
	w.add("e", "etcd")
	for i := range 3 {
		w.add(fmt.Sprintf("c%d", i+1), "control-plane")
	}
	for i := range 5 {
		w.add(fmt.Sprintf("w%d", i+1), "worker")
	}
	w.run(t)
	w.machines["e"].captureAddress()
	for range 20 {
		for _, h := range w.machines {
			h.applyPlan()
			h.probes(true)
			h.joinCluster(k3sVersion)
		}
		w.machines["e"].captureAddress()
		w.connected = true
		w.run(t)
	}
	tr.edit(t, w, "allows half of the control-plane and 30% of the worker machines at a time",
		func(s *rkev1.RKEControlPlaneSpec) {
			s.UpgradeStrategy.ControlPlaneConcurrency, s.UpgradeStrategy.WorkerConcurrency = "50%", "30%"
		})
	tr.edit(t, w, "forces all machines to be restarted", func(s *rkev1.RKEControlPlaneSpec) {
		s.ProvisionGeneration = 1
	})
	tr.finish(t, w, "e")
	tr.finish(t, w, "c1", "c2")
	tr.finish(t, w, "c3")
	tr.finish(t, w, "w1")
	tr.finish(t, w, "w2", "w3")
	tr.finish(t, w, "w4", "w5")
}

func storyPausedPool(t *testing.T, tr *transcript) {
	t.Helper()
	w := fleet(t, k3sVersion, 2)
	tr.do(t, w, "the pool is paused", func(h *host) { h.m.PoolPaused = true }, "w1")
	tr.edit(t, w, "forces all machines to be restarted", func(s *rkev1.RKEControlPlaneSpec) {
		s.ProvisionGeneration = 1
	})
	for _, name := range []string{"s1", "s2", "s3", "w2"} {
		tr.finish(t, w, name)
	}
	tr.do(t, w, "the pool goes on", func(h *host) { h.m.PoolPaused = false }, "w1")
	tr.finish(t, w, "w1")
}

func storyLeftOutServer(t *testing.T, tr *transcript) {
	t.Helper()
	w := fleet(t, k3sVersion, 1)
	w.add("c", "control-plane")
	w.bringUp(t)
	tr.do(t, w, "has no power any more", w.off, "c")
	tr.edit(t, w, "forces all machines to be restarted", func(s *rkev1.RKEControlPlaneSpec) {
		s.ProvisionGeneration = 1
	})
	for _, name := range []string{"s1", "s2", "s3"} {
		tr.finish(t, w, name)
	}
	tr.later(t, w, time.Hour)
	tr.do(t, w, "an operator leaves the machine out of the roll-out", func(h *host) { h.m.Skip = true }, "c")
	tr.finish(t, w, "w1")
}
