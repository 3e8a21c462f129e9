package raft

import "slices"

// candidate is the state of one attempt to be elected.
type candidate struct {
	pre     bool   // a pre-vote: the term was not raised
	round   RPCID  // of the pre-vote; only grants of this round count
	granted []Peer // the voters that granted the pre-vote; those that granted the vote are in the ballot
}

// ballot holds the votes for this member in the present term. They count whenever they arrive, even after the member has
// stopped waiting and asks for pre-votes again, because a voter's disk may take longer than any wait. They no longer count
// once the term is known to have had a leader, because a term has only one leader. That leader may be this member, which has
// stepped down since, or another member. A ballot is not durable: a restarted member does not count votes that it asked for
// before.
type ballot struct {
	began    Time // when the term was raised
	asked    Time // when the requests left
	granted  []Peer
	prompt   []Peer // the voters that have answered, yes or no, within an election timeout
	transfer bool   // the leader of the term before has asked for this election
	named    bool   // and its caller has chosen this member
}

// grant records a vote and reports whether it is new: a duplicated reply counts once.
func (b *ballot) grant(from Peer) bool {
	if slices.Contains(b.granted, from) {
		return false
	}
	b.granted = append(b.granted, from)
	return true
}

// hangDelayWaits is how many waits longer a member waits before it campaigns while its FSM hangs.
const hangDelayWaits = 3

// standsBack reports whether this member lets the other members campaign first. Its FSM hangs, and others may be able to answer
// clients. Or it is a standby, which leads only if nobody else can.
func (c *Core) standsBack() bool { return c.fsmHangs() || c.standby(c.self) }

// campaignsAt returns the time at which this member campaigns unless it hears a leader first. A member that stands back does
// not do so if it has denied a candidate because of that candidate's log.
func (c *Core) campaignsAt() Time {
	if c.standsBack() && !c.follower.needed {
		return max(c.follower.deadline+hangDelayWaits*c.wait(), c.follower.promisedUntil)
	}
	return max(c.follower.deadline, c.follower.promisedUntil)
}

// onOlderLog handles a candidate that this member denied because of the candidate's log. If this member's FSM hangs, it now
// campaigns soon, because perhaps only it can win. Several such members draw random times, so that they do not split the
// vote. If this member already campaigns, or another candidate has its vote, it first gives that election its time.
//
// A leader that has stepped down in favour of a voter that it does not hear does not campaign soon in the same batch.
// Otherwise it might be elected again before that voter campaigns.
func (c *Core) onOlderLog(candidate Peer) {
	f := &c.follower
	if !c.standsBack() || f.needed || c.fsmHangs() && c.log.batch.yieldsAt > 0 {
		return
	}
	f.needed = true
	if busy := c.candidate != nil || c.boundByVote(candidate); !busy || f.deadline <= c.now.Mono { // members that stand back wait longer
		f.deadline = c.now.Mono + Time(c.rng.Int64N(int64(c.span())+1))
	}
}

// mayCampaign reports whether this member may campaign. It may if it has a vote or may still be needed as leader, its store
// is neither marked nor suspected, and its term is above 0. At term 0 only a bootstrapper campaigns, once all members hold
// entry 1; see checkHeld.
//
// In a joint configuration, the voters that are being removed and those that are joining may both lead:
//
//	"Any server from either configuration may serve as leader." (§6)
func (c *Core) mayCampaign() bool {
	return c.mayBeNeeded() && c.hard.Term > 0 && !c.marked() && !c.suspected()
}

// hearsLeader is leader stickiness:
//
//	"if a server receives a RequestVote request within the minimum election timeout of hearing from
//	a current leader, it does not update its term or grant its vote." (dissertation §4.2.3)
//
// A leader hears itself, until check-quorum makes it step down. If this member knows the leader only from a refused pre-vote,
// it has not heard that leader. After the news that the leader's process has ended, it hears that leader no longer.
func (c *Core) hearsLeader() bool {
	if c.leader != nil {
		return true
	}
	return c.termLeader.isHeard() && !c.termLeader.gone && c.now.Mono-c.follower.heard < c.electionTimeout()
}

// disturbs returns why this member ignores a message that asks for a vote: it hears a leader, or has promised one a lease. A
// candidate does not disturb if the leader has sent it TimeoutNow.
func (c *Core) disturbs(m Message) DenyReason {
	if r, asks := m.Body.(VoteRequest); asks && !r.Transfer {
		return c.guarded()
	}
	return Granted
}

// onElectionTimeout starts an election:
//
//	"If election timeout elapses without receiving AppendEntries RPC from current leader or granting
//	vote to candidate: convert to candidate." (Figure 2, Followers; Candidates likewise)
func (c *Core) onElectionTimeout() {
	c.trace(TraceEvent{Kind: TraceTimeout})
	c.follower.attempts.made++
	c.traceSlowness()
	c.campaignAgain()
	c.precampaign()
}

