package snapshots

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Clusters that a process begins to look at in one moment are looked at over a minute.
func TestOffset_SpreadsClusters(t *testing.T) {
	t.Parallel()
	const clusters = 600
	quarters := map[time.Duration]int{}
	for i := range clusters {
		at := offset(types.NamespacedName{Namespace: "fleet-default", Name: fmt.Sprint("cluster-", i)})
		if at < 0 || at >= every {
			t.Fatalf("a cluster waits for %s", at)
		}
		quarters[at/(every/4)]++
	}
	for quarter, n := range quarters {
		if n < clusters/8 || n > clusters/2 {
			t.Errorf("%d of %d clusters are looked at in quarter %d of the first minute", n, clusters, quarter)
		}
	}
}
