package planner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// expected is the outlook of each machine, in the order of tiers.
func expected(o Outlook) []string {
	var lines []string
	line := func(tier string, m MachineOutlook) {
		text := tier + " " + m.Name + " " + string(m.Class)
		if m.Drained {
			text += " drained"
		}
		if more := m.Held + m.Problem; more != "" {
			text += ": " + more
		}
		lines = append(lines, text)
	}
	for _, t := range o.Tiers {
		for _, m := range t.Machines {
			line(t.Name, m)
		}
	}
	for _, m := range o.Others {
		line("-", m)
	}
	return lines
}

func TestAssess(t *testing.T) {
	for name, tc := range map[string]struct {
		given func(w *world)
		want  []string
	}{
		"nothing": {func(*world) {}, []string{"bootstrap s1 None", "etcd s2 None", "etcd s3 None", "worker w None"}},
		"a version restarts all": {
			func(w *world) { w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.KubernetesVersion = "v1.36.3+rke2r1" }) },
			[]string{"bootstrap s1 Restart", "etcd s2 Restart", "etcd s3 Restart", "worker w Restart"},
		},
		"a drained version": {
			func(w *world) {
				w.edit(func(s *rkev1.RKEControlPlaneSpec) {
					s.KubernetesVersion = "v1.36.3+rke2r1"
					s.UpgradeStrategy.WorkerDrainOptions.Enabled = true
				})
			},
			[]string{"bootstrap s1 Restart", "etcd s2 Restart", "etcd s3 Restart", "worker w Restart drained"},
		},
		"a manifest is delivered in place": {
			func(w *world) {
				w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.AdditionalManifest = "kind: ConfigMap" })
			},
			[]string{"bootstrap s1 InPlace", "etcd s2 InPlace", "etcd s3 InPlace", "worker w None"},
		},
		"the copy of the spec is nothing": {
			func(w *world) { w.cp.Annotations = map[string]string{rkev1.ClusterSpecAnnotation: "other"} },
			[]string{"bootstrap s1 None", "etcd s2 None", "etcd s3 None", "worker w None"},
		},
		"a strategy is nothing": {
			func(w *world) {
				w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.UpgradeStrategy.WorkerConcurrency = "50%" })
			},
			[]string{"bootstrap s1 None", "etcd s2 None", "etcd s3 None", "worker w None"},
		},
		"machines that are held": {
			func(w *world) {
				w.edit(restartAll)
				w.machines["w"].m.PoolPaused = true
				w.machines["s2"].m.Skip = true
				w.machines["s3"].m.Deleting = true
				w.addBare("x", "worker")
			},
			[]string{
				"bootstrap s1 Restart", "etcd s2 Restart: is left out of roll-outs by annotation",
				"worker w Restart: the machine pool is paused",
				"- s3 None: is being deleted", "- x None: has no plan yet",
			},
		},
		"drains that Drover skips": {
			func(w *world) {
				w.edit(func(s *rkev1.RKEControlPlaneSpec) {
					restartAll(s)
					s.UpgradeStrategy.WorkerDrainOptions.Enabled, s.UpgradeStrategy.ControlPlaneDrainOptions.Enabled =
						true, true
				})
				w.machines["s2"].m.SkipDrain = true
				w.machines["w"].m.NodeLostSince = w.now.Add(-lostAfter)
			},
			[]string{"bootstrap s1 Restart drained", "etcd s2 Restart", "etcd s3 Restart drained", "worker w Restart"},
		},
		"a change in place reaches a machine that is left out": {
			func(w *world) {
				w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.AdditionalManifest = "a: b" })
				w.machines["s2"].m.Skip = true
			},
			[]string{"bootstrap s1 InPlace", "etcd s2 InPlace", "etcd s3 InPlace", "worker w None"},
		},
		"a plan that cannot be made": {
			func(w *world) {
				w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.AdditionalManifest = strings.Repeat("x", MaxPlanSize) })
			},
			[]string{"bootstrap s1 None: " + tooLarge, "etcd s2 None: " + tooLarge, "etcd s3 None: " + tooLarge,
				"worker w None"},
		},
		"a paused cluster too": {
			func(w *world) { w.edit(restartAll); w.cluster.Paused = true },
			[]string{"bootstrap s1 Restart", "etcd s2 Restart", "etcd s3 Restart", "worker w Restart"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			tc.given(w)
			if diff := cmp.Diff(tc.want, expected(Assess(w.snapshot(t)))); diff != "" {
				t.Errorf("outlook (-want +got):\n%s", diff)
			}
		})
	}
}

