package snapshots

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/snapshots"
)

// look updates a cluster's objects from its list.
func (h *handler) look(ctx context.Context, name types.NamespacedName, v *view) (changed bool, err error) {
	in, known, ok, err := h.gather(name)
	if err != nil || !ok {
		v.forget()
		return false, err
	}
	list, listed, err := h.read(ctx, name, v, known)
	if err != nil {
		v.failures++
		return false, err
	}
	if v.failures = 0; list == nil {
		return false, nil
	}
	// Check again: for example, a restore may have started during the read.
	if in, known, ok, err = h.gather(name); err != nil || !ok {
		v.forget()
		return false, err
	}
	in.Files, in.Complete, in.Now, in.Missing = list.Files(), list.Complete(), h.Now(), v.missing
	decision := snapshots.Decide(in)
	v.missing, v.made = decision.Missing, nil
	decision.Create = h.free(decision.Create, v)
	changed, left, err := h.act(ctx, name, v, decision)
	if err != nil || changed || left {
		return changed || left, err
	}
	v.made, v.due = &made{listed, known}, dueOf(decision.Missing)
	return false, nil
}

// free returns the objects whose names are not taken.
func (h *handler) free(list []*rkev1.ETCDSnapshot, v *view) []*rkev1.ETCDSnapshot {
	told := v.taken
	v.taken = nil
	return slices.DeleteFunc(list, func(s *rkev1.ETCDSnapshot) bool {
		found, err := h.snapshots.Get(s.Namespace, s.Name)
		if err != nil {
			return false
		}
		if v.taken = append(v.taken, s.Name); !slices.Contains(told, s.Name) {
			h.logTaken(s, found)
		}
		return true
	})
}

// logTaken logs that another object has the name of a snapshot. It is silent if the found object is the wanted one,
// created in the meantime.
func (h *handler) logTaken(s, found *rkev1.ETCDSnapshot) {
	if found.Annotations[rkev1.SnapshotNameAnnotation] == s.Annotations[rkev1.SnapshotNameAnnotation] &&
		found.Labels[rkev1.ClusterNameLabel] == s.Labels[rkev1.ClusterNameLabel] {
		return
	}
	h.Log.WithField("controller", handlerName).WithField("namespace", s.Namespace).WithField("cluster",
		s.Spec.ClusterName).WithField("snapshot", s.Name).
		Info("A snapshot gets no ETCDSnapshot, because another ETCDSnapshot has its name")
}

const (
	// maxWrites limits how many objects a poll creates, updates and deletes, each. After maxRefused refusals, the poll
	// skips the rest of that kind of write.
	maxWrites  = 50
	maxRefused = 10
)

// act writes the decision. A refused write delays no other. left is true if writes remain, for example because of the
// rate limit.
func (h *handler) act(ctx context.Context, name types.NamespacedName, v *view, decision snapshots.Decision) (changed,
	left bool, err error) {
	var errs []error
	each := func(list []*rkev1.ETCDSnapshot, what string, write func(*rkev1.ETCDSnapshot) error) {
		refused := 0
		for i, s := range list {
			if i == maxWrites || refused == maxRefused {
				left = true
				return
			}
			if ok, err := h.mayAct(name); ctx.Err() != nil || err != nil || !ok || !v.writes.TryAccept() {
				left = true
				return
			}
			switch err := write(s); {
			case err == nil:
				changed = true
			case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsNotFound(err):
				left = true // the cache shows the reason soon
			default:
				refused++
				errs = append(errs, fmt.Errorf("%s ETCDSnapshot %s/%s: %w", what, s.Namespace, s.Name, err))
			}
		}
	}
	each(decision.Delete, "delete", func(s *rkev1.ETCDSnapshot) error {
		return h.Snapshots.Delete(s.Namespace, s.Name,
			&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID,
				ResourceVersion: &s.ResourceVersion}})
	})
	each(decision.Update, "update", func(s *rkev1.ETCDSnapshot) error {
		_, err := h.Snapshots.Update(s)
		return err
	})
	each(decision.Create, "create", func(s *rkev1.ETCDSnapshot) error {
		_, err := h.Snapshots.Create(s)
		return err
	})
	return changed, left, errors.Join(errs...)
}
