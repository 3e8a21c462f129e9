package elections

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMeasure_IsShownWithoutHidingAnything(t *testing.T) {
	half := int64(time.Millisecond) / 2
	for _, row := range []struct {
		rule    string
		measure string
		s       Summary
		runs    int
		want    string
	}{
		{"times are in milliseconds, to the nearest", "agreement", Summary{Median: half, P99: 3*half - 1, Worst: 3 * half}, 9, "1 / 1 / 2"},
		{"what happened is not 0, however short", "two-in-term", Summary{P99: 1, Worst: half - 1}, 9, "0 / <1 / <1"},
		{"never has a sign of its own", "agreement", Summary{Median: 0, P99: Never, Worst: Never}, 9, "0 / – / –"},
		{"large numbers are in thousands, to the nearest", "bytes", Summary{Median: 99_999, P99: 100_499, Worst: 100_500}, 9, "99999 / 100k / 101k"},
		{"only all runs are 100 %", "ends", Summary{Sum: 9999}, 10_000, "99.9 %"},
		{"all runs are 100 %", "ends", Summary{Sum: 3}, 3, "100.0 %"},
		{"no run is none", "ends", Summary{}, 0, "0.0 %"},
	} {
		m, err := FindMeasure(row.measure)
		require.NoError(t, err)
		assert.Equal(t, row.want, m.Text(row.s, row.runs), row.rule)
	}
}

func TestPlan_LargeSizesGetATenthAndAHundredthOfTheSeedsAndOneAtLeast(t *testing.T) {
	for _, row := range []struct{ seeds, n, want int }{
		{1000, 9, 1000}, {1000, 10, 100}, {1000, 25, 100}, {1000, 26, 10}, {1000, 101, 10},
		{1, 25, 1}, {11, 25, 2}, {1, 101, 1}, {101, 101, 2},
	} {
		p := Plan{Seeds: row.seeds}
		assert.Equal(t, row.want, p.SeedsAt(row.n), "%d seeds, n = %d", row.seeds, row.n)
	}
}
