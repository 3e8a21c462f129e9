package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Acknowledged entries are durable (§3.8), and only a leader of a newer term may have them truncated (Leader
// Append-Only). So a conflict below what was acknowledged proves a loss, if it was answered after the
// acknowledgement, which the echo of the request shows. Nothing else proves a loss.
func TestStale_OnlyAnAnswerGivenAfterTheAcknowledgementProvesALoss(t *testing.T) {
	// Our log: 1@0 2@1 3@1 4@4 5@4 6@6 (the no-op), all of it acknowledged by b and c in term 6.
	conflict := func(prev raft.Index, hint raft.EntryID, acknowledged raft.Index) raft.AppendConflict {
		return raft.AppendConflict{Prev: prev, Hint: hint, Acknowledged: acknowledged}
	}
	for _, row := range []struct {
		rule  string
		from  raft.Peer
		term  raft.Term
		body  raft.Body
		stale bool
	}{
		{"it lacks the very entry that it acknowledged", peer("b"), 6, conflict(6, id(5, 4), 6), true},
		{"it lacks all of it", peer("b"), 6, conflict(6, id(0, 0), 6), true},
		{"what it lacks was asked for further on", peer("b"), 6, conflict(7, id(5, 4), 6), true},
		{"it has other entries in their place", peer("b"), 6, conflict(7, id(7, 3), 6), true},
		{"it lacks what it had acknowledged when it was asked, if not the last of it", peer("b"), 6, conflict(7, id(3, 1), 4), true},

		{"an earlier answer that comes late", peer("b"), 6, conflict(6, id(3, 1), 0), false},
		{"a late answer to what was sent after an earlier acknowledgement", peer("b"), 6, conflict(6, id(4, 4), 4), false},
		{"it lacks what it never acknowledged", peer("b"), 6, conflict(7, id(6, 6), 6), false},
		{"it claims to have acknowledged more than it has", peer("b"), 6, conflict(7, id(3, 1), 7), false},
		{"it names an acknowledgement beyond what was asked", peer("b"), 6, conflict(4, id(3, 1), 6), false},
		{"an honest restart answers a heartbeat with 0", peer("b"), 6, raft.HeartbeatReply{Match: 0}, false},
		{"an acknowledgement of less is an old one", peer("b"), 6, raft.AppendReply{Match: 2}, false},
		{"an answer of an earlier term", peer("b"), 5, conflict(6, id(3, 1), 6), false},
		{"in a newer term another leader may have cut its log", peer("b"), 7, conflict(6, id(0, 0), 6), false},
		{"another incarnation has acknowledged nothing", raft.Peer{ID: "b", Incarnation: 1}, 6, conflict(6, id(3, 1), 6), false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := replicating(t, 6, 1, 1, 4, 4)
			c.propose("x")
			m := c.from(row.from.ID, row.term, row.body)
			m.Message.From = row.from
			out := c.step(m, m)
			assert.Equal(t, row.stale, c.progress("b").State == "stale")
			count := 0
			for _, kind := range traced(out) {
				if kind == raft.TraceStaleMember {
					count++
				}
			}
			assert.Equal(t, row.stale, count == 1, "%v", out.Trace)
		})
	}
}

// progress returns what a leader knows about another member; zero if it no longer leads.
func (c *core) progress(id raft.NodeID) raft.PeerProgress {
	for _, p := range c.Status().Peers {
		if p.ID == id {
			return p
		}
	}
	return raft.PeerProgress{}
}

// A match belongs to one term: in the next term no member is stale, even if the leader is the same.
func TestStale_AMatchOfAnEarlierTermProvesNothing(t *testing.T) {
	c := replicating(t, 2, 1)
	c.receive("b", 3, raft.VoteReply{})
	c.persist()
	for c.Leadership().Role == raft.Follower {
		c.timeout()
	}
	c.grantPreVote("c")
	c.persist()
	out := c.receive("c", 4, raft.VoteReply{Granted: true})
	require.Equal(t, raft.Leader, c.Leadership().Role)
	for _, b := range bodies(out.Send, "b") {
		if r, ok := b.(raft.AppendRequest); ok {
			assert.Zero(t, r.Acknowledged)
		}
	}
	out = c.receive("b", 4, raft.AppendConflict{Prev: 3, Hint: id(1, 0)})
	assert.Equal(t, "probe", c.progress("b").State)
	assert.NotContains(t, traced(out), raft.TraceStaleMember)
}

// Every append says what its receiver had acknowledged in this term when it was made.
func TestStale_EachAppendNamesWhatWasAcknowledged(t *testing.T) {
	c := leaderOf(t, "abc", 2, 1)
	first := raft.AppendRequest{Prev: id(2, 1), Last: id(3, 2), Commit: 0, Generation: 1}
	assert.Contains(t, bodies(c.out.Send, "b"), raft.Body(first), "nothing yet")
	c.receive("b", 2, raft.AppendReply{Match: 3})
	next := raft.AppendRequest{Prev: id(3, 2), Last: id(4, 2), Acknowledged: 3, Generation: 1}
	assert.Equal(t, []raft.Body{next}, bodies(c.propose("x").Send, "b"))
}

// lostBy is a leader of abc to whom b has acknowledged everything, and then lacked it.
func lostBy(t *testing.T) *core {
	t.Helper()
	c := leaderOf(t, "abc", 2, 1)
	c.persist()
	for _, m := range membersNamed("abc")[1:] {
		c.receive(m.ID, 2, raft.AppendReply{Match: 3})
	}
	c.receive("b", 2, raft.AppendConflict{Prev: 3, Hint: id(2, 1), Acknowledged: 3})
	require.Equal(t, "stale", c.progress("b").State)
	return c
}

