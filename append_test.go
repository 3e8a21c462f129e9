package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// "1. Reply false if term < currentTerm (§5.1)." (Figure 2, AppendEntries)
func TestAppend_EarlierTermIsRefused(t *testing.T) {
	c := follower(t, 5, 1, 1)
	out := c.append("b", 4, id(3, 1), 3, 4)
	assert.Equal(t, []raft.Message{c.to("b", raft.AppendConflict{Prev: 3})}, out.Send)
	assert.Zero(t, out.Write)
	assert.Equal(t, raft.Leadership{Term: 5}, c.Leadership())
	assert.Zero(t, c.Status().Commit)
}

// "2. Reply false if log doesn't contain an entry at prevLogIndex whose term matches prevLogTerm (§5.3)." (Figure 2,
// AppendEntries) The hint in the reply is the last entry at which the logs may agree (§5.3: "the follower can include the
// term of the conflicting entry"). That is the last entry whose term is at most the term of the leader's entry.
func TestAppend_ConsistencyCheck(t *testing.T) {
	for _, row := range []struct {
		rule string
		prev raft.EntryID // our log: 1@0 2@1 3@1 4@4 5@4 6@5
		hint raft.EntryID // zero and want: accepted
		want bool
	}{
		{"the last entry matches", id(6, 5), id(0, 0), true},
		{"an entry in the middle matches", id(3, 1), id(0, 0), true},
		{"entry 1 matches", id(1, 0), id(0, 0), true},
		{"beyond our log: our last entry", id(9, 5), id(6, 5), false},
		{"beyond our log, an earlier term: skip ours", id(9, 2), id(3, 1), false},
		{"another term at that index: skip entries of later terms", id(6, 3), id(3, 1), false},
		{"a later term at that index: nothing to skip", id(5, 5), id(5, 4), false},
		{"a term below all of ours: entry 1", id(5, 0), id(1, 0), false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := follower(t, 6, 1, 1, 4, 4, 5)
			out := c.append("b", 6, row.prev, 0)
			var want raft.Body = raft.AppendConflict{Prev: row.prev.Index, Hint: row.hint}
			if row.want {
				want = raft.AppendReply{Match: row.prev.Index}
			}
			assert.Equal(t, []raft.Message{c.to("b", want)}, out.Send)
			assert.Zero(t, out.Write, "nothing is written")
		})
	}
}

// adopt is the truth table of:
//
//	"3. If an existing entry conflicts with a new one (same index but different terms), delete the
//	existing entry and all that follow it (§5.3).
//	4. Append any new entries not already in the log." (Figure 2, AppendEntries)
func TestAppend_Adopts(t *testing.T) {
	for _, row := range []struct {
		rule  string
		prev  raft.EntryID // our log: 1@0 2@1 3@1 4@2 5@2
		terms []raft.Term
		after raft.EntryID // where the write begins; zero: there is none
		wrote []raft.Term
		last  raft.EntryID // end of our log afterwards
	}{
		{"nothing to append", id(5, 2), nil, id(0, 0), nil, id(5, 2)},
		{"an empty append in the middle shortens nothing", id(3, 1), nil, id(0, 0), nil, id(5, 2)},
		{"one more", id(5, 2), []raft.Term{3}, id(5, 2), []raft.Term{3}, id(6, 3)},
		{"all are there already", id(2, 1), []raft.Term{1, 2}, id(0, 0), nil, id(5, 2)},
		{"some are there already", id(3, 1), []raft.Term{2, 2, 3, 3}, id(5, 2), []raft.Term{3, 3}, id(7, 3)},
		{"the first conflicts", id(1, 0), []raft.Term{3, 3}, id(1, 0), []raft.Term{3, 3}, id(3, 3)},
		{"a later one conflicts", id(2, 1), []raft.Term{1, 3}, id(3, 1), []raft.Term{3}, id(4, 3)},
		{"the last conflicts", id(4, 2), []raft.Term{3, 3}, id(4, 2), []raft.Term{3, 3}, id(6, 3)},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := follower(t, 3, 1, 1, 2, 2)
			out := c.append("b", 3, row.prev, 0, row.terms...)
			if row.after == id(0, 0) {
				assert.Nil(t, out.Write.Log)
			} else {
				require.NotNil(t, out.Write.Log)
				assert.Equal(t, row.after, out.Write.Log.After)
				assert.Equal(t, entries(row.after.Index+1, row.wrote...), out.Write.Log.Entries)
			}
			assert.Equal(t, row.last, c.Status().Last)
			match := row.prev.Index + raft.Index(len(row.terms))
			reply := c.to("b", raft.AppendReply{Match: match})
			assert.Equal(t, []raft.Message{reply}, append(out.Send, out.Write.Then...))
		})
	}
}

