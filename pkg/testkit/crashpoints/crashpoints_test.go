package crashpoints

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSpread(t *testing.T) {
	tests := map[string]struct {
		total, most int
		want        []int
	}{
		"a story without writes":         {0, 3, []int{}},
		"a single write":                 {1, 3, []int{1}},
		"a single point":                 {9, 1, []int{1}},
		"fewer writes than points":       {3, 9, []int{1, 2, 3}},
		"from the first to the last":     {9, 3, []int{1, 5, 9}},
		"a distance that is not a whole": {10, 4, []int{1, 4, 7, 10}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, spread(test.total, test.most)); diff != "" {
				t.Errorf("points (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOf_All(t *testing.T) {
	t.Setenv("DROVER_TEST_ALL", "1")
	if got := Of(50, 5); len(got) != 50 {
		t.Errorf("%d points of 50 when all are asked for", len(got))
	}
}

func TestEach_TellsWithoutAKillFirst(t *testing.T) {
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
