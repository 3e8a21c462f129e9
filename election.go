package raft

import "slices"

// candidate is the state of one attempt to be elected.
type candidate struct {
	pre     bool   // a pre-vote: the term was not raised
	round   RPCID  // of the pre-vote; its grants count in this round alone
	granted []Peer // who granted that, by (id, incarnation); votes are in the ballot
}

// ballot is a candidacy in the present term, and this life. Grants count whenever they come, also
// after the candidate has given up waiting and asks for pre-votes again: a voter's disk may take
// longer than any wait. They count no more once somebody is known to have led the term: itself, since
// a leader that stepped down has told others so, or another, since there can only be one.
type ballot struct {
	began   Time // when the term was raised
	asked   Time // when the requests left
	granted []Peer
	prompt  []Peer // who has answered, yes or no, within an election timeout
}

// grant records a vote and reports whether it is new. A reply that came twice counts once.
func (b *ballot) grant(from Peer) bool {
	if slices.Contains(b.granted, from) {
		return false
	}
	b.granted = append(b.granted, from)
	return true
}

// resetElectionDeadline draws the election timeout anew:
//
//	"Raft uses randomized election timeouts to ensure that split votes are rare and that they are
//	resolved quickly." (§5.2; from once to twice the timeout, or the wait that slow attempts have
//	lengthened)
func (c *Core) resetElectionDeadline() {
	c.follower.deadline = c.now.Mono + c.wait() + Time(c.rng.Int64N(int64(c.wait())+1))
	c.follower.roomUntil = 0
}

// mayCampaign: only a voter of the configuration in force campaigns, as the incarnation that it names;
// and nobody at term 0 but a bootstrapper whose bootstrap all members hold (see bootstrap.go).
func (c *Core) mayCampaign() bool {
	m, ok := c.config().Member(c.self.ID)
	return ok && m.Kind == Voter && m.Incarnation == c.self.Incarnation && c.hard.Term > 0 && !c.marked()
}

// hearsLeader is leader stickiness:
//
//	"if a server receives a RequestVote request within the minimum election timeout of hearing from
//	a current leader, it does not update its term or grant its vote." (dissertation §4.2.3)
//
// A leader hears itself; check-quorum ends that. One that a refused pre-vote names was not heard yet.
func (c *Core) hearsLeader() bool {
	if c.leader != nil {
		return true
	}
	return c.termLeader.isHeard() && c.now.Mono-c.follower.heard < c.electionTimeout()
}

// disturbs reports whether a message asks for a vote in a newer term, of a member that hears a leader. One
// that the leader itself has told to campaign does not disturb.
func (c *Core) disturbs(m Message) bool {
	r, asks := m.Body.(VoteRequest)
	return asks && !r.Transfer && c.hearsLeader()
}

// onElectionTimeout starts an election:
//
//	"If election timeout elapses without receiving AppendEntries RPC from current leader or granting
//	vote to candidate: convert to candidate." (Figure 2, Followers; Candidates likewise)
func (c *Core) onElectionTimeout() {
	c.trace(TraceEvent{Kind: TraceTimeout})
	c.follower.attempts.made++
	c.traceSlowness()
	c.resetElectionDeadline()
	c.precampaign()
}

// precampaign asks whether an election could be won before the term is raised:
//
//	"a candidate only increments its term if it first learns from a majority of the cluster that
//	they would be willing to grant the candidate their votes" (dissertation §9.6)
func (c *Core) precampaign() {
	c.becomePreCandidate()
	c.candidate.granted = append(c.candidate.granted, c.self)
	c.follower.attempts.remember(question{round: c.candidate.round, at: c.now.Mono})
	for _, m := range c.config().Voters() {
		if m.ID != c.self.ID {
			c.send(m.Peer(), PreVoteRequest{ID: c.candidate.round, Last: c.log.Last})
		}
	}
	c.countPreVotes()
}

// campaign starts an election in the next term. transfer: a TimeoutNow asked for it, in this term.
func (c *Core) campaign(transfer bool) {
	c.becomeCandidate()
	c.follower.attempts.ballot = &ballot{began: c.now.Mono}
	c.resetElectionDeadline()
	for _, m := range c.config().Voters() {
		if m.ID != c.self.ID {
			c.promiseVote(m.Peer(), VoteRequest{Last: c.log.Last, Transfer: transfer})
		}
	}
}

// grants decides about a vote, or a pre-vote, in term:
//
//	"1. Reply false if term < currentTerm (§5.1).
//	2. If votedFor is null or candidateId, and candidate's log is at least as up-to-date as
//	receiver's log, grant vote (§5.2, §5.4)." (Figure 2, RequestVote)
func (c *Core) grants(term Term, vote Peer, candidate Peer, last EntryID) DenyReason {
	switch {
	case term < c.hard.Term:
		return DeniedOldTerm
	case vote != Peer{} && vote != candidate:
		return DeniedVoted
	case !upToDate(last, c.log.Last):
		return DeniedOldLog
	}
	return Granted
}

func (c *Core) onVoteRequest(from Peer, r VoteRequest) {
	assert(c.hard.Term > 0, "nobody votes in term 0")
	why := c.grants(c.hard.Term, c.hard.Vote, from, r.Last)
	if why != Granted {
		c.trace(TraceEvent{Kind: TraceVoteDenied, Peer: from.ID, Reason: why, ID: r.Last})
		c.send(from, VoteReply{})
		return
	}
	if c.candidate != nil {
		c.becomeFollower(c.hard.Term, "") // a pre-candidate that votes has given up its own attempt
	}
	c.voteFor(from)
	c.resetElectionDeadline()
	c.trace(TraceEvent{Kind: TraceVoteGranted, Peer: from.ID, ID: r.Last})
	c.promiseVote(from, VoteReply{Granted: true, Wall: c.now.Wall})
}

