package ownwrites_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/kube/ownwrites"
)

func version(uid types.UID, resourceVersion string) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{UID: uid, ResourceVersion: resourceVersion}
}

func TestStatuses_TextsWaitAfterAWrite(t *testing.T) {
	wrote := func(s *ownwrites.Statuses) { s.Wrote(version("u", "1"), version("u", "2"), start) }
	wroteOther := func(s *ownwrites.Statuses) { s.Wrote(version("v", "1"), version("v", "2"), start) }
	for name, tc := range map[string]struct {
		write func(s *ownwrites.Statuses)
		at    time.Duration
		want  time.Duration
	}{
		"no write":            {write: func(*ownwrites.Statuses) {}},
		"at once":             {write: wrote, want: 3 * time.Second},
		"a second later":      {write: wrote, at: time.Second, want: 2 * time.Second},
		"three seconds later": {write: wrote, at: 3 * time.Second},
		"another object":      {write: wroteOther},
		"a write outside of the status": {write: func(s *ownwrites.Statuses) {
			s.Replaced(version("u", "1"), version("u", "2"), start)
		}},
		"a clock that went back": {write: func(s *ownwrites.Statuses) {
			s.Wrote(version("u", "1"), version("u", "2"), start.Add(time.Hour))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := ownwrites.NewStatuses()
			tc.write(s)
			if got := s.Hold("u", start.Add(tc.at)); got != tc.want {
				t.Errorf("texts wait %s, want %s", got, tc.want)
			}
		})
	}
}

func TestStatuses_StaleCacheIsDetected(t *testing.T) {
	s := ownwrites.NewStatuses()
	s.Wrote(version("u", "1"), version("u", "2"), start)
	s.Replaced(version("u", "2"), version("u", "3"), start)
	s.Wrote(version("u", "3"), version("u", "3"), start) // it changed nothing, so no event follows
	for shown, want := range map[string]bool{"1": true, "2": true, "3": false, "4": false} {
		if got := s.Behind(version("u", shown), start.Add(time.Second)); got != want {
			t.Errorf("version %s is behind: %v, want %v", shown, got, want)
		}
	}
	if s.Behind(version("u", "1"), start.Add(ownwrites.BelievedAfter)) {
		t.Error("a cache that is stale forever stops the controller")
	}
}

func TestStatuses_NilRemembersNothing(t *testing.T) {
	var s *ownwrites.Statuses
	s.Wrote(version("u", "1"), version("u", "2"), start)
	if s.Behind(version("u", "1"), start) || s.Hold("u", start) != 0 {
		t.Error("it remembers")
	}
}

// writer is a controller whose status has one text and one status. It follows the wishes of the world.
type writer struct {
	statuses *ownwrites.Statuses
	wake     chan struct{}
	mu       sync.Mutex
	text     string
	status   string
	stored   string
	at       []time.Duration // of the writes
	began    time.Time
}

func (w *writer) run() {
	w.mu.Lock()
	defer w.mu.Unlock()
	want := w.status + " " + w.text
	if want == w.stored {
		return
	}
	onlyText := len(w.stored) > 0 && w.stored[:1] == w.status
	if left := w.statuses.Hold("u", time.Now()); left > 0 && onlyText {
		time.AfterFunc(left, func() { w.wake <- struct{}{} })
		return
	}
	n := len(w.at)
	w.statuses.Wrote(version("u", strconv.Itoa(n)), version("u", strconv.Itoa(n+1)), time.Now())
	w.stored, w.at = want, append(w.at, time.Since(w.began))
}

// TestStatuses_TheLastTextArrives: a text that changes ten times a second is written every three seconds, and the last
// one always arrives. A status is written at once, with the text of that moment.
func TestStatuses_TheLastTextArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{statuses: ownwrites.NewStatuses(), wake: make(chan struct{}, 1000), began: time.Now()}
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-w.wake:
					w.run()
				case <-stop:
					return
				}
			}
		}()
		for n := range 80 {
			w.mu.Lock()
			w.status, w.text = "U", strconv.Itoa(n)
			if n >= 40 {
				w.status = "T"
			}
			w.mu.Unlock()
			w.wake <- struct{}{}
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(ownwrites.TextsEvery)
		synctest.Wait()
		close(stop)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.stored != "T 79" {
			t.Errorf("stored is %q", w.stored)
		}
		want := []time.Duration{0, 3 * time.Second, 4 * time.Second, 7 * time.Second, 10 * time.Second}
		if fmt.Sprint(w.at) != fmt.Sprint(want) {
			t.Errorf("written at %v, want %v", w.at, want)
		}
	})
}

func TestPatience_WaitsOnceForAnObject(t *testing.T) {
	p := ownwrites.NewPatience(2 * time.Second)
	for _, step := range []struct {
		at   time.Duration
		end  bool
		want time.Duration
	}{{want: 2 * time.Second}, {at: time.Second, want: time.Second}, {at: 2 * time.Second}, {at: 3 * time.Second},
		{at: 4 * time.Second, end: true}, {at: 4 * time.Second, want: 2 * time.Second}} {
		if step.end {
			p.End("u")
			continue
		}
		if got := p.Left("u", start.Add(step.at)); got != step.want {
			t.Errorf("after %s it waits %s, want %s", step.at, got, step.want)
		}
	}
	if got := p.Left("other", start.Add(time.Hour)); got != 2*time.Second {
		t.Errorf("another object waits %s", got)
	}
	var none *ownwrites.Patience
	if none.End("u"); none.Left("u", start) != 0 {
		t.Error("a nil Patience waits")
	}
}
