package stories

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/lags"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// TestCluster_WatchesThatLagChangeNothing: a cluster is created, loses a pool and is deleted. The objects are the same,
// whichever caches lag.
func TestCluster_WatchesThatLagChangeNothing(t *testing.T) {
	var made, shrunk []string
	lags.Each(t, agent, 6, func(t *testing.T, prepare func(*memkube.Server)) (api *memkube.Server) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := &story{t: t, api: newAPI(t), prober: &prober{}}
			api = s.api
			prepare(api)
			s.core = newCore(t, api)
			s.start()
			defer func() { s.stop() }()
			same := func(want *[]string) {
				s.settle()
				got := s.children()
				if *want == nil {
					*want = got
				}
				if diff := cmp.Diff(*want, got); diff != "" {
					t.Errorf("children (-no lag +lag):\n%s", diff)
				}
				api.ResetLog()
				pass(time.Hour)
				if late := api.Writes(agent); len(late) > 0 {
					t.Errorf("%d writes without a change: %v", len(late), late)
				}
			}
			s.add(podSchema(), machineConfig("nc"), demo())
			same(&made)
			s.edit(func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools = c.Spec.RKEConfig.MachinePools[:1] })
			same(&shrunk)
			s.delete()
			s.settle()
			s.wantNothing()
		})
		return api
	})
}
