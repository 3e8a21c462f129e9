package raft

// leader is the state of a leader (Figure 2, "Volatile state on leaders").
type leader struct {
	peers       []progress // every other member, sorted by id
	heartbeatAt Time
	beatAt      Time  // when a heartbeat last fell due
	round       RPCID // of the last heartbeats
	pending     []pendingProposal
	bytes       int // of the pending proposals
	reads       leaderReads
	transfer    *transfer
	stalled     bool    // the disk was stalled when it was last checked
	staysUntil  Time    // it does not step down before, although its disk has stalled
	indexes     []Index // reused by quorumValue
	times       []Time  // likewise
}

// newLeader initialises "for each server, nextIndex to leader last log index + 1, matchIndex to 0"
// (Figure 2).
//
// roundTrip is the time from the vote requests to the election: the first estimate of how long an answer takes.
func (c *Core) newLeader(roundTrip Time) *leader {
	l := &leader{beatAt: c.now.Mono}
	for _, m := range c.config().Members {
		if m.ID == c.self.ID {
			continue
		}
		p := progress{peer: m.Peer(), voter: m.Kind == Voter, next: c.log.Last.Index + 1, heard: c.now.Mono, matchedAt: c.now.Mono}
		p.beats.roundTrip.add(roundTrip)
		l.peers = append(l.peers, p)
	}
	return l
}

func (l *leader) peer(p Peer) *progress {
	for i := range l.peers {
		if l.peers[i].peer == p {
			return &l.peers[i]
		}
	}
	return nil
}

func (l *leader) peerByID(id NodeID) *progress {
	for i := range l.peers {
		if l.peers[i].peer.ID == id {
			return &l.peers[i]
		}
	}
	return nil
}

// isStale reports whether a follower has lost what it acknowledged. It could never apply what a read needs.
func (l *leader) isStale(peer Peer) bool {
	p := l.peer(peer)
	return p != nil && p.state == stale
}

// lead does a leader's work at the end of each step: it advances the commit index, reads and a transfer, and
// sends what is ready.
func (c *Core) lead() {
	c.advanceCommit()
	c.advanceReads()
	c.advanceTransfer()
	for i := range c.leader.peers {
		p := &c.leader.peers[i]
		if p.state != snapshot {
			c.endOffer(p)
		}
		c.replicate(p)
		c.pushCommit(p)
	}
}

// onLeaderDeadlines does what is due at this time on a leader.
func (c *Core) onLeaderDeadlines() {
	l := c.leader
	if c.now.Mono >= c.quorumUntil() {
		c.trace(TraceEvent{Kind: TraceQuorumLost})
		c.stepDown()
		return
	}
	if c.now.Mono >= l.heartbeatAt {
		interval := Time(c.cfg.HeartbeatInterval)
		l.heartbeatAt = max(l.heartbeatAt+interval, c.now.Mono+interval/2)
		c.heartbeat()
	}
	c.onTransferDeadline()
	c.tryDisk()
	c.onStalledDisk()
}

// stepDown ends the leadership of this member, and tells its followers so.
func (c *Core) stepDown() {
	for i := range c.leader.peers {
		c.send(c.leader.peers[i].peer, SteppedDown{})
	}
	c.becomeFollower(c.hard.Term, "")
}

func (l *leader) wakeAt(c *Core) Time {
	at := min(l.heartbeatAt, c.quorumUntil())
	if l.transfer != nil {
		at = min(at, l.transfer.wakeAt(Time(c.cfg.HeartbeatInterval)))
	}
	switch {
	case c.disk.idle():
		at = min(at, c.triesDiskAt())
	case !c.diskStalled():
		at = min(at, c.stallsAt())
	}
	return at
}