// "Before responding to RPCs, a server must update its persistent state on stable storage." (§3.8)
func TestAppend_IsAcknowledgedWhenItIsDurable(t *testing.T) {
	c := follower(t, 2, 1)
	out := c.append("b", 2, id(2, 1), 0, 2, 2)
	assert.Empty(t, out.Send)
	assert.Equal(t, []raft.Message{c.to("b", raft.AppendReply{Match: 4})}, out.Write.Then)

	out = c.append("b", 2, id(2, 1), 0, 2)
	assert.Empty(t, out.Send, "the duplicate waits for the write of the first")
	assert.Nil(t, out.Write.Log)
	assert.Equal(t, []raft.Message{c.to("b", raft.AppendReply{Match: 3})}, out.Write.Then)

	c.persist()
	out = c.append("b", 2, id(2, 1), 0, 2, 2)
	assert.Equal(t, []raft.Message{c.to("b", raft.AppendReply{Match: 4})}, out.Send, "durable entries are acknowledged at once")
}

// "5. If leaderCommit > commitIndex, set commitIndex = min(leaderCommit, index of last new entry)."
// (Figure 2, AppendEntries)
func TestAppend_CommitFollowsTheLeaderAsFarAsItProved(t *testing.T) {
	for _, row := range []struct {
		rule   string
		prev   raft.EntryID // our log: 1@0 2@1 3@1 4@1
		terms  []raft.Term
		commit raft.Index
		want   raft.Index
	}{
		{"the leader's, if we have more", id(4, 1), nil, 3, 3},
		{"the last new entry, if the leader has more", id(4, 1), nil, 9, 4},
		{"not entries after the append: they may differ", id(2, 1), nil, 4, 2},
		{"with new entries", id(4, 1), []raft.Term{2, 2}, 5, 5},
		{"up to the last new entry", id(4, 1), []raft.Term{2, 2}, 9, 6},
		{"entries that were there already count", id(1, 0), []raft.Term{1, 1}, 9, 3},
		{"nothing is committed", id(4, 1), nil, 0, 0},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := follower(t, 2, 1, 1, 1)
			c.append("b", 2, row.prev, row.commit, row.terms...)
			assert.Equal(t, row.want, c.Status().Commit)
		})
	}
	t.Run("it never falls", func(t *testing.T) {
		c := follower(t, 2, 1, 1, 1)
		c.append("b", 2, id(4, 1), 4)
		c.append("b", 2, id(2, 1), 1)
		assert.EqualValues(t, 4, c.Status().Commit)
	})
	t.Run("a heartbeat commits no more than appends of its term have proved", func(t *testing.T) {
		c := follower(t, 2, 1, 1, 1)
		c.receive("b", 2, raft.Heartbeat{Commit: 4})
		assert.Zero(t, c.Status().Commit)
		c.append("b", 2, id(3, 1), 0)
		c.receive("b", 2, raft.Heartbeat{Commit: 4})
		assert.EqualValues(t, 3, c.Status().Commit)
		c.receive("c", 3, raft.Heartbeat{Commit: 4})
		assert.EqualValues(t, 3, c.Status().Commit, "the proof of another leader does not count for this one")
	})
}

