package machineprovision_test

import (
	"fmt"
	"testing"

	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// Failures have the same result after whichever write the process is killed.
func TestStory_FailuresAreCutOffAfterEveryWrite(t *testing.T) {
	for name, story := range map[string]func(*world){
		"a create that fails": failedCreate, "a removal that fails": failedRemoval,
		"a deletion during the create": deletionDuringCreate,
	} {
		t.Run(name, func(t *testing.T) {
			total := 0
			tell(t, func(w *world) {
				w.run()
				w.api.ResetLog()
				story(w)
				total = w.api.Written(manager)
			})
			for _, n := range crashpoints.Of(t, total, 8) {
				t.Run(fmt.Sprintf("write %d", n), func(t *testing.T) {
					t.Parallel()
					tell(t, func(w *world) {
						w.run()
						cut := make(chan struct{})
						w.cut = cut
						w.api.CutAfter(manager, n, func() { close(cut) })
						story(w)
					})
				})
			}
		})
	}
}

// Waits, and the kinds of drivers, have the same result after whichever write the process is killed.
func TestStory_WaitsAreCutOffAfterEveryWrite(t *testing.T) {
	crashpoints.SkipRaced(t)
	for name, story := range map[string]func(*world){
		"a pod that never starts": podThatNeverStarts, "a missing credential": missingCredential,
		"drivers become kinds": driversBecomeKinds,
	} {
		t.Run(name, func(t *testing.T) {
			crashpoints.Each(t, 4, func(t *testing.T, n int) (writes int) {
				t.Helper()
				tell(t, func(w *world) {
					w.run()
					w.api.ResetLog()
					if n > 0 {
						cut := make(chan struct{})
						w.cut = cut
						w.api.CutAfter(manager, n, func() { close(cut) })
					}
					story(w)
					writes = w.api.Written(manager)
				})
				return writes
			})
		})
	}
}
