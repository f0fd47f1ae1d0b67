package clustersync

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/decide/redact"
	"github.com/drover-io/drover/pkg/kube/clients"
)

const (
	// resyncInterval is the time between visits to a cluster with copies whose sources do not change.
	resyncInterval = 15 * time.Minute
	// retryInterval is the same for a cluster with sources that cannot be copied. A change in the cluster, which wakes
	// nothing, may permit the copy.
	retryInterval = 2 * time.Minute
	// longestProblem limits what is repeated of a cluster's answer, in bytes.
	longestProblem = 200
)

// visit makes the copies in a cluster equal to their sources.
func (h *handler) visit(ctx context.Context, name types.NamespacedName) (time.Duration, error) {
	if !h.knows(name) {
		return 0, nil // the handler wakes it when the caches are complete
	}
	cluster, err := clients.Optional(h.clusters.Get(name.Namespace, name.Name))
	if err != nil || !h.ours(cluster) {
		return 0, err
	}
	facts, err := h.gather(cluster)
	if err != nil {
		return 0, err
	}
	client, err := h.Downstream.Client(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("reach the cluster: %w", err)
	}
	w := work{facts: facts, store: store{client}}
	w.wanted, w.problems = facts.copies(h.Now())
	if err := w.do(ctx); err != nil {
		return 0, err
	}
	h.report(name, w.problems)
	h.settle(name, facts.version())
	switch {
	case len(w.problems) > 0, w.left:
		return retryInterval, nil
	case len(facts.sources) > 0:
		return resyncInterval, nil
	}
	return 0, nil
}

// work is one visit.
type work struct {
	store
	facts    *Facts
	wanted   map[target]wanted
	problems []problem
	// changed are copies that differ from their sources, and extra are copies without a source.
	changed, extra []object
	// left means that the cluster changed during the visit.
	left bool
}

// do compares first, and writes then. New copies come before deletions, so that a renamed copy is never absent.
func (w *work) do(ctx context.Context) error {
	missing, err := w.compare(ctx)
	if err != nil {
		return err
	}
	for _, at := range missing {
		if err := w.create(ctx, w.wanted[at]); err != nil {
			return err
		}
	}
	for _, found := range w.changed {
		if err := w.change(ctx, found, w.wanted[found.at()]); err != nil {
			return err
		}
	}
	for _, found := range w.extra {
		err := w.remove(ctx, found)
		if w.left = w.left || apierrors.IsConflict(err); err != nil && !isSettled(err) {
			return fmt.Errorf("delete the copy %s: %w", found, err)
		}
	}
	return nil
}

// compare sorts the copies in the cluster, and returns the missing ones.
func (w *work) compare(ctx context.Context) (missing []target, err error) {
	seen := map[target]bool{}
	for _, namespace := range slices.Compact([]string{metav1.NamespaceSystem, w.facts.cluster.Namespace}) {
		for _, kind := range []string{kindSecret, kindConfigMap} {
			err := w.each(ctx, kind, namespace, w.facts.id, func(found object) {
				seen[found.at()] = true
				w.sort(found)
			})
			if err != nil {
				return nil, err
			}
		}
	}
	for at, want := range w.wanted {
		if !seen[at] && want.source.unread == "" {
			missing = append(missing, at)
		}
	}
	slices.SortFunc(missing, target.compare)
	return missing, nil
}

func (w *work) sort(found object) {
	var want *wanted
	if of, ok := w.wanted[found.at()]; ok {
		want = &of
	}
	switch decide(found, want) {
	case keep:
	case update, replace:
		w.changed = append(w.changed, found)
	case remove:
		w.extra = append(w.extra, found)
	}
}

// create writes a new copy, unless an object of that name exists. An equal object of another program is as good as a
// copy.
func (w *work) create(ctx context.Context, want wanted) error {
	at := want.copied.at()
	found, err := w.get(ctx, at)
	switch {
	case err == nil && found.equal(want.copied):
		return nil
	case err == nil:
		w.problems = append(w.problems, problem{want.source, fmt.Sprintf(
			"%s exists in cluster %s and is not a copy of Drover: delete it, or set another name or namespace",
			want.copied, w.facts.cluster.Name)})
		return nil
	case apierrors.IsNotFound(err):
		err = w.store.create(ctx, want.copied)
	}
	if apierrors.IsNotFound(err) {
		w.problems = append(w.problems, problem{want.source, fmt.Sprintf("namespace %s does not exist in cluster %s",
			at.namespace, w.facts.cluster.Name)})
		return nil
	}
	return w.judge(want, err)
}

// change updates a copy, or replaces it where Kubernetes permits no update.
func (w *work) change(ctx context.Context, found object, want wanted) error {
	if decide(found, &want) == update {
		return w.judge(want, w.update(ctx, want.copied.over(found)))
	}
	if err := w.remove(ctx, found); err != nil {
		return w.judge(want, err)
	}
	return w.judge(want, w.store.create(ctx, want.copied))
}

// judge returns errors that concern the whole cluster. A refusal of one copy delays no other.
func (w *work) judge(want wanted, err error) error {
	switch {
	case err == nil:
		return nil
	case isSettled(err), apierrors.IsAlreadyExists(err):
		w.left = true
		return nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err),
		apierrors.IsRequestEntityTooLargeError(err):
		w.problems = append(w.problems, problem{want.source, fmt.Sprintf("cluster %s refuses the copy: %s",
			w.facts.cluster.Name, told(want, err))})
		return nil
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return fmt.Errorf("write the copy %s: %s", want.copied, told(want, err))
	}
	return fmt.Errorf("write the copy %s: %w", want.copied, err)
}

// told returns what a cluster answered, without the data of the copy. The cluster is not trusted, and more users may
// read Events than Secrets.
func told(want wanted, err error) string {
	known := &redact.Secrets{}
	for _, value := range want.copied.data {
		known.AddText(string(value))
	}
	return redact.Tail([]byte(err.Error()), longestProblem, known)
}

// isSettled reports that another client changed or deleted the object first. The next visit sees that.
func isSettled(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }
