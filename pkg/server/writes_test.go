package server

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"
)

// mostWrites is how many requests of each kind Drover sends to make a cluster of one server and two workers, at most.
// The numbers may only fall. Refused requests count, too.
var mostWrites = map[string]int{
	"patch clusters.provisioning.cattle.io":         1,
	"update clusters.provisioning.cattle.io/status": 7,
	"patch clusters.management.cattle.io/status":    5,
	"update rkeclusters.rke.cattle.io":              1,
	"update rkeclusters.rke.cattle.io/status":       1,
	"update rkecontrolplanes.rke.cattle.io":         1,
	"update rkecontrolplanes.rke.cattle.io/status":  10,
	"patch machines.cluster.x-k8s.io/status":        11,
}

// TestStory_WritesOfACluster counts Drover's writes of objects and statuses while a cluster is made, and none after it.
func TestStory_WritesOfACluster(t *testing.T) {
	tell(t, func(w *world) {
		w.start()
		time.Sleep(30 * time.Second)
		w.api.ResetLog()
		w.apply(k3s, w.servers(1, 2))
		w.until("the cluster", 5*time.Minute, w.ready(3))
		time.Sleep(time.Minute)
		counts, refused := map[string]int{}, map[string]int{}
		for _, e := range w.api.Writes(ours) {
			request := e.Verb + " " + e.Resource
			if counts[request]++; e.Code != http.StatusOK {
				refused[fmt.Sprintf("%s: %d", request, e.Code)]++
			}
		}
		for _, request := range slices.Sorted(maps.Keys(counts)) {
			if most, pinned := mostWrites[request]; pinned {
				t.Logf("%3d of at most %d: %s", counts[request], most, request)
				if counts[request] > most {
					t.Errorf("%d times %s, want at most %d", counts[request], request, most)
				}
			}
		}
		t.Logf("%d writes, refused %v", len(w.api.Writes(ours)), refused)
		w.quiet(time.Hour)
	})
}
