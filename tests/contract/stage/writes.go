package stage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-io/drover/pkg/managementplane"
	"github.com/drover-io/drover/tests/contract/plane"
)

func describe(write managementplane.Write) string {
	resource := write.Resource
	if write.Subresource != "" {
		resource += "/" + write.Subresource
	}
	return fmt.Sprintf("%s %s %s/%s by %s, answered %d", write.Verb, resource, write.Namespace, write.Name, write.UserAgent, write.Code)
}

// LogWrites logs how many writes Drover, and the Cluster API in it, did since a moment, for each machine and by kind. It
// returns their number.
func LogWrites(t *testing.T, since time.Time, machines int) int {
	t.Helper()
	writes := plane.Writes(t, DroverAgent, since)
	counts := map[string]int{}
	for _, write := range writes {
		resource := write.Resource
		if write.Subresource != "" {
			resource += "/" + write.Subresource
		}
		part := "drover"
		if !strings.HasPrefix(write.UserAgent, DroverAgent) {
			part = "cluster-api"
		}
		counts[fmt.Sprintf("%s %s %s, answered %d", part, write.Verb, resource, write.Code)]++
	}
	t.Logf("%d writes, %.1f for each machine", len(writes), float64(len(writes))/float64(machines))
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
	for _, key := range keys {
		t.Logf("%5d %s", counts[key], key)
	}
	return len(writes)
}
