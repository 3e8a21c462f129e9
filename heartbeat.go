package raft

// heartbeat sends the heartbeats that prevent election timeouts during idle periods (§5.2). It sends them under load, too: the
// answers report what appends do not, and prove the ages of states.
func (c *Core) heartbeat() {
	l := c.leader
	lastRound := l.beatAt
	l.round, l.beatAt = c.nextID(), c.now.Mono
	c.dropDeparted()
	c.compact()                   // time may have ended what was held for a follower
	c.updateSuccession(lastRound) // afterwards, because a follower that now needs a snapshot could not take over
	c.beginAgeRound()
	for i := range l.peers {
		p := &l.peers[i]
		if p.match == c.log.Last.Index {
			p.matchedAt = c.now.Mono
		}
		p.lag.measure(p.match, c.log.Last.Index, c.now.Mono)
		if c.mayBeUninitialized(p) && p.probe.overdue(c.now.Mono, c.electionTimeout()) {
			p.probe.repeat()
		}
		c.sendHeartbeat(p)
	}
}

// mayBeUninitialized reports whether a member may belong to no cluster yet, and may have missed its first append. Such a
// member answers no heartbeats, so the leader cannot learn from heartbeats that the append is lost.
func (c *Core) mayBeUninitialized(p *progress) bool {
	return p.learns() && p.state == probe && p.match == 0 && p.beats.echoed == RPCID{}
}

// beginRound sends a heartbeat to every member, so that a quorum can confirm that this member leads.
func (c *Core) beginRound() {
	c.leader.round = c.nextID()
	for i := range c.leader.peers {
		c.sendHeartbeat(&c.leader.peers[i])
	}
}

func (c *Core) sendHeartbeat(p *progress) {
	commit := min(c.log.commit, p.match)
	p.sentCommit = max(p.sentCommit, commit)
	p.beats.sent(c.leader.round, p.match, c.now.Mono)
	if p.departs > 0 && commit >= p.departs && p.removalRound == (RPCID{}) {
		p.removalRound = c.leader.round
	}
	s := &c.leader.succession
	c.send(p.peer, Heartbeat{Round: c.leader.round, Commit: commit, Successors: s.list, Span: s.span, Promise: c.asksForLease()})
}

func (c *Core) onHeartbeat(m Message, h Heartbeat) {
	if c.otherLeads(m.From) {
		c.refuse(m, "another member leads this term")
		return
	}
	c.onSuccession(m, h)
	c.hear(m.From)
	c.followCommit(h.Commit)
	c.onFreshness(m, h.Fresh)
	switch {
	case c.suspects(): // a confirmation of a member that may have forgotten a vote must not count
		c.send(m.From, c.follower.suspicion.report)
	case h.Round != RPCID{}:
		c.send(m.From, HeartbeatReply{
			Round: h.Round, Match: min(c.disk.persisted, c.termLeader.proved), Wall: c.now.Wall,
			Applied: c.log.applied, Hindered: c.hindered(), Backoff: c.backoff(), AppVersion: c.cfg.AppVersion,
			Moment:  c.moment(m.From),
			Promise: c.promise(h.Promise),
		})
	}
}

// hindered returns why this member does not count at present. It returns only reasons that the core knows.
func (c *Core) hindered() (h Hindrance) {
	if c.diskStalled() {
		h |= HinderedStalled
	}
	if c.snaps.restoring != nil {
		h |= HinderedRestoring
	}
	if c.suspected() {
		h |= HinderedSuspected
	}
	if c.fsmHangs() {
		h |= HinderedFSM
	}
	return h
}

func (c *Core) onHeartbeatReply(m Message, r HeartbeatReply) {
	p := c.heardFrom(m.From)
	if p == nil {
		return
	}
	c.hearClock(m.From, r.Wall)
	if max(r.Match, r.Applied) > c.log.Last.Index || c.leader.round.Less(r.Round) {
		c.refuse(m, "it answers what was not asked")
		return
	}
	if why := c.onPromise(p, r.Promise); why != "" {
		c.refuse(m, why)
		return
	}
	p.beats.answered(r.Round, c.now.Mono)
	p.heardMoment(r.Moment)
	if r.Round == p.beats.echoed { // not an earlier reply that comes late: a member that restarts applies its log again
		p.applied, p.hindered, p.backoff, p.appVersion = r.Applied, r.Hindered, r.Backoff, r.AppVersion
		p.versioned = true
	}
	if r.Match > p.match {
		p.acknowledged(r.Match, c.now.Mono)
	}
	p.forgot(r.Round, r.Match, c.log.Base.ID.Index)
	p.retransmit(c.now.Mono, max(Time(c.cfg.HeartbeatInterval), 2*p.beats.roundTrip.max()), c.silence(p), c.log.Base.ID.Index)
	c.onTransferDisobeyed(p.peer, r.Round)
}

// confirmed reports whether a quorum has answered this round of heartbeats, or a later one.
func (c *Core) confirmed(round RPCID) bool {
	return quorumValue(c.leader, &c.leader.indexes, 1, func(p *progress) Index {
		if p.beats.echoed.Less(round) {
			return 0
		}
		return 1
	}) == 1
}

// heardFrom returns a follower's progress and records that this leader heard the follower in this term. It returns nil for a
// stale member, because its messages do not count.
func (c *Core) heardFrom(from Peer) *progress {
	if c.leader == nil {
		return nil
	}
	p := c.leader.peer(from)
	if p == nil || p.state == stale {
		return nil
	}
	if c.silent(p) {
		p.backAt = c.now.Mono
	}
	p.heard = c.now.Mono
	return p
}

// silent reports whether the leader has not heard a member for so long that check-quorum no longer counts that member.
func (c *Core) silent(p *progress) bool { return c.now.Mono-p.heard >= c.window(p) }

// heardLately reports whether a member has answered in this term and is not silent. A member that joined under load may have
// answered only appends so far, because the leader sent it no heartbeat.
func (c *Core) heardLately(p *progress) bool {
	answered := p.beats.echoed != RPCID{} || p.match > 0
	return answered && !c.silent(p)
}

// window returns how long after its last message a member still counts as present. That is an election timeout, or twice the
// round trip to the member if that is longer, up to 64 election timeouts.
func (c *Core) window(p *progress) Time {
	return max(c.electionTimeout(), min(2*p.beats.roundTrip.max(), c.electionTimeout()<<doublingsMax))
}

// quorumUntil is check-quorum. It returns the time at which the leader steps down unless it hears a quorum before. Each voter
// counts for one window after the leader last heard it. onLeaderDeadlines (leader.go) steps down at that time.
//
//	"a leader steps down if an election timeout elapses without a successful round of heartbeats to
//	a majority of its cluster" (dissertation §6.2)
//
// If the leader has sent TimeoutNow to another member, it waits at least until the transfer's deadline. After a change of the
// members, the leader allows an election timeout to hear the voters, because those that Change.Despite names may have been
// silent before.
func (c *Core) quorumUntil() Time {
	always := c.now.Mono + idleMax // the leader hears itself
	until := quorumValue(c.leader, &c.leader.times, always, func(p *progress) Time { return p.heard + c.window(p) })
	if t := c.leader.transfer; t != nil && t.sent {
		until = max(until, t.deadline)
	}
	return max(until, c.leader.change.since+c.electionTimeout())
}
