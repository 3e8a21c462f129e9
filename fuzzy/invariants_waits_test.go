package fuzzy

import (
	"testing"

	"github.com/coxswain/raft"
)

// impatient lists steps in which a follower or a leader gives up too early.
var impatient = []struct {
	rule   string
	breach func(n, other *node, before *raft.CoreStatus, out *raft.Output)
}{
	{"N25", func(n, _ *node, before *raft.CoreStatus, out *raft.Output) { // its vote has just become durable
		n.hard.Vote, n.seen.leads = n.peer(), raft.Peer{}
		n.seen.rested, n.status.Durable, before.Durable = 0, n.hard, raft.HardState{Term: n.hard.Term}
		out.Trace = []raft.TraceEvent{{Kind: raft.TraceTimeout}}
	}},
	{"N30", func(n, _ *node, before *raft.CoreStatus, _ *raft.Output) {
		n.status.DiskStalled, n.status.Persisted = true, before.Persisted+1
	}},
	{"N35", func(n, _ *node, before *raft.CoreStatus, out *raft.Output) {
		n.hard.Term++
		before.Durable = n.status.Durable
		out.Trace = []raft.TraceEvent{{Kind: raft.TraceTimeout}}
		n.seen.rested = 0
	}},
	{"N35", func(n, other *node, before *raft.CoreStatus, out *raft.Output) {
		n.hard = raft.HardState{Term: n.hard.Term + 1, Vote: n.peer()}
		before.Durable = n.status.Durable
		out.Trace = []raft.TraceEvent{{Kind: raft.TracePreVoteGranted, Peer: other.id}}
	}},
	{"N36", func(n, other *node, _ *raft.CoreStatus, _ *raft.Output) {
		n.status.Leader, n.seen.resigned, n.seen.resignedIn = other.id, other.id, n.status.Term
	}},
	{"N37", func(_, _ *node, _ *raft.CoreStatus, out *raft.Output) { // all were heard a moment ago
		out.Trace = []raft.TraceEvent{{Kind: raft.TraceQuorumLost}}
	}},
	{"N37", func(n, _ *node, before *raft.CoreStatus, out *raft.Output) {
		clear(n.seen.peers)
		n.seen.told, before.TransferringUntil = n.seen.now+1, n.seen.now+1
		out.Trace = []raft.TraceEvent{{Kind: raft.TraceQuorumLost}}
	}},
	{"N73", func(n, _ *node, before *raft.CoreStatus, out *raft.Output) { // all is applied
		n.seen.hard, n.seen.wrote, out.Write.Hard = n.hard, 0, &n.hard
		n.status.Applied, before.Durable = n.status.Last.Index, n.hard
	}},
	{"N73", func(n, _ *node, before *raft.CoreStatus, out *raft.Output) { // its disk has just written
		n.seen.hard, n.seen.wrote, out.Write.Hard = n.hard, n.seen.now-1, &n.hard
		n.status.Applied, before.Durable = n.status.Last.Index-1, n.hard
	}},
	{"N73", func(n, _ *node, before *raft.CoreStatus, out *raft.Output) { // no leader
		n.seen.hard, n.seen.wrote, out.Write.Hard = n.hard, 0, &n.hard
		n.status.Applied, before.Durable, n.status.Role = n.status.Last.Index-1, n.hard, raft.Follower
	}},
	{"N46", func(n, other *node, _ *raft.CoreStatus, out *raft.Output) { // nobody holds more than its disk
		out.Trace = []raft.TraceEvent{{Kind: raft.TraceTransfer, Peer: other.id}}
		n.c.check.checkTransferForStall(n, nil, out)
	}},
}

func TestInvariants_OfWaitsNoticeTheirBreach(t *testing.T) {
	for _, row := range impatient {
		c, n, other := running(t)
		if row.rule == "N25" || row.rule == "N35" {
			n, other = other, n
		}
		n.seen.now = n.now().Mono
		before, out := n.status, raft.Output{WakeAt: n.seen.now + n.timeout()}
		row.breach(n, other, &before, &out)
		c.check.checkNotEarly(n, &before, &out)
		c.check.checkPatience(n, &before, nil, &out)
		expectBreach(t, c, row.rule)
	}
}
