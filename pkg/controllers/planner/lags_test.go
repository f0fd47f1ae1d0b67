package planner_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/testkit/lags"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// A cluster becomes ready with the same objects, and without later writes, whichever cache is behind.
func TestStory_WatchesThatLagChangeNothing(t *testing.T) {
	for name, tc := range topologies {
		t.Run(name, func(t *testing.T) {
			var want map[string]any
			lags.Each(t, manager, 6, func(t *testing.T, prepare func(*memkube.Server)) (api *memkube.Server) {
				t.Helper()
				synctest.Test(t, func(t *testing.T) {
					s := newStory(t, tc.version, tc.roles)
					api = s.api
					prepare(api)
					stop := s.startManager()
					defer stop()
					s.untilReady()
					for range 3 {
						s.agentsPass()
						s.elapse(time.Minute)
					}
					got := s.objects()
					if want == nil {
						want = got
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("the outcome differs (-without +with lagging watches):\n%s", diff)
					}
					api.ResetLog()
					s.elapse(10 * time.Minute)
					if late := api.Writes(manager); len(late) > 0 {
						t.Errorf("%d writes in ten minutes without changes: %v", len(late), late)
					}
				})
				return api
			})
		})
	}
}
