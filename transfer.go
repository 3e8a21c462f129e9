package raft

// transfer is a transfer that is running on the leader (dissertation §3.10):
//
//	"The prior leader stops accepting new client requests. The prior leader fully updates the target
//	server's log to match its own. The prior leader sends a TimeoutNow request to the target server."
type transfer struct {
	requestID RequestID
	own       bool // begun by this leader itself: there is no request
	planned   bool // TimeoutNow waits until the accepted proposals are applied here, but at most until catchUp
	leaving   bool // this member is about to end: at catchUp, TimeoutNow leaves all the same
	named     bool // the caller named the target
	to        Peer
	workUntil Time // TimeoutNow waits until then for the end of the host's work; 0: not, or not any more
	catchUp   Time // end of the time in which the target may catch up and TimeoutNow is repeated
	deadline  Time // when the transfer ends: catchUp or, once TimeoutNow has left or this member has stepped down, the end of outcomeTime
	sent      bool // TimeoutNow has been sent, last at sentAt
	sentAt    Time
	round     RPCID // the latest heartbeat round when TimeoutNow first left
}

func (c *Core) requestTransfer(r TransferRequested) {
	if c.leader == nil || c.step.closing || c.leader.transfer != nil || c.isOtherTerm(r.Term) {
		c.refuseRequest(r.RequestID)
		return
	}
	p := c.transferTarget(r.To)
	if p == nil {
		c.answer(Answer{RequestID: r.RequestID, Kind: AnswerRefused, Refusal: RefusedNoTarget, Leader: c.self.ID})
		return
	}
	named := r.To != "" && !r.Urgent // a leader that can apply nothing more tries one voter after another
	c.leader.stays = c.leader.stays || named
	c.trace(TraceEvent{Kind: TraceTransfer, Peer: p.peer.ID})
	c.beginTransfer(&transfer{requestID: r.RequestID, planned: !r.Urgent, leaving: r.Leaving, named: named, to: p.peer})
}

// beginTransfer begins a transfer. First the host has workStopMax to end its work.
func (c *Core) beginTransfer(t *transfer) {
	c.leader.transfer = t
	if c.leader.workStopMax > 0 {
		t.workUntil = c.now.Mono + c.leader.workStopMax
	}
	c.beginCatchUp(max(c.now.Mono, t.workUntil))
}

// beginCatchUp gives the target of the transfer an election timeout from then on to catch up, plus the time that its disk
// takes. In a planned transfer, the accepted proposals have the same time to be applied.
func (c *Core) beginCatchUp(from Time) {
	t := c.leader.transfer
	t.catchUp = from + c.electionTimeout() + 4*c.slowestAck(c.leader, t.to)
	t.deadline = t.catchUp
}

// MayWork reports whether the host may do work that ends with this leadership, see Working. This member leads, and has applied
// an entry of its term, and so everything that was committed before. It does not transfer its leadership. MayWork
// allocates nothing.
func (c *Core) MayWork() bool {
	return c.leader != nil && c.leader.transfer == nil && !c.step.closing && c.log.known(c.log.applied).Term == c.hard.Term
}

// onWorking records whether the host works for this leadership. Once the work has ended, a transfer goes on.
func (c *Core) onWorking(e Working) {
	l := c.leader
	if l == nil {
		return
	}
	if l.workStopMax = 0; e.Term == c.hard.Term {
		l.workStopMax = Time(e.StopMax)
	}
	if t := l.transfer; t != nil && t.workUntil > 0 && l.workStopMax == 0 {
		from := min(c.now.Mono, t.workUntil) // after a pause, a late end of the work is no reason to take longer
		t.workUntil = 0
		c.beginCatchUp(from)
	}
}

// slowestAck returns how long the member's slowest recent acknowledgement of an append took, up to 64 election
// timeouts.
func (c *Core) slowestAck(l *leader, target Peer) Time {
	return min(l.peer(target).acks.max(), c.electionTimeout()<<doublingsMax)
}

