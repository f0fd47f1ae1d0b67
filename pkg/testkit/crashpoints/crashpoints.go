// Package crashpoints chooses the writes after which a test kills the process of a story.
package crashpoints

import (
	_ "embed" // for names
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

//go:embed names.regexp
var namesFile string

// names matches the tests that scripts/test-unit repeats without the race detector. The script reads the same file, and
// searches the packages whose tests import this package.
var names = regexp.MustCompile(strings.TrimSpace(namesFile))

// named fails a test that scripts/test-unit does not repeat without the race detector. The points that such a test
// skips with the detector would never run.
func named(t *testing.T) {
	t.Helper()
	if !runsAgain(t.Name()) {
		t.Fatalf("the name of a test that skips crashes with the race detector must match %s; see names.regexp", names)
	}
}

// runsAgain reports whether a test or subtest also runs without the race detector.
func runsAgain(test string) bool {
	function, _, _ := strings.Cut(test, "/")
	return names.MatchString(function)
}

// Of returns the writes, counted from 1, after which a test kills a story with that many writes. It returns at most
// `most` points, evenly spread, including the first and the last write. With DROVER_TEST_ALL it returns every write.
// With the race detector it returns none: the detector makes each kill ten times slower and does not change the API
// requests of a killed process, and scripts/test-unit runs the kills without it.
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

// SkipRaced skips a story under the race detector, unless DROVER_TEST_ALL is set. Another story runs the same code
// under the detector.
func SkipRaced(t *testing.T) {
	t.Helper()
	named(t)
	if Raced && os.Getenv("DROVER_TEST_ALL") == "" {
		t.Skip("runs without the race detector, or with DROVER_TEST_ALL")
	}
}

// Each runs a story once without a kill, and then once for each chosen write, each as a subtest. Tell gets the write
// after which it kills the process, or 0 for no kill. It returns the number of writes.
func Each(t *testing.T, most int, tell func(t *testing.T, n int) (writes int)) {
	t.Helper()
	named(t)
	writes := tell(t, 0)
	if writes == 0 {
		t.Fatal("the story writes nothing: it must write at least once")
	}
	for _, n := range Of(t, writes, most) {
		t.Run(fmt.Sprintf("killed after write %d of %d", n, writes), func(t *testing.T) { tell(t, n) })
	}
}

// spread returns at most `most` numbers from 1 to total.
func spread(total, most int) []int {
	most = min(most, total)
	points := make([]int, 0, most)
	for i := range most {
		points = append(points, 1+i*(total-1)/max(1, most-1))
	}
	return points
}
