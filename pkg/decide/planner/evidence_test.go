package planner

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// causes are the causes of a decision's disruptions, by machine.
func causes(d Decision) map[string]disruption.Cause {
	out := map[string]disruption.Cause{}
	for _, e := range d.Effects {
		switch e := e.(type) {
		case DeliverPlan:
			if e.Cause != "" {
				out[e.Machine] = e.Cause
			}
		case RequestDrain:
			out[e.Machine] = e.Cause
		}
	}
	return out
}

// settledWorld is a cluster in order: one server, two workers.
func settledWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(rke2Version)
	w.objects = []Object{{Kind: "ConfigMap", Namespace: "fleet-default", Name: "motd",
		Data: map[string][]byte{"motd": []byte("hello")}}}
	w.objects[0].Annotations = map[string]string{"rke.cattle.io/object-authorized-for-clusters": "demo"}
	w.edit(func(spec *rkev1.RKEControlPlaneSpec) {
		spec.MachineGlobalConfig.Data = map[string]any{"selinux": "yes"}
		spec.MachineSelectorFiles = []rkev1.RKEProvisioningFiles{{FileSources: []rkev1.ProvisioningFileSource{
			{ConfigMap: rkev1.K8sObjectFileSource{Name: "motd",
				Items: []rkev1.KeyToPath{{Key: "motd", Path: "/etc/motd"}}}},
		}}}
	})
	w.add("s", "etcd,control-plane")
	w.add("w1", "worker")
	w.add("w2", "worker")
	w.bringUp(t)
	return w
}

func globally(key string, value any) func(spec *rkev1.RKEControlPlaneSpec) {
	return func(spec *rkev1.RKEControlPlaneSpec) {
		spec.MachineGlobalConfig.Data = map[string]any{"selinux": "yes", key: value}
	}
}

// Every change of a plan that restarts a node has its cause, or the cause Unknown.
func TestDecide_EveryDisruptionHasACause(t *testing.T) {
	for name, tc := range map[string]struct {
		// happen runs before the last snapshot. change changes that snapshot.
		happen func(t *testing.T, w *world)
		change func(s *Snapshot)
		want   disruption.Cause
	}{
		"another version": {happen: edited(func(spec *rkev1.RKEControlPlaneSpec) {
			spec.KubernetesVersion = "v1.36.3+rke2r1"
		}), want: disruption.EditVersion},
		"configuration": {happen: edited(globally("profile", "cis")), want: disruption.EditConfiguration},
		"the version above all": {happen: edited(func(spec *rkev1.RKEControlPlaneSpec) {
			spec.KubernetesVersion = "v1.36.3+rke2r1"
			globally("profile", "cis")(spec)
		}), want: disruption.EditVersion},
		"everything is installed again": {happen: edited(func(spec *rkev1.RKEControlPlaneSpec) {
			spec.ProvisionGeneration++
		}), want: disruption.EditReinstall},
		"etcd": {happen: edited(func(spec *rkev1.RKEControlPlaneSpec) {
			spec.ETCD = &rkev1.ETCD{DisableSnapshots: true}
		}), want: disruption.EditEtcd},
		"the data of a ConfigMap": {change: func(s *Snapshot) { s.Objects = motd("bye") }, want: disruption.EditObject},
		"the data of a ConfigMap, by evidence of the first release": {happen: func(_ *testing.T, w *world) {
			w.machines["s"].evidence = regexp.MustCompile(`"data":"[^"]*",`).ReplaceAllString(w.machines["s"].evidence,
				"")
		}, change: func(s *Snapshot) { s.Objects = motd("bye") }, want: disruption.EditObject},
		"a label that a selector sees": {happen: labelled, want: disruption.EditMachine},
		"the server's settings": {change: func(s *Snapshot) {
			s.Settings.SystemDefaultRegistry = "mirror.example.com"
		}, want: disruption.EditSettings},
		"the release data know more when there is an edit": {
			happen: edited(globally("profile", "cis")), change: knowSelinux, want: disruption.EditConfiguration,
		},
		"an edit is reverted while it is rolled out": {
			happen: func(t *testing.T, w *world) {
				t.Helper()
				edited(globally("profile", "cis"))(t, w)
				w.run(t)
				edited(func(spec *rkev1.RKEControlPlaneSpec) { globally("selinux", "yes")(spec) })(t, w)
			}, want: disruption.EditConfiguration,
		},
		"plans without evidence, and an edit": {happen: func(t *testing.T, w *world) {
			t.Helper()
			w.machines["s"].evidence = ""
			edited(globally("profile", "cis"))(t, w)
		}, want: disruption.EditConfiguration},
		"plans without evidence, and no edit": {happen: func(_ *testing.T, w *world) { w.machines["s"].evidence = "{" },
			change: knowSelinux, want: disruption.Unknown},
		"evidence of another plan": {happen: func(_ *testing.T, w *world) {
			w.machines["s"].evidence = strings.Replace(w.machines["s"].evidence, `"plan":"`, `"plan":"0`, 1)
		}, change: func(s *Snapshot) { s.Settings.SystemDefaultRegistry = "mirror.example.com" },
			want: disruption.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			w := settledWorld(t)
			if tc.happen != nil {
				tc.happen(t, w)
			}
			s := w.snapshot(t)
			if tc.change != nil {
				tc.change(&s)
			}
			d := Decide(s)
			if got := causes(d)["s"]; got != tc.want {
				t.Errorf("cause %q, want %q; effects %v", got, tc.want, causes(d))
			}
			if d.Ticket == nil || d.Ticket.Cause != string(tc.want) {
				t.Errorf("ticket %+v, want cause %q", d.Ticket, tc.want)
			}
		})
	}
}

