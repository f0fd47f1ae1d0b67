package tenancy

import (
	"fmt"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

const (
	// crowd is how many failing clusters the one tenant has, and slower by how much they may slow the other one.
	crowd  = 200
	slower = 1.2
)

// TestTenancy_FailingClustersSlowNobody: b's clusters are made alone, and then beside two hundred of a's whose machines never come.
func TestTenancy_FailingClustersSlowNobody(t *testing.T) {
	st := stage.Start(t, stage.Settings{Machines: machines})
	a := plane.Namespace(t)
	provision := func(title string) time.Duration {
		namespace := plane.Namespace(t)
		versions := map[string]string{}
		for i := range 5 {
			versions[fmt.Sprintf("c%d", i)] = []string{stage.RKE2, stage.K3s}[i%2]
		}
		began := time.Now()
		clusters := st.Apply(namespace, 2, versions)
		clusters.AwaitReady()
		took := time.Since(began)
		t.Logf("%s: 5 clusters of 2 machines in %s", title, took.Round(10*time.Millisecond))
		return took
	}
	provision("to warm up")
	alone := provision("alone")
	for i := range crowd {
		st.Cluster(a, fmt.Sprintf("%s%03d", failing, i), stage.RKE2, stage.Pool("server", "ec", 1))
	}
	plane.Until(t, 10*time.Minute, func() string {
		var list clusterv1.MachineList
		check(t, st.Client.List(t.Context(), &list, client.InNamespace(a)))
		if len(list.Items) < crowd {
			return fmt.Sprintf("%d of %d failing clusters have come to machines", len(list.Items), crowd)
		}
		return ""
	})
	beside := provision(fmt.Sprintf("beside %d failing clusters", crowd))
	ratio := float64(beside) / float64(alone)
	t.Logf("ratio %.2f, limit %.1f", ratio, slower)
	if ratio > slower {
		t.Errorf("the failing clusters slow the others by %.2f", ratio)
	}
}
