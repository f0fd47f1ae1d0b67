// Package heap tells what holds the memory of a program, by the profile of its heap.
package heap

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// CoreCaches are the packages of Cluster API that remember objects by their resource version, of which a cluster has more the busier the machine is, whether
// the objects are still there or not. They forget every ten hours, and let nobody else make them.
var CoreCaches = []string{"sigs.k8s.io/cluster-api/internal/util/ssa", "sigs.k8s.io/cluster-api/util/cache"}

// Read asks a profiler, by its host and port, what is on its heap.
func Read(ctx context.Context, address string) (*profile.Profile, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/debug/pprof/heap", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
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

// HeldBy is how much of a heap, in bytes, functions of some packages have allocated, or what they have called.
func HeldBy(heap *profile.Profile, packages []string) float64 {
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