// An upgrade of Drover with newer release data restarts nothing: plans stay as they are until a change is requested.
func TestDecide_NewerReleaseDataDisruptNobody(t *testing.T) {
	for name, happen := range map[string]func(t *testing.T, w *world){
		"nothing else happens": func(*testing.T, *world) {},
		"an edit concerns no machine": edited(func(spec *rkev1.RKEControlPlaneSpec) {
			spec.UpgradeStrategy.WorkerConcurrency = "2"
		}),
		"an edit concerned others once": func(t *testing.T, w *world) {
			t.Helper()
			edited(onlyOnWorkers("profile", "cis"))(t, w)
			w.bringUp(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := settledWorld(t)
			happen(t, w)
			s := w.snapshot(t)
			knowSelinux(&s)
			d := Decide(s)
			if got := deliveries(d); len(got) > 0 || d.Ticket != nil {
				t.Errorf("plans for %v, ticket %+v", got, d.Ticket)
			}
			if d.Wait != nil {
				t.Errorf("the cluster waits: %+v", d.Wait)
			}
			s.ControlPlane.Spec.MachineGlobalConfig.Data = map[string]any{"selinux": "yes", "profile": "cis"}
			later := Decide(s)
			if got := causes(later)["s"]; got != disruption.EditConfiguration {
				t.Errorf("cause of the next change: %q", got)
			}
			i := slices.IndexFunc(later.Effects, func(e Effect) bool {
				p, ok := e.(DeliverPlan)
				return ok && p.Machine == "s"
			})
			if got := config(t, later.Effects[i].(DeliverPlan).Delivery.Plan)["selinux"]; got != true {
				t.Errorf("the next change does not bring what is known now: selinux is %v", got)
			}
		})
	}
}

// Changes without a restart are delivered while newer release data wait for a change, and an operation brings none of
// these data.
func TestDecide_NewerReleaseDataKeepNothingElseBack(t *testing.T) {
	for name, tc := range map[string]struct {
		happen func(w *world, agent *render.ClusterAgent)
		// path is the end of the path of a file that must change.
		path string
	}{
		"an edit of what only the copy of the spec shows": {func(w *world, _ *render.ClusterAgent) {
			w.cp.Annotations = map[string]string{rkev1.ClusterSpecAnnotation: "other"}
		}, "etcd-snapshot-extra-metadata.yaml"},
		"another manifest of the agent": {func(_ *world, agent *render.ClusterAgent) {
			agent.Manifest = "kind: Namespace"
		}, "cluster-agent.yaml"},
		"a snapshot is taken": {func(w *world, _ *render.ClusterAgent) {
			w.edit(func(spec *rkev1.RKEControlPlaneSpec) {
				spec.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 1}
			})
		}, ""},
		"the certificates are rotated": {func(w *world, _ *render.ClusterAgent) {
			w.edit(func(spec *rkev1.RKEControlPlaneSpec) {
				spec.RotateCertificates = &rkev1.RotateCertificates{Generation: 1}
			})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := settledWorld(t)
			had := w.machines["s"].state().Plan
			agent := render.ClusterAgent{}
			tc.happen(w, &agent)
			var d Decision
			for range 12 {
				s := w.snapshot(t)
				knowSelinux(&s)
				s.ClusterAgent = agent
				d = Decide(s)
				if got := causes(d); slices.Contains(slices.Collect(maps.Values(got)), disruption.Unknown) {
					t.Fatalf("disrupted for no reason: %v", got)
				}
				w.now = w.now.Add(time.Second)
				w.apply(d)
				for _, h := range w.machines {
					h.applyPlan()
					h.probes(true)
				}
			}
			if d.Wait != nil || len(deliveries(d)) > 0 {
				t.Errorf("it comes to no end: %+v, plans for %v", d.Wait, deliveries(d))
			}
			has := w.machines["s"].state().Plan
			if !slices.EqualFunc(had.Instructions, has.Instructions, sameInstruction) {
				t.Errorf("instructions %v, had %v", has.Instructions, had.Instructions)
			}
			changed := slices.DeleteFunc(slices.Clone(has.Files), func(f plan.File) bool {
				return slices.Contains(had.Files, f)
			})
			if tc.path == "" != (len(changed) == 0) || len(changed) > 1 || len(changed) == 1 &&
				!strings.HasSuffix(changed[0].Path, tc.path) {
				t.Errorf("changed files: %v", changed)
			}
			s := w.snapshot(t)
			knowSelinux(&s)
			s.ClusterAgent = agent
			s.ControlPlane.Spec.MachineGlobalConfig.Data = map[string]any{"selinux": "yes", "profile": "cis"}
			if got := causes(Decide(s))["s"]; got != disruption.EditConfiguration {
				t.Errorf("cause of the next change: %q", got)
			}
		})
	}
}

