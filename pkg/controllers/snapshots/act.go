package snapshots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/snapshots"
)

// look brings the objects of a cluster up to date with its list. What was settled last needs no second reading.
func (h *handler) look(ctx context.Context, name types.NamespacedName, last *settled) (changed bool, err error) {
	in, known, ok, err := h.gather(name)
	if err != nil || !ok {
		*last = settled{}
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	client, err := h.Downstream.Client(ctx, name)
	if err != nil {
		return false, fmt.Errorf("reach the cluster: %w", err)
	}
	api := client.Discovery().RESTClient()
	listed, err := versions(ctx, api)
	switch {
	case apierrors.IsNotFound(err):
		*last = settled{}
		return false, nil // it keeps no list
	case err != nil:
		return false, err
	case *last == settled{listed, known}:
		return false, nil
	}
	raw, err := ask(ctx, api, "application/json")
	if err != nil {
		return false, err
	}
	if in.Files, in.Complete, err = snapshots.Parse(raw); err != nil {
		return false, err
	}
	// Between the question and now a restore may have begun.
	if ok, err := h.mayAct(name); err != nil || !ok {
		return false, err
	}
	decision := snapshots.Decide(in)
	if decision.Empty() {
		*last = settled{listed, known}
		return false, nil
	}
	*last = settled{}
	return h.act(decision)
}

// ask reads the list as far as it is taken in.
func ask(ctx context.Context, api rest.Interface, accept string) ([]byte, error) {
	raw, err := api.Get().AbsPath(snapshots.ListPath).SetHeader("Accept", accept).Param("limit", strconv.Itoa(snapshots.MaxFiles)).Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	return raw, nil
}

// versions are the names and versions of what a cluster lists.
func versions(ctx context.Context, api rest.Interface) (string, error) {
	raw, err := ask(ctx, api, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
	if err != nil {
		return "", err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", errors.New("list snapshots: the cluster's answer is no list")
	}
	out := []string{list.Continue}
	for i := range list.Items {
		out = append(out, list.Items[i].Name+"@"+string(list.Items[i].UID)+"/"+list.Items[i].ResourceVersion)
	}
	slices.Sort(out)
	return strings.Join(out, "\n"), nil
}

// act writes. What one object is refused for holds up no other. It is true when something was written.
func (h *handler) act(decision snapshots.Decision) (changed bool, err error) {
	var errs []error
	done := func(what string, s *rkev1.ETCDSnapshot, err error) {
		switch {
		case err == nil:
			changed = true
		case !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err): // those come right with the cache
			errs = append(errs, fmt.Errorf("%s ETCDSnapshot %s/%s: %w", what, s.Namespace, s.Name, err))
		}
	}
	for _, s := range decision.Create {
		_, err := h.Snapshots.Create(s)
		done("create", s, err)
	}
	for _, s := range decision.Update {
		_, err := h.Snapshots.Update(s)
		done("update", s, err)
	}
	for _, s := range decision.Delete {
		done("delete", s, h.Snapshots.Delete(s.Namespace, s.Name, &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(s.UID))}))
	}
	return changed, errors.Join(errs...)
}
