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
	"github.com/drover-io/drover/pkg/snapshots"
)

// look brings the objects of a cluster up to date with its list.
func (h *handler) look(ctx context.Context, name types.NamespacedName, v *view) (changed bool, err error) {
	in, known, ok, err := h.gather(name)
	if err != nil || !ok {
		v.forget()
		return false, err
	}
	list, listed, err := h.read(ctx, name, v, known)
	if err != nil || list == nil {
		return false, err
	}
	// Meanwhile a restore may have begun, for example.
	if in, known, ok, err = h.gather(name); err != nil || !ok {
		v.forget()
		return false, err
	}
	in.Files, in.Complete, in.Now, in.Missing = list.Files(), list.Complete(), h.Now(), v.missing
	decision := snapshots.Decide(in)
	v.missing, v.taken, v.made = decision.Missing, nil, nil
	decision.Create = slices.DeleteFunc(decision.Create, func(s *rkev1.ETCDSnapshot) bool { return h.isTaken(in, s, v) })
	changed, left, err := h.act(ctx, name, v, decision)
	if err != nil || changed || left {
		return changed || left, err
	}
	v.made, v.due = &made{listed, known}, dueOf(decision.Missing)
	return false, nil
}

// isTaken reports that the name of an object is that of another one, and tells so when that one is none of the list's.
func (h *handler) isTaken(in snapshots.Input, s *rkev1.ETCDSnapshot, v *view) bool {
	if !h.exists(s.Namespace, s.Name) {
		return false
	}
	v.taken = append(v.taken, s.Name)
	if !slices.ContainsFunc(in.Have, func(have *rkev1.ETCDSnapshot) bool { return have.Name == s.Name }) {
		h.Log.WithField("controller", handlerName).WithField("namespace", s.Namespace).WithField("cluster", in.Cluster.Name).WithField("snapshot", s.Name).
			Info("A snapshot gets no ETCDSnapshot: its name is that of an object which is none of the list's")
	}
	return true
}

func (h *handler) exists(namespace, name string) bool {
	_, err := h.snapshots.Get(namespace, name)
	return err == nil
}

// act writes. What one object is refused for holds up no other. left is true when there is more to write than the cluster may cost now.
func (h *handler) act(ctx context.Context, name types.NamespacedName, v *view, decision snapshots.Decision) (changed, left bool, err error) {
	var errs []error
	each := func(list []*rkev1.ETCDSnapshot, what string, write func(*rkev1.ETCDSnapshot) error) {
		for _, s := range list {
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
