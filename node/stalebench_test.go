package node_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// BenchmarkStale compares reads of a state that is at most a second old with linearizable reads, in turns, on a follower of
// three members with TCP between them. It reports the medians of b.N rounds.
func BenchmarkStale(b *testing.B) {
	_, others := forwardingCluster(b, "memory")
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint(callers, "-callers"), func(b *testing.B) {
			var rates [2][]float64 // linearizable, stale
			for range b.N {
				for i, c := range []raft.Consistency{raft.Linearizable, raft.Stale(time.Second)} {
					rates[i] = append(rates[i], readsPerSecond(b, others[0], c, callers))
				}
			}
			m := medians(rates)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(m[0], "linearizable/s")
			b.ReportMetric(m[1], "stale/s")
			b.ReportMetric(m[1]/m[0], "ratio")
			b.ReportMetric(float64(callers)*1e6/m[1], "µs-each")
		})
	}
}

// A read of a state that may be old costs no allocation, and waits for nobody.
func TestStale_CostsNoAllocation(t *testing.T) {
	l := newLoopback(t, 1)
	n := l.nodes[0]
	require.NoError(t, n.Ready(t.Context()))
	ctx, fresh := t.Context(), raft.Stale(time.Hour)
	for n.Status().Age == 0 { // until the next heartbeat
		_, err := n.Propose(ctx, []byte("x"))
		require.NoError(t, err)
	}
	allocations := testing.AllocsPerRun(100, func() { _, _ = n.ReadIndexWith(ctx, fresh) })
	require.Zero(t, int(allocations))
}