func TestStale_CountsForNoCommit(t *testing.T) {
	c := lostBy(t)
	c.propose("x")
	c.persist()
	c.receive("b", 2, raft.AppendReply{Match: 4})
	c.echo("b", 4)
	assert.EqualValues(t, 3, c.Status().Commit, "b acknowledges what it was never sent")
	c.receive("c", 2, raft.AppendReply{Match: 4})
	assert.EqualValues(t, 4, c.Status().Commit)
}

func TestStale_CountsForNoRead(t *testing.T) {
	c := lostBy(t)
	c.read(1)
	assert.Empty(t, c.echo("b", 0).Answers)
	assert.Len(t, c.echo("c", 3).Answers, 1)
}

// An older image may use the ids of requests again: an answer to the earlier one must not pass for another.
func TestStale_ItsReadsAreRefusedAtOnce(t *testing.T) {
	c := leaderOf(t, "abc", 2, 1)
	c.persist()
	for _, m := range membersNamed("abc")[1:] {
		c.receive(m.ID, 2, raft.AppendReply{Match: 3})
	}
	begun, waits := raft.RPCID{StartCount: 1, Counter: 1}, raft.RPCID{StartCount: 1, Counter: 2}
	c.receive("b", 2, raft.ReadRequest{ID: begun})
	c.receive("b", 2, raft.ReadRequest{ID: waits})
	require.Equal(t, 2, c.Status().Reads)
	out := c.receive("b", 2, raft.AppendConflict{Prev: 3, Hint: id(2, 1), Acknowledged: 3})
	for _, asked := range []raft.RPCID{begun, waits} {
		assert.Contains(t, bodies(out.Send, "b"), raft.ReadReply{ID: asked, Refusal: raft.RefusedNotLeader})
	}
	assert.Zero(t, c.Status().Reads)
	for _, body := range bodies(c.echo("c", 3).Send, "b") {
		_, answers := body.(raft.ReadReply)
		assert.False(t, answers, "%v was refused", body)
	}
}

// "a leader steps down if an election timeout elapses without a successful round of heartbeats to a
// majority of its cluster" (dissertation §6.2)
func TestStale_CountsForNoQuorumThatIsHeard(t *testing.T) {
	c := lostBy(t)
	for range 8 {
		c.after(heartbeatPace)
		c.echo("b", 0)
	}
	assert.NotEqual(t, raft.Leader, c.Leadership().Role)
}

func TestStale_IsNoTargetOfATransfer(t *testing.T) {
	c := lostBy(t)
	c.echo("b", 3)
	out := c.transferTo("b")
	require.Len(t, out.Answers, 1)
	assert.Equal(t, raft.RefusedNoTarget, out.Answers[0].Refusal)
	c.echo("c", 3)
	out = c.transferTo("")
	assert.Equal(t, []raft.Body{raft.TimeoutNow{}}, bodies(out.Send, "c"))
}

// A read of a stale member is refused: the member could never apply what the read needs.
func TestStale_ReadsNothingThroughTheLeader(t *testing.T) {
	c := lostBy(t)
	request := raft.ReadRequest{ID: raft.RPCID{StartCount: 1, Counter: 1}}
	assert.Equal(t, []raft.Body{raft.ReadReply{ID: request.ID, Refusal: raft.RefusedNotLeader}}, bodies(c.receive("b", 2, request).Send, "b"))
}

// A stale member is only sent the append that shows its loss, and heartbeats, whatever happens to its connection.
func TestStale_IsRefusedWithThePaceOfHeartbeats(t *testing.T) {
	refusal := raft.AppendRequest{Prev: id(3, 2), Last: id(3, 2), Acknowledged: 3, Generation: 1}
	c := lostBy(t)
	assert.Equal(t, []raft.Body{refusal}, bodies(c.out.Send, "b"))
	refusals := 0
	for range 12 {
		c.propose("x")
		c.step(raft.PeerLost{Peer: peer("b")})
		c.step(raft.PeerUp{ID: "b", Incarnation: peer("b").Incarnation})
		c.step(raft.SendDropped{To: peer("b"), Span: raft.Span{After: 3, Last: 4}})
		out := c.after(heartbeatPace / 2)
		for _, b := range bodies(out.Send, "b") {
			if r, ok := b.(raft.AppendRequest); ok {
				assert.Equal(t, refusal, r)
				refusals++
			}
		}
		c.echo("c", 0)
		require.Equal(t, "stale", c.progress("b").State)
	}
	assert.Equal(t, 6, refusals)
}

// A stale target cannot take over the leadership: the transfer ends as soon as the leader notices it.
func TestStale_EndsAHandOverToIt(t *testing.T) {
	for _, told := range []bool{false, true} {
		c := heardLeader(t)
		if !told {
			c.propose("x") // so that b is not told to campaign before it has that
		}
		c.transferTo("b")
		c.after(heartbeatPace / 5)
		out := c.receive("b", 2, raft.AppendConflict{Prev: 3, Hint: id(2, 1), Acknowledged: 3})
		require.Equal(t, "stale", c.progress("b").State)
		assert.Contains(t, out.Answers, raft.Answer{
			RequestID: requestIDOfTheTests, Kind: raft.AnswerRefused, Refusal: raft.RefusedTimedOut, Leader: "a",
		}, "told: %v", told)
		for range 4 {
			c.echo("c", 3)
			c.after(heartbeatPace / 2)
			assert.Greater(t, c.out.WakeAt, c.now, "it waits for nothing that has passed")
		}
		assert.Equal(t, raft.AnswerAccepted, c.propose("y").Answers[0].Kind)
	}
}
