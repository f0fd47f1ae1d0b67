package heap

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
)

func TestHeldBy(t *testing.T) {
	called := func(names ...string) []*profile.Location {
		out := make([]*profile.Location, len(names))
		for i, name := range names {
			out[i] = &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: name}}}}
		}
		return out
	}
	inlined := &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: "strings.Clone"}},
		{Function: &profile.Function{Name: "example.com/cache.Add"}}}}
	given := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "inuse_objects"}, {Type: "inuse_space"}},
		Sample: []*profile.Sample{
			{Location: called("fmt.Sprintf", "example.com/cache.(*store).Add", "main.main"), Value: []int64{1, 100}},
			{Location: called("fmt.Sprintf", "main.main"), Value: []int64{1, 20}},
			{Location: called("example.com/cachet.Add", "main.main"), Value: []int64{1, 3}},
			{Location: []*profile.Location{inlined}, Value: []int64{1, 4000}},
		},
	}
	if diff := cmp.Diff(4100.0, HeldBy(given, []string{"example.com/cache"})); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	if held := HeldBy(&profile.Profile{SampleType: given.SampleType[:1], Sample: given.Sample},
		[]string{"example.com/cache"}); held != 0 {
		t.Errorf("another kind of profile has %v", held)
	}
}
