// Package trend tells whether a figure that was sampled for a while grows.
package trend

import (
	"cmp"
	"math"
	"slices"
)

// Series is one figure over time.
type Series struct {
	Name, Unit string
	// Floor is how much it may grow in any case.
	Floor float64
	// At are seconds, and Values what was found then.
	At, Values []float64
}

// Add adds a sample.
func (s *Series) Add(at, value float64) {
	s.At, s.Values = append(s.At, at), append(s.Values, value)
}

// tolerance is the share of its mean that a figure may grow by within the second half of a run.
const tolerance = 0.08

// certain is by how many of its standard errors a slope has to be above zero.
const certain = 3

// Trend is what became of a figure in the second half of a run; the first is for caches to fill.
type Trend struct {
	// First and Last are medians of the first and the last third of that half.
	First, Mean, Last float64
	// Growth is the slope of the line through the samples, times the time of that half.
	Growth float64
	// Growing is whether the figure grew, by more than it may and more than its swings explain.
	Growing bool
}

// Of fits a line to the second half, by least squares.
func Of(s Series) Trend {
	half := len(s.Values) / 2
	x, y := s.At[half:], s.Values[half:]
	out := Trend{Mean: mean(y)}
	if len(y) < 3 {
		return out
	}
	out.First, out.Last = median(y[:len(y)/3]), median(y[len(y)-len(y)/3:])
	mx := mean(x)
	var xx, xy float64
	for i := range x {
		xx += (x[i] - mx) * (x[i] - mx)
		xy += (x[i] - mx) * (y[i] - out.Mean)
	}
	if xx == 0 {
		return out
	}
	slope := xy / xx
	var rest float64
	for i := range x {
		d := y[i] - out.Mean - slope*(x[i]-mx)
		rest += d * d
	}
	deviation := math.Sqrt(rest / float64(len(x)-2) / xx)
	out.Growth = slope * (x[len(x)-1] - x[0])
	out.Growing = out.Growth > max(s.Floor, tolerance*out.Mean) && slope > certain*deviation
	return out
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(len(values), 1))
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(values), cmp.Compare[float64])
	return sorted[len(sorted)/2]
}