// The append shares its entries with the sender. So a later append of the same step must not overwrite those entries.
func TestAppend_LeavesTheMessageAsItIs(t *testing.T) {
	c := follower(t, 2, 1)
	first := c.from("b", 2, raft.AppendRequest{Prev: id(2, 1), Last: id(4, 2), Entries: entries(3, 2, 2)})
	second := c.from("c", 3, raft.AppendRequest{Prev: id(3, 2), Last: id(4, 3), Entries: entries(4, 3)})
	out := c.step(first, second)
	assert.Equal(t, entries(3, 2, 2), first.Message.Body.(raft.AppendRequest).Entries)
	assert.Equal(t, entries(3, 2, 3), out.Write.Log.Entries)
	assert.Equal(t, id(2, 1), out.Write.Log.After)
	assert.Equal(t, []raft.Message{c.to("c", raft.AppendReply{Match: 4})}, out.Write.Then, "term 2 has passed")
}

// Log Matching (Figure 3): "if two logs contain an entry with the same index and term, then the logs are identical in all
// entries up through the given index." A truncation raises the log's generation. So a span that was named before the
// truncation is never filled with entries that were written after it.
func TestAppend_TruncationRaisesTheGeneration(t *testing.T) {
	c := follower(t, 2, 1, 1)
	out := c.append("b", 2, id(3, 1), 0, 2)
	assert.EqualValues(t, 1, out.Write.Log.Generation)
	out = c.append("c", 3, id(2, 1), 0, 3)
	assert.EqualValues(t, 2, out.Write.Log.Generation)
	assert.Equal(t, []raft.TraceEventKind{raft.TraceNewerTerm, raft.TraceFollower, raft.TraceFollower, raft.TraceTruncated}, traced(out))
}

// State Machine Safety (Figure 3): "if a server has applied a log entry at a given index to its state machine, no other
// server will ever apply a different log entry for the same index." The member ignores a leader that contradicts a committed
// entry.
func TestAppend_CommittedEntriesAreNeverReplaced(t *testing.T) {
	c := follower(t, 2, 1, 1)
	c.append("b", 2, id(3, 1), 3)
	out := c.append("c", 3, id(2, 1), 3, 3)
	assert.Nil(t, out.Write.Log)
	assert.Contains(t, traced(out), raft.TraceMarked)
	assert.Equal(t, id(3, 1), c.Status().Last)

	c = follower(t, 3, 1, 3)
	c.append("b", 3, id(3, 3), 3)
	out = c.append("b", 3, id(2, 1), 3, 1)
	assert.Nil(t, out.Write.Log)
	assert.Equal(t, []raft.TraceEventKind{raft.TraceRefused}, traced(out), "the leader of the entry's own term contradicts itself")
	assert.Equal(t, id(3, 3), c.Status().Last)
}

// This release cannot read the bootstrap of an earlier release. A trace event reports that.
func TestAppend_BootstrapOfAnEarlierReleaseIsRefused(t *testing.T) {
	bootstrap := bootstrapEntry(membersNamed("abc"))
	bootstrap.Data = []byte{0x81, 0xa7, 'v', 'e', 'r', 's', 'i', 'o', 'n', 1} // msgpack: {"version": 1}
	c := follower(t, 2, 1)
	before := c.Status().Last
	out := c.receive("b", 2, raft.AppendRequest{Last: bootstrap.ID(), Entries: []raft.Entry{bootstrap}})
	assert.Equal(t, before, c.Status().Last)
	require.NotEmpty(t, out.Trace)
	refusal := out.Trace[len(out.Trace)-1]
	assert.Equal(t, raft.TraceRefused, refusal.Kind)
	assert.Contains(t, refusal.Text, "of an earlier release")
}

