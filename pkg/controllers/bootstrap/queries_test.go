package bootstrap

import "testing"

// While a cluster is queried for one machine, its next machine retries later, and machines of other clusters do not
// wait.
func TestQueries_OneAtATimeForEachCluster(t *testing.T) {
	var q queries
	if !q.begin("ns/down") {
		t.Fatal("the first query of a cluster waits")
	}
	if q.begin("ns/down") {
		t.Error("two queries of one cluster run at the same time")
	}
	if !q.begin("ns/up") {
		t.Error("a cluster waits for the query of another one")
	}
	q.end("ns/down")
	if !q.begin("ns/down") {
		t.Error("no query may start after the end of the first")
	}
}