// tooLarge is the message about a server with a manifest that is too large.
const tooLarge = "the plan has 538 KiB, at most 400 KiB are delivered; the largest parts are " +
	"spec.rkeConfig.additionalManifest (533 KiB)"

func TestAssess_WithoutInitNode(t *testing.T) {
	w := newWorld(rke2Version)
	w.add("w", "worker")
	o := Assess(w.snapshot(t))
	if diff := cmp.Diff([]string{"- w None: waiting for viable init node"}, expected(o)); diff != "" ||
		o.Blocked == "" {
		t.Errorf("outlook (-want +got):\n%s", diff)
	}
}

// Assess reports a restart exactly where Decide issues a ticket or a drain.
func TestAssess_AgreesWithDecide(t *testing.T) {
	for name, edit := range map[string]func(*rkev1.RKEControlPlaneSpec){
		"a restart": restartAll,
		"in place":  func(s *rkev1.RKEControlPlaneSpec) { s.AdditionalManifest = "kind: ConfigMap" },
		"a key":     func(s *rkev1.RKEControlPlaneSpec) { s.MachineGlobalConfig.Data = map[string]any{"debug": true} },
	} {
		t.Run(name, func(t *testing.T) {
			w := ready(t, map[string]string{"s": allRoles})
			w.edit(edit)
			s := w.snapshot(t)
			o, _ := Assess(s).Find("s")
			d := Decide(s)
			if got := len(deliveries(d)) > 0; got != (o.Class != ClassNone) {
				t.Errorf("class %s, delivered %v", o.Class, got)
			}
			if (d.Ticket != nil) != (o.Class == ClassRestart) {
				t.Errorf("class %s, ticket %v", o.Class, d.Ticket)
			}
		})
	}
}

func TestDescribe_EveryEffectHasASentence(t *testing.T) {
	for _, effect := range []Effect{
		CreateTokens{}, MarkMachine{}, DeliverPlan{}, RequestDrain{}, RequestUncordon{}, WithdrawInitLabel{},
		PublishJoinURL{}, SetMachineCondition{},
		ResetClusterInitialized{}, ForceRemoveMachine{}, PauseCluster{}, ResumeCluster{},
	} {
		if text := Describe(effect); strings.Contains(text, "planner.") {
			t.Errorf("%T: %q", effect, text)
		}
	}
}

func TestExplain(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.edit(restartAll)
	e := Explain(w.snapshot(t))
	if e.Step != "init" || e.Wait == nil || e.Wait.Reason != ReasonConfiguring || len(e.Wait.Wakes) == 0 {
		t.Fatalf("step %s, wait %+v", e.Step, e.Wait)
	}
	if last := e.Passed[len(e.Passed)-1]; last.Step != "join" || last.Why != "the init node can be joined" {
		t.Errorf("the last step before is %+v", last)
	}
	want := []string{"deliver a changed plan to machine s1", "set condition Reconciled of machine s1 to Unknown"}
	if diff := cmp.Diff(want, e.Effects); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
	first := ExplainedMachine{
		Name: "s1", Roles: "etcd,control-plane", Tier: "bootstrap", InitNode: true, Plan: "applied",
		State: StateHealthy, Member: MemberHealthy, Change: ClassRestart, Message: "waiting for plan to be applied",
	}
	if diff := cmp.Diff(first, e.Machines[0]); diff != "" || len(e.Machines) != 4 {
		t.Errorf("machine (-want +got):\n%s", diff)
	}
}
