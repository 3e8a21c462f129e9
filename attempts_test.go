package raft_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// wait returns the shortest time that the member waits for answers.
func (c *core) wait() raft.Time { return c.Status().Election.Wait }

// standing returns a candidate of abc in term 2 whose vote requests have left.
func standing(t *testing.T) *core {
	c := candidateOf(t, "abc", 2, 1)
	c.persist()
	return c
}

// "Slow is not dead … waits grow with a member's own attempts whose answers or writes came late, and fall
// back with the first commit of a term."
func TestAttempts_WhatAWaitGrowsWith(t *testing.T) {
	for _, row := range []struct {
		rule string
		play func(c *core)
		want raft.Time
	}{
		{"silence alone does not lengthen it", func(c *core) {
			for range 20 {
				c.timeout()
			}
		}, electionTimeout},
		{"a prompt answer does not lengthen it", func(c *core) {
			c.after(electionTimeout - ms)
			c.receive("b", 1, raft.PreVoteReply{ID: c.round})
		}, electionTimeout},
		{"a late answer lengthens it until it covers the answer's delay", func(c *core) {
			round, asked := c.round, c.now
			for c.now < asked+5*electionTimeout {
				c.after(5 * ms)
			}
			c.receive("b", 1, raft.PreVoteReply{ID: round})
		}, 8 * electionTimeout},
		{"an answer to the first of many attempts lengthens it", func(c *core) {
			round := c.round
			for range 40 {
				c.timeout()
			}
			c.receive("b", 1, raft.PreVoteReply{ID: round})
		}, 64 * electionTimeout},
		{"a denial is an answer, too", func(c *core) {
			round := c.round
			c.after(electionTimeout + ms)
			c.receive("b", 1, raft.PreVoteReply{ID: round, Granted: false})
		}, 2 * electionTimeout},
		{"more answers that are as late do not lengthen it again", func(c *core) {
			round := c.round
			c.after(electionTimeout + ms)
			c.receive("b", 1, raft.PreVoteReply{ID: round})
			c.receive("c", 1, raft.PreVoteReply{ID: round})
			c.receive("c", 1, raft.PreVoteReply{ID: round})
		}, 2 * electionTimeout},
		{"the answer of a member without a vote does not count", func(c *core) {
			c.after(20 * electionTimeout)
			c.receive("z", 1, raft.PreVoteReply{ID: c.round})
		}, electionTimeout},
		{"an answer to an earlier start does not count", func(c *core) {
			c.after(20 * electionTimeout)
			c.receive("b", 1, raft.PreVoteReply{ID: raft.RPCID{StartCount: 2, Counter: 1}})
		}, electionTimeout},
		{"at most 64 timeouts", func(c *core) {
			round := c.round
			c.after(1000 * electionTimeout)
			c.receive("b", 1, raft.PreVoteReply{ID: round})
		}, 64 * electionTimeout},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := follower(t, 1, 1)
			c.timeout()
			row.play(c)
			assert.Equal(t, row.want, c.wait())
			if c.Leadership().Role == raft.PreCandidate {
				assert.LessOrEqual(t, c.out.WakeAt-c.now, 2*row.want)
			}
		})
	}
}

// If the write of a member's own vote is slow, or answers to its vote requests are late, the wait grows, too.
func TestAttempts_SlowVotesLengthenTheWait(t *testing.T) {
	c := candidateOf(t, "abc", 2, 1)
	c.after(3 * electionTimeout)
	assert.Equal(t, electionTimeout, c.wait(), "the write is not finished yet")
	out := c.persist()
	assert.Equal(t, 4*electionTimeout, c.wait())
	assert.GreaterOrEqual(t, out.WakeAt-c.now, 4*electionTimeout, "it applies to the running attempt, too")

	c = standing(t)
	asked := c.now
	c.timeout() // gives up
	c.grantPreVote("b")
	require.EqualValues(t, 3, c.Leadership().Term)
	c.now = asked + 3*electionTimeout
	c.receive("c", 2, raft.VoteReply{})
	assert.Equal(t, 4*electionTimeout, c.wait(), "an answer to the earlier term's request")
}

