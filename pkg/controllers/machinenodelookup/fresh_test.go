package machinenodelookup

import (
	"testing"
	"time"
)

func TestWritten(t *testing.T) {
	noon := time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)
	w := newWritten()
	if left := w.left("u1", noon); left != 0 {
		t.Errorf("caches are behind for %s before anything was written", left)
	}
	w.note("u1", noon)
	if left := w.left("u1", noon.Add(3*time.Second)); left != freshFor-3*time.Second {
		t.Errorf("caches may be behind for %s", left)
	}
	if left := w.left("u2", noon); left != 0 {
		t.Errorf("another machine waits %s", left)
	}
	if left := w.left("u1", noon.Add(freshFor)); left != 0 {
		t.Errorf("caches are behind for %s after their time", left)
	}
	w.note("u2", noon.Add(freshFor))
	if len(w.told) != 1 {
		t.Errorf("%d machines are remembered", len(w.told))
	}
}
