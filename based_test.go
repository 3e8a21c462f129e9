package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A log that begins behind 4@3 and holds 5@3 6@5, in term 6, seen from a leader of that term.
func TestBase_AppendsAtTheBorder(t *testing.T) {
	conflict := func(prev raft.Index, hint raft.EntryID) raft.Body { return raft.AppendConflict{Prev: prev, Hint: hint} }
	match := func(i raft.Index) raft.Body { return raft.AppendReply{Match: i} }
	for _, row := range []struct {
		rule    string
		request raft.AppendRequest
		reply   raft.Body // nil: none
		last    raft.EntryID
	}{
		{"behind the base", appendOf(id(4, 3), 0), match(4), id(6, 5)},
		{"behind the entry before it", appendOf(id(3, 1), 0), match(3), id(6, 5)},
		{"behind nothing", appendOf(id(0, 0), 0), match(0), id(6, 5)},
		{"behind the first entry", appendOf(id(5, 3), 0), match(5), id(6, 5)},
		{"up to the base", appendOf(id(2, 1), 0, 1, 3), match(4), id(6, 5)},
		{"across the base", appendOf(id(2, 1), 0, 1, 3, 3, 5), match(6), id(6, 5)},
		{"across the base and on", appendOf(id(2, 1), 0, 1, 3, 3, 5, 6), nil, id(7, 6)},
		{"across the base, another first entry", appendOf(id(3, 1), 0, 3, 6), nil, id(5, 6)},
		{"behind the base, another first entry", appendOf(id(4, 3), 0, 6), nil, id(5, 6)},
		{"beyond the log", appendOf(id(9, 5), 0), conflict(9, id(6, 5)), id(6, 5)},
		{"another term at the first entry", appendOf(id(5, 4), 0), conflict(5, id(5, 3)), id(6, 5)},
		{"the last entry in an earlier term: back to the first", appendOf(id(6, 4), 0), conflict(6, id(5, 3)), id(6, 5)},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := compacted(t, 6, id(4, 3), 3, 5)
			out := c.receive("b", 6, row.request)
			assert.Equal(t, row.last, c.Status().Last)
			assert.Nil(t, out.Write.Mark)
			if row.reply != nil {
				assert.Equal(t, []raft.Message{c.to("b", row.reply)}, out.Send)
				assert.Nil(t, out.Write.Log, "nothing is dropped")
				return
			}
			assert.Equal(t, []raft.Message{c.to("b", match(row.request.Last.Index))}, out.Write.Then)
			require.NotNil(t, out.Write.Log)
			assert.GreaterOrEqual(t, out.Write.Log.After.Index, raft.Index(4))
		})
	}
}

// Below the base a member cannot tell another log in a possible term from its own. It acknowledges such entries, and has
// the proof before it acknowledges any that count: those of the leader's own term.
func TestBase_BelowItOnlyAnImpossibleTermIsProof(t *testing.T) {
	c := compacted(t, 5, id(4, 3), 3, 5)
	c.receive("b", 6, raft.Heartbeat{})
	c.persist()
	out := c.receive("b", 6, appendOf(id(2, 1), 0))
	assert.Nil(t, out.Write.Mark)
	assert.Equal(t, []raft.Message{c.to("b", raft.AppendReply{Match: 2})}, out.Send)

	out = c.receive("b", 6, appendOf(id(2, 1), 0, 6))
	require.NotNil(t, out.Write.Mark)
	assert.Equal(t, id(4, 3), out.Write.Mark.Ours)
	assert.Equal(t, id(3, 6), out.Write.Mark.Theirs)
	assert.Empty(t, out.Send)
	assert.Empty(t, out.Write.Then)
}

