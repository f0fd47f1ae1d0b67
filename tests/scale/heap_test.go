package scale

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
)

// coreCaches are the packages of Cluster API that remember objects by their resource version, of which a cluster has more the busier the machine is, whether
// the objects are still there or not. They forget every ten hours, and let nobody else make them.
var coreCaches = []string{"sigs.k8s.io/cluster-api/internal/util/ssa", "sigs.k8s.io/cluster-api/util/cache"}

// heapProfile asks a profiler what is on its heap.
func heapProfile(address string) (*profile.Profile, error) {
	response, err := http.Get("http://" + address + "/debug/pprof/heap")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return profile.ParseData(data)
}

// heldBy is how much of a heap, in bytes, functions of some packages have allocated, or what they have called.
func heldBy(heap *profile.Profile, packages []string) float64 {
	of := slices.IndexFunc(heap.SampleType, func(value *profile.ValueType) bool { return value.Type == "inuse_space" })
	var sum int64
	for _, sample := range heap.Sample {
		if of >= 0 && slices.ContainsFunc(sample.Location, func(at *profile.Location) bool { return isOf(at, packages) }) {
			sum += sample.Value[of]
		}
	}
	return float64(sum)
}

func isOf(at *profile.Location, packages []string) bool {
	return slices.ContainsFunc(at.Line, func(line profile.Line) bool {
		return slices.ContainsFunc(packages, func(name string) bool { return line.Function != nil && strings.HasPrefix(line.Function.Name, name+".") })
	})
}

func TestHeldBy(t *testing.T) {
	called := func(names ...string) []*profile.Location {
		out := make([]*profile.Location, len(names))
		for i, name := range names {
			out[i] = &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: name}}}}
		}
		return out
	}
	inlined := &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: "strings.Clone"}}, {Function: &profile.Function{Name: "example.com/cache.Add"}}}}
	heap := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "inuse_objects"}, {Type: "inuse_space"}},
		Sample: []*profile.Sample{
			{Location: called("fmt.Sprintf", "example.com/cache.(*store).Add", "main.main"), Value: []int64{1, 100}},
			{Location: called("fmt.Sprintf", "main.main"), Value: []int64{1, 20}},
			{Location: called("example.com/cachet.Add", "main.main"), Value: []int64{1, 3}},
			{Location: []*profile.Location{inlined}, Value: []int64{1, 4000}},
		},
	}
	if diff := cmp.Diff(4100.0, heldBy(heap, []string{"example.com/cache"})); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	if held := heldBy(&profile.Profile{SampleType: heap.SampleType[:1], Sample: heap.Sample}, []string{"example.com/cache"}); held != 0 {
		t.Errorf("a profile of another kind has %v", held)
	}
}
