// Package trend decides whether a sampled figure grows.
package trend

import (
	"cmp"
	"math"
	"slices"
)

// Series is one figure over time.
type Series struct {
	Name, Unit string
	// Allowed is the allowed growth between the first and the last sample that count.
	Allowed float64
	// At are times in seconds, and Values the values at these times.
	At, Values []float64
}

// Add adds a sample.
func (s *Series) Add(at, value float64) {
	s.At, s.Values = append(s.At, at), append(s.Values, value)
}

// certain is the number of standard errors by which a slope must exceed zero.
const certain = 3

// Trend is the trend of a figure in the last two thirds of a run. In the first third, caches fill.
type Trend struct {
	// First and Last are medians of the first and the last third of the samples that count.
	First, Mean, Last float64
	// Growth is the slope of the line through the samples, times the time from the first to the last.
	Growth float64
	// Growing reports whether the figure grew by more than allowed: either steadily and beyond its noise, or by a
	// permanent jump.
	Growing bool
}

// Of fits a line by least squares.
func Of(s Series) Trend {
	skip := len(s.Values) / 3
	x, y := s.At[skip:], s.Values[skip:]
	out := Trend{Mean: mean(y)}
	if len(y) < 3 {
		return out
	}
	third := (len(y) + 2) / 3
	out.First, out.Last = median(y[:third]), median(y[len(y)-third:])
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
	out.Growing = out.Growth > s.Allowed && slope > certain*deviation || out.Last-out.First > s.Allowed
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
