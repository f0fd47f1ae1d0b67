package planner

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// A server with another data directory, or another distribution, would start a new and empty cluster. No etcd member
// gets such a plan, whichever field requests it, and undoing the edit ends the problem.
func TestDecide_NoEtcdMemberIsMovedAwayFromItsData(t *testing.T) {
	for name, tc := range map[string]struct {
		edit    func(*rkev1.RKEControlPlaneSpec)
		message string
	}{
		"another data directory": {
			func(s *rkev1.RKEControlPlaneSpec) { s.DataDirectories.K8sDistro = "/mnt/other" },
			"spec.rkeConfig.dataDirectories.k8sDistro: the node has the cluster's data in /var/lib/rancher/rke2, " +
				"and would begin without them in /mnt/other",
		},
		"the same as a key of the distribution": {
			func(s *rkev1.RKEControlPlaneSpec) {
				s.MachineGlobalConfig.Data = map[string]any{"data-dir": "/mnt/other"}
			},
			"spec.rkeConfig.machineGlobalConfig.data-dir: the node has the cluster's data in /var/lib/rancher/rke2, " +
				"and would begin without them in /mnt/other",
		},
		"the same for some machines": {
			func(s *rkev1.RKEControlPlaneSpec) {
				s.MachineSelectorConfig = append(s.MachineSelectorConfig, rkev1.RKESystemConfig{
					Config: rkev1.GenericMap{Data: map[string]any{"data-dir": "/mnt/other"}},
				})
			},
			".config.data-dir: the node has the cluster's data in /var/lib/rancher/rke2, and would begin without " +
				"them in /mnt/other",
		},
		"another datastore": {
			func(s *rkev1.RKEControlPlaneSpec) {
				s.MachineGlobalConfig.Data = map[string]any{"datastore-endpoint": "postgres://user:secret@db/k8s"}
			},
			"key datastore-endpoint of spec.rkeConfig.machineGlobalConfig or machineSelectorConfig: the cluster's " +
				"data are in etcd",
		},
		"another distribution": {
			func(s *rkev1.RKEControlPlaneSpec) { s.KubernetesVersion = k3sVersion },
			"spec.kubernetesVersion: the node has the cluster's data as rke2, which k3s does not take over",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := ready(t, map[string]string{"a": allRoles, "b": allRoles, "c": allRoles, "w": "worker"})
			before, spec := w.plans(), w.cp.Spec.DeepCopy()
			w.edit(tc.edit)
			d := w.run(t)
			if d.Wait == nil || !d.Wait.Failed || !strings.Contains(d.Wait.Message, tc.message) {
				t.Errorf("wait %+v", d.Wait)
			}
			for name, plan := range w.plans() {
				if plan != before[name] {
					t.Errorf("%s got another plan", name)
				}
			}
			w.edit(func(s *rkev1.RKEControlPlaneSpec) { *s = *spec })
			if d := w.run(t); d.Wait != nil {
				t.Errorf("after the edit was reverted: %+v", d.Wait)
			}
		})
	}
}

// A mistake can be corrected before a machine has anything to lose.
func TestDecide_TheDataDirectoryCanChangeBeforeThereAreData(t *testing.T) {
	w := newWorld(rke2Version)
	w.add("a", allRoles)
	w.run(t)
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.DataDirectories.K8sDistro = "/mnt/other" })
	w.bringUp(t)
	if status, message := w.condition(rkev1.ConditionReady); status != "True" {
		t.Errorf("Ready is %s: %s", status, message)
	}
}

// deliverAnyway delivers the plan of a machine as another server program would, without a check of where the data are.
func deliverAnyway(t *testing.T, w *world, name string) {
	t.Helper()
	s := w.snapshot(t)
	p := newPass(&s)
	m := p.collect(func(m *machine) bool { return m.Name == name })[0]
	first := p.collect(func(m *machine) bool { return m.marks.InitNode })[0]
	desired, _, err := p.plans.plan(p.plans.inputFor(m, cmp.Or(m.marks.JoinedTo, first.marks.JoinURL)))
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := nodeplan.Encode(desired)
	if err != nil {
		t.Fatal(err)
	}
	h := w.machines[name]
	if h.data, err = nodeplan.Deliver(h.data,
		nodeplan.Delivery{Plan: encoded, MaxFailures: 1, FailureThreshold: 1}); err != nil {
		t.Fatal(err)
	}
}

