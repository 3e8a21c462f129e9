package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// committed returns a member of abc in term 5. Its log is 1@0 2@1 3@1 4@3 5@3, and is committed up to the index that its
// leader has reported.
func committed(t *testing.T, commit raft.Index) *core {
	t.Helper()
	c := follower(t, 5, 1, 1, 3, 3)
	c.append("c", 5, id(5, 3), commit)
	require.Equal(t, commit, c.Status().Commit)
	return c
}

// appendOf returns an append with entries of these terms after prev.
func appendOf(prev raft.EntryID, acknowledged raft.Index, terms ...raft.Term) raft.AppendRequest {
	list := entries(prev.Index+1, terms...)
	last := prev
	if len(list) > 0 {
		last = list[len(list)-1].ID()
	}
	return raft.AppendRequest{Prev: prev, Last: last, Acknowledged: acknowledged, Entries: list}
}

// "Leader Completeness: if a log entry is committed in a given term, then that entry will be present in the
// logs of the leaders for all higher-numbered terms." (Figure 3) A leader that shows otherwise was elected by
// members that forgot acknowledged entries, and this member may be the last holder of the committed entry.
func TestMarked_ALeaderThatContradictsWhatIsCommitted(t *testing.T) {
	for _, row := range []struct {
		rule   string
		commit raft.Index
		body   raft.AppendRequest
		ours   raft.EntryID // zero: no contradiction
		theirs raft.EntryID
	}{
		{"its no-op has the index of a committed entry", 5, appendOf(id(3, 1), 0, 6), id(4, 3), id(4, 6)},
		{"the last committed entry is another", 5, appendOf(id(4, 3), 0, 6), id(5, 3), id(5, 6)},
		{"a later one of its entries is another", 5, appendOf(id(2, 1), 0, 1, 3, 6), id(5, 3), id(5, 6)},
		{"the entry before is another, of an earlier term", 5, appendOf(id(4, 2), 0, 6), id(4, 3), id(4, 2)},
		{"the entry before is another, of a later term", 5, appendOf(id(4, 4), 0, 6), id(4, 3), id(4, 4)},
		{"an entry further on is of an earlier term", 4, appendOf(id(9, 2), 0), id(4, 3), id(9, 2)},
		{"it appends after the committed entries", 5, appendOf(id(5, 3), 0, 6), id(0, 0), id(0, 0)},
		{"it has all committed entries, and more", 5, appendOf(id(9, 6), 0, 6), id(0, 0), id(0, 0)},
		{"it repeats committed entries", 5, appendOf(id(1, 0), 0, 1, 1, 3, 3, 6), id(0, 0), id(0, 0)},
		{"it truncates uncommitted entries", 3, appendOf(id(3, 1), 0, 6), id(0, 0), id(0, 0)},
		{"an entry further on is of the committed term", 4, appendOf(id(9, 3), 0), id(0, 0), id(0, 0)},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := committed(t, row.commit)
			out := c.receive("b", 6, row.body)
			if row.ours == id(0, 0) {
				assert.Nil(t, out.Write.Mark)
				assert.EqualValues(t, "b", c.Leadership().Leader)
				return
			}
			require.NotNil(t, out.Write.Mark)
			mark := *out.Write.Mark
			assert.Contains(t, mark.Detail, row.ours.String())
			mark.Detail = ""
			assert.Equal(t, raft.Mark{
				Kind: raft.MarkContradicted, By: peer("b"), Term: 6, Ours: row.ours, Theirs: row.theirs,
			}, mark)
			assert.Nil(t, out.Write.Log, "the log stays as it is")
			assert.Empty(t, out.Send)
			assert.Empty(t, out.Write.Then)
		})
	}
}

