package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// "When servers start up, they begin as followers." (§5.2)
func TestElection_ServersStartAsFollowers(t *testing.T) {
	for _, hard := range []raft.HardState{{Term: 2}, {Term: 3}, {Term: 3, Vote: peer("a")}, {Term: 3, Vote: peer("b")}} {
		c := restart(t, membersNamed("bac"), hard, 1, 2)
		assert.Equal(t, raft.Leadership{Term: hard.Term}, c.Leadership())
		assert.Empty(t, c.out.Send)
	}
}

// "If election timeout elapses without receiving AppendEntries RPC from current leader or granting
// vote to candidate: convert to candidate." (Figure 2, Followers) A pre-vote comes first (dissertation
// §9.6), and leaves term and vote alone.
func TestElection_FollowerThatHearsNobodyAsksForPreVotes(t *testing.T) {
	c := follower(t, 2, 1, 2)
	require.GreaterOrEqual(t, c.out.WakeAt, c.now+electionTimeout)

	out := c.timeout()

	round := raft.RPCID{StartCount: 3, Counter: 1}
	assert.Equal(t, []raft.Message{
		c.to("b", raft.PreVoteRequest{ID: round, Last: id(3, 2)}),
		c.to("c", raft.PreVoteRequest{ID: round, Last: id(3, 2)}),
	}, out.Send)
	assert.Zero(t, out.Write, "a pre-vote changes nothing")
	assert.Equal(t, raft.Leadership{Term: 2, Role: raft.PreCandidate}, c.Leadership())
}

// "... without receiving AppendEntries RPC from current leader or granting vote to candidate"
// (Figure 2, Followers)
func TestElection_TimerRestartsOnALeadersMessageAndOnAVote(t *testing.T) {
	for name, body := range map[string]raft.Body{
		"a heartbeat":      raft.Heartbeat{Round: raft.RPCID{StartCount: 1, Counter: 1}},
		"an append":        raft.AppendRequest{Prev: id(2, 1), Last: id(2, 1)},
		"an append behind": raft.AppendRequest{Prev: id(9, 1), Last: id(9, 1)},
		"a vote":           raft.VoteRequest{Last: id(2, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			c := follower(t, 2, 1)
			c.now = c.out.WakeAt - ms
			out := c.receive("b", 2, body)
			assert.GreaterOrEqual(t, out.WakeAt, c.now+electionTimeout)
		})
	}
	t.Run("not on a vote that is denied", func(t *testing.T) {
		c := follower(t, 2, 1, 2)
		before := c.out.WakeAt
		c.now = before - ms
		assert.Equal(t, before, c.receive("b", 2, raft.VoteRequest{Last: id(2, 1)}).WakeAt)
	})
}

// "a candidate only increments its term if it first learns from a majority of the cluster that they
// would be willing to grant the candidate their votes" (dissertation §9.6)
func TestElection_CandidateNeedsAMajorityOfPreVotes(t *testing.T) {
	c := restart(t, membersNamed("abcde"), raft.HardState{Term: 2}, 1, 2)
	c.timeout()
	grant := raft.PreVoteReply{ID: c.round, Granted: true}

	c.receive("b", 2, grant)
	c.receive("b", 2, grant)
	assert.Equal(t, raft.PreCandidate, c.Leadership().Role, "a duplicate grant counts once")
	c.receive("c", 2, raft.PreVoteReply{ID: raft.RPCID{StartCount: 3, Counter: 99}, Granted: true})
	assert.Equal(t, raft.PreCandidate, c.Leadership().Role, "a grant of another round does not count")
	c.receive("z", 2, grant)
	assert.Equal(t, raft.PreCandidate, c.Leadership().Role, "a grant of a stranger does not count")

	c.receive("d", 2, grant)
	assert.Equal(t, raft.Leadership{Term: 3, Role: raft.Candidate}, c.Leadership())
}

// A voter may already be in the term that the candidate asks about. A grant of such a voter does not end the round.
func TestElection_PreVoteOfAVoterAheadCounts(t *testing.T) {
	c := follower(t, 2, 1, 2)
	c.timeout()
	c.receive("b", 3, raft.PreVoteReply{ID: c.round, Granted: true})
	assert.Equal(t, raft.Leadership{Term: 3, Role: raft.Candidate}, c.Leadership())
}

