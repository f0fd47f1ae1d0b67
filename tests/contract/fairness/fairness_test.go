package fairness

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

const (
	// failing is the name prefix of clusters whose machines can never be created.
	failing = "bad-"
	// crowd is the number of failing clusters. slower is the limit for the slowdown of the other tenant.
	crowd  = 200
	slower = 1.2
	// runs is how often the other tenant creates its clusters in each case. The median counts.
	runs = 3
)

// faults make the Jobs of those clusters fail.
type faults struct{ fakeagent.NoFaults }

func (faults) Job(machine string, remove bool, _ int) string {
	if !remove && strings.HasPrefix(machine, failing) {
		return "the cloud has no capacity"
	}
	return ""
}

// TestTenancy_FailingClustersSlowNobody: tenant b creates its clusters alone, and then next to two hundred failing
// clusters of tenant a.
func TestTenancy_FailingClustersSlowNobody(t *testing.T) {
	// Machines need time to boot and to install, like real machines but less.
	st := stage.Start(t, stage.Settings{Machines: func(o *fakeagent.Options) {
		o.Faults, o.Boot, o.Install = faults{}, 3*time.Second, 3*time.Second
	}})
	provision(t, st, "warm-up")
	alone := middle(t, st, "alone")
	a := plane.Namespace(t)
	began := time.Now()
	for i := range crowd {
		st.Cluster(a, fmt.Sprintf("%s%03d", failing, i), stage.RKE2, stage.Pool("server", "ec", 1))
	}
	// Two hundred new clusters cause load whether they fail or not. The effect on the other tenant is only printed.
	provision(t, st, "with new clusters that will fail")
	awaitFailures(t, st, a)
	t.Logf("all %d clusters have failed and wait for their next attempt %s after their creation", crowd,
		time.Since(began).Round(time.Second))
	loaded := middle(t, st, fmt.Sprintf("with %d failing clusters", crowd))
	ratio := float64(loaded) / float64(alone)
	fmt.Printf("fairness: 5 clusters in %s alone, in %s with %d failing clusters: ratio %.2f, limit %.1f\n",
		alone.Round(10*time.Millisecond), loaded.Round(10*time.Millisecond), crowd, ratio, slower)
	if ratio > slower {
		t.Errorf("the failing clusters slow the others by %.2f", ratio)
	}
}

func middle(t *testing.T, st *stage.Stage, title string) time.Duration {
	t.Helper()
	var all []time.Duration
	for range runs {
		all = append(all, provision(t, st, title))
	}
	slices.Sort(all)
	return all[runs/2]
}

// provision creates and removes five clusters of two machines in a new namespace. It returns the time of the creation.
func provision(t *testing.T, st *stage.Stage, title string) time.Duration {
	t.Helper()
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
	clusters.Delete()
	return took
}

// awaitFailures waits until each cluster has failed and its next attempt is delayed.
func awaitFailures(t *testing.T, st *stage.Stage, namespace string) {
	t.Helper()
	failed := map[string]bool{}
	plane.Until(t, 20*time.Minute, func() string {
		machines := &unstructured.UnstructuredList{}
		machines.SetAPIVersion("rke-machine.cattle.io/v1")
		machines.SetKind("SimMachineList")
		if err := st.Client.List(t.Context(), machines, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		for i := range machines.Items {
			conditions, _, _ := unstructured.NestedSlice(machines.Items[i].Object, "status", "conditions")
			for _, condition := range conditions {
				if condition.(map[string]any)["reason"] == machinejob.ReasonBackOff {
					failed[machines.Items[i].GetLabels()["cluster.x-k8s.io/cluster-name"]] = true
				}
			}
		}
		if len(failed) < crowd {
			return fmt.Sprintf("%d of %d clusters have failed", len(failed), crowd)
		}
		return ""
	})
}
