package machinedrain

import (
	"encoding/json"
	"slices"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// task is an action at a node.
type task string

const (
	taskNone     task = ""
	taskCordon   task = "cordon"
	taskEvict    task = "evict"
	taskUncordon task = "uncordon"
)

// view holds the facts of one reconcile.
type view struct {
	annotations map[string]string
	// deleting means that Cluster API drains the node if needed.
	deleting bool
	// task is the last one for the current request. finished is true after it succeeded.
	task     task
	finished bool
	// failed means that the last attempt of the task failed, late that the request is older than its timeout.
	failed, late bool
}

// decision is the next step, at most one action.
type decision struct {
	// request is the value of the request annotation; options is its decoded form.
	request string
	options rkev1.DrainOptions
	// start is the task to start, unless it already runs.
	start task
	// set is the annotation to write; remove lists the annotations to delete.
	set    string
	remove []string
	// problem says what is wrong with the request.
	problem string
}

// decide returns the next step.
func decide(v view) decision {
	asked, end := v.annotations[rkev1.DrainAnnotation], v.annotations[rkev1.UncordonAnnotation]
	d := decision{request: asked}
	switch {
	case v.deleting, asked == "" && end == "":
		return decision{}
	case asked == "":
		d.request = end // the request was removed, and the node may still be cordoned
	case json.Unmarshal([]byte(asked), &d.options) != nil:
		d.options = rkev1.DrainOptions{}
		if end == "" {
			d.problem = "the drain options are not valid JSON"
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

// drain cordons, asks the hooks, and evicts. With ignoreErrors, each step that still fails after the timeout counts as
// done.
func (v view) drain(d decision) decision {
	givesUp := d.options.IgnoreErrors && v.failed && v.late
	if !v.isCordoned() && !givesUp {
		d.start = taskCordon
		return d
	}
	if len(d.options.PreDrainHooks) > 0 && v.annotations[rkev1.PreDrainAnnotation] != d.request {
		d.set = rkev1.PreDrainAnnotation
		return d
	}
	switch {
	case !v.answered(d.options.PreDrainHooks, d.request):
	case d.options.Enabled && (v.task != taskEvict || !v.finished && !givesUp):
		d.start = taskEvict
	default:
		d.set = rkev1.DrainDoneAnnotation
	}
	return d
}

// isCordoned reports whether the node is cordoned. The node is always cordoned before the eviction.
func (v view) isCordoned() bool {
	return v.task == taskEvict || v.task == taskCordon && v.finished
}

// end asks the hooks, uncordons, and removes all annotations.
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
			rkev1.PreDrainAnnotation, rkev1.PostDrainAnnotation, rkev1.DrainAnnotation, rkev1.DrainDoneAnnotation,
			rkev1.UncordonAnnotation,
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

// answered reports whether all hooks have answered this request.
func (v view) answered(hooks []rkev1.DrainHook, request string) bool {
	return !slices.ContainsFunc(hooks, func(h rkev1.DrainHook) bool {
		return h.Annotation != "" && v.annotations[h.Annotation] != request
	})
}
