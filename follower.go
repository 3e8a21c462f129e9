package raft

// follower is the state of a member as a listener; it is used in every role but leader.
type follower struct {
	deadline Time // of the election timeout
	// roomUntil is how far the deadline may be put off for another's election; 0: it was not, since it was drawn.
	roomUntil Time
	heard     Time     // when a message of a leader last came; 0: never in this life
	graced    bool     // the timer was restarted after a gap, and no leader has been heard since
	attempts  attempts // to be elected
}

// termLeader is who leads the present term, as far as this member knows. No other place knows whom the member
// follows.
type termLeader struct {
	// id is whom this member follows: itself as leader, "" if nobody. It may be hearsay, from a refused
	// pre-vote, until that leader itself is heard.
	id NodeID
	// elected is who was heard to lead the term, or this member itself: nobody else can lead it. It stays
	// to the end of the term, also when the member follows it no longer.
	elected  Peer
	resigned bool  // elected has said that it leads no more: what comes late from it is no sign of a leader
	proved   Index // elected has proved that the log matches its own up to here
}

// isHeard reports whether the member follows a leader that it has heard itself.
func (t *termLeader) isHeard() bool { return t.id != "" && t.id == t.elected.ID }

// hear takes note of a message of this term's leader.
//
//	"If AppendEntries RPC received from new leader: convert to follower." (Figure 2, Candidates)
func (c *Core) hear(leader Peer) {
	assert(!c.otherLeads(leader), "two leaders of one term never hear each other")
	c.termLeader.elected = leader
	if c.termLeader.resigned {
		return
	}
	c.follower.attempts.ballot, c.follower.attempts.boundUntil = nil, 0
	if c.termLeader.id != leader.ID || c.candidate != nil {
		c.becomeFollower(c.hard.Term, leader.ID)
	}
	c.follower.heard = c.now.Mono
	c.follower.graced = false
	if c.follower.attempts.any() && c.committedOwn() {
		c.calm() // while nobody writes, no other commit would
	}
	c.resetElectionDeadline()
}

// otherLeads reports whether somebody else is known to lead the present term:
//
//	"Election Safety: at most one leader can be elected in a given term." (Figure 3)
func (c *Core) otherLeads(p Peer) bool {
	return c.leader != nil || c.termLeader.elected != Peer{} && c.termLeader.elected != p
}
