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
