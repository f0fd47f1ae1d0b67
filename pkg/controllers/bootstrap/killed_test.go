package bootstrap_test

import (
	"testing"
	"time"
)

// Members leave one at a time, each before its machine goes, whichever write of that the process is killed after.
func TestHook_KilledAfterEveryWrite(t *testing.T) {
	run := func(t *testing.T, n int) (writes int) {
		t.Helper()
		tell(t, func(t *testing.T, w *world) {
			etcdCluster(w, "m1", "m2", "m3")
			w.api.ResetLog()
			cut := make(chan struct{})
			if n > 0 {
				w.api.CutAfter(manager, n, func() { close(cut) })
			}
			w.delete("m1")
			w.elapse(time.Second)
			w.delete("m2")
			for _, name := range []string{"m1", "m2"} {
				restarted := false
				for range 20 {
					w.elapse(15 * time.Second)
					select {
					case <-cut:
						if !restarted && n > 0 {
							w.restart()
							restarted, n = true, 0
						}
					default:
					}
					if w.asked(name) {
						break
					}
				}
				if hook, _ := w.held(name); !hook || !w.asked(name) {
					t.Fatalf("%s: hook %v, asked %v, want the member asked and the machine held", name, hook, w.asked(name))
				}
				if name == "m1" && w.asked("m2") {
					t.Fatal("both members are asked to leave at once")
				}
				w.leaves(name)
			}
			w.elapse(time.Minute)
			if n > 0 {
				select {
				case <-cut:
					w.restart()
				default:
				}
			}
			w.elapse(2 * time.Minute)
			for _, name := range []string{"m1", "m2"} {
				if hook, finalizer := w.held(name); hook || finalizer {
					t.Errorf("%s: hook %v, finalizer %v after the member has left", name, hook, finalizer)
				}
			}
			if hook, finalizer := w.held("m3"); !hook || !finalizer || w.asked("m3") {
				t.Errorf("m3 stays: hook %v, finalizer %v, asked %v", hook, finalizer, w.asked("m3"))
			}
			writes = len(w.api.Writes(manager))
		})
		return writes
	}
	writes := run(t, 0)
	if writes < 4 {
		t.Fatalf("only %d writes: the story does not do what it should", writes)
	}
	for n := 1; n <= writes; n++ {
		run(t, n)
	}
}
