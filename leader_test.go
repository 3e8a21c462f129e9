package raft_test

import (
	"strings"
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Proposals beyond a limit are refused. None is queued.
func TestPropose_BeyondALimitIsRefused(t *testing.T) {
	refusal := func(out raft.Output) raft.RefusalKind { return out.Answers[len(out.Answers)-1].Refusal }

	c := replicating(t, 2, 1)
	assert.Equal(t, raft.RefusedTooLarge, refusal(c.propose(strings.Repeat("x", 1<<10+1))))
	var many []string
	for range 129 {
		many = append(many, "x")
	}
	out := c.propose(many...)
	assert.Equal(t, raft.RefusedOverloaded, refusal(out), "ProposalsMax is 128")
	assert.Equal(t, raft.AnswerAccepted, out.Answers[127].Kind)
	assert.Len(t, out.Write.Log.Entries, 128)

	c = replicating(t, 2, 1)
	for range 64 {
		require.Zero(t, refusal(c.propose(strings.Repeat("x", 1<<10))))
	}
	assert.Equal(t, raft.RefusedOverloaded, refusal(c.propose("x")), "ProposalBytesMax is 64 KiB")
	assert.Equal(t, 1<<16, c.Status().PendingBytes)

	c = replicating(t, 2, 1)
	for range 63 {
		require.Zero(t, refusal(c.propose(strings.Repeat("x", 1<<10))))
	}
	require.Zero(t, refusal(c.propose("x")))
	assert.Zero(t, refusal(c.propose(strings.Repeat("x", 1<<10))), "a proposal of any size is accepted below the limit")
	assert.Equal(t, raft.RefusedOverloaded, refusal(c.propose("x")))

	c = replicating(t, 2, 1)
	for range 1<<10 - 3 {
		require.Zero(t, refusal(c.propose("x")))
		c.persist()
		c.receive("b", 2, raft.AppendReply{Match: c.Status().Last.Index})
	}
	assert.Equal(t, raft.RefusedOverloaded, refusal(c.propose("x")), "UnappliedMax is 1,024 entries")
	c.step(raft.Applied{ID: id(10, 2)})
	assert.Zero(t, refusal(c.propose("x")))
}

// Every request is answered as accepted. It gets a second answer only if leadership ended while the request was pending.
func TestAnswer_ProposalsOfALostTerm(t *testing.T) {
	t.Run("unknown: the entry is still in the log", func(t *testing.T) {
		c := replicating(t, 2, 1)
		c.propose("x")
		out := c.receive("b", 3, raft.Heartbeat{})
		assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerUnknown, ID: id(4, 2)}}, out.Answers)
	})
	t.Run("unknown: cut off here, it may be committed by another member that holds it", func(t *testing.T) {
		c := replicating(t, 2, 1)
		c.propose("x")
		out := c.append("b", 3, id(3, 2), 3, 3)
		assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerUnknown, ID: id(4, 2)}}, out.Answers)
	})
	t.Run("not applied: another entry is committed in its place", func(t *testing.T) {
		c := replicating(t, 2, 1)
		c.propose("x")
		out := c.append("b", 3, id(3, 2), 4, 3)
		assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerNotApplied, ID: id(4, 2)}}, out.Answers)
	})
	t.Run("being applied in the same step: the applier answers", func(t *testing.T) {
		c := replicating(t, 2, 1)
		c.propose("x")
		c.persist()
		out := c.step(c.from("b", 3, raft.AppendRequest{Prev: id(4, 2), Last: id(4, 2), Commit: 4}))
		assert.Equal(t, id(4, 2), out.Apply)
		assert.Empty(t, out.Answers)
	})
	t.Run("refused: a follower names the leader", func(t *testing.T) {
		c := follower(t, 2, 1)
		c.receive("b", 2, raft.Heartbeat{})
		assert.Equal(t, []raft.Answer{{
			RequestID: requestIDOfTheTests, Kind: raft.AnswerRefused, Refusal: raft.RefusedNotLeader, Leader: "b",
		}}, c.propose("x").Answers)
	})
	t.Run("closing: everything is answered, and nothing taken", func(t *testing.T) {
		c := replicating(t, 2, 1)
		c.propose("x")
		out := c.step(raft.Closing{})
		assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerUnknown, ID: id(4, 2)}}, out.Answers)
		assert.Equal(t, raft.RefusedClosing, c.propose("y").Answers[0].Refusal)
	})
}

