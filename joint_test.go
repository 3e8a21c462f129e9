package raft_test

import (
	"slices"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// These tests quote the rules of §6 for a leader that changes the voters.

func promote(ids ...raft.NodeID) (ch raft.Change) {
	for _, id := range ids {
		ch.Promote = append(ch.Promote, raft.Peer{ID: id})
	}
	return ch
}

// caughtUp returns a leader of abc in term 5; the learner d holds its log.
func caughtUp(t *testing.T) *core {
	c := withLearner(t)
	c.receive("d", 5, raft.AppendConflict{Prev: c.Status().Last.Index, Hint: id(0, 0)})
	c.hold("bcd")
	require.True(t, c.progress("d").CatchUp.Ready)
	return c
}

// answered returns the kinds of the answers of the last step.
func (c *core) answered() (kinds []raft.AnswerKind) {
	for _, a := range c.out.Answers {
		kinds = append(kinds, a.Kind)
	}
	return kinds
}

// "When the leader receives a request to change the configuration from C_old to C_new, it stores the configuration for
// joint consensus (C_old,new in the figure) as a log entry" (§6)
func TestPaper_Section6_VotersChangeThroughAJointConfiguration(t *testing.T) {
	c := caughtUp(t)
	c.change(promote("d"))
	assert.True(t, c.Status().Config.Changing(), "the first entry announces the change")
	c.hold("bcd")
	s := c.Status()
	require.True(t, s.Config.Joint())
	assert.Len(t, s.Config.Voters(), 4)
	assert.Equal(t, []raft.Peer{peer("a"), peer("b"), peer("c")}, s.Config.Outgoing)
	assert.Equal(t, raft.ChangeJoint, s.Change.Stage)
	assert.Less(t, s.Commit, s.ConfigIndex)
	c.hold("bcd")
	s = c.Status()
	assert.False(t, s.Config.Joint(), "C_new follows at once")
	assert.Less(t, s.Commit, s.ConfigIndex)
	assert.Empty(t, c.answered(), "C_new is not committed")
	c.hold("bc")
	assert.Equal(t, []raft.AnswerKind{raft.AnswerChanged}, c.answered())
	assert.Nil(t, c.Status().Change)
}

// "Agreement (for elections and entry commitment) requires separate majorities from both the old and new
// configurations." (§6)
func TestPaper_Section6_CommitmentNeedsBothMajorities(t *testing.T) {
	for holders, commits := range map[string]bool{"b": true, "d": false, "c": true, "": false} {
		c := caughtUp(t)
		c.change(raft.Change{Promote: []raft.Peer{peer("d")}, Remove: []raft.Peer{peer("c")}})
		c.hold("bcd") // {a b c} and {a b d} from now on
		require.True(t, c.Status().Config.Joint())
		joint := c.Status().ConfigIndex
		c.hold(holders)
		enough := commits && holders != "c" // a and c are a majority of the old voters, but not of the new ones
		assert.Equal(t, enough, c.Status().Commit >= joint, "held by a and %q", holders)
	}
}

// "Once C_old,new has been committed ... It is now safe for the leader to create a log entry describing C_new" (§6)
func TestPaper_Section6_TheNewConfigurationWaitsForTheJointOne(t *testing.T) {
	c := caughtUp(t)
	c.change(raft.Change{Demote: []raft.Peer{peer("c")}})
	joint := c.Status().ConfigIndex
	require.True(t, c.Status().Config.Joint())
	for range 5 {
		c.after(heartbeatPace)
		c.echo("b", 0)
		c.echo("c", 0)
		assert.Equal(t, joint, c.Status().ConfigIndex)
	}
	c.hold("b")
	assert.Equal(t, joint+1, c.Status().ConfigIndex)
}

// "log entries are replicated to all servers in both configurations", and "any server from either configuration may serve as
// leader" (§6). So a candidate asks the members of both halves for their votes, and needs a majority of each half.
func TestPaper_Section6_ElectionsNeedBothMajorities(t *testing.T) {
	old := raft.NewConfiguration(membersNamed("abc"))
	joint := raft.NewConfiguration(append(membersNamed("abc"), joining("d", raft.Voter)))
	joint.Members[1].Kind, joint.Members[2].Kind = raft.Leaving, raft.Leaving
	joint.Outgoing, joint.Level = []raft.Peer{peer("a"), peer("b"), peer("c")}, 1
	changing := raft.NewConfiguration(append(membersNamed("abc"), joining("d", raft.Learner)))
	changing.Members[1].Next, changing.Members[2].Next, changing.Members[3].Next = raft.NextRemoved, raft.NextRemoved, raft.NextVoter
	changing.Level, changing.Patience = 1, time.Minute
	require.NotEqual(t, old, joint)
	for voters, elected := range map[string]bool{"b": false, "bc": false, "d": false, "bd": true, "cd": true} {
		c := follower(t, 5, 1)
		c.appendConfigs("b", 5, id(2, 1), 1, changing, joint)
		c.persist()
		require.Equal(t, joint, c.Status().Config)
		c.timeout()
		var asked []raft.NodeID
		for _, m := range c.out.Send {
			asked = append(asked, m.To.ID)
		}
		assert.Equal(t, []raft.NodeID{"b", "c", "d"}, asked)
		for _, r := range voters {
			c.grantPreVote(raft.NodeID(string(r)))
		}
		assert.Equal(t, elected, c.Leadership().Role == raft.Candidate, "pre-votes of a and %s", voters)
		if !elected {
			continue
		}
		c.persist()
		for _, r := range voters {
			assert.Equal(t, raft.Candidate, c.Leadership().Role)
			c.receive(raft.NodeID(string(r)), 6, raft.VoteReply{Granted: true})
		}
		assert.Equal(t, raft.Leader, c.Leadership().Role)
	}
}

// "If the leader crashes, a new leader may be chosen under either C_old or C_old,new, depending on whether the
// winning candidate has received C_old,new." (§6) The new leader finishes the change of the former one.
func TestPaper_Section6_TheNextLeaderFinishesTheChange(t *testing.T) {
	joint := raft.NewConfiguration(membersNamed("abc"))
	joint.Members[2].Kind, joint.Level = raft.Learner, 1
	joint.Outgoing = []raft.Peer{peer("a"), peer("b"), peer("c")}
	c := follower(t, 5, 1)
	c.appendConfigs("b", 5, id(2, 1), 1, joint)
	c.persist()
	c.electedBy("b")
	require.Equal(t, raft.Leader, c.Leadership().Role)
	assert.Equal(t, joint, c.Status().Config)
	c.hold("b")
	s := c.Status()
	assert.Equal(t, s.Last.Index, s.ConfigIndex, "an entry of its term is committed, and the joint one with it")
	assert.False(t, s.Config.Joint())
	assert.Len(t, s.Config.Voters(), 2)
}

// "it replicates log entries but does not count itself in majorities", and "the leader steps down (returns to
// follower state) once it has committed the C_new log entry" (§6). It transfers its leadership first.
func TestPaper_Section6_ALeaderRemovesItself(t *testing.T) {
	removing := func() *core {
		c := replicating(t, 5, 1)
		c.change(remove("a"))
		require.True(t, c.Status().Config.Joint())
		c.hold("bc")
		require.False(t, c.Status().Config.Joint())
		require.Equal(t, raft.Leader, c.Leadership().Role, "C_new is not committed")
		return c
	}
	c := removing()
	c.hold("b")
	assert.Less(t, c.Status().Commit, c.Status().ConfigIndex, "of the two new voters, only b holds it")
	assert.Zero(t, c.Removed())
	out := c.acknowledge("c")
	assert.Equal(t, c.Status().ConfigIndex, c.Status().Commit)
	assert.Equal(t, []raft.AnswerKind{raft.AnswerChanged}, c.answered())
	assert.Contains(t, traced(out), raft.TraceRemoved)
	assert.Contains(t, traced(out), raft.TraceVotelessTransfer)
	assert.Contains(t, bodies(out.Send, "b"), raft.TimeoutNow{})
	assert.Equal(t, c.Status().ConfigIndex, c.Removed())
	assert.Equal(t, raft.ChangeTransfers, c.Status().Change.Stage)
	assert.Equal(t, raft.RefusedTransferring, c.propose("x").Answers[0].Refusal)
	out = c.receive("b", 6, raft.VoteRequest{Last: c.Status().Last, Transfer: true})
	assert.Equal(t, raft.Follower, c.Leadership().Role)
	c.after(20 * electionTimeout)
	assert.Equal(t, raft.Follower, c.Leadership().Role, "it does not campaign")

	c = removing()
	c.hold("bc")
	for begin := c.now; c.Leadership().Role == raft.Leader && c.now-begin < 20*electionTimeout; {
		c.after(heartbeatPace)
		c.echo("b", c.Status().Last.Index)
		c.echo("c", c.Status().Last.Index)
	}
	assert.Equal(t, raft.Follower, c.Leadership().Role, "it steps down even if the target does not campaign")
	assert.Equal(t, raft.Term(5), c.Leadership().Term)

	c = removing()
	c.hold("bc")
	c.persist()
	c.echo("b", 0)
	c.now += 2 * diskStallMax // the transfer is over, and a leader would check the idle disk
	out = c.step(c.from("b", 5, raft.HeartbeatReply{Round: c.beat}), c.from("c", 5, raft.HeartbeatReply{Round: c.beat}))
	require.Equal(t, raft.Follower, c.Leadership().Role)
	assert.Nil(t, out.Write.Hard, "only a leader checks its disk")
}

// leadsByOthers takes a member that asks for pre-votes. It lets b and c elect this member, and lets it commit an entry with
// their help. The member's own vote and log do not count.
func (c *core) leadsByOthers() {
	c.t.Helper()
	c.grantPreVote("b")
	assert.Equal(c.t, raft.PreCandidate, c.Leadership().Role, "its own vote does not count")
	c.grantPreVote("c")
	c.persist()
	c.receive("b", 6, raft.VoteReply{Granted: true})
	assert.Equal(c.t, raft.Candidate, c.Leadership().Role)
	c.receive("c", 6, raft.VoteReply{Granted: true})
	require.Equal(c.t, raft.Leader, c.Leadership().Role)
	c.hold("b")
	assert.Less(c.t, c.Status().Commit, c.Status().Last.Index)
	c.acknowledge("c")
	assert.Equal(c.t, c.Status().Last.Index, c.Status().Commit)
}

// If C_new removes or demotes a member, the cluster may still need that member until C_new is known to be committed. It may
// be one of the few holders of C_new. Its log is then longer than the logs of the members that have a vote, so those could
// not win an election.
func TestJoint_ALeavingMemberMayStillLead(t *testing.T) {
	joint, left := leaving("a", 4)
	holding := func() *core {
		c := follower(t, 5, 1)
		c.appendConfigs("b", 5, id(2, 1), 3, joint, left)
		c.persist()
		require.Equal(t, left, c.Status().Config)
		return c
	}
	c := holding()
	c.timeout()
	require.Equal(t, raft.PreCandidate, c.Leadership().Role)
	c.leadsByOthers()
	assert.Equal(t, raft.ChangeTransfers, c.Status().Change.Stage)

	c = holding()
	c.receive("b", 5, raft.Heartbeat{Commit: 4})
	c.after(20 * electionTimeout)
	assert.Equal(t, raft.Leadership{Term: 5, Leader: "b", LeaderIncarnation: 'b'}, c.Leadership(), "C_new is committed")
	assert.EqualValues(t, 4, c.Removed())
}

// A learner that will become a voter may be needed, too. Suppose the first leader appends C_old,new, under which it needs the
// learner's vote, and crashes. The next leader does not know of C_old,new. It sends its entries only to the learner, and is
// lost. Then the learner's log is the longest, and no other member can be elected.
func TestJoint_ALearnerThatIsToVoteMayLead(t *testing.T) {
	learner, changing := learnerToVote()
	holding := func(commit raft.Index, configs ...raft.Configuration) *core {
		c := begin(t, coreConfig(), storedBehindConfig(t, learner, 5, id(3, 5)))
		c.appendConfigs("b", 5, id(3, 5), commit, configs...)
		c.persist()
		c.after(2 * electionTimeout)
		return c
	}
	assert.Equal(t, raft.Follower, holding(3).Leadership().Role, "it stays a learner")
	assert.Equal(t, raft.PreCandidate, holding(3, changing).Leadership().Role)
	assert.Equal(t, raft.PreCandidate, holding(4, changing, learner).Leadership().Role, "the entry that gives it up is not committed")
	assert.Equal(t, raft.Follower, holding(5, changing, learner).Leadership().Role, "it was given up")

	c := holding(4, changing)
	c.leadsByOthers()
	assert.NotZero(t, c.Status().TransferringUntil, "it transfers its leadership to a voter")
}

// When a learner learns that it will become a voter, it waits for an election timeout before it campaigns.
func TestJoint_ALearnerDoesNotCampaignAtOnce(t *testing.T) {
	learner, changing := learnerToVote()
	c := begin(t, coreConfig(), storedBehindConfig(t, learner, 5, id(3, 5)))
	c.append("b", 5, id(3, 5), 3)
	c.receive("b", 5, raft.SteppedDown{})
	c.after(20 * electionTimeout)
	c.appendConfigs("b", 5, id(3, 5), 3, changing)
	require.Equal(t, changing, c.Status().Config)
	assert.Equal(t, raft.Follower, c.Leadership().Role)
	assert.GreaterOrEqual(t, c.out.WakeAt, c.now+electionTimeout)
	c.timeout()
	assert.Equal(t, raft.PreCandidate, c.Leadership().Role)
}

// learnerToVote returns two configurations. In both, a is a learner. In the second one, a will become a voter.
func learnerToVote() (learner, changing raft.Configuration) {
	a := raft.Member{ID: "a", Address: "a:1", Incarnation: 'a', Kind: raft.Learner}
	learner = raft.NewConfiguration(append(membersNamed("bcd"), a))
	learner.Level = 1
	changing = learner
	changing.Members, changing.Patience = slices.Clone(learner.Members), time.Second
	changing.Members[0].Next = raft.NextVoter
	return learner, changing
}

// A member that asks for pre-votes stops once it learns that it is no longer needed. For example, it may have stopped
// following a leader that stepped down, and then receive a late append of that leader.
func TestJoint_ARemovedMemberEndsItsCampaign(t *testing.T) {
	joint, left := leaving("a", 4)
	for commit, role := range map[raft.Index]raft.Role{3: raft.PreCandidate, 4: raft.Follower} {
		c := follower(t, 5, 1)
		c.append("b", 5, id(2, 1), 1)
		c.receive("b", 5, raft.SteppedDown{})
		c.timeout()
		require.Equal(t, raft.PreCandidate, c.Leadership().Role)
		c.appendConfigs("b", 5, id(2, 1), commit, joint, left)
		assert.Equal(t, role, c.Leadership().Role, "entry %d is committed", commit)
		c.grantPreVote("b")
		c.grantPreVote("c")
		assert.Equal(t, role == raft.PreCandidate, c.Leadership().Term == 6, "entry %d is committed", commit)
	}
}

// A leader that has removed itself steps down when it no longer hears the new voters.
func TestJoint_ARemovedLeaderNeedsTheOthers(t *testing.T) {
	c := replicating(t, 5, 1)
	c.change(remove("a", "b"))
	c.hold("bc")
	require.False(t, c.Status().Config.Joint())
	for begin := c.now; c.Leadership().Role == raft.Leader && c.now-begin < 20*electionTimeout; {
		c.after(heartbeatPace)
		c.echo("b", 0)
	}
	assert.Equal(t, raft.Follower, c.Leadership().Role)
}

// While the voters change, one half alone neither confirms reads nor keeps a leader in office.
func TestJoint_ReadsAndCheckQuorumNeedBothHalves(t *testing.T) {
	begun := func() *core {
		c := caughtUp(t)
		c.change(raft.Change{Promote: []raft.Peer{peer("d")}, Remove: []raft.Peer{peer("b"), peer("c")}})
		c.hold("bcd")
		require.True(t, c.Status().Config.Joint()) // {a b c} and {a d}
		return c
	}
	for echoes, safe := range map[string]bool{"b": false, "bc": false, "d": false, "bd": true} {
		c := begun()
		c.step(raft.ReadRequested{RequestID: 3})
		for _, r := range echoes {
			c.echo(raft.NodeID(string(r)), 0)
		}
		assert.Equal(t, safe, len(c.out.Answers) == 1, echoes)
		for begin := c.now; c.Leadership().Role == raft.Leader && c.now-begin < 5*electionTimeout; {
			c.after(heartbeatPace)
			for _, r := range echoes {
				if c.Leadership().Role == raft.Leader {
					c.echo(raft.NodeID(string(r)), 0)
				}
			}
		}
		assert.Equal(t, safe, c.Leadership().Role == raft.Leader, echoes)
	}
}

// If a member was promoted but does not know it yet, it must vote, because its vote may be needed. (§6 and dissertation §4.1:
// a server grants its vote to a candidate that is not part of its latest configuration. It votes whatever its own role in
// that configuration is.)
func TestJoint_LearnersAndStrangersVote(t *testing.T) {
	members := membersNamed("abc")
	members[0].Kind = raft.Learner
	c := restart(t, members, raft.HardState{Term: 5}, 1)
	out := c.receive("z", 6, raft.VoteRequest{Last: id(9, 5)})
	assert.Empty(t, out.Send)
	assert.Equal(t, []raft.Message{c.to("z", raft.VoteReply{Granted: true})}, out.Write.Then)
	out = c.receive("z", 6, raft.PreVoteRequest{Last: id(9, 5)})
	assert.Len(t, append(out.Send, out.Write.Then...), 1)
	c.after(20 * electionTimeout)
	assert.Equal(t, raft.Follower, c.Leadership().Role, "a learner does not campaign")
}

// If a candidate's removal is committed here, the candidate gets no answer, because it could not be elected.
func TestJoint_ARemovedCandidateIsNotAnswered(t *testing.T) {
	c := withLearner(t)
	c.change(remove("c"))
	require.True(t, c.Status().Config.Joint())
	c.hold("bc")
	ask := raft.VoteRequest{Last: id(99, 5), Transfer: true}
	c.hold("bc")
	require.Equal(t, c.Status().ConfigIndex, c.Status().ConfigCommitted)
	for _, body := range []raft.Body{ask, raft.PreVoteRequest{Last: id(99, 5)}} {
		out := c.receive("c", 9, body)
		assert.Empty(t, out.Send)
		assert.Empty(t, out.Write)
		assert.Equal(t, []raft.TraceEventKind{raft.TraceVoteDenied}, traced(out))
	}
	assert.Equal(t, raft.Term(5), c.Leadership().Term)
}

// If a committed entry in the store has removed the member, the store refuses to start.
func TestStart_ARemovedMemberIsRefused(t *testing.T) {
	joint, left := leaving("a", 3)
	for commit, refused := range map[raft.Index]bool{2: false, 3: true} {
		stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3, Hard: raft.HardState{Term: 5}, Commit: commit}
		require.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("abc"))))
		require.NoError(t, stored.Log.Observe(configEntry(id(2, 5), joint)))
		require.NoError(t, stored.Log.Observe(configEntry(id(3, 5), left)))
		core, _, err := raft.NewCore(coreConfig(), stored, raft.Now{Mono: 1})
		if !refused {
			require.NoError(t, err)
			assert.Zero(t, core.Removed())
			continue
		}
		var removed *raft.RemovedError
		require.ErrorAs(t, err, &removed)
		assert.Equal(t, raft.Index(3), removed.Index)
		assert.ErrorIs(t, err, raft.ErrRemoved)
	}
}