// What lies at or below the base is committed, so an append that differs there comes from a leader whose cluster has lost
// it (Leader Completeness, Figure 3): the base proves it, at its own index or at a higher one with a lower term.
func TestBase_ALeaderThatContradictsIt(t *testing.T) {
	for _, row := range []struct {
		rule   string
		body   raft.AppendRequest
		theirs raft.EntryID
	}{
		{"the base in an earlier term", appendOf(id(4, 2), 0), id(4, 2)},
		{"the base in a later term", appendOf(id(4, 4), 0), id(4, 4)},
		{"below the base, a later term", appendOf(id(3, 4), 0), id(3, 4)},
		{"an entry at the base", appendOf(id(3, 1), 0, 6), id(4, 6)},
		{"an entry below the base", appendOf(id(2, 1), 0, 6), id(3, 6)},
		{"further on, an earlier term than the base", appendOf(id(9, 2), 0), id(9, 2)},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := compacted(t, 5, id(4, 3), 3, 5)
			out := c.receive("b", 6, row.body)
			require.NotNil(t, out.Write.Mark)
			assert.Equal(t, raft.MarkContradicted, out.Write.Mark.Kind)
			assert.Equal(t, id(4, 3), out.Write.Mark.Ours)
			assert.Equal(t, row.theirs, out.Write.Mark.Theirs)
		})
	}
	// A stranger is no witness, and no conflict could help it: nothing below the base is known here.
	c := compacted(t, 5, id(4, 3), 3, 5)
	m := c.from("b", 6, appendOf(id(4, 2), 0))
	m.Message.From.Incarnation++
	out := c.step(m)
	assert.Contains(t, traced(out), raft.TraceRefused)
	assert.Nil(t, out.Write.Mark)
	assert.Empty(t, append(out.Send, out.Write.Then...))

	// A leader that has proved an entry itself contradicts itself, not what is committed.
	c = compacted(t, 6, id(4, 3), 3, 5)
	c.receive("b", 6, appendOf(id(3, 1), 0))
	out = c.receive("b", 6, appendOf(id(3, 4), 0))
	assert.Nil(t, out.Write.Mark)
	assert.Contains(t, traced(out), raft.TraceRefused)
}

func TestBase_WhatAMemberStartsFrom(t *testing.T) {
	damaged := func(s *raft.Stored) { s.Log.Base.Cluster = raft.ClusterID{} }
	for _, row := range []struct {
		rule   string
		change func(*raft.Stored)
		want   error
	}{
		{"the FSM is at the base", func(*raft.Stored) {}, nil},
		{"it is behind the first entry", func(s *raft.Stored) { s.Applied = id(5, 3) }, nil},
		{"it is at the end", func(s *raft.Stored) { s.Applied = id(6, 5) }, nil},
		{"it is below the base", func(s *raft.Stored) { s.Applied = id(3, 1) }, &raft.AppliedBelowBaseError{Applied: id(3, 1), Base: id(4, 3)}},
		{"it is empty", func(s *raft.Stored) { s.Applied = id(0, 0) }, &raft.AppliedBelowBaseError{Base: id(4, 3)}},
		{"it is at another base", func(s *raft.Stored) { s.Applied = id(4, 2) }, &raft.AppliedBeyondLogError{Applied: id(4, 2), Last: id(6, 5)}},
		{"it is at another first entry", func(s *raft.Stored) { s.Applied = id(5, 4) }, &raft.AppliedBeyondLogError{Applied: id(5, 4), Last: id(6, 5)}},
		{"it is beyond the end", func(s *raft.Stored) { s.Applied = id(7, 5) }, &raft.AppliedBeyondLogError{Applied: id(7, 5), Last: id(6, 5)}},
		{"the base is impossible", damaged, &raft.CorruptError{}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			stored := storedBehind(t, 6, id(4, 3), 3, 5)
			row.change(&stored)
			inner, out, err := raft.NewCore(coreConfig(), stored, raft.Now{Mono: 1000 * ms, Wall: 1})
			if row.want != nil {
				var corrupt *raft.CorruptError
				if _, is := row.want.(*raft.CorruptError); is {
					require.ErrorAs(t, err, &corrupt)
					return
				}
				require.Equal(t, row.want, err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, stored.Applied.Index, inner.Status().Commit, "the base is committed, whatever the hint says")
			assert.Equal(t, clusterOfTheTests, inner.Status().Cluster)
			assert.Equal(t, peer("a"), inner.Status().Bootstrapper)
			require.NotNil(t, out.Config)
			assert.Equal(t, baseOf(id(4, 3)).Config, *out.Config)
			assert.Zero(t, out.Apply)
		})
	}
}