// carries reports to the core how large an append to a member may be. If bytes is 0, the limit is the largest that any
// configuration allows.
func (c *core) carries(id raft.NodeID, bytes int) raft.Output {
	return c.step(raft.PeerUp{ID: id, Incarnation: peer(id).Incarnation, AppendBytesMax: bytes})
}

func TestPropose_NoCommandIsTooLargeForAMember(t *testing.T) {
	command := func(bytes int) string { return strings.Repeat("x", bytes) }
	tooLarge := func(c *core, bytes int) (e *raft.TooLargeError) {
		a := c.propose(command(bytes)).Answers[0]
		if a.Kind == raft.AnswerRefused {
			require.Equal(t, raft.RefusedTooLarge, a.Refusal)
			require.ErrorAs(t, a.Err, &e)
		}
		return e
	}
	cfg := coreConfig()
	cfg.CommandBytesMax = 100
	c := begin(t, cfg, storedWhole(t, raft.HardState{Term: 1}, 1))
	c.carries("b", raft.RecordOverheadBytes+60) // before it leads
	c.electedBy("b")
	assert.Equal(t, &raft.TooLargeError{Bytes: 61, Limit: 60, Member: "b"}, tooLarge(c, 61))
	assert.Nil(t, tooLarge(c, 60))
	c.carries("c", raft.RecordOverheadBytes+50)
	assert.Equal(t, &raft.TooLargeError{Bytes: 60, Limit: 50, Member: "c"}, tooLarge(c, 60), "the smallest limit counts")
	c.step(raft.PeerLost{Peer: peer("c")})
	assert.NotNil(t, tooLarge(c, 60), "the limit of an unreachable member counts, too")
	c.step(raft.PeerUp{ID: "c", Incarnation: 999, AppendBytesMax: 1})
	c.step(raft.PeerUp{ID: "d", Incarnation: 5, AppendBytesMax: 1})
	assert.Nil(t, tooLarge(c, 50), "the limit of a removed member does not count")
	c.carries("b", 0)
	c.carries("c", 0)
	assert.Nil(t, tooLarge(c, 100))
	assert.Equal(t, &raft.TooLargeError{Bytes: 101, Limit: 100}, tooLarge(c, 101), "its own limit")
	c.carries("b", 1)
	assert.Equal(t, 0, tooLarge(c, 1).Limit, "a member that accepts almost nothing")
	assert.ErrorContains(t, tooLarge(c, 1), "that b can be sent")
}

// oversizedFor returns a leader of term 3 that takes snapshots. Its committed entry 10 is too large for an append to b. The
// output is that of the step in which the leader learns this.
func oversizedFor(t *testing.T, change func(*raft.CoreConfig)) (*core, raft.Output) {
	c := compactedLeader(t, change)
	c.carries("b", 100)
	c.receive("b", 3, raft.AppendReply{Match: 9})
	c.carries("b", 0)
	c.propose(strings.Repeat("x", 200))
	c.persist()
	c.receive("c", 3, raft.AppendReply{Match: 10})
	require.EqualValues(t, 10, c.Status().Commit)
	c.carries("b", 100) // b has come back with a small limit
	return c, c.drops("b", 9, 10)
}

// drops reports that the entry at last was not sent to a member because it is too large.
func (c *core) drops(to raft.NodeID, after, last raft.Index) raft.Output {
	return c.step(raft.SendDropped{
		To: peer(to), Span: raft.Span{After: after, Last: last}, Oversized: id(after+1, 3), OversizedBytes: 242,
	})
}

