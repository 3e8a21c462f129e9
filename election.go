package raft

import "slices"

// candidate is the state of one attempt to be elected.
type candidate struct {
	pre     bool      // a pre-vote: the term was not raised
	round   RequestID // of the pre-vote; its grants count in this round alone
	granted []Peer    // who granted, by (id, incarnation)
}

// resetElectionDeadline draws the election timeout anew:
//
//	"Raft uses randomized election timeouts to ensure that split votes are rare and that they are
//	resolved quickly." (§5.2; from once to twice the timeout)
func (c *Core) resetElectionDeadline() {
	span := int64(c.electionTimeout())
	c.follower.deadline = c.now.Mono + c.electionTimeout() + Time(c.rng.Int64N(span+1))
}

// mayCampaign: only a voter of the configuration in force campaigns, as the incarnation that it names;
// and nobody at term 0 but a founder whose founding all members hold (see founding.go).
func (c *Core) mayCampaign() bool {
	m, ok := c.config().Member(c.self.ID)
	return ok && m.Kind == Voter && m.Incarnation == c.self.Incarnation && c.hard.Term > 0
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
	heard := c.leaderID != "" && c.leaderID == c.follower.led.ID
	return heard && c.now.Mono-c.follower.heard < c.electionTimeout()
}

// otherLeads reports whether somebody else is known to lead the present term:
//
//	"Election Safety: at most one leader can be elected in a given term." (Figure 3)
func (c *Core) otherLeads(p Peer) bool {
	return c.leader != nil || c.follower.led != Peer{} && c.follower.led != p
}

// hear takes note of a message of this term's leader.
//
//	"If AppendEntries RPC received from new leader: convert to follower." (Figure 2, Candidates)
func (c *Core) hear(leader Peer) {
	assert(!c.otherLeads(leader), "two leaders of one term never hear each other")
	c.follower.led = leader
	if c.leaderID != leader.ID || c.candidate != nil {
		c.becomeFollower(c.hard.Term, leader.ID)
	}
	c.follower.heard = c.now.Mono
	c.follower.graced = false
	c.resetElectionDeadline()
}

// onElectionTimeout starts an election:
//
//	"If election timeout elapses without receiving AppendEntries RPC from current leader or granting
//	vote to candidate: convert to candidate." (Figure 2, Followers; Candidates likewise)
func (c *Core) onElectionTimeout() {
	c.note(Note{Kind: NoteTimeout})
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
		c.note(Note{Kind: NoteVoteDenied, Peer: from.ID, Reason: why, ID: r.Last})
		c.send(from, VoteReply{})
		return
	}
	if c.candidate != nil {
		c.becomeFollower(c.hard.Term, "") // a pre-candidate that votes has given up its own attempt
	}
	c.voteFor(from)
	c.resetElectionDeadline()
	c.note(Note{Kind: NoteVoteGranted, Peer: from.ID, ID: r.Last})
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
		why, reply.Granted, reply.Leader = DeniedHearsLeader, false, c.leaderID
	}
	if why != Granted {
		c.note(Note{Kind: NotePreVoteDenied, Peer: m.From.ID, Reason: why, ID: r.Last})
	} else {
		// Room for the election that follows, so that ours does not split it.
		c.follower.deadline = max(c.follower.deadline, c.now.Mono+c.electionTimeout()/15)
		c.note(Note{Kind: NotePreVoteGranted, Peer: m.From.ID, ID: r.Last})
	}
	c.send(m.From, reply)
}

// onPreVoteGrant counts a grant of this round, whatever term its sender is in.
func (c *Core) onPreVoteGrant(from Peer, r PreVoteReply) {
	if c.candidate == nil || !c.candidate.pre || c.candidate.round != r.ID {
		return
	}
	c.candidate.grant(from)
	c.countPreVotes()
}

func (c *Core) onVoteReply(from Peer, r VoteReply) {
	if c.candidate == nil || c.candidate.pre || !r.Granted {
		return
	}
	c.hearClock(from.ID, r.Wall)
	c.candidate.grant(from)
	c.countVotes()
}

// countOwnVote counts a candidate's vote for itself once it is durable, and not before. The requests
// leave at that moment, and the election timeout runs from it: else no election would end on disks
// that take about a timeout for a vote.
func (c *Core) countOwnVote() {
	if c.candidate == nil || c.candidate.pre || c.ownVotePending() {
		return
	}
	if c.candidate.grant(c.self) {
		c.resetElectionDeadline()
	}
	c.countVotes()
}

// ownVotePending reports whether this member stands for election and its own vote is not durable yet:
// nobody has been asked, and to give up and stand again would only queue up more writes.
func (c *Core) ownVotePending() bool {
	return c.candidate != nil && !c.candidate.pre && c.disk.hard != c.hard
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
	if c.disk.hard == c.hard && c.hasQuorum(c.candidate.granted) {
		c.becomeLeader()
	}
}

// grant records a vote and reports whether it is new. A reply that came twice counts once.
func (v *candidate) grant(from Peer) bool {
	if slices.Contains(v.granted, from) {
		return false
	}
	v.granted = append(v.granted, from)
	return true
}

// hasQuorum reports whether a majority of the voters, as the incarnations that the configuration
// names, is among the peers.
func (c *Core) hasQuorum(peers []Peer) bool {
	voters, granted := 0, 0
	for _, m := range c.config().Members {
		if m.Kind != Voter {
			continue
		}
		voters++
		if slices.Contains(peers, m.Peer()) {
			granted++
		}
	}
	return granted >= majority(voters)
}

// onTimeoutNow campaigns at once, without a pre-vote (dissertation §3.10). The caller has checked
// that the message is of this very term: it marks the next term's requests, and no others.
func (c *Core) onTimeoutNow(from Peer) {
	if c.leader != nil || c.leaderID != from.ID || !c.mayCampaign() {
		return
	}
	c.note(Note{Kind: NoteTimeoutNow, Peer: from.ID})
	c.campaign(true)
}

// onDeadlines does what is due. Events of the same step have come first.
func (c *Core) onDeadlines() {
	now := c.now.Mono
	switch {
	case c.leader != nil:
		c.onLeaderDeadlines()
	case c.founder != nil:
		c.onFounderDeadline()
	case c.mayCampaign() && now >= c.follower.deadline && !c.ownVotePending():
		c.onElectionTimeout()
	}
	c.onClientDeadlines()
}

// idleMax is how long a core with nothing to wait for lets its caller sleep.
const idleMax = Time(3600e9)

// wakeAt is the next deadline.
func (c *Core) wakeAt() Time {
	at := c.now.Mono + idleMax
	switch {
	case c.leader != nil:
		at = min(at, c.leader.wakeAt(c))
	case c.founder != nil:
		at = min(at, c.founder.wakeAt())
	case c.mayCampaign() && !c.ownVotePending():
		at = min(at, c.follower.deadline)
	}
	return min(at, c.clients.wakeAt())
}
