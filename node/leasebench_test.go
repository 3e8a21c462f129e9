package node_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
)

// BenchmarkLease compares reads by lease with reads that are confirmed by a round, in turns, on the leader of three members with
// TCP between them. It reports the medians of b.N rounds.
func BenchmarkLease(b *testing.B) {
	leader, _ := forwardingCluster(b, "memory")
	_, err := leader.SetLeaseDuration(b.Context(), 100*time.Millisecond)
	require.NoError(b, err)
	for !leader.Metrics().Leased {
		_, err := leader.Propose(b.Context(), nil)
		require.NoError(b, err)
	}
	var alone, many [2][]float64 // confirmed, by lease
	for range b.N {
		for i, c := range []raft.Consistency{raft.Linearizable, raft.Lease} {
			alone[i] = append(alone[i], 1e6/readsPerSecond(b, leader, c, 1))
			many[i] = append(many[i], readsPerSecond(b, leader, c, 64))
		}
	}
	a, m := medians(alone), medians(many)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(a[0], "µs-confirmed")
	b.ReportMetric(a[1], "µs-by-lease")
	b.ReportMetric(m[0], "64-callers/s-confirmed")
	b.ReportMetric(m[1], "64-callers/s-by-lease")
	b.ReportMetric(m[1]/m[0], "throughput-ratio")
	b.ReportMetric(float64(leader.Metrics().LeaseFallbacks), "fallbacks")
}

// readsPerSecond lets callers read for half a second.
func readsPerSecond(b *testing.B, n *node.Node, c raft.Consistency, callers int) float64 {
	var reads atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range callers {
		all.Go(func() {
			for count := int64(1); ; count++ {
				if _, err := n.ReadIndexWith(b.Context(), c); err != nil {
					b.Error(err)
					return
				}
				if count%16 == 0 && time.Since(began) >= 500*time.Millisecond {
					reads.Add(count)
					return
				}
			}
		})
	}
	all.Wait()
	return float64(reads.Load()) / time.Since(began).Seconds()
}
