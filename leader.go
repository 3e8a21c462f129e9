package raft

// leader is the state of a leader (Figure 2, "Volatile state on leaders").
type leader struct {
	since       Time       // when it was elected
	peers       []progress // every other member, and those whose removal they may not know, sorted by id and incarnation
	votes       Halves     // in which halves of the configuration this member votes
	learners    int        // how many of the members do not vote
	change      changing
	heartbeatAt Time
	beatAt      Time  // when a heartbeat last fell due
	round       RPCID // of the last heartbeats
	pending     []pendingProposal
	bytes       int // of the pending proposals
	reads       leaderReads
	transfer    *transfer
	stalled     bool    // the disk was stalled when it was last checked
	fsmHung     bool    // the FSM hung when it was last checked
	hangRetryAt Time    // it does not transfer its leadership because of that before
	triesDisk   bool    // write the hard state again in this step: does the disk work?
	staysUntil  Time    // it does not step down before, although its disk has stalled
	indexes     []Index // reused by quorumValue
	times       []Time  // likewise
}

// newLeader begins with the members of the newest configuration that is known to be committed, and takes in those behind it
// one after another: a member that one of them has removed is served until it knows.
//
// roundTrip is the time from the vote requests to the election: the first estimate of how long an answer takes.
func (c *Core) newLeader(roundTrip Time) *leader {
	l := &leader{since: c.now.Mono, beatAt: c.now.Mono}
	for _, run := range c.log.configsFrom(c.log.commit) {
		c.follow(l, run, roundTrip)
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

// serves reports whether a peer may read through this leader. One that was removed, or that has lost what it
// acknowledged, might never apply what a read needs.
func (l *leader) serves(peer Peer) bool {
	p := l.peer(peer)
	return p != nil && p.state != stale && p.departs == 0
}

// lead does a leader's work at the end of each step: it advances the commit index, a change of the members, reads and a
// transfer, and sends what is ready.
func (c *Core) lead() {
	c.advanceCommit()
	c.advanceRounds()
	c.advanceMembers()
	if c.leader == nil {
		return
	}
	c.advanceRounds() // of the configuration that this step may have appended
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
	c.onHangingFSM()
}

// stepDown ends the leadership of this member, and tells its followers so.
func (c *Core) stepDown() {
	for i := range c.leader.peers {
		c.send(c.leader.peers[i].peer, SteppedDown{})
	}
	c.becomeFollower(c.hard.Term, Peer{})
}

func (l *leader) wakeAt(c *Core) Time {
	// A configuration that has come into force in this step may have new voters that are silent.
	at := min(l.heartbeatAt, max(c.now.Mono, c.quorumUntil()))
	if l.transfer != nil {
		at = min(at, l.transfer.wakeAt(Time(c.cfg.HeartbeatInterval)))
	}
	switch {
	case c.disk.idle():
		at = min(at, c.triesDiskAt())
	case !c.diskStalled():
		at = min(at, c.stallsAt())
	}
	if b := &c.log.batch; b.last > 0 && !c.fsmHangs() {
		at = min(at, b.hangsAt(Time(c.cfg.ApplyStallMax)))
	}
	return at
}