// outcomeTime returns how long a leader waits for the target's election once TimeoutNow has left. It accepts no proposals
// meanwhile, because they would be lost to the next leader.
func (c *Core) outcomeTime(l *leader, target Peer) Time {
	return 2*c.electionTimeout() + 4*c.slowestAck(l, target)
}

// transferTarget returns the voter to transfer leadership to. That is the named voter or, if none is named, one with a priority
// that nothing hinders or, if there is none, one that is not a standby. Of several, it is the one with the longest log, and of
// several with equally long logs the first by id. The leader must have heard that voter lately. transferTarget returns nil if
// there is no such voter.
//
// While the voters change, the target must vote in the new configuration, because a leaving voter would have to transfer its
// leadership in turn.
func (c *Core) transferTarget(to NodeID) *progress {
	if to != "" {
		return c.targetAmong(IncomingHalf, func(p *progress) bool { return p.peer.ID == to })
	}
	if p := c.targetAmong(IncomingHalf, func(p *progress) bool { return c.effectivePriority(p) > 0 }); p != nil {
		return p
	}
	return c.targetAmong(IncomingHalf, func(p *progress) bool { return !c.standby(p.peer) })
}

// targetAmong does the work of transferTarget for the fit voters of the given halves.
func (c *Core) targetAmong(halves Halves, fit func(*progress) bool) *progress {
	var best *progress
	for i := range c.leader.peers {
		p := &c.leader.peers[i]
		if p.votes&halves == 0 || !c.heardLately(p) || !fit(p) {
			continue
		}
		if best == nil || p.match > best.match {
			best = p
		}
	}
	return best
}

// HoldsProposals reports whether a planned transfer is running, or has ended this member's leadership a moment ago and the
// next leader is not known yet. A loop should hold proposals back meanwhile. After that, the core appends or refuses them
// and can name the leader. HoldsProposals allocates nothing.
func (c *Core) HoldsProposals() bool {
	t := c.follower.transferOutcome
	if c.leader != nil {
		t = c.leader.transfer
	}
	return t != nil && t.planned
}

// owesOutcomes reports whether an accepted proposal is not applied here yet, so that its outcome would be unknown if another
// member led. A member whose disk has stalled or whose FSM hangs does not wait for the outcomes: it cannot apply anything.
func (c *Core) owesOutcomes() bool {
	return c.log.applied < c.leader.accepted && !c.diskStalled() && !c.fsmHangs()
}

// advanceTransfer sends TimeoutNow once the host's work has ended, the target has our whole log and, in a planned transfer, this
// member has applied what it has accepted. It repeats it once per heartbeat interval, because the message may be lost. It skips a repetition if
// outcomes are owed again: the disk or the FSM has recovered.
func (c *Core) advanceTransfer() {
	t := c.leader.transfer
	if t == nil {
		return
	}
	if c.now.Mono >= t.workUntil {
		t.workUntil = 0
	}
	p := c.leader.peer(t.to)
	again, waits := t.sentAt+Time(c.cfg.HeartbeatInterval), p.match != c.log.Last.Index || t.planned && c.now.Mono < t.catchUp && c.owesOutcomes()
	waits = waits || t.workUntil > 0
	switch {
	case t.sent && (c.now.Mono < again || c.now.Mono >= t.catchUp), !t.sent && waits:
		return
	case !t.sent:
		t.sent, t.round = true, c.leader.round
		c.leader.leaseEnded = true
		t.deadline = c.now.Mono + c.outcomeTime(c.leader, t.to)
	}
	if t.sentAt = c.now.Mono; !waits {
		c.send(p.peer, TimeoutNow{Named: t.named})
	}
}

// wakeAt returns the time at which to send TimeoutNow at the latest for the host's work, to repeat it, or to give up.
func (t *transfer) wakeAt(now, interval Time) Time {
	if t.workUntil > 0 {
		return t.workUntil
	}
	if again := t.sentAt + interval; t.sent && max(now, again) < t.catchUp {
		return min(t.deadline, again)
	}
	return t.deadline
}

