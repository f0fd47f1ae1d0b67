package snapshots

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/decide/snapshots"
)

const (
	// readTimeout limits all requests of a poll, and askTimeout the first one. If the cluster did not answer last time,
	// the first one starts with firstTimeout, which doubles up to askTimeout.
	readTimeout  = 30 * time.Second
	askTimeout   = 10 * time.Second
	firstTimeout = 3 * time.Second
)

// Requested formats: only names and versions of the entries, or the full entries.
const (
	asVersions = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
	asFiles    = "application/json"
)

// read returns a cluster's list. It returns nil if the cluster keeps none, or if the objects already match it.
func (h *handler) read(ctx context.Context, name types.NamespacedName, v *view,
	known [sha256.Size]byte) (list *snapshots.List, listed [sha256.Size]byte, err error) {
	turns, timeout := h.healthy, askTimeout
	if v.failures > 0 {
		turns, timeout = h.failing, min(firstTimeout<<min(v.failures-1, 4), askTimeout)
	}
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
		return nil, listed, fmt.Errorf("wait for a turn: %w", ctx.Err())
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	client, err := h.Downstream.Client(ctx, name)
	if err != nil {
		return nil, listed, fmt.Errorf("reach the cluster: %w", err)
	}
	api := client.Discovery().RESTClient()
	if api == nil {
		return nil, listed, errors.New("reach the cluster: the client has no RESTClient")
	}
	versions := sha256.New()
	first, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err = pages(first, api, asVersions, snapshots.VersionsPage, func(page io.Reader) (string, error) {
		return snapshots.WriteVersions(versions, page)
	})
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
	return list, listed, pages(ctx, api, asFiles, snapshots.FilesPage, list.Read)
}

// isSettled reports that there is nothing to do.
func (h *handler) isSettled(name types.NamespacedName, v *view, now made) bool {
	if v.made == nil || *v.made != now || !v.due.IsZero() && !h.Now().Before(v.due) {
		return false
	}
	return !slices.ContainsFunc(v.taken, func(taken string) bool {
		_, err := h.snapshots.Get(name.Namespace, taken)
		return err != nil // the name is free again
	})
}

// dueOf returns the time at which the first missing file has been missing long enough. Zero means never.
func dueOf(missing map[string]time.Time) time.Time {
	var due time.Time
	for _, since := range missing {
		if at := since.Add(snapshots.Grace); due.IsZero() || at.Before(due) {
			due = at
		}
	}
	return due
}

// pages reads the list in pages of size entries, up to snapshots.MaxListed entries.
func pages(ctx context.Context, api rest.Interface, accept string, size int,
	read func(io.Reader) (string, error)) error {
	next := ""
	for range snapshots.MaxListed / size {
		var err error
		if next, err = page(ctx, api, accept, size, next, read); err != nil {
			return fmt.Errorf("list snapshots: %w", err)
		}
		if next == "" {
			return nil
		}
	}
	return nil
}

func page(ctx context.Context, api rest.Interface, accept string, size int, from string,
	read func(io.Reader) (string, error)) (next string, err error) {
	request := api.Get().AbsPath(snapshots.ListPath).SetHeader("Accept", accept).Param("limit", strconv.Itoa(size))
	if from != "" {
		request.Param("continue", from)
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return "", err
	}
	defer body.Close()
	return read(body)
}