// precampaign asks, before this member raises its term, whether it could win an election:
//
//	"a candidate only increments its term if it first learns from a majority of the cluster that
//	they would be willing to grant the candidate their votes" (dissertation §9.6)
func (c *Core) precampaign() {
	c.becomePreCandidate()
	c.candidate.granted = append(c.candidate.granted, c.self)
	c.follower.attempts.remember(question{round: c.candidate.round, at: c.now.Mono})
	for _, p := range c.otherVoters() {
		c.send(p, PreVoteRequest{ID: c.candidate.round, Last: c.log.Last, FSMHangs: c.fsmHangs()})
	}
	c.countPreVotes()
}

// campaign starts an election in the next term. transfer reports whether the leader of the present term asked for the
// election with a TimeoutNow.
func (c *Core) campaign(transfer bool) {
	assert(transfer || !c.promised(), "a member that has promised a lease does not campaign")
	c.becomeCandidate()
	if transfer {
		c.termLeader.told = c.self
	}
	c.follower.attempts.ballot = &ballot{began: c.now.Mono, transfer: transfer}
	c.campaignAgain()
	for _, p := range c.otherVoters() {
		c.promiseVote(p, VoteRequest{Last: c.log.Last, Transfer: transfer})
	}
}

// grants decides about a vote or a pre-vote in the given term. vote is the vote that this member has already given in that
// term.
//
//	"1. Reply false if term < currentTerm (§5.1).
//	2. If votedFor is null or candidateId, and candidate's log is at least as up-to-date as
//	receiver's log, grant vote (§5.2, §5.4)." (Figure 2, RequestVote)
func (c *Core) grants(term Term, vote Peer, candidate Peer, last EntryID) DenyReason {
	switch {
	case term < c.hard.Term:
		return DeniedOldTerm
	case c.suspected():
		return DeniedSuspected
	case vote != Peer{} && vote != candidate:
		return DeniedVoted
	case !upToDate(last, c.log.Last):
		return DeniedOldLog
	}
	return Granted
}

// onVoteRequest answers a vote request of the present term. It never sees a request of a newer term that disturbs, because
// receiveRPC (raft.go) ignores such a request before adopting the term.
//
// It sends a grant with promiseVote, never with send, because a grant may leave only once the vote is durable. Otherwise this
// member could forget the vote in a crash and vote for another candidate in the same term.
func (c *Core) onVoteRequest(from Peer, r VoteRequest) {
	assert(c.hard.Term > 0, "nobody votes in term 0")
	if r.Transfer {
		c.termLeader.told = from
	}
	why := c.grants(c.hard.Term, c.hard.Vote, from, r.Last)
	if why == Granted && c.otherLeads(from) {
		// Another member has won this term already. Another vote could only help to elect a second leader, if some disk has
		// forgotten a vote.
		why = DeniedTermWon
	}
	if why == Granted && !r.Transfer && c.promised() {
		why = DeniedPromised
	}
	if why != Granted {
		c.trace(TraceEvent{Kind: TraceVoteDenied, Peer: from.ID, Reason: why, ID: r.Last})
		c.send(from, VoteReply{})
		return
	}
	if c.candidate != nil {
		c.becomeFollower(c.hard.Term, Peer{}) // a pre-candidate that votes has given up its own attempt
	}
	c.voteFor(from)
	c.campaignAgain()
	c.trace(TraceEvent{Kind: TraceVoteGranted, Peer: from.ID, ID: r.Last})
	c.promiseVote(from, VoteReply{Granted: true, Wall: c.now.Wall})
}

// onPreVoteRequest answers a request for a pre-vote. It changes neither the term nor the vote. The request is about the
// sender's term + 1. This member can have voted in that term only if it is this member's current term.
func (c *Core) onPreVoteRequest(m Message, r PreVoteRequest) {
	why := c.grants(m.Term+1, Peer{}, m.From, r.Last)
	if m.Term+1 == c.hard.Term {
		why = c.grants(m.Term+1, c.hard.Vote, m.From, r.Last)
	}
	reply := PreVoteReply{ID: r.ID, Granted: why == Granted}
	if guarded := c.guarded(); guarded == DeniedHearsLeader || guarded != Granted && why == Granted {
		why, reply.Granted = guarded, false
		c.termLeader.denied = &deniedPreVote{m, c.now.Mono}
		if guarded == DeniedHearsLeader {
			reply.Leader, reply.LeaderIncarnation = c.termLeader.peer.ID, c.termLeader.peer.Incarnation
		}
	} else if why == Granted && c.boundByVote(m.From) {
		why, reply.Granted = DeniedBound, false
	}
	if why != Granted {
		c.trace(TraceEvent{Kind: TracePreVoteDenied, Peer: m.From.ID, Reason: why, ID: r.Last})
		if why == DeniedOldLog {
			c.onOlderLog(m.From)
		}
	} else {
		if !r.FSMHangs || c.fsmHangs() {
			c.deferCampaign()
		}
		c.trace(TraceEvent{Kind: TracePreVoteGranted, Peer: m.From.ID, ID: r.Last})
	}
	c.send(m.From, reply)
}

