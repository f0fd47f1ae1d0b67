package crashpoints

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSpread(t *testing.T) {
	tests := map[string]struct {
		total, most int
		want        []int
	}{
		"a story without writes":     {0, 3, []int{}},
		"a single write":             {1, 3, []int{1}},
		"a single point":             {9, 1, []int{1}},
		"fewer writes than points":   {3, 9, []int{1, 2, 3}},
		"from the first to the last": {9, 3, []int{1, 5, 9}},
		"a fractional distance":      {10, 4, []int{1, 4, 7, 10}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, spread(test.total, test.most)); diff != "" {
				t.Errorf("points (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOf_AllAreKilled(t *testing.T) {
	t.Setenv("DROVER_TEST_ALL", "1")
	if got := Of(t, 50, 5); len(got) != 50 {
		t.Errorf("%d points of 50, want all", len(got))
	}
}

func TestEach_TellsFirstWhatIsNotKilled(t *testing.T) {
	t.Setenv("DROVER_TEST_ALL", "1")
	var told []int
	Each(t, 2, func(_ *testing.T, n int) int {
		told = append(told, n)
		return 4
	})
	if diff := cmp.Diff([]int{0, 1, 2, 3, 4}, told); diff != "" {
		t.Errorf("tellings (-want +got):\n%s", diff)
	}
}

func TestRunsAgain(t *testing.T) {
	for name, want := range map[string]bool{
		"TestStory_KilledAfterEveryWrite":            true,
		"TestStory_CutOffAfterEveryWrite/write_1":    true,
		"TestStory_ARestoreIsKilledAfterAnyWrite":    true,
		"TestStory_MachineGetsItsNode":               false,
		"TestStory_MachineGetsItsNode/Killed_before": false,
	} {
		if got := runsAgain(name); got != want {
			t.Errorf("%s runs again: %v", name, got)
		}
	}
}

// scripts/test-unit must run exactly the tests that runsAgain reports.
func TestRunsAgain_MatchesTheScript(t *testing.T) {
	script, err := os.ReadFile("../../../scripts/test-unit")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		// The script stops when it cannot make the list.
		"stories=$(scripts/story-packages)\nmapfile -t packages <<<\"$stories\"\n",
		`-run "${RUN:-$(<pkg/testkit/crashpoints/names.regexp)}" "${packages[@]}"`,
	} {
		if !strings.Contains(string(script), want) {
			t.Errorf("scripts/test-unit does not run tests again with %s", want)
		}
	}
}

func TestRunsAgain_InEveryPackageThatSkips(t *testing.T) {
	listed, err := exec.CommandContext(t.Context(), "../../../scripts/story-packages").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(listed))
	for _, want := range []string{"pkg/server", "pkg/testkit/crashpoints", "pkg/controllers/planner"} {
		if !slices.Contains(packages, "github.com/drover-io/drover/"+want) {
			t.Errorf("%s must be among the packages whose stories run again: %v", want, packages)
		}
	}
}
