package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
)

// A sender that our configuration does not name only raises our term as a leader, or with a vote request that we
// would grant, and by nothing else; a member of the configuration, by everything but pre-votes (Figure 2).
func TestTerm_WhatAStrangerRaises(t *testing.T) {
	newer := id(9, 5)
	for _, row := range []struct {
		body            raft.Body
		known, stranger bool
	}{
		{raft.AppendRequest{Prev: id(1, 0), Last: id(1, 0)}, true, true},
		{raft.Heartbeat{}, true, true},
		{raft.VoteRequest{Last: newer}, true, true},
		{raft.VoteRequest{Last: newer, Transfer: true}, true, true},
		{raft.VoteRequest{Last: id(2, 1)}, true, false},
		{raft.VoteRequest{Last: id(2, 1), Transfer: true}, true, false},
		{raft.VoteReply{}, true, false},
		{raft.VoteReply{Granted: true}, true, false},
		{raft.AppendReply{Match: 1}, true, false},
		{raft.AppendConflict{Prev: 1}, true, false},
		{raft.HeartbeatReply{}, true, false},
		{raft.ReadRequest{}, true, false},
		{raft.ReadReply{}, true, false},
		{raft.TimeoutNow{}, true, false},
		{raft.PreVoteReply{}, true, false},
		{raft.PreVoteReply{Granted: true}, false, false},
		{raft.PreVoteRequest{Last: newer}, false, false},
	} {
		for _, sender := range []raft.Peer{peer("b"), peer("z"), {ID: "b", Incarnation: 1}} {
			want := raft.Term(5)
			if known := sender == peer("b"); known && row.known || !known && row.stranger {
				want = 6
			}
			c := follower(t, 5, 1, 3, 5)
			c.after(electionTimeout) // no leader is heard
			c.step(raft.Received{Message: raft.Message{
				From: sender, To: peer("a"), Cluster: clusterOfTheTests, Term: 6, Body: row.body,
			}})
			assert.Equal(t, want, c.Leadership().Term, "%T %+v of %v", row.body, row.body, sender)
		}
	}
	c := replicating(t, 5, 1)
	c.step(raft.Received{Message: raft.Message{
		From: peer("z"), To: peer("a"), Cluster: clusterOfTheTests, Term: 6, Body: raft.HeartbeatReply{},
	}})
	assert.Equal(t, raft.Leader, c.Leadership().Role, "a stranger's answer deposes no leader")
}

// While one disk takes the place of another under the same id, the id stands twice among the members, and the two talk
// to each other.
func TestMisaddressed_TwinOfThisID(t *testing.T) {
	twin := raft.Peer{ID: "a", Incarnation: 1}
	c := follower(t, 5, 1)
	receive := func(body raft.Body) raft.Output {
		return c.step(raft.Received{Message: raft.Message{From: twin, To: peer("a"), Cluster: clusterOfTheTests, Term: 5, Body: body}})
	}
	out := receive(raft.Heartbeat{Round: raft.RPCID{StartCount: 1}})
	assert.Equal(t, raft.Leadership{Term: 5, Leader: "a", LeaderIncarnation: 1}, c.Leadership(), "it follows a twin")
	assert.Equal(t, twin, out.Send[0].To)

	c.step(raft.ReadRequested{RequestID: requestIDOfTheTests})
	assert.Equal(t, twin, c.out.Send[0].To)
	id := c.out.Send[0].Body.(raft.ReadRequest).ID
	assert.Empty(t, c.receive("a", 5, raft.ReadReply{ID: id, OK: true, Index: 1}).Answers, "a message that names this member as its sender is refused")
	out = receive(raft.ReadReply{ID: id, OK: true, Index: 1})
	assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerReadSafe, ID: raft.EntryID{Index: 1}}}, out.Answers)

	receive(raft.SteppedDown{})
	assert.Equal(t, raft.Leadership{Term: 5}, c.Leadership())
}
