package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
)

// The truth table of the commit rule:
//
//	"If there exists an N such that N > commitIndex, a majority of matchIndex[i] ≥ N, and
//	log[N].term == currentTerm: set commitIndex = N (§5.3, §5.4)." (Figure 2, Leaders)
func TestCommit_MajorityOfMatchInTheOwnTerm(t *testing.T) {
	for _, row := range []struct {
		rule    string
		durable bool // the leader's own log, up to 7
		match   map[raft.NodeID]raft.Index
		want    raft.Index // our log: 1@0 2@1 3@1 4@2, then 5@3 6@3 7@3 of our own term
	}{
		{"only the leader", true, nil, 0},
		{"two of five", true, map[raft.NodeID]raft.Index{"b": 7}, 0},
		{"three of five", true, map[raft.NodeID]raft.Index{"b": 7, "c": 7}, 7},
		{"three of five: up to the third's match", true, map[raft.NodeID]raft.Index{"b": 7, "c": 6}, 6},
		{"an entry of an earlier term is not committed by counting", true,
			map[raft.NodeID]raft.Index{"b": 4, "c": 4, "d": 4, "e": 4}, 0},
		{"it is committed by an entry of the own term after it", true,
			map[raft.NodeID]raft.Index{"b": 5, "c": 5}, 5},
		{"the leader's entries are not durable: two others are no majority", false,
			map[raft.NodeID]raft.Index{"b": 7, "c": 7}, 0},
		{"the leader's entries are not durable: three others are a majority", false,
			map[raft.NodeID]raft.Index{"b": 7, "c": 6, "d": 7}, 6},
		{"the median counts", true,
			map[raft.NodeID]raft.Index{"b": 5, "c": 6, "d": 7, "e": 0}, 6},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := leaderOf(t, "abcde", 3, 1, 1, 2)
			c.propose("x", "y")
			if row.durable {
				c.persist()
			}
			for _, voter := range []raft.NodeID{"b", "c", "d", "e"} {
				if match, ok := row.match[voter]; ok {
					c.receive(voter, 3, raft.AppendReply{Match: match})
				}
			}
			assert.Equal(t, row.want, c.Status().Commit)
		})
	}
}

// "Raft never commits log entries from previous terms by counting replicas." (§5.4.2) So a new leader
// begins its term with a no-op.
func TestCommit_NoOpCommitsWhatCameBefore(t *testing.T) {
	c := leaderOf(t, "abc", 3, 1, 2)
	c.persist()
	c.receive("b", 3, raft.AppendReply{Match: 3})
	assert.Zero(t, c.Status().Commit)
	out := c.receive("b", 3, raft.AppendReply{Match: 4})
	assert.EqualValues(t, 4, c.Status().Commit)
	assert.Equal(t, id(4, 3), out.Apply)
}

// The leader counts itself only up to the last entry that is durable here, and applies no further than that.
func TestCommit_FollowersMayCommitBeforeTheLeadersDisk(t *testing.T) {
	c := leaderOf(t, "abc", 2, 1)
	c.receive("b", 2, raft.AppendReply{Match: 3})
	out := c.receive("c", 2, raft.AppendReply{Match: 3})
	assert.EqualValues(t, 3, c.Status().Commit)
	assert.Equal(t, id(2, 1), out.Apply, "the no-op is committed, but not durable here")
	assert.Equal(t, id(3, 2), c.persist().Apply)
}

// Learners receive the log, but count towards no majority.
func TestCommit_LearnersDoNotCount(t *testing.T) {
	members := membersNamed("abcd")
	members[2].Kind, members[3].Kind = raft.Learner, raft.Learner
	c := restart(t, members, raft.HardState{Term: 1}, 1)
	c.timeout()
	c.grantPreVote("b")
	c.persist()
	c.receive("c", 2, raft.VoteReply{Granted: true})
	assert.Equal(t, raft.Candidate, c.Leadership().Role, "a learner's vote does not count")
	c.receive("b", 2, raft.VoteReply{Granted: true})
	c.persist()
	c.receive("c", 2, raft.AppendReply{Match: 3})
	c.receive("d", 2, raft.AppendReply{Match: 3})
	assert.Zero(t, c.Status().Commit)
	c.receive("b", 2, raft.AppendReply{Match: 3})
	assert.EqualValues(t, 3, c.Status().Commit)
}

// The commit hint of a write covers only entries that are already durable. So the hint is correct for every prefix of the
// write that a crash may leave.
func TestCommit_HintIsNeverAheadOfTheDisk(t *testing.T) {
	c := follower(t, 2, 1)
	out := c.append("b", 2, id(2, 1), 4, 2, 2)
	assert.EqualValues(t, 2, out.Write.Commit)
	out = c.append("b", 2, id(4, 2), 5, 2)
	assert.EqualValues(t, 2, out.Write.Commit)
	c.persist()
	out = c.append("b", 2, id(5, 2), 5, 2)
	assert.EqualValues(t, 5, out.Write.Commit)
}

// "If commitIndex > lastApplied: increment lastApplied, apply log[lastApplied] to state machine (§5.3)." (Figure 2, All
// Servers) Here a member applies only entries that are also durable in this log, in order, each once.
func TestApply_WhatIsCommittedAndDurable(t *testing.T) {
	c := follower(t, 2, 1)
	out := c.append("b", 2, id(2, 1), 4, 2, 2)
	assert.Equal(t, id(2, 1), out.Apply, "3 and 4 are committed, but not durable here")
	out = c.persist()
	assert.Equal(t, id(4, 2), out.Apply)
	out = c.append("b", 2, id(4, 2), 4)
	assert.Zero(t, out.Apply, "once")
}
