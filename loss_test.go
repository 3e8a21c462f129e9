package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// suspected returns a member of abc in term 6 whose log is 1@0 2@1 3@1 4@3 5@3. The leader e of that term has
// shown that the member has acknowledged entries up to 9. The member's configuration does not name e.
func suspected(t *testing.T) *core {
	t.Helper()
	c := follower(t, 5, 1, 1, 3, 3)
	out := c.receive("e", 6, appendOf(id(9, 6), 9))
	require.Contains(t, traced(out), raft.TraceSuspected)
	require.Nil(t, out.Write.Mark, "one message of a stranger must not end a member")
	require.Equal(t, peer("e"), c.Status().Suspected)
	c.persist()
	return c
}

// namesE returns the configuration of abc in which e is a learner.
func namesE() raft.Configuration {
	c := raft.NewConfiguration(append(membersNamed("abc"), joining("e", raft.Learner)))
	c.Level = 1
	return c
}

// A member may have acknowledged more than its configuration shows. Its vote could then elect a candidate that lacks a
// committed entry. So it withholds its vote in every later term, too.
func TestSuspected_NeitherVotesNorCampaigns(t *testing.T) {
	for rule, ask := range map[string]func(c *core) raft.Output{
		"a vote in this term":         func(c *core) raft.Output { return c.receive("b", 6, raft.VoteRequest{Last: id(9, 6)}) },
		"a vote of a later term":      func(c *core) raft.Output { return c.receive("b", 7, raft.VoteRequest{Last: id(9, 6)}) },
		"a vote for another stranger": func(c *core) raft.Output { return c.receive("d", 7, raft.VoteRequest{Last: id(9, 6)}) },
		"a vote for that leader":      func(c *core) raft.Output { return c.receive("e", 7, raft.VoteRequest{Last: id(9, 6)}) },
		"a vote after a transfer": func(c *core) raft.Output {
			return c.receive("b", 7, raft.VoteRequest{Last: id(9, 6), Transfer: true})
		},
		"a pre-vote":                 func(c *core) raft.Output { return c.receive("b", 6, raft.PreVoteRequest{Last: id(9, 6)}) },
		"a pre-vote of a later term": func(c *core) raft.Output { return c.receive("d", 8, raft.PreVoteRequest{Last: id(9, 6)}) },
	} {
		t.Run(rule, func(t *testing.T) {
			c := suspected(t)
			c.after(afterAnyTimeout) // e has fallen silent
			for range 3 {
				ask(c)
				for _, m := range append(c.out.Send, c.out.Write.Then...) {
					assert.Contains(t, []raft.Body{raft.VoteReply{}, raft.PreVoteReply{}}, m.Body)
				}
				c.persist()
			}
		})
	}
	t.Run("its own attempt", func(t *testing.T) {
		c := suspected(t)
		for range 5 {
			assert.Empty(t, c.after(afterAnyTimeout).Send)
		}
		assert.Equal(t, raft.Follower, c.Leadership().Role)
	})
	t.Run("a transfer", func(t *testing.T) {
		c := suspected(t)
		assert.Empty(t, c.receive("e", 6, raft.TimeoutNow{}).Send)
		assert.Equal(t, raft.Follower, c.Leadership().Role)
	})
}

// A suspected member's answers to that leader must not count. The member may have forgotten a vote as well as entries.
func TestSuspected_TellsThatLeaderOfTheLossInsteadOfFollowingIt(t *testing.T) {
	c := suspected(t)
	conflict := raft.AppendConflict{Prev: 9, Hint: id(5, 3), Acknowledged: 9}
	for range 2 {
		out := c.receive("e", 6, raft.Heartbeat{Round: raft.RPCID{StartCount: 1, Counter: 1}})
		assert.Equal(t, []raft.Message{c.to("e", conflict)}, out.Send)
	}
	out := c.receive("b", 7, raft.Heartbeat{Round: raft.RPCID{StartCount: 1, Counter: 2}})
	assert.Empty(t, out.Send)
	assert.Len(t, bodies(out.Write.Then, "b"), 1)
	assert.IsType(t, raft.HeartbeatReply{}, out.Write.Then[0].Body, "a later leader was elected without its vote")
}