// "On conversion to candidate, start election: increment currentTerm, vote for self, reset election timer, send
// RequestVote RPCs to all other servers." (Figure 2, Candidates) The requests depend on the candidate's vote
// for itself, so they leave once that vote is durable.
func TestElection_CandidateRaisesItsTermVotesForItselfAndAsksAll(t *testing.T) {
	c := follower(t, 2, 1, 2)
	c.timeout()
	out := c.grantPreVote("b")

	assert.Empty(t, out.Send)
	assert.Equal(t, raft.Write{
		Seq:  1,
		Hard: &raft.HardState{Term: 3, Vote: peer("a")},
		Then: []raft.Message{
			c.to("b", raft.VoteRequest{Last: id(3, 2)}),
			c.to("c", raft.VoteRequest{Last: id(3, 2)}),
		},
	}, out.Write)
	assert.GreaterOrEqual(t, out.WakeAt, c.now+electionTimeout)
}

// "If votes received from majority of servers: become leader." (Figure 2, Candidates), and "A
// candidate wins an election if it receives votes from a majority of the servers in the full cluster
// for the same term." (§5.2)
func TestElection_MajorityOfVotesWins(t *testing.T) {
	for _, row := range []struct {
		rule    string
		members string
		grants  string
		denials string
		want    raft.Role
	}{
		{"alone", "a", "", "", raft.Leader},
		{"one of two is no majority", "ab", "", "", raft.Candidate},
		{"two of two", "ab", "b", "", raft.Leader},
		{"two of three", "abc", "b", "", raft.Leader},
		{"two of three, the third denies", "abc", "c", "b", raft.Leader},
		{"all deny", "abc", "", "bc", raft.Candidate},
		{"two of five is no majority", "abcde", "b", "cd", raft.Candidate},
		{"three of five", "abcde", "be", "cd", raft.Leader},
		{"the same vote twice is one", "abcde", "bb", "", raft.Candidate},
		{"a stranger's vote does not count", "abc", "x", "", raft.Candidate},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := candidateOf(t, row.members, 2, 1)
			c.persist()
			for _, voter := range row.denials {
				c.receive(raft.NodeID(string(voter)), 2, raft.VoteReply{})
			}
			for _, voter := range row.grants {
				c.receive(raft.NodeID(string(voter)), 2, raft.VoteReply{Granted: true})
			}
			assert.Equal(t, row.want, c.Leadership().Role)
		})
	}
}

// Votes count by (id, incarnation): a member whose disk was emptied has no vote.
func TestElection_VoteOfAnotherIncarnationDoesNotCount(t *testing.T) {
	c := candidateOf(t, "abc", 2, 1)
	c.persist()
	grant := c.from("b", 2, raft.VoteReply{Granted: true})
	grant.Message.From.Incarnation++
	c.step(grant)
	assert.Equal(t, raft.Candidate, c.Leadership().Role)
}

// The candidate's own vote counts once it is durable, not before.
func TestElection_OwnVoteCountsOnceItIsDurable(t *testing.T) {
	c := candidateOf(t, "abc", 2, 1)
	c.receive("b", 2, raft.VoteReply{Granted: true})
	require.Equal(t, raft.Candidate, c.Leadership().Role)
	c.persist()
	assert.Equal(t, raft.Leader, c.Leadership().Role)
}

// A candidate's election timeout begins when its requests leave. So even with a slow disk, it does not give up an election
// before it has asked another member.
func TestElection_TimeoutBeginsWhenTheRequestsLeave(t *testing.T) {
	c := candidateOf(t, "abc", 2, 1)
	out := c.after(2 * afterAnyTimeout)
	assert.Equal(t, raft.Candidate, c.Leadership().Role)
	assert.Empty(t, out.Write)
	out = c.persist()
	assert.GreaterOrEqual(t, out.WakeAt, c.now+electionTimeout)
	c.timeout()
	assert.Equal(t, raft.PreCandidate, c.Leadership().Role)
}