// A leader of a later release may send entries that this release cannot read. The member reports them as such, not as damage
// or as a malformed message. It ignores the whole append, but still follows the leader.
func TestAppend_EntryOfALaterReleaseIsRefused(t *testing.T) {
	bootstrap := bootstrapEntry(membersNamed("abc"))
	bootstrap.Data = []byte(`{"version": 4}`)
	for _, row := range []struct {
		rule  string
		first raft.Index
		entry raft.Entry
	}{
		{"an unknown kind", 3, raft.Entry{Index: 4, Term: 2, Kind: 9}},
		{"a later version of the record, whose kind is unknown", 3, raft.Entry{Index: 4, Term: 2}},
		{"a later version of the bootstrap", 1, bootstrap},
		{"a later version of a configuration", 3, raft.Entry{Index: 4, Term: 2, Kind: raft.EntryConfiguration, Data: []byte(`{"version":2,"members":7}`)}},
		{"a higher feature level", 3, raft.Entry{Index: 4, Term: 2, Kind: raft.EntryConfiguration, Data: []byte(`{"version":1,"level":7,"new":7}`)}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := follower(t, 2, 1)
			prev, list := id(2, 1), append(entries(3, 2), row.entry)
			if row.first == 1 {
				prev, list = id(0, 0), []raft.Entry{row.entry}
			}
			before := c.Status()
			out := c.receive("b", 2, raft.AppendRequest{Prev: prev, Last: row.entry.ID(), Commit: row.entry.Index, Entries: list})
			assert.Empty(t, out.Send)
			assert.Zero(t, out.Write)
			assert.Equal(t, before.Last, c.Status().Last)
			assert.Equal(t, before.Commit, c.Status().Commit)
			require.NotEmpty(t, out.Trace)
			refusal := out.Trace[len(out.Trace)-1]
			assert.Equal(t, raft.TraceLaterVersion, refusal.Kind)
			assert.Equal(t, row.entry.ID(), refusal.ID)
			assert.Equal(t, raft.NodeID("b"), c.Leadership().Leader, "its leader is correct")
		})
	}
}

// The follower is in term 6. Its log begins after 4@3 and holds 5@3 6@5. It receives appends from a leader of term 6.
func TestBase_AppendsAtTheBorder(t *testing.T) {
	conflict := func(prev raft.Index, hint raft.EntryID) raft.Body { return raft.AppendConflict{Prev: prev, Hint: hint} }
	match := func(i raft.Index) raft.Body { return raft.AppendReply{Match: i} }
	for _, row := range []struct {
		rule    string
		request raft.AppendRequest
		reply   raft.Body // nil: none
		last    raft.EntryID
	}{
		{"after the base", appendOf(id(4, 3), 0), match(4), id(6, 5)},
		{"after the entry before the base", appendOf(id(3, 1), 0), match(3), id(6, 5)},
		{"after index 0", appendOf(id(0, 0), 0), match(0), id(6, 5)},
		{"after the first entry", appendOf(id(5, 3), 0), match(5), id(6, 5)},
		{"up to the base", appendOf(id(2, 1), 0, 1, 3), match(4), id(6, 5)},
		{"across the base", appendOf(id(2, 1), 0, 1, 3, 3, 5), match(6), id(6, 5)},
		{"across the base and beyond the log", appendOf(id(2, 1), 0, 1, 3, 3, 5, 6), nil, id(7, 6)},
		{"across the base, another first entry", appendOf(id(3, 1), 0, 3, 6), nil, id(5, 6)},
		{"after the base, another first entry", appendOf(id(4, 3), 0, 6), nil, id(5, 6)},
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

// Below the base, a member cannot distinguish another log from its own if the terms of that log are possible. So it
// acknowledges such entries. An acknowledgement counts only once it covers an entry of the leader's own term. Before the
// member acknowledges such an entry, it sees the proof that the logs differ.
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

// Entries at or below the base are committed. If an append differs there, the leader's cluster has lost committed entries
// (Leader Completeness, Figure 3). The proof is a different entry at the base's index, or an entry at a higher index with a
// term lower than the base's.
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
	// A stranger's append proves nothing, so the member sets no mark. It sends no conflict either, because it knows no
	// entries below the base that could help the stranger.
	c := compacted(t, 5, id(4, 3), 3, 5)
	m := c.from("b", 6, appendOf(id(4, 2), 0))
	m.Message.From.Incarnation++
	out := c.step(m)
	assert.Contains(t, traced(out), raft.TraceRefused)
	assert.Nil(t, out.Write.Mark)
	assert.Empty(t, append(out.Send, out.Write.Then...))

	// If a leader has proved an entry and then contradicts it, the leader contradicts itself. It does not contradict a
	// committed entry.
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
		{"it is at the first entry", func(s *raft.Stored) { s.Applied = id(5, 3) }, nil},
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
			assert.Equal(t, stored.Applied.Index, inner.Status().Commit, "the base is committed, whatever the commit hint is")
			assert.Equal(t, clusterOfTheTests, inner.Status().Cluster)
			assert.Equal(t, peer("a"), inner.Status().Bootstrapper)
			require.NotNil(t, out.Config)
			assert.Equal(t, baseOf(id(4, 3)).Config, *out.Config)
			assert.Zero(t, out.Apply)
		})
	}
}

