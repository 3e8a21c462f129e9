package fuzzy

import (
	"testing"
	"time"
)

// BenchmarkSwarm measures fully checked events of the profile swarm on one core.
func BenchmarkSwarm(b *testing.B) {
	events, started := 0, time.Now()
	for number := range uint64(b.N) {
		r, _ := Run(Seed{"swarm", number}, nil)
		events += r.Events
	}
	b.ReportMetric(float64(events)/time.Since(started).Seconds(), "events/s")
}
