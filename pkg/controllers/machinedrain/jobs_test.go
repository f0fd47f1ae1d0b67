package machinedrain

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// Slow evictions do not delay uncordoning, and a forgotten task ends and leaves no state.
// (docs/invariants.md#weaknesses, W25.)
func TestJobs_EvictionsHoldUpOnlyEvictions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJobs(t.Context(), time.Now)
		evicting, uncordoned := 0, false
		for i := range maxJobs + 1 {
			j.start(strconv.Itoa(i), taskEvict, "r", func(ctx context.Context) error {
				evicting++
				<-ctx.Done()
				return ctx.Err()
			}, func() {})
			synctest.Wait()
		}
		j.start("other", taskUncordon, "r", func(context.Context) error { uncordoned = true; return nil }, func() {})
		synctest.Wait()
		if evicting != maxJobs || !uncordoned {
			t.Errorf("%d evictions, uncordoned %v", evicting, uncordoned)
		}
		for i := range maxJobs + 1 {
			j.forget(strconv.Itoa(i))
		}
		j.forget("other")
		synctest.Wait()
		if len(j.byKey) > 0 || len(j.slots) > 0 {
			t.Errorf("%d jobs are stored, %d slots are in use", len(j.byKey), len(j.slots))
		}
	})
}
