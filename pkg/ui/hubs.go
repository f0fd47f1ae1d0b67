package ui

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-io/drover/pkg/kube/clients"
)

const (
	// hubAge is how long a hub lives without a tab, so that a reload of the page needs no new lists.
	hubAge = time.Minute
	// maxStreams and maxHubs limit one user, maxAllStreams and maxAllHubs all users.
	maxStreams    = 10
	maxAllStreams = 1000
	maxHubs       = 4
	maxAllHubs    = 200
	// maxNamespaces limits a selection. All namespaces together are one watch.
	maxNamespaces = 50
)

// hubs holds all hubs and streams of this replica.
type hubs struct {
	ledger  *ledger
	ending  <-chan struct{}
	kinds   *clients.Typed
	review  func(context.Context, *caller) error
	mu      sync.Mutex
	all     map[string]*hub
	streams map[*tab]bool
}

// tab is a stream to one browser.
type tab struct {
	user, session string
	hub           *hub
	// signedOut is closed when the session ends by request.
	signedOut chan struct{}
}

func newHubs(opts Options, kinds *clients.Typed, review func(context.Context, *caller) error) *hubs {
	return &hubs{ledger: &ledger{}, ending: opts.Ending, kinds: kinds, review: review, all: map[string]*hub{},
		streams: map[*tab]bool{}}
}

// enter registers a stream. leave ends it.
func (h *hubs) enter(c *caller, namespaces []string) (t *tab, leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	own := 0
	for each := range h.streams {
		if each.user == c.user {
			own++
		}
	}
	switch {
	case own >= maxStreams:
		return nil, nil, tooMany("you have too many open pages; close some of them", 10*time.Second)
	case len(h.streams) >= maxAllStreams:
		return nil, nil, tooMany("all users together have too many open pages; try again later", 10*time.Second)
	}
	found, err := h.hub(c, namespaces)
	if err != nil {
		return nil, nil, err
	}
	t = &tab{user: c.user, hub: found, signedOut: make(chan struct{})}
	if c.session != nil {
		t.session = c.session.ID
	}
	h.streams[t] = true
	found.streams++
	if found.idle != nil {
		found.idle.Stop()
		found.idle = nil
	}
	return t, func() { h.leave(t) }, nil
}

// hub returns the hub of a caller for a selection. The lock is held.
func (h *hubs) hub(c *caller, namespaces []string) (*hub, error) {
	key := c.id + "\n" + strings.Join(namespaces, ",")
	if found := h.all[key]; found != nil && !found.isSignedOut() {
		return found, nil
	}
	if h.count(c.user) >= maxHubs {
		h.dropIdle(c.user)
	}
	switch {
	case h.count(c.user) >= maxHubs:
		return nil, tooMany("your open pages select too many different sets of namespaces; close some of them",
			10*time.Second)
	case len(h.all) >= maxAllHubs, h.ledger.isFull():
		return nil, tooMany("this server holds too many rows for all users; try again later", longestPause)
	}
	made, err := h.start(c, namespaces)
	if err != nil {
		return nil, err
	}
	if before := h.all[key]; before != nil {
		before.end()
	}
	made.key, made.user = key, c.user
	h.all[key] = made
	return made, nil
}

func (h *hubs) count(user string) int {
	n := 0
	for _, each := range h.all {
		if each.user == user {
			n++
		}
	}
	return n
}

// dropIdle ends the hubs of a user that no tab uses.
func (h *hubs) dropIdle(user string) {
	for key, each := range h.all {
		if each.user == user && each.streams == 0 {
			delete(h.all, key)
			each.end()
		}
	}
}

// start begins the watches of a hub.
func (h *hubs) start(c *caller, namespaces []string) (*hub, error) {
	made := newHub(h.ledger)
	var followers []*follower
	for _, kind := range rowKinds() {
		client, err := h.kinds.Client(c.config, kind.version)
		if err != nil {
			return nil, err
		}
		for _, namespace := range namespaces {
			if namespace == allNamespaces {
				namespace = ""
			}
			of := scope{kind.name, namespace}
			made.unlisted[of] = true
			followers = append(followers, &follower{hub: made, scope: of, kind: kind, client: client})
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	made.stop = cancel
	for _, each := range followers {
		go each.run(ctx)
	}
	go h.recheck(ctx, made, c)
	go func() {
		// A program that embeds the UI can run on.
		select {
		case <-h.ending:
			cancel()
		case <-ctx.Done():
		}
	}()
	return made, nil
}

// recheck asks regularly whether the API server still accepts the token. A watch that runs does not tell.
func (h *hubs) recheck(ctx context.Context, of *hub, c *caller) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(recheckTime):
		}
		if err := h.review(ctx, c); err != nil && failureOf(err).reason == reasonUnauthorized && ctx.Err() == nil {
			of.signOut()
			return
		}
	}
}

func (h *hubs) leave(t *tab) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, t)
	of := t.hub
	of.streams--
	if of.streams > 0 {
		return
	}
	of.idle = time.AfterFunc(hubAge, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if of.streams == 0 {
			if h.all[of.key] == of {
				delete(h.all, of.key)
			}
			of.end()
		}
	})
}

// signOut ends the streams of a session.
func (h *hubs) signOut(session string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for each := range h.streams {
		if each.session == session {
			close(each.signedOut)
			each.session = ""
		}
	}
}

// allNamespaces selects all namespaces.
const allNamespaces = "*"

// selection reads the query parameter namespaces.
func selection(text string) ([]string, error) {
	if text == "" || text == allNamespaces {
		return []string{allNamespaces}, nil
	}
	names := strings.Split(text, ",")
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > maxNamespaces {
		return nil, invalid("the selection has too many namespaces; select at most 50, or all of them")
	}
	for _, name := range names {
		if err := checkNamespace(name); err != nil {
			return nil, err
		}
	}
	return names, nil
}
