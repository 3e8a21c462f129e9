package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// speaks reports a new connection to a member, which speaks this protocol version.
func (c *core) speaks(id raft.NodeID, protocol uint16) raft.Output {
	return c.step(raft.PeerUp{ID: id, Incarnation: peer(id).Incarnation, Protocol: protocol})
}

// A member of an earlier release cannot take a snapshot. It is offered none, the status says why, and no log is held for it.
func TestOffer_NotToAnEarlierRelease(t *testing.T) {
	c := compactedLeader(t, nil)
	c.speaks("b", raft.ProtocolSnapshots-1)
	out := c.receive("b", 3, raft.AppendConflict{Prev: 8, Hint: id(3, 1)})
	require.Equal(t, "snapshot", progressOf(c, "b").State)
	assert.True(t, progressOf(c, "b").EarlierRelease)
	assert.False(t, progressOf(c, "c").EarlierRelease)
	assert.Empty(t, offers(out.Send, "b"))
	for range 12 {
		c.beats("b", 0)
		assert.Empty(t, offers(c.out.Send, "b"))
	}
	c.step(raft.PeerLost{ID: "b"})
	c.beats("b", 0)
	assert.Empty(t, offers(c.out.Send, "b"), "a connection that broke does not change what it speaks")
	out = c.speaks("b", raft.ProtocolSnapshots)
	assert.Len(t, offers(out.Send, "b"), 1, "it was upgraded")
	assert.False(t, progressOf(c, "b").EarlierRelease)

	// It may go back to the earlier release while it is sent one.
	out = c.speaks("b", raft.ProtocolSnapshots-1)
	assert.Empty(t, offers(out.Send, "b"))
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.Peer{peer("b")}, out.Keep.Stop)
	c.grows(24, 2)
	assert.Greater(t, c.Status().Base.Index, raft.Index(24))
}

// The version of a connection that is older than the election counts as well.
func TestOffer_ALeaderKnowsEarlierReleasesFromBeforeItsElection(t *testing.T) {
	cfg := snapConfig()
	c := begin(t, cfg, storedBehind(t, 2, id(8, 2)))
	c.speaks("b", raft.ProtocolSnapshots-1)
	c.step(raft.PeerUp{ID: "b", Incarnation: 77, Protocol: raft.ProtocolSnapshots})
	c.timeout()
	c.grantPreVote("c")
	c.persist()
	c.receive("c", 3, raft.VoteReply{Granted: true})
	c.persist()
	assert.True(t, progressOf(c, "b").EarlierRelease, "another incarnation is another member")
}

// No state is frozen for a member that could not take it.
func TestOffer_NothingIsFrozenForAnEarlierRelease(t *testing.T) {
	cfg := snapConfig()
	cfg.DurableFSM = true
	c := begin(t, cfg, storedBehind(t, 2, id(8, 2)))
	c.speaks("b", raft.ProtocolSnapshots-1)
	c.timeout()
	c.grantPreVote("c")
	c.persist()
	c.receive("c", 3, raft.VoteReply{Granted: true})
	c.persist()
	c.receive("c", 3, raft.AppendReply{Match: 9})
	c.receive("b", 3, raft.AppendConflict{Prev: 8, Hint: id(3, 1)})
	require.Equal(t, "snapshot", progressOf(c, "b").State)
	for range 12 {
		c.beats("b", 0)
		require.Nil(t, c.takes())
	}
	c.speaks("b", raft.ProtocolSnapshots)
	require.NotNil(t, c.takes())
	require.True(t, c.takes().Hold)
	c.step(frozen(c.takes(), 5))
	require.Equal(t, c.Status().Last, progressOf(c, "b").Offered)
	out := c.speaks("b", raft.ProtocolSnapshots-1)
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.SnapshotID{fileOf(5)}, out.Keep.Discard, "nobody needs it")
}