// A leader of a later term sends the configuration that names the leader which showed the loss. So that leader was no
// stranger.
func TestSuspected_MarksItsStoreOnceItsConfigurationNamesThatLeader(t *testing.T) {
	for rule, learn := range map[string]func(c *core) raft.Output{
		"by an append": func(c *core) raft.Output {
			return c.appendConfigs("d", 7, id(5, 3), 0, namesE())
		},
		"by a snapshot": func(c *core) raft.Output {
			s := offered(id(9, 6), 1)
			s.Config, s.ConfigIndex = namesE(), 6
			c.receive("d", 7, raft.InstallSnapshot{Snapshot: s})
			return c.step(raft.SnapshotArrived{From: peer("d"), Snapshot: s})
		},
	} {
		t.Run(rule, func(t *testing.T) {
			c := begin(t, snapConfig(), storedWhole(t, raft.HardState{Term: 5}, 1, 1, 3, 3))
			c.receive("e", 6, appendOf(id(9, 6), 9))
			c.persist()
			out := learn(c)
			require.NotNil(t, out.Write.Mark)
			mark := *out.Write.Mark
			assert.NotEmpty(t, mark.Detail)
			mark.Detail = ""
			assert.Equal(t, raft.Mark{Kind: raft.MarkStaleImage, By: peer("e"), Term: 6}, mark)
			assert.Empty(t, out.Write.Then, "it acknowledges nothing")
			last := out.Write.Log.After
			for _, e := range out.Write.Log.Entries {
				last = e.ID()
			}
			assert.Equal(t, c.Status().Last, last, "the store holds what the member has")
			assert.Equal(t, rule == "by a snapshot", out.Write.Snapshot != nil && out.Write.Log.Reset)
			c.persist()
			assert.Empty(t, c.receive("e", 7, raft.Heartbeat{}).Send, "e has not shown a loss in this term")
		})
	}
}

// A suspected member votes again once its log holds an entry of a later term. The leader of that term was elected without
// this member's vote, so that leader had all committed entries. Now this member has them, too. So a stranger cannot silence a
// member forever.
func TestSuspected_UntilALaterLeaderHasBroughtItsLogUpToDate(t *testing.T) {
	c := suspected(t)
	c.append("b", 7, id(4, 3), 0)
	assert.Equal(t, peer("e"), c.Status().Suspected, "b has led it, but has not sent an entry of its own term")
	c.append("b", 7, id(5, 3), 0, 6, 6, 6)
	assert.Equal(t, peer("e"), c.Status().Suspected, "b has still not sent one")
	out := c.append("b", 7, id(8, 6), 0, 7)
	assert.Contains(t, traced(out), raft.TraceTrusted)
	assert.Zero(t, c.Status().Suspected)
	c.persist()
	c.timeout()
	assert.Equal(t, raft.PreCandidate, c.Leadership().Role)
	out = c.receive("d", 8, raft.VoteRequest{Last: id(9, 7)})
	assert.Equal(t, []raft.Body{raft.VoteReply{Granted: true, Wall: int64(c.now)}}, bodies(out.Write.Then, "d"))
}

// A term has one leader. So if a stranger claims to lead the term in which a member leads, the stranger lies.
func TestSuspected_UntilAMemberLeadsTheSameTerm(t *testing.T) {
	c := suspected(t)
	c.receive("d", 6, raft.Heartbeat{})
	assert.Equal(t, peer("e"), c.Status().Suspected, "d is a stranger, too")
	c.receive("b", 5, raft.Heartbeat{})
	assert.Equal(t, peer("e"), c.Status().Suspected, "that was an earlier term")
	c.receive("b", 6, raft.VoteReply{})
	assert.Equal(t, peer("e"), c.Status().Suspected, "b does not claim to lead")
	out := c.receive("b", 6, raft.Heartbeat{})
	assert.Contains(t, traced(out), raft.TraceTrusted)
	assert.Zero(t, c.Status().Suspected)
	assert.EqualValues(t, "e", c.Leadership().Leader, "it does not know who leads, but it may vote in the next term")
}

// Appends of the leader that has shown the loss do not end the suspicion.
func TestSuspected_ThroughoutTheTermOfThatLeader(t *testing.T) {
	c := suspected(t)
	c.append("e", 6, id(5, 3), 0, 6, 6, 6, 6)
	assert.Equal(t, id(9, 6), c.Status().Last)
	assert.Equal(t, peer("e"), c.Status().Suspected)
	c.append("e", 6, id(10, 6), 0)
	c.receive("e", 6, appendOf(id(12, 6), 12))
	assert.NotContains(t, traced(c.out), raft.TraceSuspected, "it is reported once")
}