// leaderNamedIn returns the leader that a refused pre-vote names. It returns zero if that member cannot be the leader.
func (c *Core) leaderNamedIn(m Message) Peer {
	reply, ok := m.Body.(PreVoteReply)
	if !ok {
		return Peer{}
	}
	leader := Peer{reply.Leader, reply.LeaderIncarnation}
	if leader.Incarnation == 0 { // an earlier release names the id alone
		named, _ := c.config().Member(reply.Leader)
		leader = named.Peer()
	}
	if leader == c.self || !c.names(leader) {
		return Peer{}
	}
	return leader
}

// onPreVoteReply counts a grant. If the reply is a refusal from a newer term, onPreVoteReply adopts that term.
func (c *Core) onPreVoteReply(m Message, r PreVoteReply) {
	c.onAnswer(m.From, c.follower.attempts.sinceRound(r.ID))
	if r.Granted {
		c.onPreVoteGrant(m.From, r)
		return
	}
	c.receiveRPC(m)
}

// onPreVoteGrant counts a grant of this round, whatever the sender's term is.
func (c *Core) onPreVoteGrant(from Peer, r PreVoteReply) {
	if c.candidate == nil || !c.candidate.pre || c.candidate.round != r.ID {
		return
	}
	if !slices.Contains(c.candidate.granted, from) { // a duplicated reply counts once
		c.candidate.granted = append(c.candidate.granted, from)
	}
	c.countPreVotes()
}

func (c *Core) onVoteReply(from Peer, r VoteReply) {
	c.onAnswer(from, c.follower.attempts.sinceTerm(c.hard.Term))
	c.onPromptVote(from)
	if b := c.follower.attempts.ballot; b != nil && r.Granted {
		c.hearClock(from, r.Wall)
		b.grant(from)
		c.countVotes()
	}
}

func (c *Core) countPreVotes() {
	if c.hasQuorum(c.candidate.granted) {
		c.campaign(false)
	}
}

// countVotes makes this member the leader once a majority has voted for it:
//
//	"If votes received from majority of servers: become leader." (Figure 2, Candidates)
func (c *Core) countVotes() {
	if b := c.follower.attempts.ballot; b != nil && c.voteDurable() && c.hasQuorum(b.granted) {
		c.becomeLeader()
	}
}

// onTimeoutNow campaigns at once, without a pre-vote (dissertation §3.10). The caller has checked that the message is of the
// present term. So only the vote requests of the next term are marked as a transfer.
//
// The message counts if it comes from the leader that was elected in this term, even if this member does not follow that
// leader. For example, a member whose election timeout is shorter than the leader's heartbeat interval may be a
// pre-candidate, and a pre-candidate follows nobody.
func (c *Core) onTimeoutNow(from Peer, r TimeoutNow) {
	if c.leader != nil || c.termLeader.elected != from || !c.mayCampaign() {
		return
	}
	c.trace(TraceEvent{Kind: TraceTimeoutNow, Peer: from.ID})
	c.follower.vacancy = vacancy{CauseTransfer, from.ID, c.now.Mono}
	if !r.Named && c.priority(c.self) > c.priority(from) {
		c.follower.vacancy.cause = CauseTakeover
	}
	c.campaign(true)
	c.follower.attempts.ballot.named = r.Named
}

// onSteppedDown handles the message by which this term's leader says that it has stepped down. The followers need not wait
// for their election timeouts.
func (c *Core) onSteppedDown(from Peer) {
	if c.termLeader.elected != from || c.termLeader.resigned {
		return
	}
	c.termLeader.resigned = true
	c.trace(TraceEvent{Kind: TraceSteppedDown, Peer: from.ID})
	c.follower.vacancy = vacancy{CauseSteppedDown, from.ID, c.now.Mono}
	c.becomeFollower(c.hard.Term, Peer{})
	c.campaignSoon()
}

// deferCampaign delays this member's next attempt, so that it does not split the vote of the election that follows a
// pre-vote. deferUntil limits all delays together. Without that limit, a member that keeps asking but never receives the
// answers would prevent every other campaign.
func (c *Core) deferCampaign() {
	f, delay := &c.follower, c.span()
	late := c.campaignsAt() - f.deadline // by which a member whose FSM hangs campaigns later anyway
	if f.deferUntil == 0 {
		f.deferUntil = max(c.now.Mono, f.deadline+late) + delay
	}
	f.deadline = max(f.deadline, min(c.now.Mono+delay, f.deferUntil)-late)
}

// mayCampaignNow reports whether this member may start an election now. It may not while its term or vote is being written.
// Its requests could not leave before that write is durable, and another attempt would only queue more writes.
func (c *Core) mayCampaignNow() bool { return c.mayCampaign() && c.voteDurable() }