func TestOversized_AMemberIsBroughtASnapshotThatCoversTheEntry(t *testing.T) {
	c, out := oversizedFor(t, nil)
	p := c.progress("b")
	assert.Equal(t, "snapshot", p.State)
	assert.Equal(t, id(10, 3), p.Oversized)
	assert.Equal(t, 242, p.OversizedBytes)
	assert.EqualValues(t, 11, p.Next)
	assert.Zero(t, p.Offered, "the recorded snapshot does not cover the entry")
	assert.Empty(t, appends(out.Send, "b"))
	if out.Keep == nil || out.Keep.Take == nil { // it comes once the entry is being applied
		out = c.step(raft.Applied{ID: id(10, 3)})
	}
	require.NotNil(t, out.Keep)
	require.NotNil(t, out.Keep.Take, "a snapshot is taken for the member, although the policy requires none")
	assert.Equal(t, id(10, 3), out.Keep.Take.ID)
	taken(c, out.Keep.Take, 2)
	out = c.persist()
	assert.Equal(t, id(10, 3), c.progress("b").Offered)
	require.Len(t, bodies(out.Send, "b"), 1)

	c.receive("b", 3, raft.AppendReply{Match: 10})
	assert.Equal(t, "replicate", c.progress("b").State)
	assert.Zero(t, c.progress("b").Oversized)
}

func TestOversized_AMemberWhoseLimitHasGrownIsSentTheEntry(t *testing.T) {
	c, _ := oversizedFor(t, nil)
	c.carries("b", 241)
	assert.Equal(t, "snapshot", c.progress("b").State, "the limit has not grown enough")
	out := c.carries("b", 242)
	assert.Equal(t, []raft.Span{{After: 9, Last: 10}}, appends(out.Send, "b"))
	assert.Equal(t, "probe", c.progress("b").State)
	assert.Zero(t, c.progress("b").Oversized)
}

// The report may be out of date. It may be about an append of an earlier leadership, or about an append that the member has
// acknowledged since.
func TestOversized_AReportThatIsOutOfDateMeansNothing(t *testing.T) {
	for rule, e := range map[string]raft.SendDropped{
		"another term wrote the entry":        {Span: raft.Span{After: 9, Last: 10}, Oversized: id(10, 2)},
		"the member has acknowledged it":      {Span: raft.Span{After: 8, Last: 10}, Oversized: id(9, 3)},
		"it is not the first of the span":     {Span: raft.Span{After: 9, Last: 11}, Oversized: id(11, 3)},
		"there is no such entry":              {Span: raft.Span{After: 20, Last: 21}, Oversized: id(21, 3)},
		"it is compacted":                     {Span: raft.Span{After: 1, Last: 2}, Oversized: id(2, 2)},
		"another reason, and no entry at all": {Span: raft.Span{After: 9, Last: 10}},
	} {
		c := compactedLeader(t, nil)
		c.carries("b", 0)
		c.receive("b", 3, raft.AppendReply{Match: 9})
		c.propose("x", "y")
		e.To, e.OversizedBytes = peer("b"), 1000
		c.step(e)
		assert.NotEqual(t, "snapshot", c.progress("b").State, rule)
	}
}

// A DurableFSM is frozen for the member once it has applied the entry.
func TestOversized_OfADurableFSMTheStateIsFrozenForIt(t *testing.T) {
	cfg := snapConfig()
	cfg.DurableFSM = true
	c := begin(t, cfg, storedBehind(t, 2, id(8, 2)))
	c.electedBy("c")
	c.persist()
	c.receive("c", 3, raft.AppendReply{Match: 9})
	c.receive("b", 3, raft.AppendReply{Match: 9})
	c.propose(strings.Repeat("x", 200))
	c.persist()
	out := c.drops("b", 9, 10)
	assert.True(t, out.Keep == nil || out.Keep.Take == nil, "the entry is not committed, so no snapshot can cover it")
	out = c.receive("c", 3, raft.AppendReply{Match: 10})
	require.NotNil(t, out.Keep)
	require.NotNil(t, out.Keep.Take)
	assert.True(t, out.Keep.Take.Hold)
	assert.Equal(t, id(10, 3), out.Keep.Take.ID)
}

