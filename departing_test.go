package raft_test

import (
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A stream to a member ends with its membership, and it is offered no snapshot any more.
func TestLeader_RemovedMemberIsSentNoSnapshot(t *testing.T) {
	c := compactedLeader(t, nil)
	c.hold("bc")
	c.change(addLearner("d"))
	c.hold("bc")
	c.receive("d", 3, raft.AppendConflict{Prev: c.Status().ConfigIndex})
	c.receive("d", 3, raft.AppendConflict{Prev: 8})
	require.Equal(t, "snapshot", c.progress("d").State)
	require.NotZero(t, c.progress("d").Offered)
	out := c.change(remove("d"))
	require.Equal(t, []raft.AnswerKind{raft.AnswerAccepted}, c.answered())
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.Peer{peer("d")}, out.Keep.Stop)
	for range 8 {
		out = c.after(electionTimeout)
		assert.Empty(t, offers(append(out.Send, out.Write.Then...), "d"))
		if c.Leadership().Role == raft.Leader {
			c.hold("bc")
		}
	}
}

// The state that was frozen for a member is given back with the stream to it, although the member is still served.
func TestLeader_AFrozenStateIsNotHeldForARemovedMember(t *testing.T) {
	c, out := durableLeader(t, nil)
	out = c.step(frozen(out.Keep.Take, 5))
	require.Len(t, offers(out.Send, "b"), 1)

	c.change(remove("b"))
	require.Equal(t, []raft.AnswerKind{raft.AnswerAccepted}, c.answered())
	c.persist()
	out = c.receive("c", 3, raft.AppendReply{Match: 10})
	require.True(t, c.progress("b").Departing)
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.Peer{peer("b")}, out.Keep.Stop)
	assert.Equal(t, []raft.SnapshotID{fileOf(5)}, out.Keep.Discard)
}

// A snapshot of a cluster whose members have been changed is described in a way that an earlier release cannot read.
func TestLeader_AnEarlierReleaseIsOfferedNoSnapshotOfAChangedCluster(t *testing.T) {
	for protocol, offered := range map[uint16]bool{raft.ProtocolMembership: true, raft.ProtocolMembership - 1: false} {
		c := compactedLeader(t, nil)
		c.hold("bc")
		c.change(addLearner("d"))
		c.hold("bc")
		c.step(raft.PeerUp{ID: "d", Incarnation: peer("d").Incarnation, Protocol: protocol})
		c.receive("d", 3, raft.AppendConflict{Prev: c.Status().ConfigIndex})
		c.receive("d", 3, raft.AppendConflict{Prev: 8})
		require.Equal(t, "snapshot", c.progress("d").State)
		assert.Equal(t, offered, c.progress("d").Offered != raft.EntryID{}, "protocol %d", protocol)
		assert.Equal(t, !offered, c.progress("d").EarlierRelease)
	}
}

// A new leader serves those whose removal it does not know to be committed: they may not know it, either.
func TestLeader_ANewOneServesWhoWasRemoved(t *testing.T) {
	joint := raft.NewConfiguration(membersNamed("abc"))
	joint.Members[2].Kind, joint.Level = raft.Leaving, 1
	joint.Outgoing = []raft.Peer{peer("a"), peer("b"), peer("c")}
	left := raft.NewConfiguration(membersNamed("ab"))
	left.Level, left.Removed = 1, []raft.Removal{{Peer: peer("c"), Index: 4}}
	for commit, departing := range map[raft.Index]bool{3: true, 4: false} {
		c := follower(t, 5, 1)
		c.appendConfigs("b", 5, id(2, 1), commit, joint, left)
		c.append("b", 5, id(4, 5), commit, 5)
		c.persist()
		c.timeout()
		c.grantPreVote("b")
		c.persist()
		out := c.receive("b", 6, raft.VoteReply{Granted: true})
		require.Equal(t, raft.Leader, c.Leadership().Role)
		assert.Equal(t, departing, c.progress("c").Departing)
		sent := appends(append(out.Send, out.Write.Then...), "c")
		if departing {
			assert.Equal(t, []raft.Span{{After: 4, Last: 4}}, sent, "nothing behind its removal")
		} else {
			assert.Empty(t, sent)
		}
	}
}

// With fewer voters, more may be committed at once.
func TestJoint_FewerVotersMayCommitMore(t *testing.T) {
	c := replicating(t, 5, 1)
	c.change(remove("b", "c"))
	joint := c.Status().ConfigIndex
	c.propose("x")
	c.persist()
	c.receive("b", 5, raft.AppendReply{Match: joint})
	assert.False(t, c.Status().Config.Joint())
	assert.Equal(t, joint+1, c.Status().Commit, "x, which only this member holds, is committed by C_new")
}

// A leader whose disk stands still, while another one could lead, changes no members.
func TestJoint_NotWhileTheDiskStandsStill(t *testing.T) {
	c := caughtUp(t)
	c.change(promote("d"))
	c.persist()
	c.propose("x") // is not persisted
	c.now += raft.Time(1100 * time.Millisecond)
	c.step()
	require.True(t, c.Status().DiskStalled)
	for _, id := range []raft.NodeID{"b", "c", "d"} {
		c.receive(id, 5, raft.AppendReply{Match: c.Status().ConfigIndex})
	}
	assert.True(t, c.Status().Config.Changing())
	assert.Equal(t, c.Status().ConfigIndex, c.Status().ConfigCommitted)
}

// The silent voters that the caller has named may be silent when the members have caught up, too.
func TestLiveMajority_DespiteCountsUntilTheChangeEnds(t *testing.T) {
	for despite, enters := range map[raft.NodeID]bool{"c": true, "b": false} {
		ch := addVoter("d")
		ch.Remove, ch.Demote, ch.Despite = []raft.Peer{peer("b")}, []raft.Peer{peer("a")}, []raft.NodeID{despite}
		c := joins(t, ch) // {c d} are to vote
		c.answering(2*electionTimeout, "b")
		c.hold("d")
		assert.Equal(t, enters, c.Status().Config.Joint(), despite)
	}
}
