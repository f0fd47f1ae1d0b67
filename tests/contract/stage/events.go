package stage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// eventsPerMachine is how many Events the creation of a machine may cost, with its share of those about its cluster.
const eventsPerMachine = 4

// ExpectFewEvents counts the Events of Drover and its Cluster API in the namespace of the clusters, with their
// repetitions. Call it when the clusters have been at rest for a minute, because some Events wait for others of their
// kind.
func (c *Clusters) ExpectFewEvents() {
	t := c.st.t
	t.Helper()
	var list corev1.EventList
	if err := c.st.Client.List(t.Context(), &list, client.InNamespace(c.Namespace)); err != nil {
		t.Fatal(err)
	}
	counts, all := map[string]int{}, 0
	for i := range list.Items {
		event := &list.Items[i]
		count := max(1, int(event.Count))
		counts[fmt.Sprintf("%s %s %s by %s", event.Type, event.InvolvedObject.Kind, event.Reason,
			event.Source.Component)] += count
		all += count
	}
	t.Logf("%d Events, %.1f for each machine", all, float64(all)/float64(c.all()))
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b))
	})
	for _, key := range keys {
		t.Logf("%5d %s", counts[key], key)
	}
	if all > eventsPerMachine*c.all() {
		t.Errorf("%d Events for %d machines, at most %d for each are needed", all, c.all(), eventsPerMachine)
	}
}