func TestOversized_WithoutSnapshotsTheMemberWaitsAndIsNamed(t *testing.T) {
	c := replicating(t, 3, 2)
	c.propose("x")
	out := c.drops("b", 3, 4)
	assert.Empty(t, appends(out.Send, "b"))
	assert.Equal(t, id(4, 3), c.progress("b").Oversized)
	c.step(raft.PeerUp{ID: "b", Incarnation: peer("b").Incarnation})
	assert.Equal(t, "probe", c.progress("b").State)
}

// The limits of strangers do not displace those of members.
func TestPropose_TheLimitOfAMemberIsKeptWhateverStrangersSay(t *testing.T) {
	c := replicating(t, 2, 1)
	for i := range 2 * raft.MembersMax {
		c.step(raft.PeerUp{ID: "b", Incarnation: raft.Incarnation(1000 + i), AppendBytesMax: 1})
	}
	c.carries("b", raft.RecordOverheadBytes+50)
	for i := range 2 * raft.MembersMax {
		c.step(raft.PeerUp{ID: "c", Incarnation: raft.Incarnation(1000 + i), AppendBytesMax: 1})
	}
	out := c.propose(strings.Repeat("x", 51), strings.Repeat("x", 50))
	assert.Equal(t, raft.RefusedTooLarge, out.Answers[0].Refusal)
	assert.Equal(t, raft.AnswerAccepted, out.Answers[1].Kind)
}

// A request that names a term is for the leader of that term alone. The same member may lead again in a later one.
func TestPropose_OfAnotherTermIsRefused(t *testing.T) {
	refused := func(term raft.Term, e raft.Event) {
		t.Helper()
		c := replicating(t, 2, 1)
		before := c.Status().Last
		out := c.step(e)
		require.Len(t, out.Answers, 1)
		if term == 2 {
			assert.NotEqual(t, raft.RefusedNotLeader, out.Answers[0].Refusal)
			return
		}
		assert.Equal(t, raft.RefusedNotLeader, out.Answers[0].Refusal)
		assert.Equal(t, before, c.Status().Last)
	}
	for _, term := range []raft.Term{1, 2, 3} {
		refused(term, raft.Proposed{Proposals: []raft.Proposal{{RequestID: 1, Term: term, Kind: raft.EntryCommand, Data: []byte("x")}}})
		refused(term, raft.TransferRequested{RequestID: 1, Term: term, To: "nobody"})
	}
	c := replicating(t, 2, 1)
	assert.Empty(t, c.step(raft.ChangeRequested{RequestID: 1, Term: 2, Change: addLearner("e")}).Answers[1:], "it is decided")
	out := c.step(raft.ChangeRequested{RequestID: 2, Term: 3, Change: addLearner("f")})
	assert.Equal(t, []raft.Answer{{RequestID: 2, Kind: raft.AnswerRefused, Refusal: raft.RefusedNotLeader, Leader: "a"}}, out.Answers)

	c = replicating(t, 2, 1)
	out = c.step(raft.Proposed{Proposals: []raft.Proposal{
		{RequestID: 1, Term: 1, Kind: raft.EntryCommand, Data: []byte("x")}, {RequestID: 2, Term: 2, Kind: raft.EntryCommand, Data: []byte("y")},
	}})
	assert.Equal(t, raft.AnswerAccepted, out.Answers[1].Kind, "a refused proposal does not concern the others")
	require.Len(t, out.Write.Log.Entries, 1)
	assert.Equal(t, "y", string(out.Write.Log.Entries[0].Data))
}