// The report may arrive while this member asks for pre-votes. In that case the leader has stepped down, and its append is
// late.
func TestSuspected_EndsItsOwnAttempt(t *testing.T) {
	c := follower(t, 5, 1, 1, 3, 3)
	c.receive("e", 6, raft.Heartbeat{})
	c.persist()
	c.receive("e", 6, raft.SteppedDown{})
	c.timeout()
	require.Equal(t, raft.PreCandidate, c.Leadership().Role)
	c.receive("e", 6, appendOf(id(9, 6), 9))
	assert.Equal(t, raft.Follower, c.Leadership().Role)
	c.grantPreVote("b")
	assert.Equal(t, raft.Leadership{Term: 6, Role: raft.Follower}, c.Leadership())
}

// A member with an empty store is suspected, too. The leader sends it nothing, and in a higher term the member could vote for
// any candidate.
func TestSuspected_WithoutALog(t *testing.T) {
	c := newUninitialized(t, "abc")
	c.receive("e", 6, appendOf(id(9, 6), 9))
	c.persist()
	assert.Equal(t, peer("e"), c.Status().Suspected)
	out := c.receive("b", 7, raft.VoteRequest{Last: id(9, 6)})
	assert.Empty(t, bodies(out.Write.Then, "b"))
}

// a runs on an older image of its disk, and votes for b in term 6. By the newer configuration, e also leads term 6. e may
// have had a's forgotten vote, or needed none. So both b and e lead term 6, and neither lies. b lacks 9@6, which a has
// acknowledged to e.
func TestSuspected_TheMemberThatItElectedItselfProvesNothing(t *testing.T) {
	c := follower(t, 5, 1, 1, 3, 3)
	c.timeout()
	out := c.receive("b", 6, raft.VoteRequest{Last: id(5, 3)})
	require.Len(t, out.Write.Then, 1, "given before the report came")
	c.persist()
	c.receive("e", 6, appendOf(id(9, 6), 9)) // 9@6 is committed by e and self's newer disk
	require.Equal(t, peer("e"), c.Status().Suspected)
	c.receive("b", 6, raft.Heartbeat{}) // self's own vote has elected b
	assert.Equal(t, peer("e"), c.Status().Suspected)
	c.after(afterAnyTimeout) // e fails, b has lost its quorum
	c.receive("b", 6, raft.PreVoteRequest{Last: id(6, 6)})
	assert.Equal(t, []raft.Body{raft.PreVoteReply{}}, bodies(c.out.Send, "b"))
	out = c.receive("b", 7, raft.VoteRequest{Last: id(6, 6)})
	assert.NotContains(t, bodies(append(out.Send, out.Write.Then...), "b"), raft.VoteReply{Granted: true, Wall: int64(c.now)}, "b lacks 9@6")
}

// The grant and the report arrive in the same batch, so the grant has not left yet.
func TestSuspected_AGrantOfTheSameStepDoesNotLeave(t *testing.T) {
	c := follower(t, 5, 1, 1, 3, 3)
	c.timeout()
	out := c.step(c.from("b", 6, raft.VoteRequest{Last: id(5, 3)}), c.from("e", 6, appendOf(id(9, 6), 9)))
	require.Equal(t, peer("e"), c.Status().Suspected)
	assert.NotContains(t, bodies(append(out.Send, out.Write.Then...), "b"), raft.VoteReply{Granted: true, Wall: int64(c.now)})
}

// A restart clears the suspicion, as the decision says.
func TestSuspected_UntilARestart(t *testing.T) {
	c := follower(t, 6, 1, 1, 3, 3)
	assert.Zero(t, c.Status().Suspected)
	out := c.receive("b", 7, raft.VoteRequest{Last: id(9, 6)})
	assert.Len(t, out.Write.Then, 1)
}

// This is the schedule behind the rule. While a runs, the members change from a, b, c to a, d, e. Then a returns with an
// older image of its disk, on which the members are still a, b, c. The leader e, which had committed with a alone, shows a
// the loss, and then fails. d lacks the committed entries, and needs a's vote.
func TestSuspected_DoesNotElectWhoLacksWhatItAcknowledged(t *testing.T) {
	c := suspected(t)
	c.after(afterAnyTimeout)
	for term := raft.Term(6); term < 12; term++ {
		c.receive("d", term, raft.PreVoteRequest{Last: id(8, 6)})
		assert.Equal(t, []raft.Body{raft.PreVoteReply{}}, bodies(c.out.Send, "d"))
		c.receive("d", term+1, raft.VoteRequest{Last: id(8, 6)})
		c.persist()
		assert.NotContains(t, bodies(append(c.out.Send, c.out.Write.Then...), "d"), raft.VoteReply{Granted: true, Wall: int64(c.now)})
		c.after(afterAnyTimeout)
	}
	c.receive("e", 20, raft.VoteRequest{Last: id(9, 6)})
	c.persist()
	assert.Equal(t, raft.Follower, c.Leadership().Role, "e is back: it leads with d, and brings a the configuration")
	c.appendConfigs("e", 20, id(5, 3), 0, namesE())
	assert.NotNil(t, c.out.Write.Mark)
}

