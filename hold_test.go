package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// grows commits n entries with c's help, and takes the snapshots that fall due: with files from the given number on, or by
// a DurableFSM that syncs. b answers heartbeats.
func (c *core) grows(n int, file byte) {
	c.t.Helper()
	for range n {
		c.propose("x")
		c.persist()
		c.receive("c", 3, raft.AppendReply{Match: c.Status().Last.Index})
		for take := c.takes(); take != nil; take = c.takes() {
			require.False(c.t, take.Hold)
			s := raft.Snapshot{Base: take.Base}
			if !take.Sync {
				s.File, s.Size, s.Sum = fileOf(file), 1<<12, 7
				file++
			}
			c.step(raft.SnapshotTaken{Take: take.ID, Snapshot: s})
			c.persist()
		}
	}
	c.beats("b", 0)
}

func (c *core) takes() *raft.Take {
	if c.out.Keep == nil {
		return nil
	}
	return c.out.Keep.Take
}

// beats lets a heartbeat interval pass; c and another member answer.
func (c *core) beats(other raft.NodeID, match raft.Index) {
	c.now += heartbeatPace
	c.step()
	c.persist()
	c.echo("c", c.Status().Last.Index)
	c.echo(other, match)
}

// A leader keeps as many bytes of its log as the snapshot has that it sends, and goes on to do so until the follower has
// caught up. Otherwise a follower that has just got a large snapshot would need the next one.
func TestCompact_HoldsUntilAFollowerHasCaughtUpWithItsSnapshot(t *testing.T) {
	c := compactedLeader(t, func(cfg *raft.CoreConfig) { cfg.SnapshotHoldBytes = 1 })
	for range 8 {
		c.propose("x")
	}
	c.persist()
	out := c.receive("c", 3, raft.AppendReply{Match: 17})
	require.NotNil(t, out.Keep)
	c.step(raft.SnapshotTaken{Take: id(17, 3), Snapshot: raft.Snapshot{Base: out.Keep.Take.Base, File: fileOf(2), Size: 1 << 12, Sum: 7}})
	c.persist()
	out = c.receive("b", 3, raft.AppendConflict{Prev: c.Status().Base.Index, Hint: id(3, 1)})
	require.Len(t, offers(out.Send, "b"), 1)
	require.Equal(t, id(17, 3), progressOf(c, "b").Offered)

	c.grows(64, 3)
	require.Equal(t, id(17, 3), progressOf(c, "b").Offered, "what is behind the snapshot is kept")
	c.receive("b", 3, raft.AppendReply{Match: 17})
	c.beats("b", 17)
	assert.LessOrEqual(t, c.Status().Base.Index, raft.Index(17), "and while the follower catches up")
	for match := raft.Index(20); match < c.Status().Last.Index; match += 3 {
		c.receive("b", 3, raft.AppendReply{Match: match})
		c.beats("b", match)
		require.LessOrEqual(t, c.Status().Base.Index, match)
		require.Equal(t, "replicate", progressOf(c, "b").State)
	}
	last := c.Status().Last.Index
	c.receive("b", 3, raft.AppendReply{Match: last})
	c.beats("b", last)
	c.grows(24, 20)
	assert.Greater(t, c.Status().Base.Index, last, "then the usual bound holds again")
}

// The size of a frozen state is not known. What its follower has of it so far is as good a bound: a stream that is faster
// than the log grows comes to its end.
func TestCompact_HoldsAsMuchAsAFollowerHasOfAFrozenState(t *testing.T) {
	c, out := durableLeader(t, func(cfg *raft.CoreConfig) { cfg.SnapshotHoldBytes = 1 })
	c.step(frozen(out.Keep.Take, 5))
	require.Equal(t, id(9, 3), progressOf(c, "b").Offered)
	for n := int64(1); n <= 8; n++ {
		c.step(raft.SnapshotSending{To: peer("b"), File: fileOf(5), Bytes: n * 2000})
		c.grows(16, 0)
		require.Equal(t, id(9, 3), progressOf(c, "b").Offered)
		require.LessOrEqual(t, c.Status().Base.Index, raft.Index(9))
	}
	c.step(raft.SnapshotSent{To: peer("b"), File: fileOf(5)})
	c.receive("b", 3, raft.AppendReply{Match: 9})
	c.beats("b", 9)
	assert.LessOrEqual(t, c.Status().Base.Index, raft.Index(9))
	assert.Equal(t, "replicate", progressOf(c, "b").State)
}

func TestCompact_ReportsOfAStreamThatHasEndedCountForNothing(t *testing.T) {
	c, out := durableLeader(t, func(cfg *raft.CoreConfig) { cfg.SnapshotHoldBytes = 1 })
	c.step(frozen(out.Keep.Take, 5))
	c.step(
		raft.SnapshotSending{To: peer("b"), File: fileOf(6), Bytes: 1 << 20}, raft.SnapshotSending{To: peer("c"), File: fileOf(5), Bytes: 1 << 20},
		raft.SnapshotSending{To: peer("e"), File: fileOf(5), Bytes: 1 << 20}, raft.SnapshotSending{To: peer("b"), File: fileOf(5), Bytes: -1},
	)
	out = c.commits(16)
	require.NotNil(t, out.Keep)
	out = c.step(raft.SnapshotTaken{Take: out.Keep.Take.ID, Snapshot: raft.Snapshot{Base: out.Keep.Take.Base}})
	require.NotNil(t, out.Write.Base)
	assert.Greater(t, out.Write.Base.ID.Index, raft.Index(9))

	c = begin(t, snapConfig(), storedWhole(t, raft.HardState{Term: 3}, 3))
	assert.Zero(t, c.step(raft.SnapshotSending{To: peer("b"), File: fileOf(5), Bytes: 1}).Write, "a follower sends none")
}

// After an idle time, too, a leader keeps what a follower needs that it hears: it had nothing to acknowledge.
func TestCompact_AnIdleFollowerIsHeldLikeABusyOne(t *testing.T) {
	c := compactedLeader(t, nil)
	c.receive("b", 3, raft.AppendReply{Match: 8})
	c.receive("b", 3, raft.AppendReply{Match: 9})
	for range 4 * 64 {
		c.beats("b", 9)
	}
	require.Equal(t, raft.Leader, c.Leadership().Role)
	for range 16 {
		c.propose("x")
	}
	c.persist()
	out := c.receive("c", 3, raft.AppendReply{Match: 25})
	require.NotNil(t, out.Keep)
	taken(c, out.Keep.Take, 2)
	c.persist()
	assert.LessOrEqual(t, c.Status().Base.Index, raft.Index(9))
}
