package raft

import "slices"

// suspicion is what a member keeps of a leader that its configuration does not name, and that has shown that it lacks entries
// which it has acknowledged. One message of a stranger must not end a member, so the store is not marked. But the leader may
// belong to a newer configuration, and then this member's acknowledgement may be all that keeps a candidate without committed
// entries from being elected. So until the suspicion ends, the member neither votes nor campaigns. It is in memory alone.
type suspicion struct {
	mark   Mark           // what the store gets once the configuration names that leader
	report AppendConflict // the answer to that leader
}

// suspect begins a suspicion. A report of a later term takes the place of an earlier one, since it can only end later.
func (c *Core) suspect(m Mark, report AppendConflict) {
	if c.follower.suspicion != nil && c.follower.suspicion.mark.Term == m.Term {
		return
	}
	c.follower.suspicion = &suspicion{m, report}
	c.step.sends = slices.DeleteFunc(c.step.sends, func(o outgoing) bool { return o.vote }) // of this step: it has not left
	c.trace(TraceEvent{Kind: TraceSuspected, Peer: m.By.ID, Text: m.Detail})
	if c.candidate != nil { // for pre-votes, since that leader has stepped down
		c.becomeFollower(c.hard.Term, Peer{})
	}
}

// suspected reports whether a leader has shown that this member's disk may be an older image. Such a member neither votes
// nor campaigns.
func (c *Core) suspected() bool { return c.follower.suspicion != nil }

// suspects reports whether the leader of the present term is the one that has shown it.
func (c *Core) suspects() bool { return c.suspected() && c.follower.suspicion.mark.Term == c.hard.Term }

// settleSuspicion marks the store once the configuration names the leader that has shown the loss.
//
// The suspicion ends without a mark once the log holds an entry of a later term. Whoever led that term was elected without
// this member's vote, so it had every committed entry (Leader Completeness), and by the Log Matching Property this log holds
// all of them now:
//
//	"if two logs contain an entry with the same index and term, then the logs are identical in all entries up
//	through the given index." (Figure 3)
func (c *Core) settleSuspicion() {
	if !c.suspected() || c.marked() {
		return
	}
	s := c.follower.suspicion
	switch {
	case c.mayName(s.mark.By):
		c.mark(s.mark)
		c.disk.lossReport = s.report
	case c.log.Last.Term > s.mark.Term:
		c.endSuspicion()
	}
}

// doubtSuspicion ends a suspicion if a member that the configuration names leads the term, too. A term has one leader, so the
// one that is unknown here is none:
//
//	"Election Safety: at most one leader can be elected in a given term." (Figure 3)
//
// Unless it is this member's own vote that has made a second one: on an older image, it may have voted twice.
func (c *Core) doubtSuspicion(m Message) {
	claims := m.Body.class() == ofLeader && c.names(m.From) && m.From != c.hard.Vote
	if c.suspects() && claims && m.From != c.follower.suspicion.mark.By {
		c.endSuspicion()
	}
}

func (c *Core) endSuspicion() {
	c.trace(TraceEvent{Kind: TraceTrusted, Peer: c.follower.suspicion.mark.By.ID})
	c.follower.suspicion = nil
	c.resetElectionDeadline()
}

// suspectedPeer returns the leader that has shown the loss; zero if there is none.
func (c *Core) suspectedPeer() Peer {
	if !c.suspected() {
		return Peer{}
	}
	return c.follower.suspicion.mark.By
}
