// Package lags tells stories with caches that are behind one another. In a real cluster each kind has a watch of its own, and what was written first
// may be seen last: a handler that looked too early has to be woken again by what it did not see, and must do nothing twice.
package lags

import (
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// Most is how long a watch is behind at most: shorter than what controllers remember of their own writes, and longer than players take for a step.
const Most = 3 * time.Second

// Each tells a story in which the watches of clients with that user agent lag: once with none, then with each kind that it watched, one at a time, and
// then with all of them, each by another time, in that many mixtures. Tell gets what it has to call before the clients start, and returns the server.
// The race detector finds nothing in these that it does not find in the story itself: they are told without it.
func Each(t *testing.T, agent string, mixtures int, tell func(t *testing.T, prepare func(*memkube.Server)) *memkube.Server) {
	t.Helper()
	crashpoints.SkipRaced(t)
	watched := tell(t, func(*memkube.Server) {}).Watched(agent)
	if len(watched) < 2 {
		t.Fatalf("%s watched only %v: the story does not do what it should", agent, watched)
	}
	for _, resource := range watched {
		t.Run(resource, func(t *testing.T) {
			tell(t, func(api *memkube.Server) {
				api.Lag(agent, func(of string) time.Duration { return map[bool]time.Duration{true: Most / 2}[of == resource] })
			})
		})
	}
	All(t, agent, mixtures, tell)
}

// All tells a story with all watches behind, each by another time, in that many mixtures: what Each does last, for stories that take long.
func All(t *testing.T, agent string, mixtures int, tell func(t *testing.T, prepare func(*memkube.Server)) *memkube.Server) {
	t.Helper()
	crashpoints.SkipRaced(t)
	for n := range mixtures {
		t.Run(fmt.Sprintf("all, mixture %d", n), func(t *testing.T) {
			api := tell(t, func(api *memkube.Server) { api.Lag(agent, func(of string) time.Duration { return mixed(n, of) }) })
			if len(api.Watched(agent)) < 2 {
				t.Errorf("%s watched only %v: nothing was behind", agent, api.Watched(agent))
			}
		})
	}
}

// mixed is the lag of a kind in a mixture: the same in every run.
func mixed(n int, resource string) time.Duration {
	hash := fnv.New32a()
	_, _ = fmt.Fprintf(hash, "%d %s", n, resource) // never fails
	return time.Duration(hash.Sum32()) % Most
}
