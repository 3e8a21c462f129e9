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

// "2. Reply false if log doesn't contain an entry at prevLogIndex whose term matches prevLogTerm
// (§5.3)." (Figure 2, AppendEntries) The reply says up to where the logs may agree at most (§5.3:
// "the follower can include the term of the conflicting entry"): the last entry whose term is at most
// that of the leader's.
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
		{"beyond our log: it ends before", id(9, 5), id(6, 5), false},
		{"beyond our log, an earlier term: skip ours", id(9, 2), id(3, 1), false},
		{"another term at the place: skip the later ones", id(6, 3), id(3, 1), false},
		{"a later term at the place: nothing to skip", id(5, 5), id(5, 4), false},
		{"an earlier term than all: entry 1", id(5, 0), id(1, 0), false},
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
		after raft.EntryID // of the write; zero: none
		wrote []raft.Term
		last  raft.EntryID // of our log, then
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
	assert.Empty(t, out.Send, "the doubled one waits behind the first")
	assert.Nil(t, out.Write.Log)
	assert.Equal(t, []raft.Message{c.to("b", raft.AppendReply{Match: 3})}, out.Write.Then)

	c.persist()
	out = c.append("b", 2, id(2, 1), 0, 2, 2)
	assert.Equal(t, []raft.Message{c.to("b", raft.AppendReply{Match: 4})}, out.Send, "what is durable is acknowledged at once")
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
		{"not what comes behind the append: it may differ", id(2, 1), nil, 4, 2},
		{"with new entries", id(4, 1), []raft.Term{2, 2}, 5, 5},
		{"up to the last of them", id(4, 1), []raft.Term{2, 2}, 9, 6},
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
		assert.EqualValues(t, 3, c.Status().Commit, "what another leader proved does not count for this one")
	})
}

// The sender of a message shares its entries, so a later append of the same step does not write into them.
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

// Log Matching (Figure 3): "if two logs contain an entry with the same index and term, then the logs
// are identical in all entries up through the given index." A truncation gives the log another
// generation, so that a span named before it is never filled with entries written after it.
func TestAppend_TruncationRaisesTheGeneration(t *testing.T) {
	c := follower(t, 2, 1, 1)
	out := c.append("b", 2, id(3, 1), 0, 2)
	assert.EqualValues(t, 1, out.Write.Log.Generation)
	out = c.append("c", 3, id(2, 1), 0, 3)
	assert.EqualValues(t, 2, out.Write.Log.Generation)
	assert.Equal(t, []raft.TraceEventKind{raft.TraceNewerTerm, raft.TraceFollower, raft.TraceFollower, raft.TraceTruncated}, traced(out))
}

// State Machine Safety (Figure 3): "if a server has applied a log entry at a given index to its state
// machine, no other server will ever apply a different log entry for the same index." A leader that
// contradicts what is committed is ignored.
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
	assert.Equal(t, []raft.TraceEventKind{raft.TraceRefused}, traced(out), "the leader of the entry's own term lies")
	assert.Equal(t, id(3, 3), c.Status().Last)
}

// This release cannot read the bootstrap of an earlier one, and a trace event says so.
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

// A leader of a later release may send entries that this one cannot read. They are reported as such, not as damage or
// as a hostile message: the whole append is ignored, and the leader is still followed.
func TestAppend_EntryOfALaterReleaseIsRefused(t *testing.T) {
	bootstrap := bootstrapEntry(membersNamed("abc"))
	bootstrap.Data = []byte(`{"version": 3}`)
	for _, row := range []struct {
		rule  string
		first raft.Index
		entry raft.Entry
	}{
		{"an unknown kind", 3, raft.Entry{Index: 4, Term: 2, Kind: 9}},
		{"a later version of the record: no kind", 3, raft.Entry{Index: 4, Term: 2}},
		{"a later version of the bootstrap", 1, bootstrap},
		{"a later version of a configuration", 3, raft.Entry{Index: 4, Term: 2, Kind: raft.EntryConfiguration, Data: []byte(`{"version":2,"members":7}`)}},
		{"a higher feature level", 3, raft.Entry{Index: 4, Term: 2, Kind: raft.EntryConfiguration, Data: []byte(`{"version":1,"level":2,"new":7}`)}},
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
			assert.Equal(t, raft.NodeID("b"), c.Leadership().Leader, "its leader is a correct one")
		})
	}
}
