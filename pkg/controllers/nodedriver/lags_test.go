package nodedriver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/testkit/lags"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// All built-in drivers get their kinds, and deleted lists of drivers come back, whichever cache is behind.
func TestStory_WatchesThatLagChangeNothing(t *testing.T) {
	var want map[string]any
	lags.Each(t, manager, 6, func(t *testing.T, prepare func(*memkube.Server)) (api *memkube.Server) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := newStory(t)
			api = s.api
			prepare(api)
			s.start()
			s.elapse(3 * time.Minute)
			got := s.objects()
			if want == nil {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the objects differ (-without +with lagging watches):\n%s", diff)
			}
			if len(s.kinds("digitalocean")) != 3 {
				t.Errorf("kinds are %v", s.kinds("digitalocean"))
			}
			for _, list := range []driverschema.Embedding{driverschema.NodeConfigs, driverschema.NodeTemplateConfigs,
				driverschema.CredentialConfigs} {
				must(t, s.user.Management.DynamicSchema().Delete(list.Name, nil))
			}
			s.elapse(3 * time.Minute)
			if diff := cmp.Diff(want, s.objects()); diff != "" {
				t.Errorf("the objects differ after the lists were deleted (-before +after):\n%s", diff)
			}
			s.stop()
			s.user.Stop()
			s.elapse(time.Minute)
		})
		return api
	})
}
