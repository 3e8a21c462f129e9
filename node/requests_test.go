package node

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

func newTable(change func(*Config)) *requests {
	cfg := Config{ID: "n1", Cluster: "test"}.withDefaults()
	if change != nil {
		change(&cfg)
	}
	return newRequests(cfg.Limits, newFSMCalls(), newSignal(), func(f func()) { go f() })
}

func noReason(*call, raft.Answer) error { return raft.ErrOverloaded }

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestRequests_ACallThatIsCancelledBeforeTheLoopTookItNeverReachesTheCore(t *testing.T) {
	r := newTable(nil)
	req, err := r.propose(raft.EntryCommand, []byte("a"), nil)
	require.NoError(t, err)
	o := r.wait(cancelled(), req)
	expect.ErrorIs(t, o.err, context.Canceled)
	expect.NotErrorIs(t, o.err, ErrOutcomeUnknown)
	_, _, bytes := r.depth()
	expect.Positive(t, bytes, "its bytes are still here")

	expect.Empty(t, r.take(nil))
	_, _, bytes = r.depth()
	expect.Zero(t, bytes)
}

func TestRequests_ACallThatIsCancelledLaterMayBeApplied(t *testing.T) {
	r := newTable(nil)
	req, err := r.propose(raft.EntryCommand, []byte("a"), nil)
	require.NoError(t, err)
	require.Len(t, r.take(nil), 1)
	o := r.wait(cancelled(), req)
	expect.ErrorIs(t, o.err, context.Canceled)
	expect.ErrorIs(t, o.err, ErrOutcomeUnknown)
	proposals, _, bytes := r.depth()
	expect.Zero(t, proposals+bytes)
	r.answer([]raft.Answer{{RequestID: 1, Kind: raft.AnswerAccepted, ID: raft.EntryID{Term: 1, Index: 1}}}, noReason) // its caller has gone
	expect.Empty(t, r.accepted)
}

func TestRequests_TheApplierAnswersTheEntryThatWasAccepted(t *testing.T) {
	r := newTable(nil)
	req, err := r.propose(raft.EntryCommand, []byte("a"), nil)
	require.NoError(t, err)
	r.take(nil)
	r.answer([]raft.Answer{{RequestID: req.requestID, Kind: raft.AnswerAccepted, ID: raft.EntryID{Term: 2, Index: 7}}}, noReason)
	r.applied([]raft.Entry{{Index: 7, Term: 3, Kind: raft.EntryCommand}}, [][]byte{[]byte("of another leader")})
	expect.Empty(t, req.outcome)

	r.applied([]raft.Entry{{Index: 6, Term: 2, Kind: raft.EntryNoop}, {Index: 7, Term: 2, Kind: raft.EntryCommand}}, [][]byte{[]byte("mine")})
	o := r.wait(context.Background(), req)
	expect.Equal(t, Result{7, 2, []byte("mine")}, o.result)
	expect.Empty(t, r.table)
	expect.Empty(t, r.accepted)
}

func TestRequests_LimitsCountWhatWaits(t *testing.T) {
	r := newTable(func(c *Config) { c.ProposalsMax, c.ProposalBytesMax = 2, 1000 })
	_, err := r.propose(raft.EntryCommand, make([]byte, 900), nil)
	require.NoError(t, err)
	_, err = r.propose(raft.EntryCommand, make([]byte, 100), nil)
	require.NoError(t, err, "the last one may go over the bytes")
	_, err = r.propose(raft.EntryCommand, nil, nil)
	expect.ErrorIs(t, err, raft.ErrOverloaded, "over the number")
	_, err = r.read()
	expect.NoError(t, err, "reads have a limit of their own")
}

