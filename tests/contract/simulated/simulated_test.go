package simulated

import (
	"os"
	"testing"

	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

// TestOneClusterSimulated runs the life of clusters. One cluster of each distribution, with a server and two workers,
// becomes ready. Then twenty more with four machines each become ready. From then on nothing must be written. Their
// creation has few Events. The first two are deleted without a trace.
func TestOneClusterSimulated(t *testing.T) {
	st := stage.Start(t, stage.Settings{})
	few := st.Apply(plane.Namespace(t), 3, map[string]string{"rke2": stage.RKE2, "k3s": stage.K3s})
	few.AwaitReady()
	few.LogWrites()

	many := st.ApplyTwenty(plane.Namespace(t))
	many.AwaitReady()
	many.LogWrites()
	stage.WatchRest(t, few, many)
	few.ExpectFewEvents()
	many.ExpectFewEvents()

	few.Delete()
}
