package machinedrain

import (
	"encoding/json"
	"slices"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// task is what is done at a node.
type task string

const (
	taskNone     task = ""
	taskCordon   task = "cordon"
	taskEvict    task = "evict"
	taskUncordon task = "uncordon"
)

// view is what one pass is about.
type view struct {
	annotations map[string]string
	// deleting: Cluster API drains the node itself, or need not.
	deleting bool
	// task and its outcome are what was last done for the present request; finished is false while it is being done.
	task     task
	finished bool
}

// decision is the next thing to do, one at most.
type decision struct {
	// request is the options as they were asked for, options what they say.
	request string
	options rkev1.DrainOptions
	// start is the task to begin, unless it is running already.
	start task
	// set is an annotation to write; remove are annotations to take away.
	set    string
	remove []string
	// problem is what is wrong with the request.
	problem string
}

// decide says what comes next.
func decide(v view) decision {
	asked, end := v.annotations[rkev1.DrainAnnotation], v.annotations[rkev1.UncordonAnnotation]
	d := decision{request: asked}
	switch {
	case v.deleting, asked == "" && end == "":
		return decision{}
	case asked == "":
		d.request = end // somebody took the request away, and the node may still be cordoned
	case json.Unmarshal([]byte(asked), &d.options) != nil:
		d.options = rkev1.DrainOptions{}
		if end == "" {
			d.problem = "the drain options are not readable"
			return d
		}
	}
	if end != "" {
		return v.end(d)
	}
	if v.annotations[rkev1.DrainDoneAnnotation] == asked {
		return decision{}
	}
	return v.drain(d)
}

// drain cordons, asks the hooks, and evicts.
func (v view) drain(d decision) decision {
	cordoned := v.task == taskEvict || v.task == taskCordon && v.finished
	if !cordoned {
		d.start = taskCordon
		return d
	}
	if len(d.options.PreDrainHooks) > 0 && v.annotations[rkev1.PreDrainAnnotation] != d.request {
		d.set = rkev1.PreDrainAnnotation
		return d
	}
	switch {
	case !v.answered(d.options.PreDrainHooks, d.request):
	case d.options.Enabled && (v.task != taskEvict || !v.finished):
		d.start = taskEvict
	default:
		d.set = rkev1.DrainDoneAnnotation
	}
	return d
}

// end asks the hooks, uncordons, and takes everything away.
func (v view) end(d decision) decision {
	if len(d.options.PostDrainHooks) > 0 && v.annotations[rkev1.PostDrainAnnotation] != d.request {
		d.set = rkev1.PostDrainAnnotation
		return d
	}
	switch {
	case !v.answered(d.options.PostDrainHooks, d.request):
	case v.task != taskUncordon || !v.finished:
		d.start = taskUncordon
	default:
		d.remove = []string{
			rkev1.PreDrainAnnotation, rkev1.PostDrainAnnotation, rkev1.DrainAnnotation, rkev1.DrainDoneAnnotation, rkev1.UncordonAnnotation,
			rkev1.DrainErrorAnnotation, rkev1.DrainSinceAnnotation,
		}
		for _, hook := range slices.Concat(d.options.PreDrainHooks, d.options.PostDrainHooks) {
			if hook.Annotation != "" {
				d.remove = append(d.remove, hook.Annotation)
			}
		}
	}
	return d
}

// answered reports that all hooks have answered this request.
func (v view) answered(hooks []rkev1.DrainHook, request string) bool {
	return !slices.ContainsFunc(hooks, func(h rkev1.DrainHook) bool { return h.Annotation != "" && v.annotations[h.Annotation] != request })
}
