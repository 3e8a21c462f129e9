package raft

// follower is the state of a member that does not lead, whether it campaigns or not.
type follower struct {
	deadline Time // of the election timeout
	// roomUntil limits how far other members' elections may delay the deadline; 0: none has since it was drawn.
	roomUntil Time
	// needed: since the deadline was drawn this member has denied a candidate for its log, so perhaps only it can win.
	needed   bool
	heard    Time     // when a message of a leader last came; 0: never since the start
	graced   bool     // the process woke late, the timer was restarted, and no leader has been heard since
	attempts attempts // to be elected
	reads    followerReads
	// transferOutcome is the transfer that was under way when this member last stepped down, until its outcome is
	// known; nil: there is none.
	transferOutcome *transferOutcome
	offer           *offer // the snapshot that it has asked for last; nil: none
	// suspicion is non-nil exactly while a leader that the configuration does not name has shown a loss.
	suspicion *suspicion
}

// termLeader is what this member knows about the leader of the present term. It is the only place that records
// whom the member follows.
type termLeader struct {
	// peer is the member that this one follows: itself as leader, zero if it follows nobody. Until that leader is
	// heard, it may come from another member's refusal of a pre-vote.
	peer Peer
	// elected is the leader that was heard in this term, or this member itself: nobody else can lead the term.
	// It stays until the term ends, even if this member no longer follows it.
	elected  Peer
	resigned bool  // elected has said that it stepped down: late messages of it do not show a live leader
	proved   Index // elected has proved that the logs match up to here
}

// isHeard reports whether the member follows a leader that it has heard itself.
func (t *termLeader) isHeard() bool { return t.peer != Peer{} && t.peer == t.elected }

// hear records that a message of this term's leader has come.
//
//	"If AppendEntries RPC received from new leader: convert to follower." (Figure 2, Candidates)
func (c *Core) hear(leader Peer) {
	assert(!c.otherLeads(leader), "two leaders of one term never hear each other")
	c.termLeader.elected = leader
	if c.termLeader.resigned {
		return
	}
	c.follower.attempts.ballot, c.follower.attempts.boundUntil = nil, 0
	if c.termLeader.peer != leader || c.candidate != nil {
		c.becomeFollower(c.hard.Term, leader)
		c.compact() // what it has held for others while it led, which may fill its disk
	}
	c.follower.heard = c.now.Mono
	c.follower.graced = false
	if c.follower.attempts.any() && c.committedOwn() {
		c.calm() // in an idle cluster no new commit would do it
	}
	c.resetElectionDeadline()
}

// otherLeads reports whether a member other than p is known to lead the present term:
//
//	"Election Safety: at most one leader can be elected in a given term." (Figure 3)
func (c *Core) otherLeads(p Peer) bool {
	return c.leader != nil || c.termLeader.elected != Peer{} && c.termLeader.elected != p
}
