package fuzzy

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
	"github.com/stretchr/testify/require"
)

// hasty lists wrong conclusions about an FSM: that it hangs, or that it does not.
var hasty = []struct {
	rule   string
	breach func(n, other *node, before *raft.CoreStatus, out *raft.Output)
}{
	{"N84", func(n, _ *node, _ *raft.CoreStatus, _ *raft.Output) { // it applies no batch
		n.status.FSMHangs, n.hang.batch = true, raft.EntryID{}
	}},
	{"N84", func(n, _ *node, _ *raft.CoreStatus, _ *raft.Output) { // the batch has just begun
		n.status.FSMHangs, n.hang.batch, n.hang.since = true, n.status.Last, n.seen.now-1
	}},
	{"N84", func(n, _ *node, before *raft.CoreStatus, out *raft.Output) {
		before.FSMHangs, n.status.FSMHangs = true, true
		n.c.work.requests = append(n.c.work.requests, request{kind: writeRequest, node: n})
		out.Answers = []raft.Answer{{Kind: raft.AnswerAccepted, RequestID: raft.RequestID(len(n.c.work.requests) - 1)}}
	}},
	{"N85", func(n, other *node, _ *raft.CoreStatus, out *raft.Output) {
		n.status.FSMHangs, other.appliedMost = true, n.hang.batch.Index-1
		out.Trace = []raft.TraceEvent{{Kind: raft.TraceTransfer, Peer: other.id}}
		n.c.check.checkTransferForStall(n, nil, out)
	}},
	{"N86", func(n, _ *node, before *raft.CoreStatus, out *raft.Output) {
		before.FSMHangs, n.status.FSMHangs = true, true
		n.seen.rested = n.seen.now - 4*n.timeout() + 1
		out.Trace = []raft.TraceEvent{{Kind: raft.TraceTimeout}}
	}},
	{"N86", func(n, _ *node, before *raft.CoreStatus, out *raft.Output) { // it has stepped down in this batch
		before.Role, before.FSMHangs, n.status.FSMHangs, n.status.Role = raft.Leader, true, true, raft.Follower
		n.seen.rested, n.seen.needed = n.seen.now-4*n.timeout()+1, n.seen.now
		out.Trace = []raft.TraceEvent{{Kind: raft.TraceTimeout}}
	}},
}

func TestInvariants_OfHangsNoticeTheirBreach(t *testing.T) {
	for _, row := range hasty {
		c, n, other := running(t)
		n.applyStallMax = sim.Time(n.timeout())
		n.seen.now = n.now().Mono
		n.hang = hang{batch: n.status.Last, since: n.seen.now - n.timeout()}
		before, out := n.status, raft.Output{WakeAt: n.seen.now + n.timeout()}
		row.breach(n, other, &before, &out)
		c.check.checkHangs(n, &before, &out)
		expectBreach(t, c, row.rule)
	}
}

// A batch that hung may end in a step that then takes a proposal, and only then learns that the next batch hangs, too.
func TestInvariants_OfHangsAllowAProposalBetweenTwoBatches(t *testing.T) {
	c, n, _ := running(t)
	n.applyStallMax, n.seen.now = sim.Time(n.timeout()), n.now().Mono
	n.hang = hang{batch: n.status.Last, since: n.seen.now - n.timeout()}
	n.status.FSMHangs = true
	before, out := n.status, raft.Output{Answers: []raft.Answer{{Kind: raft.AnswerAccepted, RequestID: raft.RequestID(len(c.work.requests))}}}
	c.work.requests = append(c.work.requests, request{kind: writeRequest, node: n})
	before.Applied--
	c.check.checkHangs(n, &before, &out)
	require.Nil(t, c.failure)
	before.Applied++
	c.check.checkHangs(n, &before, &out)
	expectBreach(t, c, "N84")
}
