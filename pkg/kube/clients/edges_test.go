package clients

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// These tests record behavior of the framework that shapes Drover's code. If a new version behaves differently, a test
// fails, and the wrapper that it names can change.

// failing reports an error in the status, as a status handler does, and returns it. It stops after 500 runs.
func failing(c *Clients, runs *int, message func(*rkev1.RKECluster) string) func(string,
	*rkev1.RKECluster) (*rkev1.RKECluster, error) {
	return func(_ string, obj *rkev1.RKECluster) (*rkev1.RKECluster, error) {
		if *runs++; *runs > 500 || obj == nil {
			return obj, nil
		}
		condition, retry := outcome.Conclude("Ready", errors.New(message(obj)))
		condition.Message = message(obj) // as it is
		next := obj.DeepCopy()
		if conditions.Set(&next.Status.Conditions, condition, time.Now()) {
			if _, err := c.RKE.RKECluster().UpdateStatus(next); err != nil {
				return obj, err
			}
		}
		return obj, retry.Err
	}
}

// An error text that differs each time bypasses the back-off: writing it causes an event, which runs the handler at
// once. outcome.CheckStable finds such texts, and outcome.Record does not write them.
func TestEdge_UnstableTextBypassesBackOff(t *testing.T) {
	for name, tc := range map[string]struct {
		message func(*rkev1.RKECluster) string
		atLeast int
		atMost  int
	}{
		"a stable text backs off": {func(*rkev1.RKECluster) string { return "waiting" }, 5, 20},
		"a resource version runs at once": {func(c *rkev1.RKECluster) string {
			return "waiting, saw resourceVersion " + c.ResourceVersion
		}, 500, 10000},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, nil, Options{}, func(c *Clients, start func()) {
				runs := 0
				c.RKE.RKECluster().OnChange(c.HandlerContext(), "failing", failing(c, &runs, tc.message))
				start()
				_, err := c.RKE.RKECluster().Create(cluster("one"))
				check(t, err)
				pass(time.Second)
				if runs < tc.atLeast || runs > tc.atMost {
					t.Errorf("ran %d times in a second, want %d to %d", runs, tc.atLeast, tc.atMost)
				}
				text := tc.message(&rkev1.RKECluster{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}})
				if stable := outcome.CheckStable(text) == nil; stable != (tc.atMost == 20) {
					t.Errorf("CheckStable(%q) says %v", text, stable)
				}
			})
		})
	}
}

// A wake-up runs an object at once, even during its back-off. The delay is in Drover's own queue, and lasso's queue,
// which sees no failures, only passes keys. With lasso's own queue Enqueue would wait for the next slot. Package wakeup
// never does.
func TestWakeUps_DoNotWaitForBackOff(t *testing.T) {
	for name, wake := range map[string]func(c *Clients){
		"Enqueue":           func(c *Clients) { c.RKE.RKECluster().Enqueue("ns", "one") },
		"wakeup's Enqueuer": func(c *Clients) { wakeup.Enqueuer{Target: c.RKE.RKECluster()}.Enqueue("ns", "one") },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, nil, Options{}, func(c *Clients, start func()) {
				fixed, began, ran := false, time.Time{}, time.Duration(-1)
				c.RKE.RKECluster().OnChange(c.HandlerContext(), "waits",
					func(_ string, obj *rkev1.RKECluster) (*rkev1.RKECluster, error) {
						if !fixed {
							return obj, errors.New("no")
						}
						if ran < 0 {
							ran = time.Since(began)
						}
						return obj, nil
					})
				start()
				_, err := c.RKE.RKECluster().Create(cluster("one"))
				check(t, err)
				pass(65 * time.Second)
				fixed, began = true, time.Now()
				wake(c)
				pass(time.Minute)
				if ran < 0 || ran > time.Second {
					t.Errorf("ran after %v", ran)
				}
			})
		})
	}
}

// All handlers of a kind share a queue, so a failing handler runs all of them again. Idle handlers are cheap.
func TestEdge_OneFailingHandlerRunsAllAgain(t *testing.T) {
	run(t, nil, Options{}, func(c *Clients, start func()) {
		counts := map[string]int{}
		for _, name := range []string{"fails", "innocent"} {
			c.RKE.RKECluster().OnChange(c.HandlerContext(), name,
				func(_ string, obj *rkev1.RKECluster) (*rkev1.RKECluster, error) {
					counts[name]++
					if name == "fails" {
						return obj, errors.New("no")
					}
					return obj, nil
				})
		}
		start()
		_, err := c.RKE.RKECluster().Create(cluster("one"))
		check(t, err)
		pass(10 * time.Minute)
		if counts["innocent"] != counts["fails"] || counts["innocent"] < 10 {
			t.Errorf("runs: %v", counts)
		}
	})
}
