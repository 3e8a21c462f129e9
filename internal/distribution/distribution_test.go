package distribution

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestOf_CountsEveryTime(t *testing.T) {
	var times []time.Duration
	for i := range 1000 {
		times = append(times, time.Duration(1000-i)*time.Millisecond)
	}
	d := Of(times, 990*time.Millisecond)
	assert.Equal(t, []float64{500.5, 900, 990, 1000}, []float64{d.Median, d.P90, d.P99, d.Max})
	assert.Equal(t, 500.5, d.Mean)
	assert.Equal(t, 10, d.Above)
	assert.Len(t, d.Curve, pointsMax)
	assert.True(t, slices.IsSorted(d.Curve))
	assert.Equal(t, 1000.0, d.Curve[pointsMax-1])

	d = Of([]time.Duration{3 * time.Millisecond, time.Millisecond, 2 * time.Millisecond}, 0)
	assert.Equal(t, []float64{1, 2, 3}, d.Curve)
	assert.Equal(t, []float64{2, 3, 3, 3}, []float64{d.Median, d.P90, d.P99, d.Max})
	assert.Equal(t, Times{}, Of(nil, 0))
}
