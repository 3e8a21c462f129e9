package node_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// BenchmarkForward compares proposals through members that do not lead with those on the leader, in turns, on three members
// with TCP between them. It reports the medians of b.N rounds: the latency of one caller, and the proposals a second of 64.
func BenchmarkForward(b *testing.B) {
	for _, disk := range []string{"memory", "segments"} {
		b.Run(disk, func(b *testing.B) {
			leader, others := forwardingCluster(b, disk)
			var latency, throughput [2][]float64 // on the leader, through the others
			for range b.N {
				for i, through := range [][]*node.Node{{leader}, others} {
					latency[i] = append(latency[i], 1e6/proposalsPerSecond(b, through, 1))
					throughput[i] = append(throughput[i], proposalsPerSecond(b, through, 64))
				}
			}
			l, t := medians(latency), medians(throughput)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(l[0], "µs-on-leader")
			b.ReportMetric(l[1]-l[0], "µs-more-forwarded")
			b.ReportMetric(l[1]/l[0], "latency-ratio")
			b.ReportMetric(t[0], "64-callers/s-on-leader")
			b.ReportMetric(t[1]/t[0], "throughput-ratio")
		})
	}
}

func medians(of [2][]float64) (m [2]float64) {
	for i := range of {
		slices.Sort(of[i])
		m[i] = of[i][len(of[i])/2]
	}
	return m
}

// proposalsPerSecond lets callers propose commands of 128 bytes for half a second, each on one of the members.
func proposalsPerSecond(b *testing.B, through []*node.Node, callers int) float64 {
	var applied atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for i := range callers {
		all.Go(func() {
			for cmd := make([]byte, 128); time.Since(began) < 500*time.Millisecond; applied.Add(1) {
				if _, err := through[i%len(through)].Propose(b.Context(), cmd); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return float64(applied.Load()) / time.Since(began).Seconds()
}

func forwardingCluster(b *testing.B, disk string) (leader *node.Node, others []*node.Node) {
	const size = 3
	wires, members := make([]*transport.TCP, size), make([]raft.Member, size)
	for i := range wires {
		wire, err := transport.Listen("127.0.0.1:0", transport.Options{})
		require.NoError(b, err)
		wires[i], members[i] = wire, raft.Member{ID: raft.NodeID(fmt.Sprintf("n%d", i+1)), Address: wire.Addr().String()}
	}
	dir := b.TempDir()
	for i, m := range members {
		var store raft.Storage = storage.NewMemory()
		if disk == "segments" {
			opened, err := storage.OpenLog(filepath.Join(dir, string(m.ID)), storage.LogOptions{})
			require.NoError(b, err)
			store = opened
		}
		cfg := node.Config{ID: m.ID, Cluster: "bench", Initial: members, Forward: true}
		n, err := node.Start(b.Context(), cfg, deaf{newJournal()}, store, wires[i])
		require.NoError(b, err)
		b.Cleanup(func() { _ = n.Close() })
		others = append(others, n)
	}
	for _, n := range others {
		require.NoError(b, n.Ready(b.Context()))
	}
	i := slices.IndexFunc(others, func(n *node.Node) bool { return n.Status().Role == raft.Leader })
	require.GreaterOrEqual(b, i, 0)
	return others[i], slices.Delete(slices.Clone(others), i, i+1)
}

// deaf applies nothing.
type deaf struct{ raft.FSM }

func (deaf) Apply([]raft.Entry, [][]byte) error { return nil }