// withALongWait returns a follower that has the longest wait because an answer came late.
func withALongWait(t *testing.T) *core {
	c := follower(t, 1, 1)
	c.timeout()
	round := c.round
	c.after(40 * electionTimeout)
	c.receive("c", 1, raft.PreVoteReply{ID: round})
	require.Equal(t, 64*electionTimeout, c.wait())
	return c
}

func TestAttempts_WhatEndsALongWait(t *testing.T) {
	c := withALongWait(t)
	c.receive("b", 2, raft.Heartbeat{})
	assert.Equal(t, 64*electionTimeout, c.wait(), "the new leader has not committed yet")
	c.append("b", 2, id(2, 1), 2)
	assert.Equal(t, 64*electionTimeout, c.wait(), "commits of earlier terms do not count for this one")
	c.append("b", 2, id(2, 1), 3, 2)
	assert.Equal(t, electionTimeout, c.wait(), "the first commit of the term")

	c = withALongWait(t)
	out := c.step(raft.PeerUp{ID: "b", Incarnation: peer("b").Incarnation})
	assert.Equal(t, electionTimeout, c.wait(), "a link that returns")
	assert.LessOrEqual(t, out.WakeAt-c.now, 2*electionTimeout)
	round := c.round
	c.timeout()
	c.receive("c", 1, raft.PreVoteReply{ID: round})
	assert.Equal(t, electionTimeout, c.wait(), "answers to requests from before its return do not count")
}

// "Grants of the present term count whenever they come, unless this member has led that term or heard its
// leader."
func TestAttempts_LateVotesCount(t *testing.T) {
	grant := raft.VoteReply{Granted: true}
	for _, row := range []struct {
		rule string
		play func(c *core)
		want raft.Leadership
	}{
		{"while it campaigns", func(*core) {}, raft.Leadership{Term: 2, Leader: "a", LeaderIncarnation: 'a', Role: raft.Leader}},
		{"after it has given up and asks for pre-votes", func(c *core) { c.timeout(); c.timeout() },
			raft.Leadership{Term: 2, Leader: "a", LeaderIncarnation: 'a', Role: raft.Leader}},
		{"not in the next term", func(c *core) { c.timeout(); c.grantPreVote("c") }, raft.Leadership{Term: 3, Role: raft.Candidate}},
		{"not once it has heard another leader", func(c *core) { c.receive("c", 2, raft.Heartbeat{}) },
			raft.Leadership{Term: 2, Leader: "c", LeaderIncarnation: 'c', Role: raft.Follower}},
		{"not once that leader has stepped down", func(c *core) {
			c.receive("c", 2, raft.Heartbeat{})
			c.receive("c", 2, raft.SteppedDown{})
		}, raft.Leadership{Term: 2, Role: raft.Follower}},
		{"not once it has led the term itself", func(c *core) {
			c.receive("c", 2, raft.VoteReply{Granted: true})
			for c.Leadership().Role == raft.Leader {
				c.timeout()
			}
		}, raft.Leadership{Term: 2, Role: raft.Follower}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := standing(t)
			row.play(c)
			c.receive("b", 2, grant)
			assert.Equal(t, row.want, c.Leadership())
		})
	}
	t.Run("not in another life", func(t *testing.T) {
		c := restart(t, membersNamed("abc"), raft.HardState{Term: 2, Vote: peer("a")}, 1)
		c.receive("b", 2, grant)
		c.receive("c", 2, grant)
		assert.Equal(t, raft.Leadership{Term: 2}, c.Leadership())
	})
}

