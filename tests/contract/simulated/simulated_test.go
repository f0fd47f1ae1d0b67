package simulated

import (
	"fmt"
	"os"
	"testing"

	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

// TestOneClusterSimulated tells the life of clusters: one of each distribution, with a server and two workers, becomes ready, then
// twenty with four machines each beside them. All are watched while they are at rest. The first two are deleted without a trace.
func TestOneClusterSimulated(t *testing.T) {
	st := stage.Start(t, stage.Settings{})
	few := st.Apply(plane.Namespace(t), 3, map[string]string{"rke2": stage.RKE2, "k3s": stage.K3s})
	few.AwaitReady()
	few.LogWrites()

	versions := map[string]string{}
	for i := range 20 {
		versions[fmt.Sprintf("fleet-%02d", i)] = []string{stage.RKE2, stage.K3s}[i%2]
	}
	many := st.Apply(plane.Namespace(t), 4, versions)
	many.AwaitReady()
	many.LogWrites()
	stage.WatchRest(t)

	few.Delete()
}
