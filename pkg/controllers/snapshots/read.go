package snapshots

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/snapshots"
)

const (
	// askTimeout bounds one question to a cluster, and firstTimeout the first one to a cluster that has not answered the last time.
	askTimeout   = 10 * time.Second
	firstTimeout = 3 * time.Second
)

// Answers that are asked for: the entries' names and versions, or all of them.
const (
	asVersions = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
	asFiles    = "application/json"
)

// read reads a cluster's list, nil when there is none, and when the objects were made from it already.
func (h *handler) read(ctx context.Context, name types.NamespacedName, v *view, known [sha256.Size]byte) (list *snapshots.List, listed [sha256.Size]byte, err error) {
	turns, timeout := h.healthy, askTimeout
	if v.failed {
		turns, timeout = h.failing, firstTimeout
	}
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
		return nil, listed, fmt.Errorf("wait for a turn: %w", ctx.Err())
	}
	client, err := h.Downstream.Client(ctx, name)
	if err != nil {
		return nil, listed, fmt.Errorf("reach the cluster: %w", err)
	}
	api := client.Discovery().RESTClient()
	if api == nil {
		return nil, listed, errors.New("reach the cluster: its client makes no requests of other kinds")
	}
	versions := sha256.New()
	err = pages(ctx, api, asVersions, timeout, func(page io.Reader) (string, error) { return snapshots.WriteVersions(versions, page) })
	switch {
	case apierrors.IsNotFound(err):
		v.forget()
		return nil, listed, nil // it keeps no list
	case err != nil:
		return nil, listed, err
	}
	listed = [sha256.Size]byte(versions.Sum(nil))
	if h.isSettled(name, v, made{listed, known}) {
		return nil, listed, nil
	}
	list = &snapshots.List{}
	return list, listed, pages(ctx, api, asFiles, askTimeout, list.Read)
}

// isSettled reports that there is nothing to do.
func (h *handler) isSettled(name types.NamespacedName, v *view, now made) bool {
	if v.made == nil || *v.made != now || !v.due.IsZero() && !h.Now().Before(v.due) {
		return false
	}
	for _, taken := range v.taken {
		if !h.exists(name.Namespace, taken) {
			return false
		}
	}
	return true
}

// dueOf is when the first file has been missing for long enough.
func dueOf(missing map[string]time.Time) time.Time {
	var due time.Time
	for _, since := range missing {
		if at := since.Add(snapshots.Grace); due.IsZero() || at.Before(due) {
			due = at
		}
	}
	return due
}

// pages reads the pages of the list, as many as are taken in. The timeout is that of the first.
func pages(ctx context.Context, api rest.Interface, accept string, timeout time.Duration, read func(io.Reader) (string, error)) error {
	next := ""
	for range snapshots.MaxPages {
		var err error
		if next, err = page(ctx, api, accept, next, timeout, read); err != nil {
			return fmt.Errorf("list snapshots: %w", err)
		}
		if next == "" {
			return nil
		}
		timeout = askTimeout
	}
	return nil
}

func page(ctx context.Context, api rest.Interface, accept, from string, timeout time.Duration, read func(io.Reader) (string, error)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request := api.Get().AbsPath(snapshots.ListPath).SetHeader("Accept", accept).Param("limit", strconv.Itoa(snapshots.PageSize))
	if from != "" {
		request.Param("continue", from)
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return "", err //nolint:wrapcheck // pages does
	}
	defer body.Close()
	return read(body)
}
