package node_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// loopback is a cluster on real disks and real connections.
type loopback struct {
	t       *testing.T
	dir     string
	members []raft.Member
	nodes   []*node.Node
	states  []*journal

	advertise []string       // node.Config.Advertise of each
	frames    map[int]int    // transport.Options.FrameBytesMax of those that do not have the default
	logs      []lockedBuffer // of each
	plain     map[int]bool   // whose storages keep no snapshots
	late      bool           // the members are started without the list of initial members
	wires     []*transport.TCP
	configure []func(*node.Config)
}

func newLoopback(t *testing.T, members int, configure ...func(*node.Config)) *loopback {
	return openLoopback(t, members, false, configure...)
}

func openLoopback(t *testing.T, members int, late bool, configure ...func(*node.Config)) *loopback {
	leaks.Check(t)
	l := &loopback{t: t, late: late, dir: t.TempDir(), nodes: make([]*node.Node, members), states: make([]*journal, members)}
	l.advertise, l.logs = make([]string, members), make([]lockedBuffer, members)
	wires := make([]*transport.TCP, members)
	l.wires, l.configure = make([]*transport.TCP, members), configure
	for i := range wires {
		wire, err := transport.Listen("127.0.0.1:0", transport.Options{})
		require.NoError(t, err)
		wires[i] = wire
		l.members = append(l.members, raft.Member{ID: raft.NodeID(fmt.Sprintf("n%d", i+1)), Address: wire.Addr().String()})
	}
	for i, wire := range wires {
		l.start(i, wire)
	}
	t.Cleanup(func() {
		for _, n := range l.nodes {
			_ = n.Close()
		}
	})
	return l
}

func (l *loopback) start(i int, wire *transport.TCP) {
	l.t.Helper()
	disk, err := storage.OpenBolt(filepath.Join(l.dir, string(l.members[i].ID)), storage.BoltOptions{})
	require.NoError(l.t, err)
	var store raft.Storage = disk
	if l.plain[i] {
		store = struct{ raft.Storage }{disk}
	}
	cfg := node.Config{ID: l.members[i].ID, Cluster: "loopback", ElectionTimeout: time.Second, Advertise: l.advertise[i]}
	if !l.late {
		cfg.Initial = l.members
	}
	often(&cfg)
	cfg.SnapshotEntries, cfg.Logger = 32, hclog.New(&hclog.LoggerOptions{Output: &l.logs[i]})
	if most := l.frames[i]; most > 0 {
		cfg.AppendBytesMax, cfg.CommandBytesMax = most/4, most/4
	}
	for _, change := range l.configure {
		change(&cfg)
	}
	l.states[i], l.wires[i] = newJournal().(*journal), wire
	l.nodes[i], err = node.Start(l.t.Context(), cfg, l.states[i], store, wire)
	require.NoError(l.t, err)
}

// restart starts a member that was closed. The member keeps its address.
func (l *loopback) restart(i int) *transport.TCP {
	l.t.Helper()
	wire, err := transport.Listen(l.members[i].Address, transport.Options{FrameBytesMax: l.frames[i]})
	require.NoError(l.t, err)
	l.start(i, wire)
	return wire
}

// leader returns the node that leads, once it can serve.
func (l *loopback) leader() *node.Node {
	l.t.Helper()
	for _, n := range l.nodes {
		if n.Err() == nil {
			m, err := n.WaitLeader(l.t.Context())
			require.NoError(l.t, err)
			for i := range l.members {
				if l.members[i].ID == m.ID {
					require.NoError(l.t, l.nodes[i].Ready(l.t.Context()))
					return l.nodes[i]
				}
			}
		}
	}
	l.t.Fatal("every node has ended")
	return nil
}

