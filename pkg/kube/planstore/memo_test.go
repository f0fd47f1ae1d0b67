package planstore

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// thing contains a pointer, because the garbage collector frees values without pointers only in groups.
type thing struct {
	n int
	_ *thing
}

// An unchanged plan secret is not decoded again. (docs/invariants.md#weaknesses, W5.)
func TestMemo_ComputesOncePerVersion(t *testing.T) {
	calls := 0
	m := NewMemo(func(x *thing) int { calls++; return x.n * 2 })
	first, second := &thing{n: 1}, &thing{n: 2}
	for _, want := range []struct {
		object *thing
		value  int
		calls  int
	}{{first, 2, 1}, {first, 2, 1}, {second, 4, 2}, {second, 4, 2}, {first, 2, 3}} {
		if got := m.Of("key", want.object); got != want.value || calls != want.calls {
			t.Errorf("value %d after %d calls, want %d after %d", got, calls, want.value, want.calls)
		}
	}
}

// The values of removed objects are dropped, even if there are few.
func TestMemo_ForgetsObjectsThatLeftTheCache(t *testing.T) {
	m := NewMemo(func(x *thing) int { return x.n })
	kept := &thing{n: 1}
	m.Of("kept", kept)
	m.Of("newer", &thing{n: 2})
	newer := &thing{n: 3}
	m.Of("newer", newer)
	for i := range 10 {
		m.Of(fmt.Sprint("gone", i), &thing{n: i})
	}
	for end := time.Now().Add(time.Minute); m.Len() > 2 && time.Now().Before(end); {
		runtime.GC() // its cleanups run some time after it
	}
	if m.Len() != 2 {
		t.Errorf("%d values are kept for two objects", m.Len())
	}
	runtime.KeepAlive(kept)
	runtime.KeepAlive(newer)
}
