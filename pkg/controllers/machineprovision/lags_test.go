package machineprovision_test

import (
	"testing"

	"github.com/drover-io/drover/pkg/testkit/lags"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// The life of a machine is the same, whichever cache is behind.
func TestStory_WatchesThatLagChangeNothing(t *testing.T) {
	lags.Each(t, manager, 6, func(t *testing.T, prepare func(*memkube.Server)) (api *memkube.Server) {
		t.Helper()
		prepared(t, prepare, func(w *world) {
			w.run()
			w.live("m1", nil)
			api = w.api
		})
		return api
	})
}
