package main

import (
	"fmt"
	"math"
	"slices"
)

// estimate is a median with its 95 % confidence interval. The bounds of the interval are two of the values, as in the sign
// test. The interval assumes only that the values are independent. It needs at least six values; with fewer, Low and High are
// NaN.
type estimate struct {
	Median, Low, High float64
	Runs              int
}

// estimateOf returns the median of the values and its interval.
func estimateOf(values []float64) estimate {
	n := len(values)
	e := estimate{math.NaN(), math.NaN(), math.NaN(), n}
	if n == 0 {
		return e
	}
	sorted := slices.Sorted(slices.Values(values))
	e.Median = (sorted[(n-1)/2] + sorted[n/2]) / 2
	if k := intervalRank(n); k > 0 {
		e.Low, e.High = sorted[k-1], sorted[n-k]
	}
	return e
}

// intervalRank returns the rank k of the bounds of the confidence interval, or 0 if there are too few values. With a
// probability of at least 95 %, the median lies between the k-th smallest and the k-th largest of n values. intervalRank
// returns the largest such k. The number of values below the median has a binomial distribution with probability one half.
func intervalRank(n int) (k int) {
	tail, term := 0.0, math.Pow(0.5, float64(n)) // P(X < k), P(X = k)
	for i := 0; i < n/2; i++ {
		tail += term
		if 2*tail > 0.05 {
			return i
		}
		term *= float64(n-i) / float64(i+1)
	}
	return n / 2
}

// known reports whether there were enough values for an interval.
func (e estimate) known() bool { return !math.IsNaN(e.Low) }

func (e estimate) String() string {
	switch {
	case e.Runs == 0:
		return "–"
	case !e.known():
		return e.brief()
	}
	return fmt.Sprintf("%s (%s–%s)", short(e.Median), short(e.Low), short(e.High))
}

// brief returns the median, with a star if it has no interval.
func (e estimate) brief() string {
	if !e.known() {
		return short(e.Median) + "*"
	}
	return short(e.Median)
}

// short prints three digits.
func short(x float64) string {
	switch {
	case x >= 1000:
		return thousands(int64(math.Round(x)))
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

func thousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// ratios divides ours by theirs, separately in each round. The machine behaves similarly in two runs of one round, because
// they are close in time.
func ratios(ours, theirs map[int]float64) (values []float64) {
	for round, x := range ours {
		if y, found := theirs[round]; found && y > 0 {
			values = append(values, x/y)
		}
	}
	return values
}
