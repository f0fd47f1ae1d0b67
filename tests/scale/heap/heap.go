// Package heap attributes the memory of a program to packages by its heap profile.
package heap

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// CoreCaches are Cluster API packages that remember objects by their resource version, even deleted ones. They keep
// more objects per cluster on a busier machine. Entries expire after ten hours, and no setting changes that.
var CoreCaches = []string{"sigs.k8s.io/cluster-api/internal/util/ssa", "sigs.k8s.io/cluster-api/util/cache"}

// Read downloads a heap profile from a profiler at host and port.
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

// HeldBy returns the bytes of a heap that functions of some packages, or functions that they called, have allocated.
func HeldBy(heap *profile.Profile, packages []string) float64 {
	of := slices.IndexFunc(heap.SampleType, func(value *profile.ValueType) bool { return value.Type == "inuse_space" })
	var sum int64
	for _, sample := range heap.Sample {
		if of >= 0 && slices.ContainsFunc(sample.Location, func(at *profile.Location) bool {
			return isOf(at, packages)
		}) {
			sum += sample.Value[of]
		}
	}
	return float64(sum)
}

func isOf(at *profile.Location, packages []string) bool {
	return slices.ContainsFunc(at.Line, func(line profile.Line) bool {
		return slices.ContainsFunc(packages, func(name string) bool {
			return line.Function != nil && strings.HasPrefix(line.Function.Name, name+".")
		})
	})
}
