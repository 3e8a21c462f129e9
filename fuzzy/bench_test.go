package fuzzy

import (
	"testing"
	"time"
)

// BenchmarkBusy measures fully checked events of the busy profile on one core.
func BenchmarkBusy(b *testing.B) {
	events, started := 0, time.Now()
	for number := range uint64(b.N) {
		r, _ := Run(Seed{"busy", number}, nil)
		events += r.Events
	}
	b.ReportMetric(float64(events)/time.Since(started).Seconds(), "events/s")
}
