package planstore

import (
	"fmt"
	"runtime"
	"testing"
)

// thing has a pointer in it: the garbage collector takes values without any in groups only.
type thing struct {
	n int
	_ *thing
}

// A plan secret that has not changed is not decoded again. (spec/02 §9, W-5.)
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

func TestMemo_ForgetsWhatHasLeftTheCache(t *testing.T) {
	m := NewMemo(func(x *thing) int { return x.n })
	kept := &thing{n: 1}
	m.Of("kept", kept)
	for i := range 10 * minSweep {
		m.Of(fmt.Sprint("gone", i), &thing{n: i})
		if i%minSweep == 0 {
			runtime.GC()
		}
	}
	runtime.GC()
	if m.Len() > 4*minSweep {
		t.Errorf("%d values are kept of one object that lives", m.Len())
	}
	runtime.KeepAlive(kept)
}
