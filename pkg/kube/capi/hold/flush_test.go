package hold

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const limit = 5 * time.Second

// TestClient_FlushHasALimit: the API server does not answer writes of some Machines. Flush ends in time, writes the
// other Machines, and no write begins later.
func TestClient_FlushHasALimit(t *testing.T) {
	for name, tc := range map[string]struct {
		// before are Machines whose window ends before Flush, and then are those that are held when it begins.
		before, then []string
	}{
		"a window has ended":                              {before: []string{"hangs"}},
		"a status is held":                                {then: []string{"hangs"}},
		"more windows have ended than may be flushed":     {before: several("hangs", 2*flushes)},
		"more statuses are held than are flushed at once": {then: several("hangs", 2*flushes)},
		"other Machines, after windows that have ended": {before: several("hangs", 2*flushes-1),
			then: several("m", 2*flushes)},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				slow := &slow{Client: w.cache, api: func(ctx context.Context, machine string) error {
					if !strings.HasPrefix(machine, "hangs") {
						return nil
					}
					deadline, _ := ctx.Deadline() // a write in flight is not canceled
					time.Sleep(time.Until(deadline))
					return context.DeadlineExceeded
				}}
				w.hold = New(slow, Options{Live: w.live})
				w.change(tc.before)
				time.Sleep(defaultMaxWindow)
				w.change(tc.then)
				begin := time.Now()
				ctx, cancel := context.WithTimeout(w.t.Context(), limit)
				defer cancel()
				if err := w.hold.Flush(ctx); err == nil {
					t.Error("Flush does not report what is lost")
				}
				if took := time.Since(begin); took > limit {
					t.Errorf("Flush took %s, and its context ended after %s", took, limit)
				}
				begun := slow.begun.Load()
				time.Sleep(time.Hour)
				synctest.Wait()
				if later := slow.begun.Load() - begun; later > 0 {
					t.Errorf("%d writes began after the end", later)
				}
				for _, name := range tc.then {
					if got := w.message(name); !strings.HasPrefix(name, "hangs") && got != "held" {
						t.Errorf("message of Machine %s: %q, want held", name, got)
					}
				}
			})
		})
	}
}

// TestClient_FlushWaitsForAWriteInFlight: a window has ended just before, and the API server is slow.
func TestClient_FlushWaitsForAWriteInFlight(t *testing.T) {
	in(t, func(w *world) {
		slow := &slow{Client: w.cache, api: func(context.Context, string) error {
			time.Sleep(limit - time.Second)
			return nil
		}}
		w.hold = New(slow, Options{Live: w.live})
		w.change([]string{"m1"})
		time.Sleep(defaultWindow + time.Second)
		ctx, cancel := context.WithTimeout(w.t.Context(), limit)
		defer cancel()
		if err := w.hold.Flush(ctx); err != nil {
			t.Error(err)
		}
		if got := w.message("m1"); got != "held" || slow.begun.Load() != 1 {
			t.Errorf("message %q after %d writes, want held after one", got, slow.begun.Load())
		}
	})
}

// slow is a client whose writes of statuses do something first.
type slow struct {
	client.Client
	api   func(ctx context.Context, machine string) error
	begun atomic.Int32
}

func (s *slow) Status() client.SubResourceWriter { return slowStatus{s.Client.Status(), s} }

type slowStatus struct {
	client.SubResourceWriter
	*slow
}

func (s slowStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch,
	opts ...client.SubResourcePatchOption) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.begun.Add(1)
	if err := s.api(ctx, obj.GetName()); err != nil {
		return err
	}
	return s.SubResourceWriter.Patch(ctx, obj, patch, opts...)
}

func several(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprint(prefix, i))
	}
	return out
}

// change makes Machines, and changes a message that may wait.
func (w *world) change(machines []string) {
	w.t.Helper()
	c := w.hold.For("machine")
	for _, name := range machines {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: m1.Namespace, Name: name},
			Spec: clusterv1.MachineSpec{ClusterName: "demo"}}
		if err := w.live.Create(w.t.Context(), m); err != nil {
			w.t.Fatal(err)
		}
		before := m.DeepCopy()
		notReady("held")(m)
		if err := c.Status().Patch(w.t.Context(), m, client.MergeFrom(before)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// message is what others read.
func (w *world) message(machine string) string {
	w.t.Helper()
	m := &clusterv1.Machine{}
	if err := w.live.Get(w.t.Context(), types.NamespacedName{Namespace: m1.Namespace, Name: machine}, m); err != nil {
		w.t.Fatal(err)
	}
	return messageOf(m, clusterv1.MachineReadyCondition)
}
