package ui

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

const (
	// pageSize is how many objects one answer to a list has. Only one page is in memory at a time.
	pageSize = 500
	// shortestWatch and longestWatch limit a watch. The API server checks the rights of the caller at its beginning.
	shortestWatch, longestWatch = time.Minute, 2 * time.Minute
	firstPause, longestPause    = time.Second, 30 * time.Second
)

// errNoRoom means that the rows do not fit into the memory for them.
var errNoRoom = failure{http.StatusTooManyRequests, reasonTooMany,
	"this server holds too many rows; select fewer namespaces, or try again later", longestPause}

// errExpired means that a watch cannot continue, so that a list must follow.
var errExpired = errors.New("the API server has forgotten the version of the list")

// follower keeps the rows of one scope equal to the objects.
type follower struct {
	hub    *hub
	scope  scope
	kind   rowKind
	client rest.Interface
}

// run follows until ctx ends, or the API server no longer accepts the token.
func (f *follower) run(ctx context.Context) {
	for pause := firstPause; ctx.Err() == nil; {
		began := time.Now()
		err := f.once(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case apierrors.IsUnauthorized(err):
			f.hub.signOut()
			return
		case errors.Is(err, errExpired):
			// Lists are expensive, so that they have a distance even if each of them expires at once.
			if !sleep(ctx, firstPause-time.Since(began)) {
				return
			}
			continue
		}
		if apierrors.IsForbidden(err) || errors.Is(err, errNoRoom) {
			f.hub.remove(f.scope, f.hub.keys(f.scope)...)
		}
		known := failureOf(err)
		f.hub.listed(f.scope, &errorBody{known.message, known.reason})
		if time.Since(began) > longestPause {
			pause = firstPause
		}
		if !sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, longestPause)
	}
}

// once lists and then watches until an error.
func (f *follower) once(ctx context.Context) error {
	version, err := f.list(ctx)
	if err != nil {
		return err
	}
	f.hub.listed(f.scope, nil)
	for {
		began := time.Now()
		if version, err = f.watch(ctx, version); err != nil {
			return err
		}
		if !sleep(ctx, firstPause-time.Since(began)) { // a proxy may end watches at once
			return ctx.Err()
		}
	}
}

// sleep returns false if the context ends meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// list puts all objects, and deletes the rows of those that no longer exist.
func (f *follower) list(ctx context.Context) (version string, err error) {
	seen, next := map[string]bool{}, ""
	for {
		page := f.kind.list()
		err := f.client.Get().NamespaceIfScoped(f.scope.namespace, f.scope.namespace != "").Resource(f.kind.resource).
			VersionedParams(&metav1.ListOptions{Limit: pageSize, Continue: next}, metav1.ParameterCodec).
			Timeout(requestTime).Do(ctx).Into(page)
		if apierrors.IsResourceExpired(err) {
			return "", errExpired
		}
		if err != nil {
			return "", err
		}
		if err := meta.EachListItem(page, func(object runtime.Object) error {
			key, err := f.put(object)
			seen[key] = true
			return err
		}); err != nil {
			return "", err
		}
		about, err := meta.ListAccessor(page)
		if err != nil {
			return "", err
		}
		if next = about.GetContinue(); next == "" {
			version = about.GetResourceVersion()
			break
		}
	}
	for _, key := range f.hub.keys(f.scope) {
		if !seen[key] {
			f.hub.remove(f.scope, key)
		}
	}
	return version, nil
}

func (f *follower) put(object runtime.Object) (string, error) {
	key, data, err := f.kind.encodeRow(object)
	if err != nil {
		return "", err
	}
	if !f.hub.put(f.scope, key, data) {
		return "", errNoRoom
	}
	return key, nil
}

// watch follows changes until the API server ends the watch. It returns the version from which the next one continues.
func (f *follower) watch(ctx context.Context, version string) (string, error) {
	seconds := int64((shortestWatch + rand.N(longestWatch-shortestWatch)).Seconds()) //nolint:gosec // spreads load only
	events, err := f.client.Get().NamespaceIfScoped(f.scope.namespace, f.scope.namespace != "").
		Resource(f.kind.resource).VersionedParams(&metav1.ListOptions{Watch: true, ResourceVersion: version,
		AllowWatchBookmarks: true, TimeoutSeconds: &seconds}, metav1.ParameterCodec).Watch(ctx)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return "", errExpired
	}
	if err != nil {
		return "", err
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return version, ctx.Err()
		case event, ok := <-events.ResultChan():
			if !ok {
				return version, nil
			}
			if version, err = f.handle(event, version); err != nil {
				return version, err
			}
		}
	}
}

// handle applies one event and returns its version.
func (f *follower) handle(event watch.Event, version string) (string, error) {
	if event.Type == watch.Error {
		err := apierrors.FromObject(event.Object)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return version, errExpired
		}
		return version, err
	}
	about, err := meta.Accessor(event.Object)
	if err != nil {
		return version, err
	}
	switch event.Type { //nolint:exhaustive // errors were returned above, and bookmarks have only a version
	case watch.Added, watch.Modified:
		_, err = f.put(event.Object)
	case watch.Deleted:
		f.hub.remove(f.scope, about.GetNamespace()+"/"+about.GetName())
	}
	return about.GetResourceVersion(), err
}
