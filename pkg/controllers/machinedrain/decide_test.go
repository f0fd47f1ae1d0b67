package machinedrain

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

func TestDecide(t *testing.T) {
	const plain, hooked, hooksOnly = `{"enabled":true}`, `{"enabled":true,"postDrainHooks":[{"annotation":"after"}],"preDrainHooks":[{"annotation":"before"}]}`,
		`{"enabled":false,"preDrainHooks":[{"annotation":"before"}]}`
	type annotations = map[string]string
	all := []string{rkev1.PreDrainAnnotation, rkev1.PostDrainAnnotation, rkev1.DrainAnnotation, rkev1.DrainDoneAnnotation, rkev1.UncordonAnnotation, rkev1.DrainErrorAnnotation, rkev1.DrainSinceAnnotation}
	for name, tc := range map[string]struct {
		given       annotations
		deleting    bool
		task        task
		finished    bool
		wantStart   task
		wantSet     string
		wantRemove  []string
		wantProblem string
	}{
		"nothing is asked for":                 {},
		"a drain begins with the cordon":       {given: annotations{rkev1.DrainAnnotation: plain}, wantStart: taskCordon},
		"the cordon is being made":             {given: annotations{rkev1.DrainAnnotation: plain}, task: taskCordon, wantStart: taskCordon},
		"then come the pods":                   {given: annotations{rkev1.DrainAnnotation: plain}, task: taskCordon, finished: true, wantStart: taskEvict},
		"the pods are leaving":                 {given: annotations{rkev1.DrainAnnotation: plain}, task: taskEvict, wantStart: taskEvict},
		"the pods have left":                   {given: annotations{rkev1.DrainAnnotation: plain}, task: taskEvict, finished: true, wantSet: rkev1.DrainDoneAnnotation},
		"done":                                 {given: annotations{rkev1.DrainAnnotation: plain, rkev1.DrainDoneAnnotation: plain}},
		"done, but for another request":        {given: annotations{rkev1.DrainAnnotation: plain, rkev1.DrainDoneAnnotation: hooked}, wantStart: taskCordon},
		"hooks are told before the pods":       {given: annotations{rkev1.DrainAnnotation: hooked}, task: taskCordon, finished: true, wantSet: rkev1.PreDrainAnnotation},
		"hooks have not answered":              {given: annotations{rkev1.DrainAnnotation: hooked, rkev1.PreDrainAnnotation: hooked, "before": "old"}, task: taskCordon, finished: true},
		"hooks have answered":                  {given: annotations{rkev1.DrainAnnotation: hooked, rkev1.PreDrainAnnotation: hooked, "before": hooked}, task: taskCordon, finished: true, wantStart: taskEvict},
		"a hook takes its answer back":         {given: annotations{rkev1.DrainAnnotation: hooked, rkev1.PreDrainAnnotation: hooked}, task: taskEvict, finished: true},
		"hooks alone evict nothing":            {given: annotations{rkev1.DrainAnnotation: hooksOnly, rkev1.PreDrainAnnotation: hooksOnly, "before": hooksOnly}, task: taskCordon, finished: true, wantSet: rkev1.DrainDoneAnnotation},
		"the end":                              {given: annotations{rkev1.DrainAnnotation: plain, rkev1.DrainDoneAnnotation: plain, rkev1.UncordonAnnotation: plain}, task: taskEvict, finished: true, wantStart: taskUncordon},
		"the end before the drain is done":     {given: annotations{rkev1.DrainAnnotation: plain, rkev1.UncordonAnnotation: plain}, task: taskEvict, wantStart: taskUncordon},
		"everything is taken away at the end":  {given: annotations{rkev1.DrainAnnotation: plain, rkev1.UncordonAnnotation: plain}, task: taskUncordon, finished: true, wantRemove: all},
		"hooks are told before the end":        {given: annotations{rkev1.DrainAnnotation: hooked, rkev1.UncordonAnnotation: hooked}, wantSet: rkev1.PostDrainAnnotation},
		"the end waits for hooks":              {given: annotations{rkev1.DrainAnnotation: hooked, rkev1.UncordonAnnotation: hooked, rkev1.PostDrainAnnotation: hooked}},
		"the answers are taken away too":       {given: annotations{rkev1.DrainAnnotation: hooked, rkev1.UncordonAnnotation: hooked, rkev1.PostDrainAnnotation: hooked, "after": hooked}, task: taskUncordon, finished: true, wantRemove: append(append([]string{}, all...), "before", "after")},
		"an end of what nobody asks for":       {given: annotations{rkev1.UncordonAnnotation: plain}, wantStart: taskUncordon},
		"options that nobody can read":         {given: annotations{rkev1.DrainAnnotation: "{"}, wantProblem: "the drain options are not readable"},
		"an end of options nobody can read":    {given: annotations{rkev1.DrainAnnotation: "{", rkev1.UncordonAnnotation: "{"}, wantStart: taskUncordon},
		"a machine that is deleted goes alone": {given: annotations{rkev1.DrainAnnotation: plain}, deleting: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(view{annotations: tc.given, deleting: tc.deleting, task: tc.task, finished: tc.finished})
			if d.start != tc.wantStart || d.set != tc.wantSet || d.problem != tc.wantProblem {
				t.Errorf("start %q, set %q, problem %q", d.start, d.set, d.problem)
			}
			if diff := cmp.Diff(tc.wantRemove, d.remove); diff != "" {
				t.Errorf("remove (-want +got):\n%s", diff)
			}
		})
	}
}