// The target of a transfer must have a vote in the new configuration. Otherwise it would have to transfer its leadership in
// turn.
func TestJoint_ATransferGoesToANewVoter(t *testing.T) {
	c := caughtUp(t)
	c.change(raft.Change{Promote: []raft.Peer{peer("d")}, Remove: []raft.Peer{peer("b"), peer("c")}})
	c.hold("bcd")
	require.True(t, c.Status().Config.Joint())
	for to, refused := range map[raft.NodeID]bool{"b": true, "": false} {
		out := c.step(raft.TransferRequested{RequestID: 3, To: to})
		assert.Equal(t, refused, len(out.Answers) > 0, to)
	}
	joint := c.Status().ConfigIndex
	c.hold("bcd")
	assert.Equal(t, joint, c.Status().ConfigIndex, "C_new waits for the end of the transfer")
	assert.Equal(t, c.Status().Commit, joint)
	assert.Contains(t, bodies(c.out.Send, "d"), raft.TimeoutNow{})
}

// A change that is made despite silent members may leave the leader without a quorum that it hears. The leader waits an
// election timeout for the silent members, and then steps down.
func TestChange_DespiteTheSilentMayEndTheLeadership(t *testing.T) {
	c := replicating(t, 5, 1)
	for range 20 { // b is silent
		c.after(electionTimeout / 2)
		c.echo("c", c.Status().Last.Index)
	}
	require.Equal(t, raft.Leader, c.Leadership().Role)
	out := c.change(raft.Change{Remove: []raft.Peer{peer("c")}, Despite: []raft.NodeID{"b"}})
	require.True(t, c.Status().Config.Joint())
	assert.Greater(t, out.WakeAt, c.now)
	c.after(electionTimeout - 1)
	assert.Equal(t, raft.Leader, c.Leadership().Role)
	c.after(1)
	assert.Equal(t, raft.Follower, c.Leadership().Role)
}

// If a configuration has fewer voters, more entries may be committed at once.
func TestJoint_FewerVotersMayCommitMore(t *testing.T) {
	c := replicating(t, 5, 1)
	c.change(remove("b", "c"))
	joint := c.Status().ConfigIndex
	c.propose("x")
	c.persist()
	c.receive("b", 5, raft.AppendReply{Match: joint})
	assert.False(t, c.Status().Config.Joint())
	assert.Equal(t, joint+1, c.Status().Commit, "C_new commits x, which only this member holds")
}

// A leader starts no membership change while its disk is stalled and another member could lead.
func TestJoint_NotWhileTheDiskIsStalled(t *testing.T) {
	c := caughtUp(t)
	c.change(promote("d"))
	c.persist()
	c.propose("x") // is not persisted
	c.now += raft.Time(1100 * time.Millisecond)
	c.step()
	require.True(t, c.Status().DiskStalled)
	for _, id := range []raft.NodeID{"b", "c", "d"} {
		c.receive(id, 5, raft.AppendReply{Match: c.Status().ConfigIndex})
	}
	assert.True(t, c.Status().Config.Changing())
	assert.Equal(t, c.Status().ConfigIndex, c.Status().ConfigCommitted)
}
