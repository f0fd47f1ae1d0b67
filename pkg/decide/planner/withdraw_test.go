package planner

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

var withdrawingNode = render.Node{Runtime: distro.K3s, Dirs: distro.DirsFor(distro.K3s, rkev1.DataDirectories{})}

func TestWithdraw(t *testing.T) {
	const operationFile = "/var/lib/rancher/k3s/capr/etcd-restore/bin/wait_for.sh"
	file := func(path string) plan.File { return plan.File{Path: path, Content: "QQ=="} }
	gone := func(path string) plan.File { return plan.File{Path: path, Action: plan.FileActionDelete} }
	hinted := plan.File{Path: "/m", Content: "QQ==", Permissions: "0644", Minor: true, Dynamic: true}
	for name, tc := range map[string]struct {
		have, desired []plan.File
		inSync        bool
		want          []plan.File
	}{
		"a first plan": {desired: []plan.File{file("/a")}, want: []plan.File{file("/a")}},
		"nothing dropped": {have: []plan.File{file("/a")}, desired: []plan.File{file("/a")},
			want: []plan.File{file("/a")}},
		"files dropped": {have: []plan.File{file("/c"), file("/a"), file("/b")},
			desired: []plan.File{file("/a")}, want: []plan.File{gone("/b"), gone("/c"), file("/a")}},
		"the hints stay": {have: []plan.File{hinted}, desired: []plan.File{file("/a")},
			want: []plan.File{{Path: "/m", Action: plan.FileActionDelete, Minor: true, Dynamic: true}, file("/a")}},
		"a removal stays alone": {have: []plan.File{gone("/b"), file("/a")},
			desired: []plan.File{file("/a")}, inSync: true, want: []plan.File{gone("/b"), file("/a")}},
		"a removal was applied": {have: []plan.File{gone("/b"), file("/a")},
			desired: []plan.File{file("/a"), file("/n")}, inSync: true, want: []plan.File{file("/a"), file("/n")}},
		"a removal was not applied yet": {have: []plan.File{gone("/b"), file("/a")},
			desired: []plan.File{file("/a"), file("/n")}, want: []plan.File{gone("/b"), file("/a"), file("/n")}},
		"another one is dropped": {have: []plan.File{gone("/b"), file("/a"), file("/c")},
			desired: []plan.File{file("/a")}, inSync: true, want: []plan.File{gone("/c"), file("/a")}},
		"a removed file is back": {have: []plan.File{gone("/b"), file("/a")},
			desired: []plan.File{file("/a"), file("/b")}, inSync: true, want: []plan.File{file("/a"), file("/b")}},
		"files are not ours any more": {have: []plan.File{file("/a")}},
		"files of operations do not count": {have: []plan.File{file(operationFile), file("/a")},
			desired: []plan.File{file("/a")}, want: []plan.File{file("/a")}},
		"a folder is left, others may use it": {have: []plan.File{{Path: "/f", Directory: true}},
			desired: []plan.File{file("/a")}, want: []plan.File{file("/a")}},
		"an operation has written it again": {have: []plan.File{gone("/b"), file("/a"), file("/b")},
			desired: []plan.File{file("/a"), file("/n")}, inSync: true,
			want: []plan.File{gone("/b"), file("/a"), file("/n")}},
		"a file that was there twice": {have: []plan.File{file("/b"), file("/b")}, desired: []plan.File{file("/a")},
			want: []plan.File{gone("/b"), file("/a")}},
	} {
		t.Run(name, func(t *testing.T) {
			state := nodeplan.State{PlanExists: true, Plan: plan.NodePlan{Files: tc.have}, InSync: tc.inSync}
			got := withdraw(withdrawingNode, &state, plan.NodePlan{Files: tc.desired})
			if diff := cmp.Diff(tc.want, got.Files); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

// Once an agent has applied the last of any sequence of plans, its node has exactly the files of that plan, whichever
// plans it saw before. A node that has its desired files gets no further plan.
func TestWithdraw_NodeHasWhatItIsTold(t *testing.T) {
	paths := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"/a", "/b", "/c", "/d", "/e"}), 1, 5, rapid.ID[string])
	rapid.Check(t, func(rt *rapid.T) {
		state := nodeplan.State{PlanExists: true}
		node := map[string]bool{}
		var wanted []string
		for i := range rapid.IntRange(1, 12).Draw(rt, "edits") {
			wanted = paths.Draw(rt, "wanted")
			var desired plan.NodePlan
			for _, path := range wanted {
				desired.Files = append(desired.Files, plan.File{Path: path})
			}
			next := withdraw(withdrawingNode, &state, desired)
			if !nodeplan.Equal(state.Plan, next) {
				state.Plan, state.InSync = next, false
			}
			if i > 0 && rapid.Bool().Draw(rt, "the agent is away") {
				continue
			}
			for _, file := range state.Plan.Files {
				node[file.Path] = file.Action == ""
			}
			state.InSync = true
			if again := withdraw(withdrawingNode, &state, desired); !nodeplan.Equal(state.Plan, again) {
				rt.Fatalf("the same is delivered twice:\n%s", cmp.Diff(state.Plan, again))
			}
		}
		for _, file := range state.Plan.Files {
			node[file.Path] = file.Action == ""
		}
		for path, there := range node {
			if there != slices.Contains(wanted, path) {
				rt.Fatalf("file %s is there: %v", path, there)
			}
		}
	})
}

// The proof of an etcd member is no difference: one dropped file is one plan for each machine.
func TestDecide_ADroppedFileIsOnePlanForEachMember(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	settle := func(data map[string]any) map[string]int {
		w.edit(func(spec *rkev1.RKEControlPlaneSpec) { spec.MachineGlobalConfig.Data = data })
		count := map[string]int{}
		for range 20 {
			w.run(t)
			for _, name := range w.names() {
				if h := w.machines[name]; h.hasPlan() {
					count[name]++
					h.applyPlan()
					h.probes(true)
				}
			}
		}
		delete(count, "w") // no member
		return count
	}
	once := map[string]int{"s1": 1, "s2": 1, "s3": 1}
	for _, step := range []struct {
		name string
		data map[string]any
	}{{"a file comes", map[string]any{"audit-policy-file": "rules: []"}}, {"it is dropped", nil}} {
		if diff := cmp.Diff(once, settle(step.data)); diff != "" {
			t.Errorf("%s: plans (-want +got):\n%s", step.name, diff)
		}
	}
}

// A file that is removed from the configuration is deleted from the node, with the restart that its content needs, and
// then nothing is left to do. (docs/invariants.md#weaknesses, W20.)
func TestDecide_DroppedFilesAreDeleted(t *testing.T) {
	w := newWorld(k3sVersion)
	h := w.add("a", allRoles)
	w.bringUp(t)
	audit := func(content string) func(*rkev1.RKEControlPlaneSpec) {
		return func(spec *rkev1.RKEControlPlaneSpec) {
			spec.MachineGlobalConfig.Data = map[string]any{"audit-policy-file": content}
		}
	}
	filesAfter := func(change func(*rkev1.RKEControlPlaneSpec)) (actions map[string]string, restart string) {
		w.edit(change)
		w.run(t)
		h.applyPlan()
		h.probes(true)
		if wait := w.run(t).Wait; wait != nil {
			t.Fatalf("still waiting: %s", wait.Message)
		}
		actions = map[string]string{}
		for _, file := range h.state().Plan.Files {
			actions[file.Path] = file.Action
		}
		return actions, render.StampsOf(h.state().Plan).Restart
	}
	const path = "/var/lib/rancher/k3s/etc/config-files/audit-policy-file"
	with, stampWith := filesAfter(audit("rules: []"))
	if action, there := with[path]; !there || action != "" {
		t.Fatalf("the file is not there: %v", with)
	}
	removed, stampWithout := filesAfter(func(spec *rkev1.RKEControlPlaneSpec) { spec.MachineGlobalConfig.Data = nil })
	if removed[path] != plan.FileActionDelete || stampWith == stampWithout {
		t.Errorf("the file stays: %v, restart %v", removed, stampWith != stampWithout)
	}
	later, _ := filesAfter(func(spec *rkev1.RKEControlPlaneSpec) { spec.AdditionalManifest = "kind: ConfigMap" })
	if _, there := later[path]; there {
		t.Error("the removal is repeated for ever")
	}
	unmanaged, _ := filesAfter(func(spec *rkev1.RKEControlPlaneSpec) { spec.UnmanagedConfig = true })
	if len(unmanaged) > 0 {
		t.Errorf("files that are none of our business are touched: %v", unmanaged)
	}
}