func TestLoopback_AMemberThatWasAwayIsSentASnapshot(t *testing.T) {
	l := newLoopback(t, 3)
	leader := l.leader()
	propose(t, leader, "first")
	away := 0
	if l.nodes[away] == leader {
		away = 1
	}
	require.NoError(t, l.nodes[away].Close())
	for i := range 40 {
		propose(t, leader, fmt.Sprintf("%d %s", i, strings.Repeat("x", 64<<10)))
	}
	_, err := leader.Snapshot(t.Context())
	require.NoError(t, err)
	require.Positive(t, leader.Status().Base.Index)

	l.restart(away)
	last := propose(t, leader, "last")
	require.NoError(t, l.nodes[away].WaitApplied(t.Context(), last.Index))
	assert.EqualValues(t, 1, l.nodes[away].Metrics().Snapshots.Received)
	for i, n := range l.nodes {
		require.NoError(t, n.WaitApplied(t.Context(), last.Index))
		assert.Len(t, l.states[i].list(), 42)
		assert.Equal(t, l.states[away].list(), l.states[i].list())
	}

	require.NoError(t, l.nodes[away].Close())
	l.restart(away)
	require.NoError(t, l.nodes[away].WaitApplied(t.Context(), last.Index))
	assert.Len(t, l.states[away].list(), 42, "and it restarts from what it received")
	for _, m := range l.members {
		require.Eventually(t, func() bool {
			files, err := os.ReadDir(filepath.Join(l.dir, string(m.ID), "snapshots"))
			return err == nil && len(files) == 1
		}, time.Minute, time.Millisecond, "%s keeps one snapshot", m.ID)
	}
}

// Members join, are replaced on an emptied disk, and leave, on real disks and real connections.
func TestLoopback_MembersComeAndGo(t *testing.T) {
	l := newLoopback(t, 1)
	leader := l.leader()
	propose(t, leader, "first")
	join := func(id raft.NodeID, address, dir string) (*node.Node, *journal, string) {
		wire, err := transport.Listen(address, transport.Options{})
		require.NoError(t, err)
		disk, err := storage.OpenBolt(filepath.Join(l.dir, dir), storage.BoltOptions{})
		require.NoError(t, err)
		cfg := node.Config{ID: id, Cluster: "loopback", ElectionTimeout: time.Second, Advertise: wire.Addr().String()}
		state := newJournal().(*journal)
		n, err := node.Start(t.Context(), cfg, state, disk, wire)
		require.NoError(t, err)
		t.Cleanup(func() { _ = n.Close() })
		return n, state, wire.Addr().String()
	}
	n2, _, at2 := join("n2", "127.0.0.1:0", "two")
	_, state3, at3 := join("n3", "127.0.0.1:0", "three")
	for id, address := range map[raft.NodeID]string{"n2": at2, "n3": at3} {
		_, err := leader.AddMember(t.Context(), raft.Member{ID: id, Address: address}, node.ChangeOptions{})
		require.NoError(t, err)
	}
	propose(t, leader, "second")

	require.NoError(t, n2.Close())
	n2, state2, _ := join("n2", at2, "two, emptied")
	m, err := leader.ReplaceMember(t.Context(), "n2", raft.Member{}, node.ChangeOptions{})
	require.NoError(t, err)
	now, _ := m.Member("n2")
	assert.Equal(t, n2.Status().Incarnation, now.Incarnation)
	last := propose(t, leader, "third")
	require.NoError(t, n2.WaitApplied(t.Context(), last.Index))
	assert.Equal(t, []string{"first", "second", "third"}, state2.list())

	var exists *raft.MemberExistsError
	_, err = leader.ReplaceMember(t.Context(), "n2", raft.Member{}, node.ChangeOptions{})
	require.ErrorAs(t, err, &exists, "it runs")
	var unreached *node.UnreachableError
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = leader.AddMember(ctx, raft.Member{ID: "n9", Address: "127.0.0.1:1"}, node.ChangeOptions{})
	require.ErrorAs(t, err, &unreached)
	assert.ErrorContains(t, err, "connection refused")

	_, err = leader.RemoveMember(t.Context(), "n1", node.ChangeOptions{})
	require.NoError(t, err)
	<-leader.Done()
	require.ErrorIs(t, leader.Err(), raft.ErrRemoved)
	next, err := n2.WaitLeader(t.Context())
	require.NoError(t, err)
	assert.NotEqual(t, raft.NodeID("n1"), next.ID)
	assert.Equal(t, []string{"first", "second", "third"}, state3.list())
}
