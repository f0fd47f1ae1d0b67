package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// batchTime is the shortest time between two batches.
	batchTime = 100 * time.Millisecond
	pingTime  = 15 * time.Second
	// stallTime is how long a browser may accept nothing. It is longer than pingTime, because each ping renews it.
	stallTime = 40 * time.Second
	// eventBytes is the size in bytes from which an event is split.
	eventBytes = 256 << 10
)

// getStream sends rows until the browser leaves, the session ends or the process ends.
func (u *ui) getStream(w http.ResponseWriter, r *http.Request, c *caller) error {
	namespaces, err := selection(r.URL.Query().Get("namespaces"))
	if err != nil {
		return err
	}
	t, leave, err := u.hubs.enter(c, namespaces)
	if err != nil {
		return err
	}
	defer leave()
	header := w.Header()
	header.Set("Content-Type", events)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // proxies must not collect events
	s := newStream(w, t.hub)
	s.resume(r.Header.Get("Last-Event-ID"))
	_ = s.control.SetReadDeadline(time.Time{}) // not every writer has deadlines
	w.WriteHeader(http.StatusOK)
	u.pump(r, s, t, c.expires)
	return nil
}

// pump sends batches. Errors of the connection end it.
func (u *ui) pump(r *http.Request, s *stream, t *tab, expires time.Time) {
	ping := time.NewTicker(pingTime)
	defer ping.Stop()
	ended, stop := u.endOf(r, t, expires)
	defer stop()
	for {
		changed := t.hub.read(s.position, s.begin)
		sent := time.Now()
		if err := s.send(changed); err != nil || changed.signedOut {
			return
		}
		woken, pause := changed.woken, (<-chan time.Time)(nil)
		for waiting := true; waiting; {
			select {
			case <-ended.Done():
				if errors.Is(context.Cause(ended), errSignedOut) {
					_ = s.signOut()
				}
				return
			case <-ping.C:
				if s.ping() != nil {
					return
				}
			case <-woken:
				woken, pause = nil, time.After(batchTime-time.Since(sent))
			case <-pause:
				waiting = false
			}
		}
	}
}

// errSignedOut is the cause of the end of a stream whose session ends.
var errSignedOut = errors.New("the session has ended")

// endOf returns a context that ends with the request, the process or the session.
func (u *ui) endOf(r *http.Request, t *tab, expires time.Time) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	var expired <-chan time.Time
	if !expires.IsZero() {
		expired = time.After(time.Until(expires))
	}
	go func() {
		select {
		case <-ctx.Done():
		case <-u.hubs.ending:
			cancel(nil)
		case <-expired:
			cancel(errSignedOut)
		case <-t.signedOut:
			cancel(errSignedOut)
		}
	}()
	return ctx, func() { cancel(nil) }
}

// stream writes server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	hub     *hub
	// position is the last change that was sent; begin is true if none was.
	position uint64
	begin    bool
	// hasRows is true for a page that has the rows of another hub, for example of another replica.
	hasRows  bool
	problems map[scope]errorBody
	synced   map[string]bool
	buffer   bytes.Buffer
}

func newStream(w http.ResponseWriter, of *hub) *stream {
	return &stream{w: w, control: http.NewResponseController(w), hub: of, begin: true,
		problems: map[scope]errorBody{}, synced: map[string]bool{}}
}

// resume continues after the last event that the browser got, if this hub sent it.
func (s *stream) resume(cursor string) {
	id, seq, ok := strings.Cut(cursor, ".")
	if position, err := strconv.ParseUint(seq, 10, 64); ok && err == nil && id == s.hub.id {
		s.position, s.begin = position, false
	}
	s.hasRows = cursor != ""
}

// send writes one update.
func (s *stream) send(changed update) error {
	if changed.signedOut {
		return s.signOut()
	}
	if s.hasRows && s.begin && len(changed.synced) < len(rowKinds()) {
		// The page keeps its rows until all lists are complete. Otherwise its clusters would disappear meanwhile.
		changed.synced = nil
		s.states(changed)
		return s.flush()
	}
	cursor := s.hub.id + "." + strconv.FormatUint(changed.seq, 10)
	for i, kind := range changed.kinds {
		if err := s.rows(kind, cursor, i == len(changed.kinds)-1); err != nil {
			return err
		}
	}
	s.position, s.begin = changed.seq, false
	s.states(changed)
	return s.flush()
}

// states writes which lists are complete, and which problems are new or solved.
func (s *stream) states(changed update) {
	for _, kind := range changed.synced {
		if !s.synced[kind] {
			s.synced[kind] = true
			s.event("synced", "", kindBody{kind, ""})
		}
	}
	for of, problem := range changed.problems {
		if s.problems[of] != problem {
			s.problems[of] = problem
			s.event("problem", "", problemBody{of.kind, of.namespace, problem.Error, problem.Reason})
		}
	}
	for of := range s.problems {
		if _, still := changed.problems[of]; !still {
			delete(s.problems, of)
			s.event("solved", "", kindBody{of.kind, of.namespace})
		}
	}
}

// kindBody is the data of synced and solved.
type kindBody struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
}

// problemBody is the data of problem.
type problemBody struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Error     string `json:"error"`
	Reason    string `json:"reason"`
}

// rowsBody is the data of rows.
type rowsBody struct {
	Kind  string            `json:"kind"`
	Reset bool              `json:"reset,omitempty"`
	Put   []json.RawMessage `json:"put,omitempty"`
	Gone  []string          `json:"gone,omitempty"`
}

// rows writes the rows of one kind in several events. Only the last event of a batch has the cursor: a browser that
// got less continues before the batch.
func (s *stream) rows(kind kindUpdate, cursor string, last bool) error {
	body, size := rowsBody{Kind: kind.kind, Reset: kind.reset}, 0
	for _, data := range kind.put {
		if size > 0 && size+len(data) > eventBytes {
			s.event("rows", "", body)
			if err := s.flush(); err != nil {
				return err
			}
			body, size = rowsBody{Kind: kind.kind}, 0
		}
		body.Put = append(body.Put, data)
		size += len(data)
	}
	body.Gone = kind.gone
	if !last {
		cursor = ""
	}
	s.event("rows", cursor, body)
	return nil
}

func (s *stream) event(name, id string, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		return // all bodies are values of this package
	}
	fmt.Fprintf(&s.buffer, "event: %s\n", name)
	if id != "" {
		fmt.Fprintf(&s.buffer, "id: %s\n", id)
	}
	fmt.Fprintf(&s.buffer, "data: %s\n\n", data)
}

func (s *stream) ping() error {
	s.buffer.WriteString(": ping\n\n")
	return s.flush()
}

func (s *stream) signOut() error {
	s.event("signedout", "", struct{}{})
	return s.flush()
}

// flush writes what is in the buffer. A browser that accepts nothing is cut.
func (s *stream) flush() error {
	_ = s.control.SetWriteDeadline(time.Now().Add(stallTime)) // not every writer has deadlines
	_, err := s.w.Write(s.buffer.Bytes())
	s.buffer.Reset()
	if err != nil {
		return err
	}
	return s.control.Flush()
}
