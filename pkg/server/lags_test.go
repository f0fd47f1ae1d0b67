package server

import (
	"testing"
	"time"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/lags"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// A cluster is created, upgraded, scaled and deleted completely, whichever caches lag.
func TestStory_WatchesThatLagChangeNothing(t *testing.T) {
	lags.All(t, ours, 3, func(t *testing.T, prepare func(*memkube.Server)) (api *memkube.Server) {
		t.Helper()
		tell(t, func(w *world) {
			api = w.api
			prepare(api)
			w.start()
			w.apply(k3s, w.servers(3, 1))
			w.until("the cluster", 10*time.Minute, w.ready(4))
			time.Sleep(time.Minute)
			w.quiet(time.Hour)
			before := w.installs()
			w.edit(func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "v1.36.3+k3s1" })
			w.until("the upgrade", 30*time.Minute, func() string {
				for name, n := range w.installs() {
					if n == before[name] {
						return name + " runs the old version"
					}
				}
				return w.ready(4)()
			})
			time.Sleep(time.Minute)
			for name, n := range w.installs() {
				if n != before[name]+1 {
					t.Errorf("%s was restarted %d times for one upgrade", name, n-before[name])
				}
			}
			w.edit(func(c *provv1.Cluster) { *c.Spec.RKEConfig.MachinePools[0].Quantity = 1 })
			w.until("one server", 20*time.Minute, w.ready(2))
			w.removed()
		})
		return api
	})
}
