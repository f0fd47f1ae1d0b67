package bootstrap

import "testing"

// While a cluster is queried for one machine, its next machine retries later, and machines of other clusters do not
// wait.
func TestAsking_QueriesAClusterOnceAtATime(t *testing.T) {
	var a asking
	if !a.begin("ns/down") {
		t.Fatal("the first query of a cluster waits")
	}
	if a.begin("ns/down") {
		t.Error("two queries of one cluster run at the same time")
	}
	if !a.begin("ns/up") {
		t.Error("a cluster waits for the query of another one")
	}
	a.end("ns/down")
	if !a.begin("ns/down") {
		t.Error("no query may start after the end of the first")
	}
}
