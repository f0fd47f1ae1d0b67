package memkube

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher is one watch. Changes are queued without a limit, so that a slow client never holds the server.
type watcher struct {
	filter filter

	mu     sync.Mutex
	queue  [][]byte
	ended  bool
	signal chan struct{} // has room for one
}

func (w *watcher) offer(c change) {
	kind, it := c.event(w.filter)
	if it == nil {
		return
	}
	w.push(eventBytes(kind, it.raw))
}

func (w *watcher) push(event []byte) {
	w.mu.Lock()
	w.queue = append(w.queue, event)
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

func (w *watcher) take() (events [][]byte, ended bool) {
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

// watch answers a watch. The lock is held until it returns; the stream runs without it.
func (s *Server) watch(t *table, r *Request) (response, error) {
	f, err := newFilter(r)
	if err != nil {
		return response{}, err
	}
	w := &watcher{filter: f, signal: make(chan struct{}, 1)}
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

// fillInitial queues what a watch starts with: what there is, when it asks for no resource version, and everything since then
// when it does.
func (s *Server) fillInitial(t *table, r *Request, w *watcher) error {
	initial := r.query.Get("sendInitialEvents") == "true"
	from := r.query.Get("resourceVersion")
	if initial || from == "" || from == "0" {
		for _, key := range sortedKeys(t.items) {
			if it := t.items[key]; w.filter.matches(it.obj) {
				w.push(eventBytes(watch.Added, it.raw))
			}
		}
		if initial {
			w.push(s.bookmark(t))
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
		for _, event := range events {
			if write(event) != nil {
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
