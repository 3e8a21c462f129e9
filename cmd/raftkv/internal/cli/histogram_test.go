package cli

import (
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBars_HaveALineForEachStepFromTheFirstToTheLast(t *testing.T) {
	h := hdrhistogram.New(1000, time.Minute.Nanoseconds(), 3)
	for latency, count := range map[time.Duration]int64{300 * time.Microsecond: 60, 1500 * time.Microsecond: 38, 9 * time.Millisecond: 2} {
		require.NoError(t, h.RecordValues(latency.Nanoseconds(), count))
	}
	assert.Equal(t, []string{
		"  <    500µs  60.00 % ██████████████████████████████",
		"  <      1ms   0.00 % ",
		"  <      2ms  38.00 % ███████████████████",
		"  <      5ms   0.00 % ",
		"  <     10ms   2.00 % █",
	}, bars(h))
}