// onPreVoteRequest answers without any change of the term or the vote. The term asked about is one
// above the sender's; no vote can have been given in it unless it is ours.
func (c *Core) onPreVoteRequest(m Message, r PreVoteRequest) {
	why := c.grants(m.Term+1, Peer{}, m.From, r.Last)
	if m.Term+1 == c.hard.Term {
		why = c.grants(m.Term+1, c.hard.Vote, m.From, r.Last)
	}
	reply := PreVoteReply{ID: r.ID, Granted: why == Granted}
	if c.hearsLeader() {
		why, reply.Granted, reply.Leader = DeniedHearsLeader, false, c.termLeader.id
	} else if why == Granted && c.boundByVote(m.From) {
		why, reply.Granted = DeniedBound, false
	}
	if why != Granted {
		c.trace(TraceEvent{Kind: TracePreVoteDenied, Peer: m.From.ID, Reason: why, ID: r.Last})
	} else {
		c.giveRoom()
		c.trace(TraceEvent{Kind: TracePreVoteGranted, Peer: m.From.ID, ID: r.Last})
	}
	c.send(m.From, reply)
}

// leaderNamedIn returns the leader that a refused pre-vote names, if it can be one.
func (c *Core) leaderNamedIn(m Message) NodeID {
	reply, ok := m.Body.(PreVoteReply)
	if _, member := c.config().Member(reply.Leader); !ok || !member || reply.Leader == c.self.ID {
		return ""
	}
	return reply.Leader
}

// onPreVoteReply counts a grant. A refusal promises nothing, but its term, if it is newer, is taken.
func (c *Core) onPreVoteReply(m Message, r PreVoteReply) {
	c.onAnswer(m.From, c.follower.attempts.sinceRound(r.ID))
	if r.Granted {
		c.onPreVoteGrant(m.From, r)
		return
	}
	c.receiveRPC(m)
}

// onPreVoteGrant counts a grant of this round, whatever term its sender is in.
func (c *Core) onPreVoteGrant(from Peer, r PreVoteReply) {
	if c.candidate == nil || !c.candidate.pre || c.candidate.round != r.ID {
		return
	}
	if !slices.Contains(c.candidate.granted, from) { // a reply that came twice counts once
		c.candidate.granted = append(c.candidate.granted, from)
	}
	c.countPreVotes()
}

func (c *Core) onVoteReply(from Peer, r VoteReply) {
	c.onAnswer(from, c.follower.attempts.sinceTerm(c.hard.Term))
	c.onPromptVote(from)
	if b := c.follower.attempts.ballot; b != nil && r.Granted {
		c.hearClock(from.ID, r.Wall)
		b.grant(from)
		c.countVotes()
	}
}

func (c *Core) countPreVotes() {
	if c.hasQuorum(c.candidate.granted) {
		c.campaign(false)
	}
}

// countVotes wins the election, or not yet:
//
//	"If votes received from majority of servers: become leader." (Figure 2, Candidates)
func (c *Core) countVotes() {
	if b := c.follower.attempts.ballot; b != nil && c.disk.hard == c.hard && c.hasQuorum(b.granted) {
		c.becomeLeader()
	}
}

// onTimeoutNow campaigns at once, without a pre-vote (dissertation §3.10). The caller has checked
// that the message is of this very term: it marks the next term's requests, and no others.
func (c *Core) onTimeoutNow(from Peer) {
	if c.leader != nil || c.termLeader.id != from.ID || !c.mayCampaign() {
		return
	}
	c.trace(TraceEvent{Kind: TraceTimeoutNow, Peer: from.ID})
	c.campaign(true)
}

// onSteppedDown takes the word of this term's leader that it leads no more: its followers need not wait
// for its silence. They stand as after a lost connection, soon and not all at once.
func (c *Core) onSteppedDown(from Peer) {
	if c.termLeader.elected != from || c.termLeader.id != from.ID {
		return
	}
	c.termLeader.resigned = true
	c.trace(TraceEvent{Kind: TraceSteppedDown, Peer: from.ID})
	c.becomeFollower(c.hard.Term, "")
	spread := min(c.room()*Time(len(c.config().Voters())), c.wait())
	c.follower.deadline = c.now.Mono + Time(c.rng.Int64N(int64(spread)+1))
}

// room is the time that an election of another is given before an own attempt: a fifteenth of a timeout,
// or, once attempts have been slow, a whole wait.
func (c *Core) room() Time {
	if c.follower.attempts.doublings > 0 {
		return c.wait()
	}
	return c.electionTimeout() / 15
}

// giveRoom puts the own attempt off, so that it does not split the election that follows a pre-vote. It does
// so for one election in all: who asks again and again, and hears no answer, would keep everyone from standing.
func (c *Core) giveRoom() {
	f, room := &c.follower, c.room()
	if f.roomUntil == 0 {
		f.roomUntil = max(c.now.Mono, f.deadline) + room
	}
	f.deadline = max(f.deadline, min(c.now.Mono+room, f.roomUntil))
}

// mayStand: nobody stands while its term or vote is on its way to the disk. No question would leave
// before it is there, and to give up and stand again would only queue up more writes.
func (c *Core) mayStand() bool { return c.mayCampaign() && c.disk.hard == c.hard }
