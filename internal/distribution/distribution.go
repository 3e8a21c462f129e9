// Package distribution describes many times by a few figures.
package distribution

import (
	"math"
	"slices"
	"time"
)

// rankOf returns the place of a percentile among n sorted values: the smallest one that is at least as large as that share of
// all values.
func rankOf(percent float64, n int) int {
	return max(int(math.Ceil(percent/100*float64(n)))-1, 0)
}

// Milliseconds returns a duration in milliseconds, to the microsecond.
func Milliseconds(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}

// Times is a distribution of times, in milliseconds.
type Times struct {
	Count  int     `json:"count"`
	Mean   float64 `json:"mean_ms"`
	Median float64 `json:"median_ms"`
	P90    float64 `json:"p90_ms"`
	P99    float64 `json:"p99_ms"`
	Max    float64 `json:"max_ms"`
	Above  int     `json:"above_bound"` // how many are above a bound
	// Curve has the values at pointsMax evenly spaced shares, or all values if there are fewer.
	Curve []float64 `json:"curve_ms"`
}

// pointsMax bounds the points of a curve.
const pointsMax = 200

// Of returns the distribution of the given times.
func Of(times []time.Duration, bound time.Duration) (d Times) {
	sorted := slices.Sorted(slices.Values(times))
	if d.Count = len(sorted); d.Count == 0 {
		return d
	}
	at := func(percent float64) float64 { return Milliseconds(sorted[rankOf(percent, len(sorted))]) }
	d.Median = Milliseconds((sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2)
	d.P90, d.P99, d.Max = at(90), at(99), at(100)
	sum := 0.0
	for _, t := range sorted {
		sum += float64(t) / float64(time.Millisecond)
		if t > bound {
			d.Above++
		}
	}
	d.Mean = math.Round(sum/float64(len(sorted))*1000) / 1000
	points := min(len(sorted), pointsMax)
	for i := range points {
		d.Curve = append(d.Curve, at(100*float64(i+1)/float64(points)))
	}
	return d
}