// A mark ends a member permanently, so it must not be set without proof.
func TestMarked_NotByWhatProvesNothing(t *testing.T) {
	contradiction := appendOf(id(3, 1), 0, 6)
	malformed := contradiction
	malformed.Last.Index++
	later := func(t *testing.T) *core { // its own last entry is of term 6, and committed
		c := follower(t, 6, 1, 1, 3, 6)
		c.append("c", 6, id(5, 6), 5)
		return c
	}
	plain := func(t *testing.T) *core { return committed(t, 5) }
	for _, row := range []struct {
		rule  string
		state func(*testing.T) *core
		from  raft.Peer
		term  raft.Term
		body  raft.Body
	}{
		{"a leader of an earlier term", plain, peer("b"), 4, contradiction},
		{"another that claims to lead the term of our leader", plain, peer("b"), 5, appendOf(id(3, 1), 0, 5)},
		{"an append that is malformed", plain, peer("b"), 6, malformed},
		{"a stranger", plain, peer("z"), 6, contradiction},
		{"another incarnation of a member", plain, raft.Peer{ID: "b", Incarnation: 1}, 6, contradiction},
		{"the leader of the contradicted entry's own term", later, peer("c"), 6, appendOf(id(4, 3), 0, 4)},
		{"a heartbeat", plain, peer("b"), 6, raft.Heartbeat{Commit: 99}},
		{"a vote request of an older log", plain, peer("b"), 6, raft.VoteRequest{Last: id(3, 1)}},

		{"nothing was acknowledged", plain, peer("b"), 6, appendOf(id(9, 6), 0)},
		{"the acknowledged entries are here, but later ones are missing", plain, peer("b"), 6, appendOf(id(9, 6), 5)},
		{"a stranger names an acknowledgement", plain, peer("z"), 6, appendOf(id(9, 6), 9)},
		{"an acknowledgement beyond the span", plain, peer("b"), 6, appendOf(id(5, 3), 9)},
		{"an acknowledgement of an earlier term", plain, peer("b"), 4, appendOf(id(9, 4), 9)},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := row.state(t)
			last := c.Status().Last
			m := c.from(row.from.ID, row.term, row.body)
			m.Message.From = row.from
			out := c.step(m)
			assert.Nil(t, out.Write.Mark)
			assert.Equal(t, last, c.Status().Last)
			assert.NotContains(t, traced(out), raft.TraceMarked)
		})
	}
}

// If a member lacks entries that it acknowledged in this very term, it runs on an older image of its disk. It reports the
// loss to the leader, and then ends. The leader no longer counts it.
func TestMarked_AStoreThatLacksWhatWasAcknowledged(t *testing.T) {
	for _, row := range []struct {
		rule string
		prev raft.EntryID // our log: 1@0 2@1 3@1 4@3 5@3
		hint raft.EntryID
	}{
		{"its log ends before", id(9, 6), id(5, 3)},
		{"another entry is in that place", id(5, 6), id(5, 3)},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := follower(t, 5, 1, 1, 3, 3)
			out := c.receive("b", 6, appendOf(row.prev, row.prev.Index))
			require.NotNil(t, out.Write.Mark)
			mark := *out.Write.Mark
			assert.NotEmpty(t, mark.Detail)
			mark.Detail = ""
			assert.Equal(t, raft.Mark{Kind: raft.MarkStaleImage, By: peer("b"), Term: 6}, mark)
			conflict := raft.AppendConflict{Prev: row.prev.Index, Hint: row.hint, Acknowledged: row.prev.Index}
			assert.Equal(t, []raft.Message{c.to("b", conflict)}, append(out.Send, out.Write.Then...))

			c.persist()
			out = c.receive("b", 6, raft.Heartbeat{})
			assert.Equal(t, []raft.Message{c.to("b", conflict)}, out.Send, "it may have been lost")
			assert.Empty(t, c.receive("c", 6, raft.Heartbeat{}).Send)
			assert.Empty(t, c.receive("b", 7, raft.Heartbeat{}).Send)

			for rule, change := range map[string]func(m *raft.Message){
				"for another member":                     func(m *raft.Message) { m.To.ID = "c" },
				"for another incarnation of this member": func(m *raft.Message) { m.To.Incarnation++ },
				"of another cluster":                     func(m *raft.Message) { m.Cluster[0]++ },
			} {
				stray := c.from("b", 6, raft.Heartbeat{})
				change(&stray.Message)
				out = c.step(stray)
				assert.Empty(t, out.Send, rule)
				assert.Equal(t, []raft.TraceEventKind{raft.TraceRefused}, traced(out), rule)
			}
		})
	}
}