// A constant stream of small commands does not keep out the largest one: its size does not decide whether a command is
// accepted.
func TestRequests_TheLargestCommandDoesNotStarveBesideSmallOnes(t *testing.T) {
	r := newTable(func(c *Config) { c.CommandBytesMax, c.ProposalBytesMax = 1000, 1000 })
	_, err := r.propose(raft.EntryCommand, []byte("small"), nil)
	require.NoError(t, err)
	large, err := r.propose(raft.EntryCommand, make([]byte, 1000), nil)
	require.NoError(t, err)
	_, err = r.propose(raft.EntryCommand, []byte("small"), nil)
	expect.ErrorIs(t, err, raft.ErrOverloaded, "full, for small ones too")
	_, err = r.read()
	require.NoError(t, err, "a read has no bytes")
	r.wait(cancelled(), large)
	r.take(nil)
	_, err = r.propose(raft.EntryCommand, []byte("small"), nil)
	expect.NoError(t, err, "its bytes are given back")
}

func TestRequests_TheEndAnswersEveryone(t *testing.T) {
	r := newTable(nil)
	taken, _ := r.propose(raft.EntryCommand, nil, nil)
	r.take(nil)
	waiting, _ := r.propose(raft.EntryCommand, nil, nil)
	read, _ := r.read()
	r.end(raft.ErrClosed)
	expect.ErrorIs(t, r.wait(context.Background(), taken).err, ErrOutcomeUnknown)
	expect.ErrorIs(t, r.wait(context.Background(), waiting).err, raft.ErrClosed)
	expect.ErrorIs(t, r.wait(context.Background(), read).err, raft.ErrClosed)
	_, err := r.propose(raft.EntryCommand, nil, nil)
	expect.ErrorIs(t, err, raft.ErrClosed)
}

// A removed member that joins again accepts calls again.
func TestRequests_WhatEndsIsNotCountedAfterwards(t *testing.T) {
	r := newTable(nil)
	req, err := r.propose(raft.EntryCommand, []byte("a"), nil)
	require.NoError(t, err)
	r.wait(cancelled(), req)
	r.carry([]raft.Message{{Term: 5, Body: raft.Forward{Data: []byte("another's")}}}, nil)
	r.carried = func(all []carried) { expect.ErrorIs(t, all[0].err, raft.ErrRemoved) }
	r.end(raft.ErrRemoved)
	r.resume()
	_, _, bytes := r.depth()
	expect.Zero(t, bytes)
}

func TestMailbox_DropsWhatIsOverTheLimits(t *testing.T) {
	cfg := Config{ReceivedMax: 3, ReceivedBytesMax: 1000}
	carrying := func(size int) raft.Message {
		return raft.Message{Body: raft.AppendRequest{Entries: []raft.Entry{{Data: make([]byte, size)}}}}
	}
	m := newMailbox()
	expect.True(t, m.receive(carrying(5000), 0, false, &cfg), "one always finds room when nothing else waits")
	expect.False(t, m.receive(carrying(1), 0, false, &cfg), "over the bytes")
	expect.True(t, m.receive(raft.Message{Body: raft.Heartbeat{}}, 0, false, &cfg), "a heartbeat has no bytes")
	expect.True(t, m.receive(raft.Message{Body: raft.Heartbeat{}}, 0, false, &cfg))
	expect.False(t, m.receive(raft.Message{Body: raft.Heartbeat{}}, 0, false, &cfg), "over the number")

	batch, _, _ := m.take(nil)
	expect.Len(t, batch, 3)
	expect.False(t, m.receive(carrying(500), 900, false, &cfg), "entries that wait for the disk count")
	expect.True(t, m.receive(carrying(50), 900, false, &cfg))
}

func TestMailbox_ABatchHasALimit(t *testing.T) {
	cfg := Config{}.withDefaults()
	m := newMailbox()
	for range 3 {
		m.receive(raft.Message{Body: raft.AppendRequest{Entries: []raft.Entry{{Data: make([]byte, batchBytesMax)}}}}, 0, false, &cfg)
	}
	for range 3 {
		<-m.events.signal // what is left over wakes the loop again
		batch, _, _ := m.take(nil)
		expect.Len(t, batch, 1)
	}
	expect.Empty(t, m.events.signal)
}