func edited(change func(spec *rkev1.RKEControlPlaneSpec)) func(*testing.T, *world) {
	return func(_ *testing.T, w *world) { w.edit(change) }
}

func motd(text string) []Object {
	return []Object{{Kind: "ConfigMap", Namespace: "fleet-default", Name: "motd",
		Data:        map[string][]byte{"motd": []byte(text)},
		Annotations: map[string]string{"rke.cattle.io/object-authorized-for-clusters": "demo"}}}
}

// knowSelinux adds newer release data: a key takes true or false, so the user's text becomes a boolean.
func knowSelinux(s *Snapshot) {
	s.Release.AgentArgs = map[string]distro.ArgKind{"selinux": distro.ArgBool}
	s.Release.ServerArgs = map[string]distro.ArgKind{"selinux": distro.ArgBool}
}

// labelled adds a selector that waits for a label, and then gives the label to the server.
func labelled(t *testing.T, w *world) {
	t.Helper()
	w.edit(func(spec *rkev1.RKEControlPlaneSpec) {
		spec.MachineSelectorConfig = []rkev1.RKESystemConfig{{MachineLabelSelector: selector("zone", "a"),
			Config: rkev1.GenericMap{Data: map[string]any{"profile": "cis"}}}}
	})
	w.bringUp(t)
	w.machines["s"].m.Labels["zone"] = "a"
}

func onlyOnWorkers(key string, value any) func(spec *rkev1.RKEControlPlaneSpec) {
	return func(spec *rkev1.RKEControlPlaneSpec) {
		spec.MachineSelectorConfig = []rkev1.RKESystemConfig{{
			MachineLabelSelector: selector("rke.cattle.io/worker-role", "true"),
			Config:               rkev1.GenericMap{Data: map[string]any{key: value}},
		}}
	}
}

// A worker whose server goes has to join another one. A worker that joins another one without a reason has no cause.
func TestDecide_JoiningAnotherServerNeedsAReason(t *testing.T) {
	w := newWorld(rke2Version)
	for _, name := range []string{"s1", "s2", "s3"} {
		w.add(name, "etcd,control-plane")
	}
	worker := w.add("w", "worker")
	w.bringUp(t)
	joined := worker.m.Marks.JoinedTo
	for name, h := range w.machines {
		if h.m.Marks.JoinURL == joined && name != "w" {
			h.m.Deleting = true
			h.m.Labels["rke.cattle.io/etcd-role"] = ""
		}
	}
	var got disruption.Cause
	for range 20 {
		d := Decide(w.snapshot(t))
		if got = causes(d)["w"]; got != "" {
			break
		}
		w.apply(d)
		for _, h := range w.machines {
			h.applyPlan()
			h.probes(true)
		}
	}
	if got != disruption.HealthServerLost {
		t.Errorf("the server is gone: cause %q", got)
	}

	w = settledWorld(t)
	s := w.snapshot(t)
	for i := range s.Machines {
		if s.Machines[i].Name == "w1" {
			p := newPass(&s)
			m := p.machines[1]
			m.joins = "https://10.9.9.9:9345"
			if got := p.causes.causeOf(m); m.Name != "w1" || got != disruption.Unknown {
				t.Errorf("%s: the server is there: cause %q", m.Name, got)
			}
		}
	}
}