// A removed voter is trusted as long as its removal may be rolled back.
func TestMarked_ByALeaderWhoseRemovalMayBeRolledBack(t *testing.T) {
	joint, left := leaving("c", 4)
	for rule, show := range map[string]raft.AppendRequest{
		"this store has lost what it acknowledged": appendOf(id(9, 6), 9),
		"another entry is committed":               appendOf(id(2, 1), 0, 6),
	} {
		for commit, marked := range map[raft.Index]bool{3: true, 4: false} {
			c := follower(t, 5, 1)
			c.appendConfigs("b", 5, id(2, 1), commit, joint, left)
			c.persist()
			require.Equal(t, left, c.Status().Config)
			out := c.receive("c", 6, show)
			assert.Equal(t, marked, out.Write.Mark != nil, rule)
		}
	}
}

// From the moment the core has the mark, even before the mark is durable, the member serves no request.
func TestMarked_ServesNothingAnyMore(t *testing.T) {
	c := committed(t, 4)
	c.read(1)
	out := c.step(
		c.from("c", 5, raft.AppendRequest{Prev: id(5, 3), Last: id(5, 3), Commit: 5}),
		c.from("b", 6, appendOf(id(3, 1), 0, 6)),
		raft.ReadRequested{RequestID: 2}, raft.TransferRequested{RequestID: 3},
		raft.Proposed{Proposals: []raft.Proposal{{RequestID: 4, Kind: raft.EntryCommand}}},
		c.from("b", 7, raft.VoteRequest{Last: id(9, 6)}),
		c.from("b", 7, appendOf(id(5, 3), 0, 7)),
	)
	require.NotNil(t, out.Write.Mark)
	assert.Zero(t, out.Apply, "entries that this step committed are not applied")
	var refused []raft.RequestID
	for _, a := range out.Answers {
		assert.Equal(t, raft.AnswerRefused, a.Kind)
		refused = append(refused, a.RequestID)
	}
	assert.Equal(t, []raft.RequestID{1, 2, 3, 4}, refused)
	assert.Empty(t, out.Send)
	assert.Empty(t, out.Write.Then, "promises from earlier in this step are not sent")
	assert.Equal(t, raft.Leadership{Term: 6}, c.Leadership())

	c.persist()
	for range 10 {
		out := c.after(afterAnyTimeout)
		assert.Empty(t, out.Send, "it does not campaign")
		assert.Zero(t, out.Write)
	}
	assert.Empty(t, c.receive("b", 6, raft.Heartbeat{}).Send, "it has lost no acknowledged entry, so it reports no loss")
}

// Reads that were confirmed earlier in the step are refused. Their answers have not left yet, and would show a history that
// the other members may not share.
func TestMarked_TakesBackWhatTheStepHasAnswered(t *testing.T) {
	contradiction := appendOf(id(1, 0), 0, 6)
	refusal := raft.Answer{RequestID: requestIDOfTheTests, Kind: raft.AnswerRefused, Refusal: raft.RefusedNotLeader}
	unknown := raft.Answer{RequestID: requestIDOfTheTests, Kind: raft.AnswerUnknown}
	for _, row := range []struct {
		rule   string
		want   raft.Answer
		events func(t *testing.T) (*core, []raft.Event)
	}{
		{"a follower's read, which its leader has just confirmed", refusal, func(t *testing.T) (*core, []raft.Event) {
			c := committed(t, 5)
			c.receive("c", 5, raft.Heartbeat{})
			asked := bodies(c.read(requestIDOfTheTests).Send, "c")
			require.Len(t, asked, 1)
			reply := raft.ReadReply{ID: asked[0].(raft.ReadRequest).ID, OK: true, Index: 5}
			return c, []raft.Event{c.from("c", 5, reply)}
		}},
		{"a leader's read, which a quorum has just confirmed", refusal, func(t *testing.T) (*core, []raft.Event) {
			c := replicating(t, 2, 1)
			c.read(requestIDOfTheTests)
			return c, []raft.Event{c.from("b", 2, raft.HeartbeatReply{Round: c.beat, Match: 3})}
		}},
		{"a transfer, to the leader that shows it", unknown, func(t *testing.T) (*core, []raft.Event) {
			c := heardLeader(t)
			c.transferTo("b")
			return c, []raft.Event{c.from("b", 6, raft.Heartbeat{})}
		}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c, events := row.events(t)
			out := c.step(append(events, c.from("b", 6, contradiction))...)
			require.NotNil(t, out.Write.Mark)
			assert.Equal(t, []raft.Answer{row.want}, out.Answers)
		})
	}
}