func TestMailbox_OnlyTheLastOfSomeEventsCounts(t *testing.T) {
	m := newMailbox()
	m.persistedUpTo(3)
	m.persistedUpTo(7)
	m.appliedUpTo(raft.EntryID{Term: 1, Index: 2})
	m.appliedUpTo(raft.EntryID{Term: 1, Index: 4})
	batch, _, _ := m.take(nil)
	expect.Equal(t, []raft.Event{raft.Persisted{Seq: 7}, raft.Applied{ID: raft.EntryID{Term: 1, Index: 4}}}, batch)
	batch, _, _ = m.take(nil)
	expect.Empty(t, batch)
}

func TestRequests_AnAsynchronousCallThatIsCancelledIsWithdrawnOnlyFromTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTable(nil)
		id, done := raft.EntryID{Term: 1, Index: 2}, func(Result, error) { t.Error("nothing was applied") }
		waiting, err := r.propose(raft.EntryCommand, []byte("a"), done)
		require.NoError(t, err)
		o := r.awaitAccepted(cancelled(), waiting)
		expect.Equal(t, context.Canceled, o.err)
		expect.Empty(t, r.take(nil), "it never reaches the core")
		proposals, _, bytes := r.depth()
		expect.Zero(t, proposals+bytes)

		taken, err := r.propose(raft.EntryCommand, []byte("b"), done)
		require.NoError(t, err)
		r.take(nil)
		go func() {
			synctest.Wait() // the call waits for the loop, although it is cancelled
			r.answer([]raft.Answer{{RequestID: taken.requestID, Kind: raft.AnswerAccepted, ID: id}}, noReason)
		}()
		o = r.awaitAccepted(cancelled(), taken)
		expect.NoError(t, o.err)
		expect.Equal(t, Result{Index: id.Index, Term: id.Term}, o.result)
	})
}

// The end of the node interrupts a snapshot, without an error in Status. The caller must still get an error.
func TestExplain_ASnapshotThatFailedIsAlwaysAnError(t *testing.T) {
	n := &Node{taker: &taker{}}
	failed := raft.Answer{Kind: raft.AnswerRefused, Refusal: raft.RefusedSnapshotFailed}
	expect.ErrorIs(t, n.explain(nil, failed), raft.ErrClosed)
	why := &SnapshotError{Op: "write", Err: errReplaced}
	n.taker.trouble.set(why)
	expect.Equal(t, why, n.explain(nil, failed))
}

func TestRequests_AChangeThatIsCancelledBeforeTheLoopTookItNeverReachesTheCore(t *testing.T) {
	r := newTable(nil)
	req, err := r.change(raft.ChangeRequested{IfIndex: 5})
	require.NoError(t, err)
	o := r.wait(cancelled(), req)
	expect.ErrorIs(t, o.err, context.Canceled)
	expect.NotErrorIs(t, o.err, ErrOutcomeUnknown)
	expect.Empty(t, r.take(nil))

	req, err = r.change(raft.ChangeRequested{IfIndex: 5})
	require.NoError(t, err)
	expect.Equal(t, []raft.Event{raft.ChangeRequested{RequestID: req.requestID, IfIndex: 5}}, r.take(nil))
	o = r.wait(cancelled(), req)
	expect.ErrorIs(t, o.err, context.Canceled)
	expect.ErrorIs(t, o.err, ErrOutcomeUnknown, "it continues")
}

func TestRequests_AChangeIsAnsweredWhenItHasEnded(t *testing.T) {
	r := newTable(nil)
	req, err := r.change(raft.ChangeRequested{})
	require.NoError(t, err)
	require.Len(t, r.take(nil), 1)
	first := raft.Entry{Term: 1, Index: 7, Kind: raft.EntryConfiguration}
	r.answer([]raft.Answer{{RequestID: req.requestID, Kind: raft.AnswerAccepted, ID: first.ID()}}, noReason)
	r.applied([]raft.Entry{first}, nil)
	expect.Empty(t, req.outcome, "its first entry is not its end")
	r.answer([]raft.Answer{{RequestID: req.requestID, Kind: raft.AnswerChanged, ID: raft.EntryID{Term: 1, Index: 9}}}, noReason)
	expect.Equal(t, outcome{index: 9}, r.wait(context.Background(), req))
}