// "Upon election: send initial empty AppendEntries RPCs (heartbeat) to each server; repeat during idle
// periods to prevent election timeouts (§5.2)." (Figure 2, Leaders)
func TestElection_NewLeaderAnnouncesItselfAtOnceAndRepeats(t *testing.T) {
	c := leaderOf(t, "abc", 2, 1)
	heartbeat := raft.Heartbeat{Round: raft.RPCID{StartCount: 3, Counter: 2}}
	noop := raft.AppendRequest{Prev: id(2, 1), Last: id(3, 2), Generation: 1}
	assert.Equal(t, []raft.Message{
		c.to("b", heartbeat), c.to("c", heartbeat), c.to("b", noop), c.to("c", noop),
	}, c.out.Send)
	assert.Equal(t, c.now+heartbeatPace, c.out.WakeAt)

	out := c.after(heartbeatPace)
	heartbeat.Round.Counter++
	heartbeat.Span = 10 * ms // nobody has answered yet, so there are no successors
	assert.Equal(t, []raft.Message{c.to("b", heartbeat), c.to("c", heartbeat)}, out.Send)
}

// "If AppendEntries RPC received from new leader: convert to follower." (Figure 2, Candidates)
func TestElection_CandidateYieldsToTheLeaderOfItsTerm(t *testing.T) {
	for name, body := range map[string]raft.Body{
		"append": raft.AppendRequest{Prev: id(2, 1), Last: id(2, 1)}, "heartbeat": raft.Heartbeat{},
	} {
		t.Run(name, func(t *testing.T) {
			c := candidateOf(t, "abc", 2, 1)
			c.persist()
			c.receive("b", 2, body)
			assert.Equal(t, raft.Leadership{Term: 2, Leader: "b", LeaderIncarnation: 'b', Role: raft.Follower}, c.Leadership())
			c.receive("c", 2, raft.VoteReply{Granted: true})
			assert.Equal(t, raft.Follower, c.Leadership().Role, "a late vote has no effect")
		})
	}
}

// "If the term in the RPC is smaller than the candidate's current term, then the candidate rejects the
// RPC and continues in candidate state." (§5.2)
func TestElection_CandidateIgnoresAnEarlierLeader(t *testing.T) {
	c := candidateOf(t, "abc", 3, 1)
	c.persist()
	out := c.append("b", 2, id(2, 1), 0)
	assert.Equal(t, raft.Candidate, c.Leadership().Role)
	assert.Equal(t, []raft.Message{c.to("b", raft.AppendConflict{Prev: 2})}, out.Send, "the reply carries the newer term")
}

// "If election timeout elapses: start new election." (Figure 2, Candidates) The new election also begins with a pre-vote. So
// a candidate that cannot win does not keep raising its term.
func TestElection_CandidateTimesOutAndStartsAnew(t *testing.T) {
	c := candidateOf(t, "abc", 2, 1)
	c.persist()
	c.timeout()
	assert.Equal(t, raft.Leadership{Term: 2, Role: raft.PreCandidate}, c.Leadership())
	c.grantPreVote("c")
	assert.Equal(t, raft.Leadership{Term: 3, Role: raft.Candidate}, c.Leadership())
	c.receive("b", 2, raft.VoteReply{Granted: true})
	c.persist()
	assert.Equal(t, raft.Candidate, c.Leadership().Role, "a vote of the earlier term does not count")
}

// "election timeouts are chosen randomly from a fixed interval (e.g., 150–300ms)", and "each candidate
// restarts its randomized election timeout at the start of an election" (§5.2)
func TestElection_TimeoutsAreRandomBetweenOnceAndTwice(t *testing.T) {
	c := follower(t, 2, 1)
	seen := map[raft.Time]bool{}
	for range 200 {
		c.receive("b", 2, raft.Heartbeat{})
		wait := c.out.WakeAt - c.now
		require.GreaterOrEqual(t, wait, electionTimeout)
		require.LessOrEqual(t, wait, 2*electionTimeout)
		seen[wait] = true
	}
	assert.Greater(t, len(seen), 190, "each draw is independent")
}

