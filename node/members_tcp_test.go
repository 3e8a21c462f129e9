package node_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

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
