package raft

// This file holds what a leader keeps, when it acts by itself, and how it accepts proposals.

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
	bytes       int   // of the pending proposals
	accepted    Index // of the last accepted proposal; 0: none
	reads       leaderReads
	ages        ageRound
	leaseEnded  bool // TimeoutNow has left in this term
	transfer    *transfer
	workStopMax Time // how long a transfer waits for the end of the host's work; 0: it does none
	succession  succession
	triedAt     Time    // when it last began to transfer to a member with a higher priority; 0: never
	stays       bool    // it got its leadership from a transfer by name, or was asked for one: it does not transfer for a priority
	standby     bool    // it was a standby at the last check
	stalled     bool    // the disk had stalled at the last check
	fsmHung     bool    // the FSM hung at the last check
	hangRetryAt Time    // earliest next transfer because the FSM hangs
	triesDisk   bool    // write the hard state again in this step: does the disk work?
	staysUntil  Time    // earliest time to step down because the disk has stalled
	indexes     []Index // reused by quorumValue
	times       []Time  // likewise
}

// newLeader returns the state of a new leader. It begins with the members of the newest configuration that is known to be
// committed, then follows the later configurations one by one. If one of them has removed a member, the leader serves that
// member until it knows about its removal.
//
// roundTrip is the time from the vote requests to the election. It is the first estimate of how long an answer takes.
func (c *Core) newLeader(roundTrip Time) *leader {
	l := &leader{since: c.now.Mono, beatAt: c.now.Mono, standby: c.standby(c.self)}
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

// serves reports whether a peer may read through this leader. It may not if it was removed or has lost what it acknowledged,
// because such a peer might never apply what a read needs.
func (l *leader) serves(peer Peer) bool {
	p := l.peer(peer)
	return p != nil && p.state != stale && p.departs == 0
}

// lead does a leader's work at the end of each step. It advances the commit index, a change of the members, reads and a
// transfer. Then it sends what is ready.
func (c *Core) lead() {
	c.advanceCommit()
	c.advanceRounds()
	c.advanceMembers()
	if c.leader == nil {
		return
	}
	c.advanceRounds() // of the configuration that this step may have appended
	c.advanceReads()
	c.advanceAges()
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

// onLeaderDeadlines does what a leader has to do at this time.
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
	c.takeOffice()
	c.onTakeover()
}

// stepDown ends the leadership of this member, and reports that to its followers.
func (c *Core) stepDown() {
	for i := range c.leader.peers {
		c.send(c.leader.peers[i].peer, SteppedDown{})
	}
	c.becomeFollower(c.hard.Term, Peer{})
}

func (l *leader) wakeAt(c *Core) Time {
	// If a configuration has come into force in this step, it may have new voters that are silent.
	at := min(l.heartbeatAt, max(c.now.Mono, c.quorumUntil()))
	if l.transfer != nil {
		at = min(at, l.transfer.wakeAt(c.now.Mono, Time(c.cfg.HeartbeatInterval)))
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

// pendingProposal is a proposal that was accepted and is not being applied yet.
type pendingProposal struct {
	requestID RequestID
	id        EntryID
	bytes     int
}

// propose appends proposals to the leader's log:
//
//	"If command received from client: append entry to local log, respond after entry applied to
//	state machine (§5.3)." (Figure 2, Leaders)
func (c *Core) propose(proposals []Proposal) {
	if c.leader == nil || c.step.closing || c.leader.transfer != nil {
		for _, p := range proposals {
			c.refuseRequest(p.RequestID)
		}
		return
	}
	l := c.leader
	noSessions, why := c.allowSessions(proposals)
	entries, now, largest := make([]Entry, 0, len(proposals)), c.stampNow(), c.largestCommand()
	c.growAnswers(len(proposals))
	for _, p := range proposals {
		assert(p.Kind == EntryCommand || p.Kind == EntryNoop || p.Kind == EntrySession, "only commands and no-ops are proposed, and entries of sessions")
		if c.isOtherTerm(p.Term) {
			c.refuseRequest(p.RequestID)
			continue
		}
		if p.Kind == EntrySession && noSessions != 0 {
			c.answer(Answer{RequestID: p.RequestID, Kind: AnswerRefused, Refusal: noSessions, Err: why})
			continue
		}
		if len(p.Data) > largest.Limit {
			why := &TooLargeError{Bytes: len(p.Data), Limit: largest.Limit, Member: largest.Member}
			c.answer(Answer{RequestID: p.RequestID, Kind: AnswerRefused, Refusal: RefusedTooLarge, Err: why})
			continue
		}
		if refusal := c.overLimit(len(entries)); refusal != 0 {
			c.answer(Answer{RequestID: p.RequestID, Kind: AnswerRefused, Refusal: refusal})
			continue
		}
		e := c.placed(Entry{Kind: p.Kind, Time: now, Data: p.Data, record: p.record}, len(entries))
		assert(p.Term == 0 || p.Term == e.Term, "a proposal for one term is appended in no other")
		entries = append(entries, e)
		l.pending = append(l.pending, pendingProposal{p.RequestID, e.ID(), len(p.Data)})
		l.bytes += len(p.Data)
		l.accepted = e.Index
		c.answer(Answer{RequestID: p.RequestID, Kind: AnswerAccepted, ID: e.ID()})
	}
	if len(entries) > 0 {
		c.appendEntries(entries)
	}
}

// isOtherTerm reports whether a request is meant for the leader of another term. A caller that forwards a request has learnt
// of one leader. If that leader has lost its term since, the caller may have sent the request elsewhere.
func (c *Core) isOtherTerm(wanted Term) bool { return wanted != 0 && wanted != c.hard.Term }

// largestCommand returns the limit of a command. If the limit belongs to another member, it also names that member: the one
// of the configuration with the smallest known limit of an append. A larger entry would keep that member from receiving any
// later entry.
func (c *Core) largestCommand() TooLargeError {
	limit := TooLargeError{Limit: c.cfg.CommandBytesMax}
	for _, m := range c.snaps.spoken {
		if most := max(m.appendBytesMax-RecordOverheadBytes, 0); m.appendBytesMax > 0 && most < limit.Limit && c.names(m.peer) {
			limit = TooLargeError{Limit: most, Member: m.peer.ID}
		}
	}
	return limit
}

// overLimit returns why a proposal must be refused now, or 0 if it need not be. ahead is the number of earlier proposals of
// this step.
func (c *Core) overLimit(ahead int) RefusalKind {
	l := c.leader
	switch {
	case c.diskStalled():
		return RefusedStalled
	case c.fsmHangs():
		return RefusedFSMHangs
	case len(l.pending) >= c.cfg.ProposalsMax,
		l.bytes >= c.cfg.ProposalBytesMax, // whatever its size, so that small proposals do not starve large ones
		c.log.Last.Index+Index(ahead)-max(c.log.applied, c.log.Base.ID.Index) >= Index(c.cfg.UnappliedMax):
		return RefusedOverloaded
	}
	return 0
}

// appendOwn appends one entry that no client has proposed.
func (c *Core) appendOwn(e Entry) {
	e.Time = c.stampNow()
	c.appendEntries([]Entry{c.placed(e, 0)})
}

// placed returns the entry with the present term and with its index, which is ahead entries after the first free index.
func (c *Core) placed(e Entry, ahead int) Entry {
	e.Index, e.Term = c.log.Last.Index+1+Index(ahead), c.hard.Term
	return e
}

// dropApplying drops the pending proposals up to i, which the applier will answer.
func (l *leader) dropApplying(i Index) {
	n := 0
	for n < len(l.pending) && l.pending[n].id.Index <= i {
		l.bytes -= l.pending[n].bytes
		n++
	}
	l.pending = append(l.pending[:0], l.pending[n:]...)
}
