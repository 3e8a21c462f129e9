package session_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/session"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// echo answers each command with eight bytes.
type echo struct{ raft.FSM }

func (echo) Apply(batch []raft.Entry, results [][]byte) error {
	for i := range batch {
		results[i] = []byte("8 bytes.")
	}
	return nil
}

func (echo) Snapshot() (raft.FSMSnapshot, error) { return frozen(nil), nil }

// BenchmarkPropose compares commands of sessions with commands without one: 256 callers with 128 bytes each on the leader of
// three members, with real disks and connections. Both run in turn, on one cluster; the ratio of the medians counts.
func BenchmarkPropose(b *testing.B) {
	const callers, bytes, perSession = 256, 128, 1
	var members []raft.Member
	var wires []*transport.TCP
	for i := range 3 {
		wire, err := transport.Listen("127.0.0.1:0", transport.Options{})
		require.NoError(b, err)
		wires = append(wires, wire)
		members = append(members, raft.Member{ID: raft.NodeID(fmt.Sprintf("n%d", i+1)), Address: wire.Addr().String()})
	}
	var nodes []*node.Node
	dir := b.TempDir()
	for i, m := range members {
		disk, err := storage.Open(filepath.Join(dir, string(m.ID)), storage.Options{})
		require.NoError(b, err)
		fsm, err := session.Wrap(echo{})
		require.NoError(b, err)
		n, err := node.Start(context.Background(), node.Config{ID: m.ID, Cluster: "bench", Initial: members, ElectionTimeout: time.Second}, fsm, disk, wires[i])
		require.NoError(b, err)
		nodes = append(nodes, n)
		defer n.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(b, nodes[0].Ready(ctx))
	leader := nodes[0]
	for _, n := range nodes {
		if n.Status().Role == raft.Leader {
			leader = n
		}
	}
	var sessions []*session.Session
	for range callers / perSession {
		s, err := session.Open(ctx, leader, session.Config{})
		require.NoError(b, err)
		sessions = append(sessions, s)
	}
	run := func(b *testing.B, propose func(caller int, cmd []byte) error) {
		each := b.N/callers + 1
		var done sync.WaitGroup
		began := time.Now()
		for caller := range callers {
			done.Go(func() {
				cmd := make([]byte, bytes)
				for range each {
					if err := propose(caller, cmd); err != nil {
						b.Error(err)
					}
				}
			})
		}
		done.Wait()
		b.ReportMetric(float64(each*callers)/time.Since(began).Seconds(), "commands/s")
	}
	for range 5 {
		b.Run("without", func(b *testing.B) {
			run(b, func(_ int, cmd []byte) error { _, err := leader.Propose(context.Background(), cmd); return err })
		})
		b.Run("sessions", func(b *testing.B) {
			run(b, func(caller int, cmd []byte) error {
				_, err := sessions[caller/perSession].Propose(context.Background(), cmd)
				return err
			})
		})
	}
}