// A log may consist of its base alone: such a member votes, leads, and replicates from there on.
func TestBase_AMemberWithNothingButItsBase(t *testing.T) {
	c := compacted(t, 5, id(4, 3))
	assert.Equal(t, id(4, 3), c.Status().Last)
	c.timeout()
	c.grantPreVote("b")
	c.persist()
	out := c.receive("b", 6, raft.VoteReply{Granted: true})
	require.Equal(t, raft.Leader, c.Leadership().Role)
	assert.Equal(t, []raft.Span{{After: 4, Last: 5}}, appends(out.Send, "b"), "it sends from its base on")
	c.persist()
	out = c.receive("b", 6, raft.AppendReply{Match: 5})
	assert.Equal(t, id(5, 6), out.Apply)
	assert.Equal(t, id(4, 3), c.Status().Base)
}

// The answer to a read names the index at which the round began.
func TestBase_AProbedMemberSaysWhoBootstrappedItsCluster(t *testing.T) {
	c := compacted(t, 5, id(4, 3))
	out := c.receive("b", 0, raft.BootstrapProbe{ID: raft.RPCID{StartCount: 1, Counter: 1}, List: listNamed("bc")})
	require.Len(t, out.Send, 1)
	reply := out.Send[0].Body.(raft.BootstrapProbeReply)
	assert.Equal(t, raft.ProbeInitialized, reply.Result)
	assert.Equal(t, peer("a"), reply.Bootstrapper)
	assert.Equal(t, listNamed("abc"), reply.List)
}

// A leader sends nothing from below its base: it goes back to it, and no further.
func TestBase_ALeaderGoesBackToItsBase(t *testing.T) {
	lead := func() *core {
		c := compacted(t, 5, id(4, 3), 3, 5)
		c.timeout()
		c.grantPreVote("b")
		c.persist()
		c.receive("b", 6, raft.VoteReply{Granted: true})
		c.persist()
		return c
	}
	for _, row := range []struct {
		rule string
		hint raft.EntryID
		want raft.Span
	}{
		{"the follower ends at the last entry before ours", id(6, 5), raft.Span{After: 6, Last: 7}},
		{"it ends in the first entry", id(5, 3), raft.Span{After: 5, Last: 7}},
		{"its term skips the first entry", id(6, 2), raft.Span{After: 4, Last: 7}},
		{"it ends at the base", id(4, 3), raft.Span{After: 4, Last: 7}},
		{"it ends below the base", id(2, 1), raft.Span{After: 4, Last: 7}},
		{"it holds nothing", id(0, 0), raft.Span{After: 4, Last: 7}},
		{"it has a later term below the base", id(3, 9), raft.Span{After: 4, Last: 7}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := lead()
			c.receive("b", 6, raft.AppendReply{Match: 6})
			out := c.receive("c", 6, raft.AppendConflict{Prev: 6, Hint: row.hint})
			if row.hint == id(6, 5) {
				out = c.receive("c", 6, raft.AppendReply{Match: 6})
				assert.Empty(t, out.Trace)
				return
			}
			assert.Equal(t, []raft.Span{row.want}, appends(out.Send, "c"))
		})
	}
	// A follower that does not hold what it acknowledged is told so by the entry that it acknowledged.
	c := lead()
	c.receive("c", 6, raft.AppendReply{Match: 6})
	out := c.receive("c", 6, raft.AppendConflict{Prev: 7, Hint: id(2, 1), Acknowledged: 6})
	require.Contains(t, traced(out), raft.TraceStaleMember)
	assert.Contains(t, bodies(out.Send, "c"), raft.Body(raft.AppendRequest{Prev: id(6, 5), Last: id(6, 5), Acknowledged: 6, Generation: 1}))
	// One that acknowledged less than the base is told so by the base.
	c = lead()
	c.echo("c", 3)
	out = c.receive("c", 6, raft.AppendConflict{Prev: 6, Hint: id(2, 1), Acknowledged: 3})
	require.Contains(t, traced(out), raft.TraceStaleMember)
	assert.Contains(t, bodies(out.Send, "c"), raft.Body(raft.AppendRequest{Prev: id(4, 3), Last: id(4, 3), Acknowledged: 3, Generation: 1}))
}
