// Package lags runs stories with watch caches that lag behind one another. In a real cluster each kind has its own
// watch, so a controller may see the first write last. A handler that ran too early must run again when the missing
// event arrives, and must do nothing twice.
package lags

import (
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// Most is the longest lag of a watch. It is shorter than the time for which controllers remember their own writes, and
// longer than one step of the simulated controllers.
const Most = 3 * time.Second

// Each runs a story in which the watches of clients with that user agent lag. It runs the story without a lag, then
// with a lag of each watched kind, one at a time, and then with All. Tell calls prepare before the clients start and
// returns the server. The stories skip the race detector, because it finds nothing that it does not find in the story
// itself.
func Each(t *testing.T, agent string, mixtures int,
	tell func(t *testing.T, prepare func(*memkube.Server)) *memkube.Server) {
	t.Helper()
	crashpoints.SkipRaced(t)
	watched := tell(t, func(*memkube.Server) {}).Watched(agent)
	if len(watched) < 2 {
		t.Fatalf("%s watched only %v: the story must watch more kinds", agent, watched)
	}
	for _, resource := range watched {
		t.Run(resource, func(t *testing.T) {
			tell(t, func(api *memkube.Server) {
				api.Lag(agent, func(of string) time.Duration {
					return map[bool]time.Duration{true: Most / 2}[of == resource]
				})
			})
		})
	}
	All(t, agent, mixtures, tell)
}

// All runs a story `mixtures` times with all watches lagging, each by a different time. Slow stories use it instead of
// Each.
func All(t *testing.T, agent string, mixtures int,
	tell func(t *testing.T, prepare func(*memkube.Server)) *memkube.Server) {
	t.Helper()
	crashpoints.SkipRaced(t)
	for n := range mixtures {
		t.Run(fmt.Sprintf("all, mixture %d", n), func(t *testing.T) {
			api := tell(t, func(api *memkube.Server) {
				api.Lag(agent, func(of string) time.Duration { return mixed(n, of) })
			})
			if len(api.Watched(agent)) < 2 {
				t.Errorf("%s watched only %v: nothing was behind", agent, api.Watched(agent))
			}
		})
	}
}

// mixed returns the lag of a kind in a mixture. It is the same in every run.
func mixed(n int, resource string) time.Duration {
	hash := fnv.New32a()
	_, _ = fmt.Fprintf(hash, "%d %s", n, resource) // never fails
	return time.Duration(hash.Sum32()) % Most
}
