package stage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-io/drover/tests/contract/audit"
	"github.com/drover-io/drover/tests/contract/plane"
)

func describe(write audit.Write) string {
	resource := write.Resource
	if write.Subresource != "" {
		resource += "/" + write.Subresource
	}
	return fmt.Sprintf("%s %s %s/%s by %s, answered %d", write.Verb, resource, write.Namespace, write.Name,
		write.UserAgent, write.Code)
}

// The two parts of Drover that write.
const (
	droverItself = "drover"
	clusterAPI   = "cluster-api"
	// coreAgent is part of the user agent of Cluster API only.
	coreAgent = "cluster.x-k8s.io"
)

// part tells the parts by the end of the user agent. Its beginning is the name of the program, which both may share.
func part(write audit.Write) string {
	if strings.Contains(write.UserAgent, coreAgent) {
		return clusterAPI
	}
	return droverItself
}

// LogWrites logs the number of writes of Drover and its Cluster API since a moment, per machine and by kind. It returns
// the total.
func LogWrites(t *testing.T, since time.Time, machines int) int {
	t.Helper()
	writes := plane.Writes(t, DroverAgent, since)
	counts := map[string]int{}
	for _, write := range writes {
		resource := write.Resource
		if write.Subresource != "" {
			resource += "/" + write.Subresource
		}
		counts[fmt.Sprintf("%s %s %s, answered %d", part(write), write.Verb, resource, write.Code)]++
	}
	t.Logf("%d writes, %.1f for each machine", len(writes), float64(len(writes))/float64(machines))
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b))
	})
	for _, key := range keys {
		t.Logf("%5d %s", counts[key], key)
	}
	return len(writes)
}

// LogLast logs the last write of each part of Drover and its time since a moment.
func LogLast(t *testing.T, since time.Time) {
	t.Helper()
	last, counts := map[string]audit.Write{}, map[string]int{}
	for _, write := range plane.Writes(t, DroverAgent, since) {
		counts[part(write)]++
		if write.Time.After(last[part(write)].Time) {
			last[part(write)] = write
		}
	}
	for _, name := range []string{droverItself, clusterAPI} {
		if counts[name] == 0 {
			t.Logf("%s stopped writing", name)
			continue
		}
		t.Logf("%s wrote %d more times, the last time after %s: %s", name, counts[name],
			last[name].Time.Sub(since).Round(time.Millisecond), describe(last[name]))
	}
}