func TestRequests_CallersThatChangeMembersAreFew(t *testing.T) {
	r := newTable(nil)
	for range changesMax {
		_, err := r.change(raft.ChangeRequested{})
		require.NoError(t, err)
	}
	_, err := r.change(raft.ChangeRequested{})
	require.ErrorIs(t, err, raft.ErrOverloaded)
	_, err = r.read()
	require.NoError(t, err, "others may still call")
	r.end(raft.ErrClosed)
}

// While one incarnation replaces another, the configuration contains the id twice. The error names the incarnation that
// leads.
func TestNotLeader_NamesTheIncarnationThatLeads(t *testing.T) {
	n := &Node{watched: newWatched(raft.Leadership{Leader: "n2", LeaderIncarnation: 21})}
	n.identity = &identity{node: n, config: raft.NewConfiguration([]raft.Member{
		{ID: "n1", Address: "n1:1", Incarnation: 11},
		{ID: "n2", Address: "former:1", Incarnation: 21, Kind: raft.Leaving},
		{ID: "n2", Address: "new:1", Incarnation: 22},
	})}
	address := func(leader raft.NodeID) string {
		var other *NotLeaderError
		require.ErrorAs(t, n.notLeader(leader, ""), &other)
		return other.Leader.Address
	}
	require.Equal(t, "former:1", address("n2"))
	require.Equal(t, "n1:1", address("n1"))
	n.watched.publish(raft.Leadership{Leader: "n1", LeaderIncarnation: 11})
	require.Equal(t, "new:1", address("n2"), "it is about to lead")
}

// Each proposal allocates only its record, which the disk and the network use. No other allocation grows with the number of
// proposals.
func TestRequests_AProposalAllocatesItsRecord(t *testing.T) {
	r := newTable(nil)
	const proposals = 64
	command, calls := make([]byte, 128), make([]*call, proposals)
	var answers [proposals]raft.Answer
	var entries [proposals]raft.Entry
	var results [proposals][]byte
	round := func() {
		for i := range calls {
			calls[i], _ = r.propose(raft.EntryCommand, command, nil)
		}
		for i, p := range r.take(nil)[0].(raft.Proposed).Proposals {
			id := raft.EntryID{Term: 1, Index: raft.Index(i + 1)}
			answers[i] = raft.Answer{RequestID: p.RequestID, Kind: raft.AnswerAccepted, ID: id}
			entries[i] = raft.Entry{Index: id.Index, Term: 1, Kind: raft.EntryCommand}
		}
		r.answer(answers[:], noReason)
		r.applied(entries[:], results[:])
		for _, req := range calls {
			_ = r.wait(context.Background(), req)
		}
	}
	round() // the pool and the tables grow to their size
	allocations := testing.AllocsPerRun(100, round)
	// The race detector makes a sync.Pool forget every fourth call, so the limit is higher than one allocation for each
	// proposal.
	expect.Less(t, allocations, 2.*proposals, "and a few for the batch, but none for each")
}

// A proposal of another member carries its term to the core. It does not wait for the end of a planned transfer.
func TestRequests_AForwardedProposal(t *testing.T) {
	r := newTable(nil)
	r.hold(true)
	_, err := r.propose(raft.EntryCommand, []byte("own"), nil)
	require.NoError(t, err)
	r.carry([]raft.Message{{Term: 7, Body: raft.Forward{Data: []byte("another's")}}}, nil)
	expect.True(t, r.transferring())
	batch := r.take(nil)
	require.Len(t, batch, 1)
	proposals := batch[0].(raft.Proposed).Proposals
	require.Len(t, proposals, 1)
	expect.Equal(t, raft.Term(7), proposals[0].Term)
	expect.Equal(t, "another's", string(proposals[0].Data))
	r.hold(false)
	batch = r.take(nil)
	require.Len(t, batch, 1)
	expect.Zero(t, batch[0].(raft.Proposed).Proposals[0].Term)
}