// A move that another server program delivered, and that the node did not carry out, ends when the edit is undone: the
// data did not move.
func TestDecide_AMoveThatWasNotCarriedOutIsTakenBack(t *testing.T) {
	w := ready(t, map[string]string{"a": allRoles, "b": allRoles, "c": allRoles})
	spec := w.cp.Spec.DeepCopy()
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.DataDirectories.K8sDistro = "/mnt/other" })
	deliverAnyway(t, w, "b")
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { *s = *spec })
	if d := Decide(w.snapshot(t)); d.Wait == nil || d.Wait.Failed || !slices.Equal(deliveries(d), []string{"b"}) {
		t.Errorf("wait %+v, plans are delivered to %v", d.Wait, deliveries(d))
	}
}

// A server that would keep its data in another datastore than the others does not join, because it would be another
// cluster.
func TestDecide_NoServerJoinsWithAnotherDatastore(t *testing.T) {
	const endpoint = "postgres://user:secret@db/k8s"
	key := func(pool string) func(*rkev1.RKEControlPlaneSpec) {
		return func(s *rkev1.RKEControlPlaneSpec) {
			s.MachineSelectorConfig = []rkev1.RKESystemConfig{{
				MachineLabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}},
				Config:               rkev1.GenericMap{Data: map[string]any{"datastore-endpoint": endpoint}},
			}}
		}
	}
	for name, roles := range map[string]string{"a member": "etcd,control-plane",
		"a server without etcd": "control-plane"} {
		t.Run(name, func(t *testing.T) {
			w := ready(t, map[string]string{"a": allRoles, "w": "worker"})
			w.edit(key("new"))
			w.add("n", roles).m.Labels["pool"] = "new"
			d := w.run(t)
			if d.Wait == nil || !d.Wait.Failed || !strings.Contains(d.Wait.Message, "the cluster's data are in etcd") ||
				strings.Contains(d.Wait.Message, "secret") {
				t.Errorf("wait %+v", d.Wait)
			}
			if len(w.plans()["n"]) > 0 {
				t.Error("the server gets a plan")
			}
		})
	}
	t.Run("a member that was given such a plan by another server program", func(t *testing.T) {
		w := ready(t, map[string]string{"a": allRoles, "w": "worker"})
		w.edit(key("new"))
		w.add("n", "etcd,control-plane").m.Labels["pool"] = "new"
		deliverAnyway(t, w, "n")
		if d := w.run(t); d.Wait == nil || !d.Wait.Failed ||
			!strings.Contains(d.Wait.Message, "the cluster's data are in etcd") {
			t.Errorf("wait %+v", d.Wait)
		}
	})
	t.Run("a key that the distribution does not know", func(t *testing.T) {
		w := ready(t, map[string]string{"a": allRoles, "w": "worker"})
		w.edit(func(s *rkev1.RKEControlPlaneSpec) {
			s.MachineGlobalConfig.Data = map[string]any{"Datastore-Endpoint": endpoint, "Data-Dir": "/mnt/other"}
		})
		w.bringUp(t)
		w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.MachineGlobalConfig.Data = nil })
		w.bringUp(t)
	})
	t.Run("all from the beginning", func(t *testing.T) {
		w := newWorld(k3sVersion)
		w.edit(func(s *rkev1.RKEControlPlaneSpec) {
			s.MachineGlobalConfig.Data = map[string]any{"datastore-endpoint": endpoint}
		})
		w.add("a", allRoles)
		w.bringUp(t)
		w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.MachineGlobalConfig.Data["datastore-endpoint"] = endpoint + "2" })
		w.add("b", allRoles)
		w.bringUp(t)
		w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.MachineGlobalConfig.Data = nil })
		if d := w.run(t); d.Wait == nil ||
			!strings.Contains(d.Wait.Message, "the cluster's data are in another datastore") {
			t.Errorf("wait %+v", d.Wait)
		}
	})
}

// Removing the key that names the data directory moves the data too, and the message names that key.
func TestDecide_TheKeyThatNamedTheDataDirectoryIsTold(t *testing.T) {
	w := newWorld(rke2Version)
	for _, name := range []string{"a", "b", "c"} {
		w.add(name, allRoles)
	}
	w.cp.Spec.MachineGlobalConfig.Data = map[string]any{"data-dir": "/mnt/other"}
	w.bringUp(t)
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.MachineGlobalConfig.Data = nil })
	want := "spec.rkeConfig.machineGlobalConfig.data-dir: the node has the cluster's data in /mnt/other, and would " +
		"begin without them in /var/lib/rancher/rke2"
	if d := w.run(t); d.Wait == nil || !strings.Contains(d.Wait.Message, want) {
		t.Errorf("wait %+v", d.Wait)
	}
}