// A request for a pre-vote is about a term that has not begun, so it raises no member's term.
func TestElection_PreVoteRequestRaisesNoTerm(t *testing.T) {
	c := follower(t, 2, 1)
	out := c.receive("b", 9, raft.PreVoteRequest{Last: id(9, 9)})
	assert.Equal(t, raft.Leadership{Term: 2}, c.Leadership())
	assert.Zero(t, out.Write)
	assert.Equal(t, []raft.Message{c.to("b", raft.PreVoteReply{Granted: true})}, out.Send)
}

// grants is the truth table of RequestVote, complete in its three variables:
//
//	"1. Reply false if term < currentTerm (§5.1).
//	2. If votedFor is null or candidateId, and candidate's log is at least as up-to-date as receiver's
//	log, grant vote (§5.2, §5.4)." (Figure 2, RequestVote)
var grants = []struct {
	rule  string
	term  raft.Term    // term of the request; ours is 5
	voted raft.NodeID  // our vote in our term
	last  raft.EntryID // last entry of the candidate; ours is 3@4
	want  bool
}{
	{"an earlier term is denied", 4, "", id(3, 4), false},
	{"an earlier term is denied, however long the log", 4, "", id(9, 4), false},
	{"an earlier term is denied even to the candidate of our vote", 4, "b", id(3, 4), false},
	{"no vote yet, equal log: granted", 5, "", id(3, 4), true},
	{"no vote yet, longer log: granted", 5, "", id(4, 4), true},
	{"no vote yet, later term in a shorter log: granted", 5, "", id(2, 5), true},
	{"no vote yet, shorter log: denied", 5, "", id(2, 4), false},
	{"no vote yet, earlier term in a longer log: denied", 5, "", id(9, 3), false},
	{"voted for the candidate: granted again", 5, "b", id(3, 4), true},
	{"voted for the candidate, but its log is older: denied", 5, "b", id(2, 4), false},
	{"voted for another: denied", 5, "c", id(3, 4), false},
	{"voted for another: denied, however long the log", 5, "c", id(9, 5), false},
	{"voted for ourselves: denied", 5, "a", id(9, 5), false},
	{"a newer term forgets the vote: granted", 6, "c", id(3, 4), true},
	{"a newer term with a longer log: granted", 6, "", id(9, 5), true},
	{"a newer term with an older log: denied", 6, "", id(9, 3), false},
	{"a newer term with a shorter log: denied", 6, "c", id(2, 4), false},
}

// voter returns a member in term 5 that may have voted.
func voter(t *testing.T, voted raft.NodeID) *core {
	hard := raft.HardState{Term: 5}
	if voted != "" {
		hard.Vote = peer(voted)
	}
	return restart(t, membersNamed("abc"), hard, 4, 4)
}

func TestElection_Grants(t *testing.T) {
	for _, row := range grants {
		t.Run(row.rule, func(t *testing.T) {
			c := voter(t, row.voted)
			out := c.receive("b", row.term, raft.VoteRequest{Last: row.last})
			all := append(out.Send, out.Write.Then...)
			require.Len(t, all, 1)
			assert.Equal(t, c.to("b", raft.VoteReply{Granted: row.want}), all[0])
			if row.want && row.voted != "b" {
				assert.Equal(t, &raft.HardState{Term: max(5, row.term), Vote: peer("b")}, out.Write.Hard)
			}
		})
	}
}

// The same rule decides a pre-vote, for the term after the candidate's.
func TestElection_GrantsPreVotesByTheSameRule(t *testing.T) {
	for _, row := range grants {
		t.Run(row.rule, func(t *testing.T) {
			c := voter(t, row.voted)
			out := c.receive("b", row.term-1, raft.PreVoteRequest{Last: row.last})
			assert.Equal(t, []raft.Message{c.to("b", raft.PreVoteReply{Granted: row.want})}, out.Send)
			assert.Zero(t, out.Write)
		})
	}
}