// "A voter whose vote is on its way to the disk, and for the wait after it, neither stands nor grants
// pre-votes to others."
func TestAttempts_AVoteBindsItsGiver(t *testing.T) {
	asks := func(c *core, who raft.NodeID) bool {
		out := c.receive(who, 2, raft.PreVoteRequest{ID: raft.RPCID{StartCount: 1, Counter: uint64(c.now)}, Last: id(2, 1)})
		for _, body := range bodies(append(out.Send, out.Write.Then...), who) {
			if r, ok := body.(raft.PreVoteReply); ok {
				return r.Granted
			}
		}
		t.Fatal("no answer")
		return false
	}
	c := follower(t, 1, 1)
	c.receive("b", 2, raft.VoteRequest{Last: id(2, 1)})
	require.Equal(t, peer("b"), c.vote(t))
	c.after(10 * electionTimeout)
	assert.Equal(t, raft.Follower, c.Leadership().Role, "it does not campaign against its candidate")
	assert.False(t, asks(c, "c"), "on its way")
	assert.False(t, asks(c, "b"), "b, too, should wait for the vote")
	c.persist()
	assert.False(t, asks(c, "c"), "it may elect b")
	assert.True(t, asks(c, "b"), "b has given up: the answer may be lost")
	wake := c.out.WakeAt
	assert.GreaterOrEqual(t, wake-c.now, electionTimeout, "the wait begins when the vote is durable")
	c.now = wake - ms
	assert.False(t, asks(c, "c"))
	c.now = wake
	assert.True(t, asks(c, "c"), "the wait is over")
}

// Once a term has had a leader, a vote of that term cannot elect another member. So the vote no longer binds its giver, even
// if it becomes durable only after that leader has stepped down. Otherwise the giver could wait for seconds.
func TestAttempts_AVoteOfATermThatWasWonBindsNobody(t *testing.T) {
	for _, row := range []struct {
		whose string
		play  func(*core)
	}{
		{"its own", func(c *core) { c.grantPreVote("b") }},
		{"a third member's", func(c *core) { c.receive("b", 2, raft.VoteRequest{Last: id(2, 1)}) }},
	} {
		t.Run(row.whose, func(t *testing.T) {
			c := withALongWait(t)
			row.play(c)
			require.EqualValues(t, 2, c.Leadership().Term)
			c.receive("c", 2, raft.Heartbeat{})
			c.receive("c", 2, raft.SteppedDown{})
			wait := 64 * electionTimeout
			out := c.persist()
			assert.LessOrEqual(t, out.WakeAt-c.now, wait, "its own attempt after the leader's end is not delayed")
			ask := raft.PreVoteRequest{ID: raft.RPCID{StartCount: 1, Counter: 1}, Last: id(2, 1)}
			out = c.receive("c", 2, ask)
			assert.Contains(t, bodies(out.Send, "c"), raft.Body(raft.PreVoteReply{ID: ask.ID, Granted: true}))
		})
	}
}

// vote returns the vote that the member's last write contains.
func (c *core) vote(t *testing.T) raft.Peer {
	require.NotNil(t, c.out.Write.Hard)
	return c.out.Write.Hard.Vote
}

// "When elections need more than two attempts, one log line and Status say which figure is above the timeout."
func TestAttempts_ASlowElectionIsExplainedOnce(t *testing.T) {
	c := follower(t, 1, 1)
	var explained []raft.TraceEvent
	for i := range 8 {
		out := c.timeout()
		if i == 3 {
			round := c.round
			c.after(2 * electionTimeout)
			c.receive("b", 1, raft.PreVoteReply{ID: round})
			assert.Equal(t, 2*electionTimeout, c.Status().Election.Answer)
		}
		for _, event := range out.Trace {
			if event.Kind == raft.TraceSlowElection {
				explained = append(explained, event)
			}
		}
	}
	require.Len(t, explained, 1)
	assert.Equal(t, "elections need more than two attempts: the answer to a request for votes took 300ms", explained[0].String())
	assert.GreaterOrEqual(t, c.Status().Election.Attempts, 8)
}

// A member has a long wait because its messages were delayed for a while. Then it hears a leader that committed long ago. In
// a cluster without writes, no further commit would end the long wait.
func TestAttempts_ALeaderThatHasCommittedEndsALongWait(t *testing.T) {
	c := follower(t, 2, 1)
	c.append("b", 2, id(2, 1), 3, 2)
	c.timeout()
	round := c.round
	c.after(40 * electionTimeout)
	c.receive("c", 2, raft.PreVoteReply{ID: round, Leader: "b"})
	require.Equal(t, 64*electionTimeout, c.wait())
	c.receive("b", 2, raft.Heartbeat{Commit: 3})
	assert.Equal(t, electionTimeout, c.wait())
	assert.LessOrEqual(t, c.out.WakeAt-c.now, 2*electionTimeout)
	c.receive("c", 2, raft.PreVoteReply{ID: round, Leader: "b"})
	assert.Equal(t, electionTimeout, c.wait(), "answers that are still to come do not count")
}

