package ui

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxChanges is how many changes a hub remembers, at least. A browser that missed more of them gets all rows.
	maxChanges = 16 << 10
	// maxHubBytes and maxAllBytes limit the rows of one hub and of all hubs, in bytes.
	maxHubBytes = 64 << 20
	maxAllBytes = 256 << 20
	// recheckTime is the time between two checks of the token.
	recheckTime = time.Minute
)

// scope is the objects that one watch sees.
type scope struct {
	kind string
	// namespace is empty for all namespaces.
	namespace string
}

// change is a row that was put or deleted.
type change struct {
	seq  uint64
	kind string
	key  string
}

// hub holds the rows that one caller sees in a selection of namespaces. All tabs of the caller share it. Tabs pull
// their changes, so a slow browser holds no memory here.
type hub struct {
	id     string
	stop   context.CancelFunc
	ledger *ledger

	mu   sync.Mutex
	seq  uint64
	rows map[string]map[string][]byte
	// changes are in the order of seq. Those up to forgotten are dropped.
	changes   []change
	forgotten uint64
	problems  map[scope]errorBody
	// unlisted are the scopes whose first list has not ended.
	unlisted map[scope]bool
	bytes    int64
	// ended is true when the memory was given back. A list that still runs must not take it again.
	ended bool
	// signedOut is true when the API server no longer accepts the token.
	signedOut bool
	// woken is closed at the next change.
	woken chan struct{}

	// The fields below belong to hubs, which locks them.
	key, user string
	streams   int
	idle      *time.Timer
}

func newHub(ledger *ledger) *hub {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	h := &hub{id: hex.EncodeToString(id[:]), ledger: ledger, rows: map[string]map[string][]byte{},
		problems: map[scope]errorBody{}, unlisted: map[scope]bool{}, woken: make(chan struct{})}
	for _, kind := range rowKinds() {
		h.rows[kind.name] = map[string][]byte{}
	}
	return h
}

// wake tells all tabs that something changed. The lock is held.
func (h *hub) wake() {
	close(h.woken)
	h.woken = make(chan struct{})
}

// put sets a row. It reports false if there is no room.
func (h *hub) put(s scope, key string, data []byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return false
	}
	before, had := h.rows[s.kind][key]
	if had && string(before) == string(data) {
		return true // most updates change nothing that a row shows
	}
	more := int64(len(data) - len(before))
	if more > 0 && (h.bytes+more > maxHubBytes || !h.ledger.take(more)) {
		return false
	}
	if more < 0 {
		h.ledger.give(-more)
	}
	h.bytes += more
	h.rows[s.kind][key] = data
	h.note(s.kind, key)
	return true
}

// note records a change. The lock is held.
func (h *hub) note(kind, key string) {
	h.seq++
	h.changes = append(h.changes, change{h.seq, kind, key})
	if len(h.changes) >= 2*maxChanges {
		dropped := len(h.changes) - maxChanges
		h.forgotten = h.changes[dropped-1].seq
		h.changes = slices.Clone(h.changes[dropped:])
	}
	h.wake()
}

// remove deletes rows.
func (h *hub) remove(s scope, keys ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range keys {
		data, had := h.rows[s.kind][key]
		if !had {
			continue
		}
		delete(h.rows[s.kind], key)
		h.bytes -= int64(len(data))
		h.ledger.give(int64(len(data)))
		h.note(s.kind, key)
	}
}

// keys returns the keys of the rows of a scope.
func (h *hub) keys(s scope) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var keys []string
	for key := range h.rows[s.kind] {
		if s.namespace == "" || strings.HasPrefix(key, s.namespace+"/") {
			keys = append(keys, key)
		}
	}
	return keys
}

// listed records that the first list of a scope has ended, with or without a problem.
func (h *hub) listed(s scope, problem *errorBody) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.unlisted, s)
	if problem == nil {
		delete(h.problems, s)
	} else {
		h.problems[s] = *problem
	}
	h.wake()
}

// signOut ends all streams of the hub.
func (h *hub) signOut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.signedOut = true
	h.wake()
}

// isSignedOut reports whether the API server no longer accepts the token.
func (h *hub) isSignedOut() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.signedOut
}

// end stops the watches and gives the memory back.
func (h *hub) end() {
	h.stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ledger.give(h.bytes)
	h.bytes, h.ended = 0, true
	for kind := range h.rows {
		h.rows[kind] = map[string][]byte{}
	}
}

// update is what a tab has to send.
type update struct {
	seq       uint64
	kinds     []kindUpdate
	problems  map[scope]errorBody
	synced    []string
	signedOut bool
	woken     <-chan struct{}
}

// kindUpdate is the changed rows of one kind.
type kindUpdate struct {
	kind  string
	reset bool
	put   [][]byte
	gone  []string
}

// read returns what changed after a position. begin is true for a tab without one, which gets all rows.
func (h *hub) read(after uint64, begin bool) update {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := update{seq: h.seq, problems: map[scope]errorBody{}, signedOut: h.signedOut, woken: h.woken}
	maps.Copy(out.problems, h.problems)
	reset := begin || after < h.forgotten || after > h.seq
	for _, kind := range rowKinds() {
		if reset {
			out.kinds = append(out.kinds, h.all(kind.name))
		} else if changed := h.after(kind.name, after); len(changed.put)+len(changed.gone) > 0 {
			out.kinds = append(out.kinds, changed)
		}
		if !h.hasUnlisted(kind.name) {
			out.synced = append(out.synced, kind.name)
		}
	}
	return out
}

func (h *hub) hasUnlisted(kind string) bool {
	for s := range h.unlisted {
		if s.kind == kind {
			return true
		}
	}
	return false
}

// all returns all rows of a kind. The lock is held.
func (h *hub) all(kind string) kindUpdate {
	out := kindUpdate{kind: kind, reset: true}
	for _, data := range h.rows[kind] {
		out.put = append(out.put, data)
	}
	return out
}

// after returns the rows of a kind that changed after a position, each once. The lock is held.
func (h *hub) after(kind string, position uint64) kindUpdate {
	out := kindUpdate{kind: kind}
	at, _ := slices.BinarySearchFunc(h.changes, position+1, func(c change, seq uint64) int {
		return cmp.Compare(c.seq, seq)
	})
	seen := map[string]bool{}
	for _, c := range h.changes[at:] {
		if c.kind != kind || seen[c.key] {
			continue
		}
		seen[c.key] = true
		if data, ok := h.rows[kind][c.key]; ok {
			out.put = append(out.put, data)
		} else {
			out.gone = append(out.gone, c.key)
		}
	}
	return out
}

// ledger counts the bytes of all hubs.
type ledger struct {
	mu   sync.Mutex
	used int64
}

func (l *ledger) take(bytes int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used+bytes > maxAllBytes {
		return false
	}
	l.used += bytes
	return true
}

func (l *ledger) give(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used -= bytes
}

func (l *ledger) isFull() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used >= maxAllBytes
}
