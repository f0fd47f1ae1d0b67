package memkube

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher is one watch. Its queue has no limit, so a slow client never blocks the server.
type watcher struct {
	filter filter
	lag    time.Duration // set once

	mu     sync.Mutex
	queue  []queued
	ended  bool
	signal chan struct{} // has room for one
}

// queued is an event and the time to send it.
type queued struct {
	event []byte
	due   time.Time
}

// offer queues a change, delayed by the lag of the watch.
func (w *watcher) offer(c change) {
	kind, it := c.event(w.filter)
	if it == nil {
		return
	}
	w.push(eventBytes(kind, it.raw), time.Now().Add(w.lag))
}

func (w *watcher) push(event []byte, due time.Time) {
	w.mu.Lock()
	w.queue = append(w.queue, queued{event, due})
	w.mu.Unlock()
	w.wake()
}

func (w *watcher) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.wake()
}

func (w *watcher) wake() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

func (w *watcher) take() (events []queued, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events, w.queue = w.queue, nil
	return events, w.ended
}

func eventBytes(kind watch.EventType, object []byte) []byte {
	b := make([]byte, 0, len(object)+40)
	b = append(b, `{"type":"`...)
	b = append(b, kind...)
	b = append(b, `","object":`...)
	b = append(b, object...)
	return append(b, "}\n"...)
}

// watch answers a watch request. The caller holds the lock until watch returns. The stream runs without it.
func (s *Server) watch(t *table, r *Request) (response, error) {
	f, err := newFilter(r)
	if err != nil {
		return response{}, err
	}
	s.watched[watched{r.Agent, r.Resource.GroupResource().String()}] = true
	w := &watcher{filter: f, lag: s.lagOf(r), signal: make(chan struct{}, 1)}
	if err := s.fillInitial(t, r, w); err != nil {
		return response{}, err
	}
	t.watchers[w] = true
	timeout, _ := strconv.Atoi(r.query.Get("timeoutSeconds"))
	return response{code: http.StatusOK, stream: func(write func([]byte) error, done <-chan struct{}) {
		w.run(write, done, time.Duration(timeout)*time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(t.watchers, w)
	}}, nil
}

// fillInitial queues the first events of a watch. Without a resource version these are all objects, otherwise all
// changes since that version.
func (s *Server) fillInitial(t *table, r *Request, w *watcher) error {
	initial := r.query.Get("sendInitialEvents") == "true"
	from := r.query.Get("resourceVersion")
	if initial || from == "" || from == "0" {
		for _, key := range sortedKeys(t.items) {
			if it := t.items[key]; w.filter.matches(it.obj) {
				w.push(eventBytes(watch.Added, it.raw), time.Time{})
			}
		}
		if initial {
			w.push(s.bookmark(t), time.Time{})
		}
		return nil
	}
	rv, err := strconv.ParseInt(from, 10, 64)
	if err != nil {
		return apierrors.NewBadRequest("resourceVersion: not a number")
	}
	if len(t.history) >= keepHistory/2 && rv < t.history[0].rv {
		return apierrors.NewResourceExpired("too old resource version")
	}
	for _, c := range t.history {
		if c.rv > rv {
			w.offer(c)
		}
	}
	return nil
}

// bookmark ends the initial events.
func (s *Server) bookmark(t *table) []byte {
	gvk := t.gvk()
	object, err := json.Marshal(metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind},
		ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.FormatInt(s.rv, 10),
			Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		},
	})
	must(err)
	return eventBytes(watch.Bookmark, object)
}

func (w *watcher) run(write func([]byte) error, done <-chan struct{}, timeout time.Duration) {
	var expired <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		expired = timer.C
	}
	for {
		events, ended := w.take()
		for _, next := range events {
			if wait := time.Until(next.due); wait > 0 && !waits(wait, done, expired) || write(next.event) != nil {
				return
			}
		}
		if ended {
			return
		}
		select {
		case <-w.signal:
		case <-done:
			return
		case <-expired:
			return
		}
	}
}

// waits returns true after a duration. It returns false if the watch ends first.
func waits(d time.Duration, done <-chan struct{}, expired <-chan time.Time) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
	case <-expired:
	}
	return false
}

// Lag delays the events of new watches of clients with this user agent. `of` returns the delay per resource
// ("machines.cluster.x-k8s.io"). In a real cluster each watch is a separate stream and may lag behind others.
func (s *Server) Lag(agent string, of func(resource string) time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lagging, s.lag = agent, of
}

// watched is a resource that a client has watched.
type watched struct{ agent, resource string }

// Watched returns the resources that clients with this user agent have watched so far, sorted.
func (s *Server) Watched(agent string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var resources []string
	for of := range s.watched {
		if strings.HasPrefix(of.agent, agent) {
			resources = append(resources, of.resource)
		}
	}
	slices.Sort(resources)
	return slices.Compact(resources)
}

func (s *Server) lagOf(r *Request) time.Duration {
	if s.lag == nil || !strings.HasPrefix(r.Agent, s.lagging) {
		return 0
	}
	return s.lag(r.Resource.GroupResource().String())
}