// onTransferDisobeyed ends a transfer if its target answers, in this term, a heartbeat that left after TimeoutNow. If the
// target had campaigned, it would answer in the next term. Before catchUp, the leader repeats TimeoutNow instead.
func (c *Core) onTransferDisobeyed(from Peer, round RPCID) {
	t := c.leader.transfer
	if t != nil && t.sent && t.to == from && t.round.Less(round) && c.now.Mono >= t.catchUp {
		c.cancelTransfer(RefusedTimedOut)
	}
}

// onTransferTargetLost ends a transfer if the connection to its target breaks after TimeoutNow has left. The message may
// never have arrived.
func (c *Core) onTransferTargetLost(peer Peer) {
	if t := c.leader.transfer; t != nil && t.sent && t.to == peer {
		c.cancelTransfer(RefusedTimedOut)
	}
}

// onTransferTargetStale ends a transfer to a stale member, because that member will never hold the whole log in this term.
func (c *Core) onTransferTargetStale(peer Peer) {
	if t := c.leader.transfer; t != nil && t.to == peer {
		c.cancelTransfer(RefusedTimedOut)
	}
}

// onTransferDeadline gives up at the deadline:
//
//	"if leadership transfer does not complete after about an election timeout, the prior leader
//	aborts the transfer and resumes accepting client requests." (dissertation §3.10)
//
// With slow disks the deadline is later than that: see outcomeTime. A leader that is about to end does not give up a target
// that has the whole log.
func (c *Core) onTransferDeadline() {
	t := c.leader.transfer
	if t == nil || c.now.Mono < t.deadline {
		return
	}
	if t.leaving && !t.sent && c.leader.peer(t.to).match == c.log.Last.Index {
		return // advanceTransfer sends TimeoutNow
	}
	c.cancelTransfer(RefusedTimedOut)
}

func (c *Core) cancelTransfer(why RefusalKind) {
	if t := c.leader.transfer; t != nil {
		c.answerTransfer(t, Answer{Kind: AnswerRefused, Refusal: why})
		c.leader.transfer = nil
	}
}

// answerTransfer answers the request of a transfer, if there is one. If this member ends meanwhile, a target that was told to
// campaign may still lead: nobody may take that for a refusal, and ask the next leader.
func (c *Core) answerTransfer(t *transfer, a Answer) {
	if t.sent && (a.Refusal == RefusedClosing || a.Refusal == RefusedNotLeader) {
		a = Answer{Kind: AnswerUnknown}
	}
	if !t.own {
		a.RequestID, a.Leader = t.requestID, c.termLeader.peer.ID
		c.answer(a)
	}
}

// awaitTransferOutcome keeps a transfer when its leader steps down, unless nobody waits for the outcome.
func (c *Core) awaitTransferOutcome(l *leader, t *transfer) {
	if t.own && !t.planned {
		return
	}
	c.cancelTransferOutcome(RefusedTimedOut)
	t.deadline = c.now.Mono + c.outcomeTime(l, t.to)
	c.follower.transferOutcome = t
}

// advanceTransferOutcome answers the request once the next leader is known.
func (c *Core) advanceTransferOutcome() {
	t := c.follower.transferOutcome
	if t == nil || (c.termLeader.peer == Peer{}) {
		return
	}
	if c.termLeader.peer == c.self || t.named && c.termLeader.peer != t.to {
		c.cancelTransferOutcome(RefusedTimedOut)
		return
	}
	c.answerTransfer(t, Answer{Kind: AnswerTransferred})
	c.follower.transferOutcome = nil
}

func (c *Core) onTransferOutcomeDeadline() {
	if t := c.follower.transferOutcome; t != nil && c.now.Mono >= t.deadline {
		c.cancelTransferOutcome(RefusedTimedOut)
	}
}

func (c *Core) cancelTransferOutcome(why RefusalKind) {
	if t := c.follower.transferOutcome; t != nil {
		c.answerTransfer(t, Answer{Kind: AnswerRefused, Refusal: why})
		c.follower.transferOutcome = nil
	}
}
