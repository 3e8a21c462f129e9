package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/coxswain/raft/internal/load"
	"github.com/coxswain/raft/internal/size"
)

// benchFigures is the JSON of bench. Times are in milliseconds.
type benchFigures struct {
	Operations int64   `json:"operations"`
	Failed     int64   `json:"failed"`
	Seconds    float64 `json:"seconds"`
	PerSecond  float64 `json:"per_second"`
	P50        float64 `json:"p50_ms"`
	P90        float64 `json:"p90_ms"`
	P99        float64 `json:"p99_ms"`
	P999       float64 `json:"p999_ms"`
	Max        float64 `json:"max_ms"`
}

func figuresOf(r load.Report) benchFigures {
	ms := func(quantile float64) float64 { return float64(r.Latency.ValueAtQuantile(quantile)) / 1e6 }
	return benchFigures{
		Operations: r.Operations, Failed: r.Failed, Seconds: r.Took.Seconds(), PerSecond: r.PerSecond(),
		P50: ms(50), P90: ms(90), P99: ms(99), P999: ms(99.9), Max: ms(100),
	}
}

func (b *bench) print(out io.Writer, r load.Report) error {
	how := fmt.Sprintf("%d callers in a closed loop", b.load.Callers)
	if b.load.Rate > 0 {
		how = strconv.FormatFloat(b.load.Rate, 'f', -1, 64) + " writes a second, latency from when each was due"
	}
	f := figuresOf(r)
	lines := []string{
		fmt.Sprintf("%s; values of %s; %v after %v of warm-up", how, size.Format(int64(b.bytes)), b.load.Measure, b.load.Warmup),
		fmt.Sprintf("%.0f writes a second: %d in %.2f s; %d failed", f.PerSecond, f.Operations, f.Seconds, f.Failed),
		fmt.Sprintf("latency in ms: p50 %.2f, p90 %.2f, p99 %.2f, p99.9 %.2f, max %.2f", f.P50, f.P90, f.P99, f.P999, f.Max),
	}
	if r.Err != nil {
		lines = append(lines, "the first failure: "+r.Err.Error())
	}
	lines = append(lines, "")
	_, err := fmt.Fprintln(out, strings.Join(append(lines, bars(r.Latency)...), "\n"))
	return err
}

// barWidth is the length of a bar that represents all values.
const barWidth = 50

// bars draws a histogram: one line for each step (1, 2, 5, 10 and so on), from the first that has values to the last.
func bars(h *hdrhistogram.Histogram) (lines []string) {
	parts := h.Distribution()
	below := int64(0)
	for upper := range steps(10 * time.Microsecond) {
		if below == h.TotalCount() {
			break
		}
		count := int64(0)
		for len(parts) > 0 && parts[0].To < upper.Nanoseconds() {
			count += parts[0].Count
			parts = parts[1:]
		}
		below += count
		if below == 0 {
			continue
		}
		share := float64(count) / float64(h.TotalCount())
		lines = append(lines, fmt.Sprintf("  < %8v %6.2f %% %s", upper, 100*share, strings.Repeat("█", int(share*barWidth+0.5))))
	}
	return lines
}

// steps yields first, 2×first and 5×first, and then the same from 10×first on.
func steps(first time.Duration) func(func(time.Duration) bool) {
	return func(yield func(time.Duration) bool) {
		for ; first < time.Hour; first *= 10 {
			if !yield(first) || !yield(2*first) || !yield(5*first) {
				return
			}
		}
	}
}
