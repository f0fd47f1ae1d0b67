package preview

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// lines formats a report without its unaffected machines.
func lines(r Report) []string {
	var out []string
	for _, m := range r.Machines {
		if m.Class == planner.ClassNone && m.Held == "" && m.Problem == "" {
			continue
		}
		words := []string{strings.TrimSpace(m.Name + " " + map[bool]string{true: "new in " + m.Pool}[m.Name == ""]),
			string(m.Class)}
		if m.Drained {
			words = append(words, "drained")
		}
		if m.Pending {
			words = append(words, "pending")
		}
		for _, c := range m.Causes {
			words = append(words, c.Field)
		}
		if m.Held != "" {
			words = append(words, "("+m.Held+")")
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

func order(r Report) []string {
	var out []string
	for _, stage := range r.Order {
		out = append(out, stage.Name+", "+stage.Pace+": "+strings.Join(stage.Machines, " "))
	}
	return out
}

// The preview shows an edited roll command like any other edit.
func TestCompute_RollInTheFile(t *testing.T) {
	const field = "metadata.annotations[drover.io/roll-render-version]"
	for name, tc := range map[string]struct {
		now  string
		want []string
		note string
	}{
		"all machines": {now: "newer", want: []string{
			"server-1 Restart " + field, "server-2 Restart " + field, "server-3 Restart " + field, "worker-1 Restart " +
				field, "worker-2 Restart " + field,
		}},
		"one pool": {now: "worker=newer", want: []string{"worker-1 Restart " + field, "worker-2 Restart " +
			field}},
		"their own version": {now: "1"},
		"an unknown version": {now: "worker=9", note: field +
			` requests the unknown render version "9"; use one of 1, newer`},
		"an invalid command": {now: "worker=", note: field +
			` is invalid: "worker=" is neither VERSION nor POOL=VERSION`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.snapshot.Versions = render.Versions{}.With("newer", func(_ render.Input, files []plan.File) []plan.File {
				return append(files, plan.File{Path: "/etc/newer", Content: "bmV3ZXI="})
			})
			r := w.preview(t, func(c *provv1.Cluster) { c.Annotations[rkev1.RollAnnotation] = tc.now }, nil)
			if diff := cmp.Diff(tc.want, lines(r)); diff != "" {
				t.Errorf("machines (-want +got):\n%s", diff)
			}
			if want := tc.note != ""; slices.Contains(r.Notes, tc.note) != want || len(r.Notes) > 0 != want {
				t.Errorf("notes %q, want %q", r.Notes, tc.note)
			}
			if len(r.Fields) != 1 || r.Fields[0].Field != field || r.Fields[0].Class != r.Result {
				t.Errorf("result %s, causes %+v", r.Result, r.Fields)
			}
		})
	}
}

func TestCompute(t *testing.T) {
	const pool1 = "spec.rkeConfig.machinePools[1]"
	for name, tc := range map[string]struct {
		given  func(*world)
		edit   func(*provv1.Cluster)
		sizes  map[string]string
		result planner.Class
		want   []string
		order  []string
	}{
		"nothing": {edit: func(*provv1.Cluster) {}, result: planner.ClassNone},
		"a version restarts all machines, tier by tier": {
			edit:   func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "v1.36.3+rke2r1" },
			result: planner.ClassRestart,
			want: []string{
				"server-1 Restart spec.kubernetesVersion", "server-2 Restart spec.kubernetesVersion",
				"server-3 Restart spec.kubernetesVersion",
				"worker-1 Restart spec.kubernetesVersion", "worker-2 Restart spec.kubernetesVersion",
			},
			order: []string{"bootstrap, one at a time: server-1", "etcd, one at a time: server-2 server-3",
				"worker, one at a time: worker-1 worker-2"},
		},
		"more workers at a time, with a drain": {
			edit: func(c *provv1.Cluster) {
				c.Spec.RKEConfig.UpgradeStrategy.WorkerConcurrency = "100%"
				c.Spec.RKEConfig.UpgradeStrategy.WorkerDrainOptions.Enabled = true
				c.Spec.RKEConfig.MachineSelectorConfig = nil
				c.Spec.RKEConfig.MachineGlobalConfig.Data = map[string]any{"kubelet-arg": []any{"v=2"}}
			},
			result: planner.ClassRestart,
			want: []string{
				"server-1 Restart spec.rkeConfig.machineGlobalConfig.kubelet-arg",
				"server-2 Restart spec.rkeConfig.machineGlobalConfig.kubelet-arg",
				"server-3 Restart spec.rkeConfig.machineGlobalConfig.kubelet-arg",
				"worker-1 Restart drained spec.rkeConfig.machineGlobalConfig.kubelet-arg",
				"worker-2 Restart drained spec.rkeConfig.machineGlobalConfig.kubelet-arg",
			},
			order: []string{"bootstrap, one at a time: server-1", "etcd, one at a time: server-2 server-3",
				"worker, 2 at a time: worker-1 worker-2"},
		},
		"a label of a pool restarts the pool": {
			edit: func(c *provv1.Cluster) {
				c.Spec.RKEConfig.MachinePools[1].Labels = map[string]string{"example.com/tier": "a"}
			},
			result: planner.ClassRestart,
			want: []string{"worker-1 Restart " + pool1 + ".labels[example.com/tier]", "worker-2 Restart " + pool1 +
				".labels[example.com/tier]"},
			order: []string{"worker, one at a time: worker-1 worker-2"},
		},
		"a dynamic file changes in place": {
			edit:   func(c *provv1.Cluster) { c.Spec.RKEConfig.AdditionalManifest = "kind: ConfigMap" },
			result: planner.ClassInPlace,
			want: []string{
				"server-1 InPlace spec.rkeConfig.additionalManifest",
				"server-2 InPlace spec.rkeConfig.additionalManifest",
				"server-3 InPlace spec.rkeConfig.additionalManifest",
			},
			order: []string{"bootstrap, one at a time: server-1", "etcd, one at a time: server-2 server-3"},
		},
		"a strategy changes no machine": {
			edit: func(c *provv1.Cluster) {
				c.Spec.RKEConfig.UpgradeStrategy.ControlPlaneConcurrency = "2"
			}, result: planner.ClassNone,
		},
		"an edited machine config replaces only its pool": {
			edit: func(*provv1.Cluster) {}, sizes: map[string]string{"worker": "large"}, result: planner.ClassReplace,
			want: []string{"worker-1 Replace PodConfig/worker: size", "worker-2 Replace PodConfig/worker: size"},
			order: []string{
				"pool worker, parallel to the tiers, at most 1 more and 0 fewer than its size: worker-1 worker-2"},
		},
		"another machine config replaces machines if its content differs": {
			edit:  func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[1].NodeConfig.Name = "other" },
			sizes: map[string]string{"other": "large"}, result: planner.ClassReplace,
			want: []string{
				"worker-1 Replace PodConfig/other: size " + pool1 + ".machineConfigRef.name",
				"worker-2 Replace PodConfig/other: size " + pool1 + ".machineConfigRef.name",
			},
			order: []string{
				"pool worker, parallel to the tiers, at most 1 more and 0 fewer than its size: worker-1 worker-2"},
		},
		"a larger pool": {
			edit: func(c *provv1.Cluster) {
				c.Spec.RKEConfig.MachinePools[1].Quantity = new(
					int32(4))
			}, result: planner.ClassAdd,
			want:  []string{"new in worker Add " + pool1 + ".quantity", "new in worker Add " + pool1 + ".quantity"},
			order: []string{"pool worker, parallel to the tiers, all at once: "},
		},
		"a smaller pool loses its oldest machine": {
			edit: func(c *provv1.Cluster) {
				c.Spec.RKEConfig.MachinePools[1].Quantity = new(
					int32(1))
			}, result: planner.ClassRemove,
			want:  []string{"worker-2 Remove " + pool1 + ".quantity"},
			order: []string{"pool worker, parallel to the tiers, all at once: worker-2"},
		},
		"a removed pool, and a new one": {
			edit: func(c *provv1.Cluster) {
				c.Spec.RKEConfig.MachinePools[1] = machinePool("fresh", 1, "w")
				c.Spec.RKEConfig.MachinePools[1].NodeConfig.Name = "other"
			},
			result: planner.ClassRemove,
			want: []string{
				"worker-1 Remove spec.rkeConfig.machinePools[worker]",
				"worker-2 Remove spec.rkeConfig.machinePools[worker]",
				"new in fresh Add spec.rkeConfig.machinePools[1]",
			},
		},
		"a paused pool holds its machines": {
			edit: func(c *provv1.Cluster) {
				c.Spec.RKEConfig.MachinePools[1].Paused = true
				c.Spec.RKEConfig.MachinePools[1].Labels = map[string]string{"a": "b"}
			}, result: planner.ClassRestart,
			want: []string{
				"worker-1 Restart " + pool1 + ".labels.a (the machine pool is paused)", "worker-2 Restart " + pool1 +
					".labels.a (the machine pool is paused)",
			},
			order: []string{"worker, one at a time: worker-1 worker-2"},
		},
		"a deleted machine, and one without a plan": {
			given: func(w *world) {
				w.machine("worker-1").Deleting = true
				w.machine("worker-2").Plan = nil
			},
			edit:   func(c *provv1.Cluster) { c.Spec.RKEConfig.ProvisionGeneration = 7 },
			result: planner.ClassRestart,
			want: []string{
				"server-1 Restart spec.rkeConfig.provisionGeneration",
				"server-2 Restart spec.rkeConfig.provisionGeneration",
				"server-3 Restart spec.rkeConfig.provisionGeneration", "worker-1 None (is being deleted)",
				"worker-2 None (has no plan yet)",
			},
			order: []string{"bootstrap, one at a time: server-1", "etcd, one at a time: server-2 server-3"},
		},
		"a pending change has no cause in the edit": {
			given: func(w *world) { w.machine("worker-2").Plan.State.Plan.Instructions[0].Image = "old" },
			edit: func(
				c *provv1.Cluster) {
				c.Spec.RKEConfig.UpgradeStrategy.WorkerConcurrency = "2"
			}, result: planner.ClassNone,
			want: []string{"worker-2 Restart pending"}, order: []string{"worker, 2 at a time: worker-2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tc.given != nil {
				tc.given(w)
			}
			r := w.preview(t, tc.edit, tc.sizes)
			if diff := cmp.Diff(tc.want, lines(r)); diff != "" || r.Result != tc.result {
				t.Errorf("result %s, want %s; machines (-want +got):\n%s", r.Result, tc.result, diff)
			}
			if diff := cmp.Diff(tc.order, order(r)); diff != "" && tc.order != nil {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompute_NamesAllFieldsOfOneEffect(t *testing.T) {
	w := newWorld(t)
	r := w.preview(t, func(c *provv1.Cluster) {
		c.Spec.RKEConfig.MachinePools[0].Quantity = new(int32(1))
		c.Spec.RKEConfig.MachinePools[0].AutoscalingMinSize = new(int32(4))
		c.Spec.RKEConfig.MachinePools[0].AutoscalingMaxSize = new(int32(5))
	}, nil)
	i := slices.IndexFunc(r.Machines, func(m Machine) bool { return m.Class == planner.ClassAdd })
	if i < 0 || len(r.Machines[i].Causes) != 3 {
		t.Errorf("machines %+v", r.Machines)
	}
}

func TestCompute_ReportsProblemsPerMachine(t *testing.T) {
	w := newWorld(t)
	r := w.preview(t, func(c *provv1.Cluster) {
		c.Spec.RKEConfig.AdditionalManifest = strings.Repeat("x", planner.MaxPlanSize)
	}, nil)
	if r.Problems() != 3 || len(r.Machines[0].Causes) != 1 ||
		r.Machines[0].Causes[0].Field != "spec.rkeConfig.additionalManifest" {
		t.Errorf("machines %+v", r.Machines)
	}
}

func TestCompute_NewCluster(t *testing.T) {
	w := newWorld(t)
	r, err := Compute(Input{After: w.input(w.cluster, w.configs), Release: release})
	if err != nil || !r.New || r.Result != planner.ClassAdd || len(r.Machines) != 5 {
		t.Errorf("report %+v, %v", r, err)
	}
}

// An edit of very many fields has a report of a bounded size.
func TestCompute_TriesFewFieldsAlone(t *testing.T) {
	r := newWorld(t).preview(t, func(c *provv1.Cluster) {
		c.Spec.RKEConfig.MachinePools[1].Labels = map[string]string{}
		for i := range 3 * maxAlone {
			c.Spec.RKEConfig.MachinePools[1].Labels[fmt.Sprintf("example.com/n%03d", i)] = "a"
		}
	}, nil)
	const note = "300 fields differ; the causes consider the first 100 alone"
	if len(r.Fields) != 3*maxAlone || !slices.Contains(r.Notes, note) {
		t.Errorf("%d fields, notes %q", len(r.Fields), r.Notes)
	}
	for _, m := range r.Machines {
		if len(m.Causes) > maxAlone {
			t.Errorf("%s has %d causes", m.Name, len(m.Causes))
		}
	}
}
