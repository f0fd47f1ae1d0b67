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

// look brings the objects of a cluster up to date with its list.
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
	// Meanwhile a restore may have begun, for example.
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

// free are the objects whose names are not taken.
func (h *handler) free(list []*rkev1.ETCDSnapshot, v *view) []*rkev1.ETCDSnapshot {
	told := v.taken
	v.taken = nil
	return slices.DeleteFunc(list, func(s *rkev1.ETCDSnapshot) bool {
		found, err := h.snapshots.Get(s.Namespace, s.Name)
		if err != nil {
			return false
		}
		if v.taken = append(v.taken, s.Name); !slices.Contains(told, s.Name) {
			h.tellTaken(s, found)
		}
		return true
	})
}

// tellTaken says that the name of an object is that of another one that was found, unless that one has just become what is wanted.
func (h *handler) tellTaken(s, found *rkev1.ETCDSnapshot) {
	if found.Annotations[rkev1.SnapshotNameAnnotation] == s.Annotations[rkev1.SnapshotNameAnnotation] &&
		found.Labels[rkev1.ClusterNameLabel] == s.Labels[rkev1.ClusterNameLabel] {
		return
	}
	h.Log.WithField("controller", handlerName).WithField("namespace", s.Namespace).WithField("cluster", s.Spec.ClusterName).WithField("snapshot", s.Name).
		Info("A snapshot gets no ETCDSnapshot: its name is that of an object which is none of the list's")
}

const (
	// maxWrites is how many objects a look makes, changes and deletes, each, and maxRefused after how many refusals it gives the others up.
	maxWrites  = 50
	maxRefused = 10
)

// act writes. What one object is refused for holds up no other. left is true when there is more to write than the cluster may cost now.
func (h *handler) act(ctx context.Context, name types.NamespacedName, v *view, decision snapshots.Decision) (changed, left bool, err error) {
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
				left = true // the cache tells soon
			default:
				refused++
				errs = append(errs, fmt.Errorf("%s ETCDSnapshot %s/%s: %w", what, s.Namespace, s.Name, err))
			}
		}
	}
	each(decision.Delete, "delete", func(s *rkev1.ETCDSnapshot) error {
		return h.Snapshots.Delete(s.Namespace, s.Name, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion}})
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