// If an answer takes longer than the longest wait, it brings no news, and does not delay the attempt again.
func TestAttempts_TheLongestWaitIsNotPutOffByLateAnswers(t *testing.T) {
	c := follower(t, 1, 1)
	c.timeout()
	round := c.round
	c.after(100 * electionTimeout)
	c.receive("b", 1, raft.PreVoteReply{ID: round})
	require.Equal(t, 64*electionTimeout, c.wait())
	wake := c.out.WakeAt
	c.after(30 * electionTimeout)
	c.receive("c", 1, raft.PreVoteReply{ID: round})
	assert.Equal(t, wake, c.out.WakeAt)
}

// One pause of all members lengthens the waits of all. The delayed messages may then split the vote. Suppose that a
// candidate's own vote is prompt, and a quorum answers promptly, but the candidate loses. The cause of the slowness is gone,
// so the long wait ends.
func TestAttempts_APromptElectionThatIsLostEndsALongWait(t *testing.T) {
	grown := func(t *testing.T) *core {
		c := withALongWait(t)
		c.grantPreVote("b")
		require.Equal(t, raft.Candidate, c.Leadership().Role)
		return c
	}
	c := grown(t)
	c.persist()
	assert.Equal(t, 64*electionTimeout, c.wait(), "nobody else has answered")
	c.receive("z", 2, raft.VoteReply{})
	assert.Equal(t, 64*electionTimeout, c.wait(), "z has no vote")
	out := c.receive("b", 2, raft.VoteReply{})
	assert.Equal(t, electionTimeout, c.wait())
	assert.LessOrEqual(t, out.WakeAt-c.now, 2*electionTimeout)
	c.now = out.WakeAt - ms
	out = c.receive("b", 2, raft.PreVoteRequest{ID: raft.RPCID{StartCount: 1, Counter: 1}, Last: id(2, 1)})
	assert.Contains(t, bodies(out.Send, "b"), raft.Body(raft.PreVoteReply{ID: raft.RPCID{StartCount: 1, Counter: 1}}))
	c.now += 2 * ms
	if c.Leadership().Role == raft.Candidate {
		out = c.receive("b", 2, raft.PreVoteRequest{ID: raft.RPCID{StartCount: 1, Counter: 2}, Last: id(2, 1)})
		assert.Contains(t, bodies(out.Send, "b"), raft.Body(raft.PreVoteReply{ID: raft.RPCID{StartCount: 1, Counter: 2}, Granted: true}),
			"its own vote binds it no longer than its wait")
	}

	c = grown(t)
	c.after(electionTimeout + ms)
	c.persist()
	c.receive("b", 2, raft.VoteReply{})
	assert.Equal(t, 64*electionTimeout, c.wait(), "its own disk was slow")

	c = grown(t)
	c.persist()
	c.after(electionTimeout + ms)
	c.receive("b", 2, raft.VoteReply{})
	assert.Equal(t, 64*electionTimeout, c.wait(), "the answer was slow")
}

// Late answers lengthen the wait, and prompt answers of a quorum reset it. Both draw a new deadline. They cannot delay the
// next attempt forever, even if the network delivers them again and again. Answers count as prompt only within an election
// timeout. After a reset, late answers to earlier requests no longer count. A wait doubles at most six times.
func TestAttempts_AnswersDoNotPutAnAttemptOffForEver(t *testing.T) {
	for _, row := range []struct {
		rule        string
		promptFirst bool
		most        raft.Time
	}{
		{"a wait that a prompt quorum ended does not begin again", false, 3 * electionTimeout},
		{"a growing wait ends at its bound", true, 2 * (1 + 2 + 4 + 8 + 16 + 32 + 64) * electionTimeout},
	} {
		t.Run(row.rule, func(t *testing.T) {
			for _, every := range []raft.Time{7 * ms, 40 * ms, 149 * ms} {
				c := restart(t, membersNamed("abcde"), raft.HardState{Term: 1}, 1)
				c.timeout()
				round := c.round
				c.after(electionTimeout - 5*ms)
				c.grantPreVote("b")
				c.grantPreVote("c")
				c.persist()
				require.Equal(t, raft.Candidate, c.Leadership().Role)
				var late, prompt []raft.Event
				for _, voter := range []raft.NodeID{"b", "c", "d", "e"} {
					late = append(late, c.from(voter, 1, raft.PreVoteReply{ID: round}))
					prompt = append(prompt, c.from(voter, 2, raft.VoteReply{}))
				}
				answers := slices.Concat(late, prompt)
				if row.promptFirst {
					answers = slices.Concat(prompt, late)
				}
				began := c.now
				for c.Leadership().Role == raft.Candidate && c.now <= began+row.most {
					c.now = min(c.now+every, c.out.WakeAt)
					c.step(answers...)
				}
				assert.Equal(t, raft.PreCandidate, c.Leadership().Role, "answers every %v", time.Duration(every))
			}
		})
	}
}

