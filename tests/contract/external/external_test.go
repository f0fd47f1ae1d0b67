package external

import (
	"os"
	"testing"

	"github.com/drover-io/drover/pkg/server"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

// TestExternalCAPI runs the same story with Cluster API's stock core manager, built from the pinned module. This is the
// situation in a cluster where Cluster API was installed before Drover.
func TestExternalCAPI(t *testing.T) {
	stage.StartCoreManager(t, plane.Running(t))
	st := stage.Start(t, stage.Settings{CAPI: server.CAPIExternal})
	clusters := st.Apply(plane.Namespace(t), 3, map[string]string{"rke2": stage.RKE2, "k3s": stage.K3s})
	clusters.AwaitReady()
	clusters.LogWrites()
	all := []*stage.Clusters{clusters}
	if os.Getenv("DROVER_TEST_ALL") != "" {
		all = append(all, st.ApplyTwenty(plane.Namespace(t)))
		all[1].AwaitReady()
		all[1].LogWrites()
	}
	stage.WatchRest(t, all...)
	clusters.Delete()
}
