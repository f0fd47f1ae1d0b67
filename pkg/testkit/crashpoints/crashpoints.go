// Package crashpoints says after which of its writes the process of a story is killed.
package crashpoints

import (
	_ "embed" // the names
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

//go:embed names.regexp
var namesFile string

// names are those of the tests that scripts/test-unit runs once more without the race detector: it reads the same
// file, and looks for them in the packages whose tests are built with this one.
var names = regexp.MustCompile(strings.TrimSpace(namesFile))

// named fails a test that is not run again without the race detector: what it leaves out with the detector would be
// run nowhere.
func named(t *testing.T) {
	t.Helper()
	if !runsAgain(t.Name()) {
		t.Fatalf("the name of a test that leaves something to the runs without the race detector has to match %s, see names.regexp", names)
	}
}

// runsAgain is true for the name of a test, or of a part of one, that is run without the race detector too.
func runsAgain(test string) bool {
	function, _, _ := strings.Cut(test, "/")
	return names.MatchString(function)
}

// Of returns the writes, counted from 1, after which a story with that many writes is killed: at most as many as
// asked for, evenly spread, with the first and the last write among them. It returns all writes when DROVER_TEST_ALL
// is set, and none with the race detector: each kill takes ten times as long with it, what an interrupted process
// does to the API is the same, and scripts/test-unit runs the kills once, without it.
func Of(t *testing.T, writes, most int) []int {
	t.Helper()
	named(t)
	switch {
	case os.Getenv("DROVER_TEST_ALL") != "":
		most = writes
	case Raced:
		return nil
	}
	return spread(writes, max(2, most))
}

// SkipRaced leaves a story to the runs without the race detector, unless DROVER_TEST_ALL is set: it is another one of
// the same code.
func SkipRaced(t *testing.T) {
	t.Helper()
	named(t)
	if Raced && os.Getenv("DROVER_TEST_ALL") == "" {
		t.Skip("is told without the race detector, or with DROVER_TEST_ALL")
	}
}

// Each tells a story once without a kill, and then again, each time as a test of its own, for the points among its
// writes. Tell gets the write after which the process is killed, 0 for none, and returns how many writes there were.
func Each(t *testing.T, most int, tell func(t *testing.T, n int) (writes int)) {
	t.Helper()
	named(t)
	writes := tell(t, 0)
	if writes == 0 {
		t.Fatal("nothing is written: the story does not do what it should")
	}
	for _, n := range Of(t, writes, most) {
		t.Run(fmt.Sprintf("killed after write %d of %d", n, writes), func(t *testing.T) { tell(t, n) })
	}
}

// spread returns at most that many numbers of 1 to total.
func spread(total, most int) []int {
	most = min(most, total)
	points := make([]int, 0, most)
	for i := range most {
		points = append(points, 1+i*(total-1)/max(1, most-1))
	}
	return points
}