// Another entry may be committed at the index of an accepted entry. But if a leader contradicts this member, the accepted
// entry may still be committed elsewhere, because that leader may have it.
func TestMarked_DoesNotSayThatAnEntryIsNeverApplied(t *testing.T) {
	c := leaderOf(t, "abc", 2, 1)
	accepted := c.propose("x").Answers[0].ID
	require.Equal(t, id(4, 2), accepted)
	c.persist()
	out := c.step(
		c.from("b", 3, raft.AppendRequest{Prev: id(3, 2), Last: id(4, 3), Commit: 4, Entries: entries(4, 3)}),
		c.from("c", 4, appendOf(accepted, 0, 4)),
	)
	require.NotNil(t, out.Write.Mark)
	assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerUnknown, ID: accepted}}, out.Answers)
}

// No restart clears a mark.
func TestMarked_StoreDoesNotStart(t *testing.T) {
	stored := raft.Stored{Incarnation: 1, StartCount: 3, Hard: raft.HardState{Term: 5}}
	require.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("abc"))))
	for kind, want := range map[raft.MarkKind]any{
		raft.MarkContradicted: &raft.ContradictedError{}, raft.MarkStaleImage: &raft.StaleImageError{},
	} {
		stored.Mark = &raft.Mark{Kind: kind, By: peer("b"), Term: 5, Detail: "seen"}
		_, _, err := raft.NewCore(coreConfig(), stored, raft.Now{Mono: 1})
		assert.IsType(t, want, err)
		assert.ErrorContains(t, err, "seen")
	}
}

// An FSM that keeps its own state may remember an entry after this member has forgotten the term in which the entry was
// committed. A leader of an earlier term that is still running (Figure 8) does not contradict that entry.
func TestMarked_NotByWhatTheFSMAloneRemembers(t *testing.T) {
	member := func(commit raft.Index) *core {
		stored := raft.Stored{
			Incarnation: peer("a").Incarnation, StartCount: 3, Hard: raft.HardState{Term: 3}, Applied: id(3, 2), Commit: commit,
		}
		require.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("abc"))))
		for _, e := range entries(2, 1, 2) {
			require.NoError(t, stored.Log.Observe(e))
		}
		return begin(t, coreConfig(), stored)
	}
	c := member(2) // 3@2 was committed in term 4, which is forgotten
	out := c.append("b", 3, id(2, 1), 0, 3)
	assert.Nil(t, out.Write.Mark)
	assert.Equal(t, id(3, 2), c.Status().Last, "nothing is truncated, either")
	out = c.append("c", 4, id(3, 2), 3)
	assert.Equal(t, id(3, 2), c.Status().Last)
	require.NotNil(t, c.append("b", 5, id(2, 1), 0, 5).Write.Mark, "the leader of term 4 has reported the commit")
	require.NotNil(t, member(3).append("b", 4, id(2, 1), 0, 4).Write.Mark, "so has the leader before the crash")
}

// If only the FSM reports entries as committed, they prove nothing against a leader, not even after a restart. So the commit
// hint of a write does not include them.
func TestMarked_TheWordOfAnFSMIsNotWrittenDownAsALeadersWord(t *testing.T) {
	stored := raft.Stored{
		Incarnation: peer("a").Incarnation, StartCount: 3, Hard: raft.HardState{Term: 6}, Commit: 3, Applied: id(5, 2),
	}
	require.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("abc"))))
	for _, e := range entries(2, 1, 1, 1, 2) {
		require.NoError(t, stored.Log.Observe(e))
	}
	c := begin(t, coreConfig(), stored)
	require.EqualValues(t, 5, c.Status().Commit)
	c.receive("c", 6, raft.VoteRequest{Last: id(9, 5)})
	require.NotZero(t, c.out.Write.Seq)
	assert.EqualValues(t, 3, c.out.Write.Commit)

	stored.Hard, stored.Commit, stored.StartCount = *c.out.Write.Hard, c.out.Write.Commit, 4
	c = begin(t, coreConfig(), stored)
	out := c.receive("b", 6, appendOf(id(4, 1), 0, 6))
	assert.Nil(t, out.Write.Mark, "b was elected before the term in which entry 5 was committed")
}