// A log may consist of its base alone. A member with such a log votes, leads, and replicates from the base.
func TestBase_AMemberWithNothingButItsBase(t *testing.T) {
	c := compacted(t, 5, id(4, 3))
	assert.Equal(t, id(4, 3), c.Status().Last)
	out := c.electedBy("b")
	require.Equal(t, raft.Leader, c.Leadership().Role)
	assert.Equal(t, []raft.Span{{After: 4, Last: 5}}, appends(out.Send, "b"), "it sends the entries after its base")
	c.persist()
	out = c.receive("b", 6, raft.AppendReply{Match: 5})
	assert.Equal(t, id(5, 6), out.Apply)
	assert.Equal(t, id(4, 3), c.Status().Base)
}

// If entry 1 is compacted, a member still answers a probe with the bootstrapper and the members of its cluster.
func TestBase_AProbedMemberSaysWhoBootstrappedItsCluster(t *testing.T) {
	c := compacted(t, 5, id(4, 3))
	out := c.receive("b", 0, raft.BootstrapProbe{ID: raft.RPCID{StartCount: 1, Counter: 1}, List: listNamed("bc")})
	require.Len(t, out.Send, 1)
	reply := out.Send[0].Body.(raft.BootstrapProbeReply)
	assert.Equal(t, raft.ProbeInitialized, reply.Result)
	assert.Equal(t, peer("a"), reply.Bootstrapper)
	assert.Equal(t, listNamed("abc"), reply.List)
}

// A leader sends no entry from below its base. After a conflict, it goes back at most to the base.
func TestBase_ALeaderGoesBackToItsBase(t *testing.T) {
	lead := func() *core {
		c := compacted(t, 5, id(4, 3), 3, 5)
		c.electedBy("b")
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
	// If a follower lacks what it acknowledged, the leader shows the loss with the append that begins after the acknowledged
	// entry.
	c := lead()
	c.receive("c", 6, raft.AppendReply{Match: 6})
	out := c.receive("c", 6, raft.AppendConflict{Prev: 7, Hint: id(2, 1), Acknowledged: 6})
	require.Contains(t, traced(out), raft.TraceStaleMember)
	assert.Contains(t, bodies(out.Send, "c"), raft.Body(raft.AppendRequest{Prev: id(6, 5), Last: id(6, 5), Acknowledged: 6, Generation: 1}))
	// If the follower acknowledged less than the base, the leader shows the loss with the append that begins after the base.
	c = lead()
	c.echo("c", 3)
	out = c.receive("c", 6, raft.AppendConflict{Prev: 6, Hint: id(2, 1), Acknowledged: 3})
	require.Contains(t, traced(out), raft.TraceStaleMember)
	assert.Contains(t, bodies(out.Send, "c"), raft.Body(raft.AppendRequest{Prev: id(4, 3), Last: id(4, 3), Acknowledged: 3, Generation: 1}))
}
