package raft

// transfer is a transfer under way on the leader (dissertation §3.10):
//
//	"The prior leader stops accepting new client requests. The prior leader fully updates the target
//	server's log to match its own. The prior leader sends a TimeoutNow request to the target server."
type transfer struct {
	requestID RequestID
	stall     bool // begun because of a stalled disk: there is no request
	named     bool // the caller named the target
	to        NodeID
	catchUp   Time // until when the target may take to have the whole log, and TimeoutNow to reach it
	deadline  Time // the end of it: catchUp, or, once TimeoutNow has left, when no outcome is waited for any more
	sent      bool // TimeoutNow, at sentAt last
	sentAt    Time
	round     RPCID // the latest heartbeat round when TimeoutNow first left
}

// transferOutcome waits, on the leader that was, for the next one to be heard.
type transferOutcome struct {
	requestID RequestID
	named     bool
	to        NodeID
	deadline  Time
}

func (c *Core) requestTransfer(r TransferRequested) {
	if c.leader == nil || c.step.closing || c.leader.transfer != nil {
		c.refuseRequest(r.RequestID)
		return
	}
	p := c.transferTarget(r.To)
	if p == nil {
		c.answer(Answer{RequestID: r.RequestID, Kind: AnswerRefused, Refusal: RefusedNoTarget, Leader: c.self.ID})
		return
	}
	c.trace(TraceEvent{Kind: TraceTransfer, Peer: p.peer.ID})
	c.beginTransfer(&transfer{requestID: r.RequestID, named: r.To != "", to: p.peer.ID})
}

// beginTransfer gives the target an election timeout to catch up, and the time that its disk takes.
func (c *Core) beginTransfer(t *transfer) {
	t.catchUp = c.now.Mono + c.electionTimeout() + 4*c.slowestAck(c.leader, t.to)
	t.deadline = t.catchUp
	c.leader.transfer = t
}

// slowestAck is how long the member's slowest recent acknowledgement of an append took.
func (c *Core) slowestAck(l *leader, id NodeID) Time {
	return min(l.peerByID(id).acks.max(), c.electionTimeout()<<doublingsMax)
}

// outcomeTime is how long a leader waits, once TimeoutNow has left, for the target's election: without it
// the leader would take proposals, and lose them to the next leader.
func (c *Core) outcomeTime(l *leader, target NodeID) Time {
	return 2*c.electionTimeout() + 4*c.slowestAck(l, target)
}

// transferTarget returns the voter to transfer leadership to: the one named, or the one whose log is longest,
// the first by id among equals. It must have been heard within an election timeout.
func (c *Core) transferTarget(to NodeID) *progress {
	var best *progress
	for i := range c.leader.peers {
		p := &c.leader.peers[i]
		if !p.voter || !c.heardLately(p) || to != "" && p.peer.ID != to {
			continue
		}
		if best == nil || p.match > best.match {
			best = p
		}
	}
	return best
}

// advanceTransfer sends TimeoutNow once the target's log is ours; again with the heartbeats' pace, for
// it may be lost.
func (c *Core) advanceTransfer() {
	t := c.leader.transfer
	if t == nil {
		return
	}
	p := c.leader.peerByID(t.to)
	if p.match != c.log.Last.Index {
		return
	}
	if !t.sent {
		t.sent, t.round = true, c.leader.round
		t.deadline = c.now.Mono + c.outcomeTime(c.leader, t.to)
	} else if again := t.sentAt + Time(c.cfg.HeartbeatInterval); again >= t.catchUp || c.now.Mono < again {
		return
	}
	t.sentAt = c.now.Mono
	c.send(p.peer, TimeoutNow{})
}

// wakeAt is when to repeat TimeoutNow, or to give up.
func (t *transfer) wakeAt(interval Time) Time {
	if again := t.sentAt + interval; t.sent && again < t.catchUp {
		return min(t.deadline, again)
	}
	return t.deadline
}

// onTransferDisobeyed ends a transfer whose target answers, in this term, a heartbeat that left after
// TimeoutNow: had it campaigned, it would speak in the next term. Until catchUp it is told again.
func (c *Core) onTransferDisobeyed(from Peer, round RPCID) {
	t := c.leader.transfer
	if t != nil && t.sent && t.to == from.ID && t.round.Less(round) && c.now.Mono >= t.catchUp {
		c.cancelTransfer(RefusedTimedOut)
	}
}

// onTransferTargetLost ends a transfer whose target has been told to campaign: it may never have heard.
func (c *Core) onTransferTargetLost(id NodeID) {
	if t := c.leader.transfer; t != nil && t.sent && t.to == id {
		c.cancelTransfer(RefusedTimedOut)
	}
}

// onTransferTargetStale ends a transfer to a member that has lost what it acknowledged: it will never hold
// the whole log in this term.
func (c *Core) onTransferTargetStale(id NodeID) {
	if t := c.leader.transfer; t != nil && t.to == id {
		c.cancelTransfer(RefusedTimedOut)
	}
}

// onTransferDeadline gives up:
//
//	"if leadership transfer does not complete after about an election timeout, the prior leader
//	aborts the transfer and resumes accepting client requests." (dissertation §3.10)
//
// On slow disks it is more than about one: see outcomeTime.
func (c *Core) onTransferDeadline() {
	if t := c.leader.transfer; t != nil && c.now.Mono >= t.deadline {
		c.cancelTransfer(RefusedTimedOut)
	}
}

func (c *Core) cancelTransfer(why RefusalKind) {
	t := c.leader.transfer
	if t == nil {
		return
	}
	if !t.stall {
		c.answer(Answer{RequestID: t.requestID, Kind: AnswerRefused, Refusal: why, Leader: c.termLeader.id})
	}
	c.leader.transfer = nil
}

// awaitTransferOutcome keeps a transfer's request id when its leader steps down.
func (c *Core) awaitTransferOutcome(l *leader, t *transfer) {
	if t.stall {
		return
	}
	c.cancelTransferOutcome(RefusedTimedOut)
	c.clients.transferOutcome = &transferOutcome{t.requestID, t.named, t.to, c.now.Mono + c.outcomeTime(l, t.to)}
}

// advanceTransferOutcome answers the request once somebody leads.
func (c *Core) advanceTransferOutcome() {
	h := c.clients.transferOutcome
	if h == nil || c.termLeader.id == "" {
		return
	}
	if c.termLeader.id == c.self.ID || h.named && c.termLeader.id != h.to {
		c.cancelTransferOutcome(RefusedTimedOut)
		return
	}
	c.answer(Answer{RequestID: h.requestID, Kind: AnswerTransferred, Leader: c.termLeader.id})
	c.clients.transferOutcome = nil
}

func (c *Core) onTransferOutcomeDeadline() {
	if h := c.clients.transferOutcome; h != nil && c.now.Mono >= h.deadline {
		c.cancelTransferOutcome(RefusedTimedOut)
	}
}

func (c *Core) cancelTransferOutcome(why RefusalKind) {
	if h := c.clients.transferOutcome; h != nil {
		c.answer(Answer{RequestID: h.requestID, Kind: AnswerRefused, Refusal: why, Leader: c.termLeader.id})
		c.clients.transferOutcome = nil
	}
}