// A follower that wakes late waits once more, because messages of the leader may be queued.
func TestAttempts_AFollowerThatSleptThroughItsDeadlineWaitsOnce(t *testing.T) {
	c := follower(t, 2, 1)
	c.now = c.out.WakeAt + electionTimeout/2 + 1
	out := c.step()
	assert.Equal(t, raft.Follower, c.Leadership().Role)
	assert.Empty(t, out.Send)

	c.now = c.out.WakeAt + electionTimeout
	c.step()
	assert.Equal(t, raft.PreCandidate, c.Leadership().Role, "the second time it campaigns")

	c = follower(t, 2, 1)
	c.now = c.out.WakeAt + electionTimeout/2
	c.step()
	assert.Equal(t, raft.PreCandidate, c.Leadership().Role, "a small delay is no gap")
}

// "A leader that it ends tells its followers, who stand as after a lost connection."
func TestAttempts_WhoIsToldThatTheLeaderHasGone(t *testing.T) {
	c := follower(t, 2, 1)
	c.receive("b", 2, raft.Heartbeat{})
	out := c.receive("c", 2, raft.SteppedDown{})
	assert.Equal(t, raft.NodeID("b"), c.Leadership().Leader, "c does not lead")
	assert.GreaterOrEqual(t, out.WakeAt-c.now, electionTimeout)
	out = c.receive("b", 2, raft.SteppedDown{})
	assert.Equal(t, raft.Leadership{Term: 2}, c.Leadership())
	assert.LessOrEqual(t, out.WakeAt-c.now, electionTimeout/5, "it campaigns soon, but not at the same time as others")
	wake := out.WakeAt
	out = c.append("b", 2, id(2, 1), 0, 2)
	assert.Equal(t, raft.Leadership{Term: 2}, c.Leadership(), "a late append is accepted, but is no sign of a leader")
	assert.Equal(t, id(3, 2), c.Status().Last)
	assert.Equal(t, wake, out.WakeAt)
	out = c.receive("c", 2, raft.PreVoteRequest{ID: raft.RPCID{StartCount: 1, Counter: 1}, Last: id(3, 2)})
	assert.Contains(t, bodies(out.Send, "c"), raft.Body(raft.PreVoteReply{ID: raft.RPCID{StartCount: 1, Counter: 1}, Granted: true}),
		"it hears nobody")
}

// A member that grants a pre-vote delays its own attempt for one election. Suppose that a member can send messages but
// receives none. It keeps asking for pre-votes, but it must not keep the others from campaigning.
func TestAttempts_WhoAsksForEverIsGivenRoomOnce(t *testing.T) {
	c := follower(t, 1, 1)
	c.timeout()
	round := c.round
	c.after(electionTimeout + ms)
	c.receive("c", 1, raft.PreVoteReply{ID: round})
	require.Equal(t, 2*electionTimeout, c.wait())
	began := c.now
	for asked := uint64(1); c.Status().Election.Attempts == 1 && c.now < began+100*electionTimeout; asked++ {
		c.after(min(electionTimeout, c.out.WakeAt-c.now))
		if c.Status().Election.Attempts == 1 {
			c.receive("b", 1, raft.PreVoteRequest{ID: raft.RPCID{StartCount: 1, Counter: asked}, Last: id(2, 1)})
		}
	}
	assert.LessOrEqual(t, c.now-began, 6*electionTimeout, "its own wait, and the delay for one other member")
}