// The evidence of a plan contains no values, and another pass over the same cluster writes the same evidence.
func TestDecide_EvidenceHoldsDigestsOnly(t *testing.T) {
	w := settledWorld(t)
	for name, h := range w.machines {
		for _, secret := range []string{"server-token", "agent-token", "hello", "fleet-default", rke2Version} {
			if strings.Contains(h.evidence, secret) {
				t.Errorf("%s: the evidence tells %q: %s", name, secret, h.evidence)
			}
		}
		if len(h.evidence) == 0 || len(h.evidence) > 1024 {
			t.Errorf("%s: the evidence has %d bytes", name, len(h.evidence))
		}
		if !strings.Contains(h.evidence, `"render":"`+render.Version+`"`) {
			t.Errorf("%s: the evidence does not tell the render version: %s", name, h.evidence)
		}
	}
}

func selector(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// A machine that has to join elsewhere has the cause of its own server: the loss of that server, or its new address.
func TestDecide_AnotherJoinURLHasTheCauseOfItsServer(t *testing.T) {
	address := func(addresses ...string) func(w *world) {
		return func(w *world) {
			w.machines["s1"].m.Addresses = nil
			for _, a := range addresses {
				w.machines["s1"].m.Addresses = append(w.machines["s1"].m.Addresses,
					Address{Type: "InternalIP", Address: a})
			}
		}
	}
	lose := func(w *world) { w.machines["s1"].m.Deleting = true }
	for name, tc := range map[string]struct {
		happen func(w *world)
		want   disruption.Cause
	}{
		"the init node is deleted": {happen: lose, want: disruption.HealthServerLost},
		"the init node reports one more address": {happen: address("10.0.0.10", "10.7.7.7"),
			want: disruption.EditMachine},
		"the init node has another address":     {happen: address("10.7.7.7"), want: disruption.EditMachine},
		"no evidence, the init node is deleted": {happen: both(forget, lose), want: disruption.HealthServerLost},
		// No server has the old URL any more, and nothing shows that it was the same machine.
		"no evidence, the init node has another address": {happen: both(forget, address("10.7.7.7")),
			want: disruption.HealthServerLost},
		"evidence without machines, the init node is lost": {happen: both(nameless, lose),
			want: disruption.HealthServerLost},
		"evidence without machines, it has another address": {happen: both(nameless, address("10.7.7.7")),
			want: disruption.HealthServerLost},
	} {
		t.Run(name, func(t *testing.T) {
			w := rollWorld(t)
			if !w.machines["s1"].m.Marks.InitNode {
				t.Fatal("s1 is not the init node")
			}
			tc.happen(w)
			var got disruption.Cause
			for range 20 {
				d := Decide(w.snapshot(t))
				if got = causes(d)["s3"]; got != "" {
					break
				}
				w.apply(d)
				for _, h := range w.machines {
					h.applyPlan()
					h.probes(true)
				}
			}
			if got != tc.want {
				t.Errorf("cause %q, want %q", got, tc.want)
			}
		})
	}
}

// nameless turns the evidence into evidence that names no machines.
func nameless(w *world) {
	for name := range w.machines {
		var e evidence
		if err := json.Unmarshal([]byte(w.machines[name].evidence), &e); err != nil {
			panic(err)
		}
		delete(e.Other, partServer)
		delete(e.Other, partAddress)
		w.machines[name].evidence = e.about(e.Plan)
	}
}

// A server that has to join an unchanged init node at another URL has no cause. The same holds for a server whose plan
// has no evidence.
func TestDecide_AnotherURLOfAnUnchangedServerHasNoCause(t *testing.T) {
	for name, happen := range map[string]func(w *world){"evidence": func(*world) {}, "no evidence": forget,
		"evidence without machines": nameless} {
		t.Run(name, func(t *testing.T) {
			w := rollWorld(t)
			happen(w)
			s := w.snapshot(t)
			p := newPass(&s)
			p.init = p.machines[0]
			m := p.machines[2]
			m.joins = "https://10.9.9.9:9345"
			if got := p.causes.causeOf(m); m.Name != "s3" || got != disruption.Unknown {
				t.Errorf("%s: cause %q", m.Name, got)
			}
		})
	}
}