// Acknowledged entries are durable (§3.8), and only a leader of a newer term may truncate them (Leader Append-Only). So a
// conflict below an acknowledged index proves a loss, if the follower answered it after the acknowledgement. The echo of the
// request shows that order. Nothing else proves a loss.
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
		{"it lacks the last entry that it acknowledged", peer("b"), 6, conflict(6, id(5, 4), 6), true},
		{"it lacks all of it", peer("b"), 6, conflict(6, id(0, 0), 6), true},
		{"the append that shows the loss is further on", peer("b"), 6, conflict(7, id(5, 4), 6), true},
		{"it has other entries in their place", peer("b"), 6, conflict(7, id(7, 3), 6), true},
		{"it lacks entries that it had acknowledged before the append, though not the latest ones", peer("b"), 6, conflict(7, id(3, 1), 4), true},

		{"an earlier answer that comes late", peer("b"), 6, conflict(6, id(3, 1), 0), false},
		{"a late answer to an append from after an earlier acknowledgement", peer("b"), 6, conflict(6, id(4, 4), 4), false},
		{"it lacks an entry that it never acknowledged", peer("b"), 6, conflict(7, id(6, 6), 6), false},
		{"it claims to have acknowledged more than it has", peer("b"), 6, conflict(7, id(3, 1), 7), false},
		{"it names an acknowledgement beyond the append", peer("b"), 6, conflict(4, id(3, 1), 6), false},
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

// progress returns a leader's view of another member, or zero if it no longer leads.
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

// Every append names the index that the receiver has acknowledged in this term by the time the leader makes the append.
func TestStale_EachAppendNamesWhatWasAcknowledged(t *testing.T) {
	c := leaderOf(t, "abc", 2, 1)
	first := raft.AppendRequest{Prev: id(2, 1), Last: id(3, 2), Commit: 0, Generation: 1}
	assert.Contains(t, bodies(c.out.Send, "b"), raft.Body(first), "nothing yet")
	c.receive("b", 2, raft.AppendReply{Match: 3})
	next := raft.AppendRequest{Prev: id(3, 2), Last: id(4, 2), Acknowledged: 3, Generation: 1}
	assert.Equal(t, []raft.Body{next}, bodies(c.propose("x").Send, "b"))
}

// lostBy returns a leader of abc to which b has acknowledged everything, and then shown that it lacks it.
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
	assert.EqualValues(t, 3, c.Status().Commit, "b acknowledges entries that it was never sent")
	c.receive("c", 2, raft.AppendReply{Match: 4})
	assert.EqualValues(t, 4, c.Status().Commit)
}

func TestStale_CountsForNoRead(t *testing.T) {
	c := lostBy(t)
	c.read(1)
	assert.Empty(t, c.echo("b", 0).Answers)
	assert.Len(t, c.echo("c", 3).Answers, 1)
}

// A member on an older image may reuse request ids. It must not take the answer to an earlier request for the answer to a new
// one.
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

// The leader refuses a read of a stale member, because that member could never apply the entries that the read needs.
func TestStale_ReadsNothingThroughTheLeader(t *testing.T) {
	c := lostBy(t)
	request := raft.ReadRequest{ID: raft.RPCID{StartCount: 1, Counter: 1}}
	assert.Equal(t, []raft.Body{raft.ReadReply{ID: request.ID, Refusal: raft.RefusedNotLeader}}, bodies(c.receive("b", 2, request).Send, "b"))
}

// A stale member gets only heartbeats and the append that shows its loss. This stays so even if its connection breaks and
// returns.
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

// A stale target cannot become the leader: the transfer ends as soon as the leader notices.
func TestStale_EndsATransferToIt(t *testing.T) {
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
			assert.Greater(t, c.out.WakeAt, c.now, "the next deadline is in the future")
		}
		assert.Equal(t, raft.AnswerAccepted, c.propose("y").Answers[0].Kind)
	}
}