// "Each server will vote for at most one candidate in a given term, on a first-come-first-served
// basis" (§5.2), across a restart, too.
func TestElection_OneVoteATerm(t *testing.T) {
	c := follower(t, 5, 4)
	out := c.receive("b", 5, raft.VoteRequest{Last: id(2, 4)})
	require.Equal(t, &raft.HardState{Term: 5, Vote: peer("b")}, out.Write.Hard)
	assert.Empty(t, out.Send, "the vote leaves once it is durable")
	assert.Equal(t, []raft.Message{c.to("b", raft.VoteReply{Granted: true})}, out.Write.Then)

	out = c.receive("c", 5, raft.VoteRequest{Last: id(2, 4)})
	assert.Equal(t, []raft.Message{c.to("c", raft.VoteReply{})}, out.Send)
	assert.Nil(t, out.Write.Hard)

	c = restart(t, membersNamed("abc"), raft.HardState{Term: 5, Vote: peer("b")}, 4)
	out = c.receive("c", 5, raft.VoteRequest{Last: id(2, 4)})
	assert.Equal(t, []raft.Message{c.to("c", raft.VoteReply{})}, out.Send)
	out = c.receive("b", 5, raft.VoteRequest{Last: id(2, 4)})
	assert.Equal(t, []raft.Message{c.to("b", raft.VoteReply{Granted: true})}, out.Send, "it is durable already")
}

// "Election Safety: at most one leader can be elected in a given term." (Figure 3) A voter's disk may have forgotten its vote
// for that leader. If another voter now voted again in that term, another leader could be elected.
func TestElection_WhoHasHeardTheLeaderOfATermVotesForNobodyElseInIt(t *testing.T) {
	for rule, last := range map[string]func(*core){
		"it hears it":                     func(*core) {},
		"it has fallen silent":            func(c *core) { c.now += electionTimeout },
		"it has stepped down":             func(c *core) { c.receive("b", 5, raft.SteppedDown{}) },
		"it campaigns against the leader": func(c *core) { c.after(afterAnyTimeout) },
	} {
		t.Run(rule, func(t *testing.T) {
			c := follower(t, 4, 4)
			c.receive("b", 5, raft.Heartbeat{})
			c.persist()
			last(c)
			out := c.receive("c", 5, raft.VoteRequest{Last: id(9, 4)})
			assert.Equal(t, []raft.Message{c.to("c", raft.VoteReply{})}, out.Send)
			assert.Zero(t, out.Write)
			denied := raft.TraceEvent{Kind: raft.TraceVoteDenied, Term: 5, Peer: "c", Reason: raft.DeniedTermWon, ID: id(9, 4)}
			assert.Equal(t, []raft.TraceEvent{denied}, out.Trace)
			c.receive("c", 6, raft.VoteRequest{Last: id(9, 4), Transfer: true})
			assert.Equal(t, []raft.Message{c.to("c", raft.VoteReply{Granted: true})}, c.out.Write.Then, "in the next term it votes")
		})
	}
}

// "if a server receives a RequestVote request within the minimum election timeout of hearing from a
// current leader, it does not update its term or grant its vote." (dissertation §4.2.3)
func TestElection_WhoHearsALeaderIsNotDisturbed(t *testing.T) {
	c := follower(t, 2, 1)
	c.receive("b", 2, raft.Heartbeat{})
	c.now += electionTimeout - 1

	out := c.receive("c", 3, raft.VoteRequest{Last: id(9, 2)})
	assert.Empty(t, out.Send)
	assert.Zero(t, out.Write)
	assert.Equal(t, raft.Leadership{Term: 2, Leader: "b", LeaderIncarnation: 'b'}, c.Leadership())
	out = c.receive("c", 2, raft.PreVoteRequest{Last: id(9, 2)})
	assert.Equal(t, []raft.Message{c.to("c", raft.PreVoteReply{Leader: "b", LeaderIncarnation: 'b'})}, out.Send, "the refusal names the leader")

	c.now++
	out = c.receive("c", 3, raft.VoteRequest{Last: id(9, 2)})
	assert.Equal(t, raft.HardState{Term: 3, Vote: peer("c")}, *out.Write.Hard, "it votes after the timeout")
}