// The proposals of a batch wake the loop once and keep their order. The outcomes that become known together are passed on
// together, each with the message that asked for it.
func TestRequests_ForwardedProposalsOfABatch(t *testing.T) {
	r := newTable(func(c *Config) { c.Limits.CommandBytesMax = 5 })
	var passed [][]carried
	r.carried = func(all []carried) { passed = append(passed, slices.Clone(all)) }
	batch := make([]raft.Message, 4)
	for i, data := range []string{"one", "two", "too large", "three"} {
		batch[i] = raft.Message{Term: 7, Body: raft.Forward{Counter: uint64(i + 1), Data: []byte(data)}}
	}
	r.carry(batch, nil)
	require.Len(t, passed, 1)
	require.Len(t, passed[0], 1)
	expect.Equal(t, batch[2], passed[0][0].message)
	var tooLarge *raft.TooLargeError
	expect.ErrorAs(t, passed[0][0].err, &tooLarge)
	taken := r.take(nil)[0].(raft.Proposed).Proposals
	require.Len(t, taken, 3)
	var answers []raft.Answer
	var entries []raft.Entry
	for i, p := range taken {
		id := raft.EntryID{Term: 7, Index: raft.Index(i + 1)}
		answers = append(answers, raft.Answer{RequestID: p.RequestID, Kind: raft.AnswerAccepted, ID: id})
		entries = append(entries, raft.Entry{Index: id.Index, Term: 7, Kind: raft.EntryCommand})
	}
	r.answer(answers, noReason)
	r.applied(entries, [][]byte{[]byte("1"), []byte("2"), []byte("3")})
	require.Len(t, passed, 2)
	require.Len(t, passed[1], 3)
	for i, of := range []int{0, 1, 3} {
		expect.Equal(t, batch[of], passed[1][i].message)
		expect.Equal(t, raft.ForwardReply{Index: raft.Index(i + 1), EntryTerm: 7, Data: fmt.Append(nil, i+1)}, passed[1][i].reply)
	}
	proposals, _, bytes := r.depth()
	expect.Zero(t, proposals)
	expect.Zero(t, bytes)
	r.carry(batch[:2], raft.ErrClosed)
	require.Len(t, passed, 3)
	expect.Len(t, passed[2], 2)
	expect.ErrorIs(t, passed[2][1].err, raft.ErrClosed)
}

// A transfer that the core has may take place, whatever ends its call. One that it has not is dropped.
func TestRequests_ATransferThatMayTakePlace(t *testing.T) {
	r := newTable(nil)
	ask := func() *call {
		req, err := r.transfer(raft.TransferRequested{})
		require.NoError(t, err)
		return req
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	err := r.wait(gone, ask()).err
	expect.NotErrorIs(t, err, ErrOutcomeUnknown)
	expect.Empty(t, r.take(nil))

	waits, asked, ended := ask(), ask(), ask()
	require.Len(t, r.take(nil), 3)
	err = r.wait(gone, waits).err
	expect.ErrorIs(t, err, ErrOutcomeUnknown)
	expect.ErrorIs(t, err, context.Canceled)
	outcome, _ := outcomeOf(err)
	expect.Equal(t, raft.ForwardUnknown, outcome)
	r.answer([]raft.Answer{{RequestID: asked.requestID, Kind: raft.AnswerUnknown}}, (&Node{}).explain)
	expect.ErrorIs(t, (<-asked.outcome).err, ErrOutcomeUnknown)
	r.end(raft.ErrClosed)
	expect.ErrorIs(t, (<-ended.outcome).err, ErrOutcomeUnknown)
}
