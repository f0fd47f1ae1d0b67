package bootstrapdata_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/drover-io/drover/pkg/decide/bootstrapdata"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func going() bootstrapdata.Removal {
	return bootstrapdata.Removal{
		Etcd: true, MachineDeleting: true, DeletedAt: noon.Add(-time.Minute), Planned: true, NodeName: "n", Began: true,
		Now: noon,
	}
}

func TestDecideHook(t *testing.T) {
	for name, test := range map[string]struct {
		change    func(*bootstrapdata.Removal)
		want      bootstrapdata.HookAction
		wantAfter time.Duration
	}{
		"a worker is never held": {func(r *bootstrapdata.Removal) { r.Etcd = false }, bootstrapdata.HookDrop, 0},
		"given up": {func(r *bootstrapdata.Removal) { r.Forced = true }, bootstrapdata.HookDrop,
			0},
		"alive": {func(r *bootstrapdata.Removal) { r.MachineDeleting = false },
			bootstrapdata.HookEnsure, 0},
		"only the bootstrap is deleted": {func(r *bootstrapdata.Removal) {
			r.MachineDeleting, r.BootstrapDeleting = false, true
		}, bootstrapdata.HookLook, 5 * time.Second},
		"the whole cluster is deleted": {func(r *bootstrapdata.Removal) { r.ClusterGoing = true },
			bootstrapdata.HookDrop, 0},
		"it never became a node": {
			func(r *bootstrapdata.Removal) {
				r.NodeName, r.Member = "",
					bootstrapdata.MemberGone
			}, bootstrapdata.HookDrop, 0,
		},
		"it never got a plan": {func(r *bootstrapdata.Removal) { r.NodeName, r.Planned = "", false },
			bootstrapdata.HookDrop, 0},
		"its node is unknown": {
			func(r *bootstrapdata.Removal) {
				r.NodeName, r.Behind, r.Dependents = "", true,
					true
			}, bootstrapdata.HookLook, 5 * time.Second,
		},
		"its node is unknown, and the whole cluster is deleted": {
			func(r *bootstrapdata.Removal) { r.NodeName, r.ClusterGoing = "", true }, bootstrapdata.HookDrop, 0,
		},
		"its node is unknown, and the cluster never started": {
			func(r *bootstrapdata.Removal) { r.NodeName, r.Began = "", false }, bootstrapdata.HookDrop, 0,
		},
		"the last member": {
			func(r *bootstrapdata.Removal) {
				r.Last, r.Member = true,
					bootstrapdata.MemberPresent
			}, bootstrapdata.HookKeep, 5 * time.Second,
		},
		"the last member, before the first check": {func(r *bootstrapdata.Removal) { r.Last = true },
			bootstrapdata.HookLook, 5 * time.Second},
		"the last member has left": {func(r *bootstrapdata.Removal) {
			r.Last, r.Member = true, bootstrapdata.MemberGone
		}, bootstrapdata.HookDrop, 0},
		"the last member was given up": {
			func(r *bootstrapdata.Removal) {
				r.Last, r.Forced, r.Member = true, true,
					bootstrapdata.MemberPresent
			}, bootstrapdata.HookDrop, 0,
		},
		"the last member, and the whole cluster is deleted": {
			func(r *bootstrapdata.Removal) {
				r.Last, r.ClusterGoing, r.Member = true, true, bootstrapdata.MemberPresent
			}, bootstrapdata.HookDrop, 0,
		},
		"another member joins": {
			func(r *bootstrapdata.Removal) {
				r.Coming, r.Member = true,
					bootstrapdata.MemberPresent
			}, bootstrapdata.HookKeep, 5 * time.Second,
		},
		"other machines use it as their server": {func(r *bootstrapdata.Removal) {
			r.Dependents, r.Member = true, bootstrapdata.MemberPresent
		}, bootstrapdata.HookKeep, 5 * time.Second},
		"another member was asked to leave": {
			func(r *bootstrapdata.Removal) {
				r.OtherLeaving, r.Member = "other",
					bootstrapdata.MemberPresent
			}, bootstrapdata.HookKeep, 5 * time.Second,
		},
		"another member was asked to leave, and this member has left": {
			func(r *bootstrapdata.Removal) {
				r.OtherLeaving, r.Member = "other",
					bootstrapdata.MemberGone
			}, bootstrapdata.HookDrop, 0,
		},
		"another member leaves": {func(r *bootstrapdata.Removal) {
			r.Behind, r.Member = true, bootstrapdata.MemberPresent
		}, bootstrapdata.HookKeep, 5 * time.Second},
		"the second to last, just deleted": {func(r *bootstrapdata.Removal) {
			r.OnlyTwo, r.DeletedAt = true, noon.Add(-5*time.Second)
		}, bootstrapdata.HookKeep, 15 * time.Second},
		"the second to last, after a few seconds": {func(r *bootstrapdata.Removal) { r.OnlyTwo = true },
			bootstrapdata.HookLook, 5 * time.Second},
		"its member exists": {func(r *bootstrapdata.Removal) { r.Member = bootstrapdata.MemberPresent },
			bootstrapdata.HookAsk, 5 * time.Second},
		"its member was asked": {func(r *bootstrapdata.Removal) { r.Member = bootstrapdata.MemberLeaving },
			bootstrapdata.HookKeep, 5 * time.Second},
		"its member has left": {func(r *bootstrapdata.Removal) { r.Member = bootstrapdata.MemberGone },
			bootstrapdata.HookDrop, 0},
		"its member has left, but other machines use it as their server": {func(r *bootstrapdata.Removal) {
			r.Member, r.Dependents = bootstrapdata.MemberGone, true
		}, bootstrapdata.HookKeep, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r := going()
			test.change(&r)
			got, wait, after := bootstrapdata.DecideHook(r)
			if got != test.want || after != test.wantAfter {
				t.Errorf("hook: %s after %s, want %s after %s", got, after, test.want, test.wantAfter)
			}
			if (wait == "") != (after == 0) {
				t.Errorf("waits for %q, checks again after %s: want both or none", wait, after)
			}
		})
	}
}

// TestDecideHook_NeverReleasesAMember checks an etcd machine of a living cluster that has started. The machine is
// released only when its member has left, and the last member is never asked to leave.
func TestDecideHook_NeverReleasesAMember(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		removal := going()
		removal.MachineDeleting = rapid.Bool().Draw(r, "machine")
		removal.BootstrapDeleting = rapid.Bool().Draw(r, "bootstrap")
		removal.NodeName = rapid.SampledFrom([]string{"n", ""}).Draw(r, "node")
		removal.Dependents = rapid.Bool().Draw(r, "dependents")
		removal.OnlyTwo = rapid.Bool().Draw(r, "only two")
		removal.Behind = rapid.Bool().Draw(r, "behind")
		removal.Last = rapid.Bool().Draw(r, "last")
		removal.Coming = rapid.Bool().Draw(r, "coming")
		removal.OtherLeaving = rapid.SampledFrom([]string{"", "other"}).Draw(r, "otherLeaving")
		removal.Elsewhere = rapid.Bool().Draw(r, "elsewhere")
		removal.Member = bootstrapdata.MemberState(rapid.IntRange(0, 3).Draw(r, "member"))
		got, _, _ := bootstrapdata.DecideHook(removal)
		if got == bootstrapdata.HookDrop && removal.Member != bootstrapdata.MemberGone ||
			got == bootstrapdata.HookAsk && removal.Last {
			r.Fatalf("%+v: %s", removal, got)
		}
	})
}
