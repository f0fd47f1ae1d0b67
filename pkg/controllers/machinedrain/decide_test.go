package machinedrain

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

func TestDecide(t *testing.T) {
	const ignoring = `{"enabled":true,"ignoreErrors":true}`
	const plain, hooked, hooksOnly = `{"enabled":true}`,
		`{"enabled":true,"postDrainHooks":[{"annotation":"after"}],"preDrainHooks":[{"annotation":"before"}]}`,
		`{"enabled":false,"preDrainHooks":[{"annotation":"before"}]}`
	type annotations = map[string]string
	all := []string{rkev1.PreDrainAnnotation, rkev1.PostDrainAnnotation, rkev1.DrainAnnotation,
		rkev1.DrainDoneAnnotation, rkev1.UncordonAnnotation, rkev1.DrainErrorAnnotation, rkev1.DrainSinceAnnotation}
	for name, tc := range map[string]struct {
		given       annotations
		deleting    bool
		task        task
		finished    bool
		failed      bool
		late        bool
		wantStart   task
		wantSet     string
		wantRemove  []string
		wantProblem string
	}{
		"no request": {},
		"a drain starts with the cordon": {given: annotations{rkev1.DrainAnnotation: plain},
			wantStart: taskCordon},
		"the cordon is in progress": {given: annotations{rkev1.DrainAnnotation: plain},
			task: taskCordon, wantStart: taskCordon},
		"the eviction follows": {given: annotations{rkev1.DrainAnnotation: plain},
			task: taskCordon, finished: true, wantStart: taskEvict},
		"the eviction is in progress": {given: annotations{rkev1.DrainAnnotation: plain},
			task: taskEvict, wantStart: taskEvict},
		"the eviction is done": {given: annotations{rkev1.DrainAnnotation: plain},
			task: taskEvict, finished: true, wantSet: rkev1.DrainDoneAnnotation},
		"the eviction failed": {given: annotations{rkev1.DrainAnnotation: ignoring},
			task: taskEvict, failed: true, wantStart: taskEvict},
		"the eviction still fails after the timeout": {given: annotations{rkev1.DrainAnnotation: ignoring},
			task: taskEvict, failed: true, late: true, wantSet: rkev1.DrainDoneAnnotation},
		"the eviction is late and runs": {given: annotations{rkev1.DrainAnnotation: ignoring},
			task: taskEvict, late: true, wantStart: taskEvict},
		"the eviction fails, and its errors count": {given: annotations{rkev1.DrainAnnotation: plain},
			task: taskEvict, failed: true, late: true, wantStart: taskEvict},
		"the cordon still fails after the timeout": {given: annotations{rkev1.DrainAnnotation: ignoring},
			task: taskCordon, failed: true, late: true, wantStart: taskEvict},
		"done": {given: annotations{rkev1.DrainAnnotation: plain,
			rkev1.DrainDoneAnnotation: plain}},
		"done for another request": {given: annotations{rkev1.DrainAnnotation: plain,
			rkev1.DrainDoneAnnotation: hooked}, wantStart: taskCordon},
		"hooks start before the eviction": {given: annotations{rkev1.DrainAnnotation: hooked},
			task: taskCordon, finished: true, wantSet: rkev1.PreDrainAnnotation},
		"hooks have not answered": {given: annotations{rkev1.DrainAnnotation: hooked,
			rkev1.PreDrainAnnotation: hooked, "before": "old"}, task: taskCordon, finished: true},
		"hooks have answered": {given: annotations{rkev1.DrainAnnotation: hooked,
			rkev1.PreDrainAnnotation: hooked, "before": hooked}, task: taskCordon, finished: true,
			wantStart: taskEvict},
		"a hook withdraws its answer": {given: annotations{rkev1.DrainAnnotation: hooked,
			rkev1.PreDrainAnnotation: hooked}, task: taskEvict, finished: true},
		"a drain with hooks only evicts no pods": {given: annotations{rkev1.DrainAnnotation: hooksOnly,
			rkev1.PreDrainAnnotation: hooksOnly, "before": hooksOnly}, task: taskCordon, finished: true,
			wantSet: rkev1.DrainDoneAnnotation},
		"an uncordon request": {given: annotations{rkev1.DrainAnnotation: plain,
			rkev1.DrainDoneAnnotation: plain, rkev1.UncordonAnnotation: plain}, task: taskEvict, finished: true,
			wantStart: taskUncordon},
		"an uncordon request before the drain is done": {given: annotations{rkev1.DrainAnnotation: plain,
			rkev1.UncordonAnnotation: plain}, task: taskEvict, wantStart: taskUncordon},
		"the uncordoning removes all annotations": {given: annotations{rkev1.DrainAnnotation: plain,
			rkev1.UncordonAnnotation: plain}, task: taskUncordon, finished: true, wantRemove: all},
		"hooks start before the uncordoning": {given: annotations{rkev1.DrainAnnotation: hooked,
			rkev1.UncordonAnnotation: hooked}, wantSet: rkev1.PostDrainAnnotation},
		"the uncordoning waits for hooks": {given: annotations{rkev1.DrainAnnotation: hooked,
			rkev1.UncordonAnnotation: hooked, rkev1.PostDrainAnnotation: hooked}},
		"the uncordoning removes the hooks' answers": {given: annotations{rkev1.DrainAnnotation: hooked,
			rkev1.UncordonAnnotation: hooked, rkev1.PostDrainAnnotation: hooked, "after": hooked}, task: taskUncordon,
			finished: true, wantRemove: append(append([]string{}, all...), "before", "after")},
		"an uncordon request without a drain request": {given: annotations{rkev1.UncordonAnnotation: plain},
			wantStart: taskUncordon},
		"invalid options": {given: annotations{rkev1.DrainAnnotation: "{"},
			wantProblem: "the drain options are not valid JSON"},
		"an uncordon request for invalid options": {given: annotations{rkev1.DrainAnnotation: "{",
			rkev1.UncordonAnnotation: "{"}, wantStart: taskUncordon},
		"a deleted machine is not drained": {given: annotations{rkev1.DrainAnnotation: plain}, deleting: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(view{annotations: tc.given, deleting: tc.deleting, task: tc.task, finished: tc.finished,
				failed: tc.failed, late: tc.late})
			if d.start != tc.wantStart || d.set != tc.wantSet || d.problem != tc.wantProblem {
				t.Errorf("start %q, set %q, problem %q", d.start, d.set, d.problem)
			}
			if diff := cmp.Diff(tc.wantRemove, d.remove); diff != "" {
				t.Errorf("remove (-want +got):\n%s", diff)
			}
		})
	}
}