// A leader hears itself, so only check-quorum makes it step down.
func TestElection_LeaderIsNotDisturbedByARejoiningMember(t *testing.T) {
	c := leaderOf(t, "abc", 2, 1)
	out := c.receive("c", 7, raft.VoteRequest{Last: id(9, 6)})
	assert.Equal(t, raft.Leader, c.Leadership().Role)
	assert.Equal(t, []raft.TraceEventKind{raft.TraceVoteDenied}, traced(out))
	assert.Empty(t, out.Send)
}

// A member that learns of a leader of a later term follows that leader at once.
func TestElection_RefusalNamesTheLeader(t *testing.T) {
	c := follower(t, 2, 1)
	c.timeout()
	c.receive("b", 4, raft.PreVoteReply{ID: c.round, Leader: "c"})
	assert.Equal(t, raft.Leadership{Term: 4, Leader: "c", LeaderIncarnation: 'c'}, c.Leadership())
}

// A denial names the incarnation of the leader. An earlier release names only its id.
func TestElection_RefusalNamesTheIncarnationOfTheLeader(t *testing.T) {
	for leader, follows := range map[raft.Incarnation]bool{0: true, 'c': true, 1: false} {
		c := follower(t, 2, 1)
		c.timeout()
		c.receive("b", 4, raft.PreVoteReply{ID: c.round, Leader: "c", LeaderIncarnation: leader})
		want := raft.Leadership{Term: 4}
		if follows {
			want.Leader, want.LeaderIncarnation = "c", 'c'
		}
		assert.Equal(t, want, c.Leadership(), "incarnation %v", leader)
	}
}

// "... within the minimum election timeout of hearing from a current leader ..." (dissertation §4.2.3): if a member knows a
// leader only from another member, it has not heard that leader. Messages that it received earlier were those of another
// leader.
func TestElection_WhoWasOnlyToldOfALeaderDoesNotHearIt(t *testing.T) {
	young := func(t *testing.T) *core {
		stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3, Hard: raft.HardState{Term: 2}}
		require.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("abc"))))
		inner, out, err := raft.NewCore(coreConfig(), stored, raft.Now{Mono: 1})
		require.NoError(t, err)
		c := &core{Core: inner, t: t, now: 1}
		c.took(out)
		return c
	}
	heardAnother := func(t *testing.T) *core {
		c := restart(t, membersNamed("abc"), raft.HardState{Term: 2})
		c.receive("b", 2, raft.Heartbeat{})
		return c
	}
	for name, started := range map[string]func(*testing.T) *core{
		"its process is young": young, "it heard another leader": heardAnother,
	} {
		t.Run(name, func(t *testing.T) {
			c := started(t)
			c.receive("b", 4, raft.PreVoteReply{Leader: "c"})
			require.Equal(t, raft.Leadership{Term: 4, Leader: "c", LeaderIncarnation: 'c'}, c.Leadership())
			c.persist()
			out := c.receive("b", 4, raft.PreVoteRequest{Last: id(9, 4)})
			assert.Equal(t, []raft.Message{c.to("b", raft.PreVoteReply{Granted: true})}, out.Send)
			out = c.receive("b", 5, raft.VoteRequest{Last: id(9, 4)})
			require.NotNil(t, out.Write.Hard)
			assert.Equal(t, raft.HardState{Term: 5, Vote: peer("b")}, *out.Write.Hard)
		})
	}
}

// Learners and members of another incarnation do not campaign.
func TestElection_OnlyVotersOfTheConfigurationCampaign(t *testing.T) {
	learner := membersNamed("bac")
	learner[1].Kind = raft.Learner
	wiped := membersNamed("bac")
	wiped[1].Incarnation++
	for name, members := range map[string][]raft.Member{"learner": learner, "wiped": wiped, "stranger": membersNamed("bcd")} {
		t.Run(name, func(t *testing.T) {
			c := restart(t, members, raft.HardState{Term: 2}, 1)
			c.after(10 * electionTimeout)
			c.after(10 * electionTimeout)
			assert.Equal(t, raft.Leadership{Term: 2}, c.Leadership())
			out := c.receive("b", 3, raft.VoteRequest{Last: id(2, 1)})
			assert.Len(t, out.Write.Then, 1, "but it votes: it may be a voter that does not know it yet")
		})
	}
}
