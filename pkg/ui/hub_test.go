package ui

import (
	"bytes"
	"fmt"
	"testing"
)

// Rows that do not fit into the memory are reported, and the memory is given back.
func TestHub_IsBounded(t *testing.T) {
	l := &ledger{}
	h := newHub(l)
	h.stop = func() {}
	big := bytes.Repeat([]byte("x"), 1<<20)
	s, n := scope{kindClusters, ""}, 0
	for h.put(s, fmt.Sprintf("a/%d", n), append(big, byte(n))) {
		n++
	}
	if n != maxHubBytes>>20-1 && n != maxHubBytes>>20 {
		t.Errorf("%d MiB fit", n)
	}
	h.remove(s, h.keys(s)...)
	if l.used != 0 || h.bytes != 0 {
		t.Errorf("%d bytes of the hub, %d of all, are not given back", h.bytes, l.used)
	}
}

// A hub can end while a page of a list becomes rows.
func TestHub_TakesNoMemoryAfterItsEnd(t *testing.T) {
	l := &ledger{}
	h := newHub(l)
	h.stop = func() {}
	s := scope{kindMachines, ""}
	h.put(s, "a/one", []byte("row"))
	h.end()
	if h.put(s, "a/two", []byte("row")) || l.used != 0 {
		t.Errorf("%d bytes stay in use after the end of the hub", l.used)
	}
}

// A tab that missed more changes than a hub remembers gets all rows.
func TestHub_ForgetsOldChanges(t *testing.T) {
	h := newHub(&ledger{})
	s := scope{kindClusters, ""}
	h.put(s, "a/first", []byte("1"))
	start := h.read(0, true).seq
	for i := range 2*maxChanges + 10 {
		h.put(s, "a/one", fmt.Append(nil, i))
	}
	if got := h.read(start, false); len(got.kinds) != 2 || !got.kinds[0].reset || len(got.kinds[0].put) != 2 {
		t.Errorf("got %+v", got.kinds)
	}
	if got := h.read(h.seq-5, false); len(got.kinds) != 1 || got.kinds[0].reset || len(got.kinds[0].put) != 1 {
		t.Errorf("got %+v", got.kinds)
	}
	if len(h.changes) > 2*maxChanges {
		t.Errorf("%d changes", len(h.changes))
	}
}
