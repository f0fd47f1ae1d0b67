package bootstrap

import "testing"

// While a cluster is queried for one machine, its next machine retries later, and machines of other clusters do not
// wait.
func TestAsking_OneQuestionForEachCluster(t *testing.T) {
	var a asking
	if !a.begin("ns/down") {
		t.Fatal("the first has to wait")
	}
	if a.begin("ns/down") {
		t.Error("two ask the same cluster")
	}
	if !a.begin("ns/up") {
		t.Error("a cluster waits for another one")
	}
	a.end("ns/down")
	if !a.begin("ns/down") {
		t.Error("nobody may ask again")
	}
}
