package raft

// transfer is a hand-over under way on the leader (dissertation §3.10):
//
//	"The prior leader stops accepting new client requests. The prior leader fully updates the target
//	server's log to match its own. The prior leader sends a TimeoutNow request to the target server."
type transfer struct {
	ticket   Ticket
	stall    bool // begun because of a stalled disk: there is no ticket
	named    bool // the caller named the target
	to       NodeID
	catchUp  Time // until when the target may take to have the whole log, and TimeoutNow to reach it
	deadline Time // the end of it: catchUp, or, once TimeoutNow has left, when no outcome is waited for any more
	sent     bool // TimeoutNow, at sentAt last
	sentAt   Time
	round    RequestID // the latest heartbeat round when TimeoutNow first left
}

// handover waits, on the leader that was, for the next one to be heard.
type handover struct {
	ticket   Ticket
	named    bool
	to       NodeID
	deadline Time
}

func (c *Core) requestTransfer(r TransferRequested) {
	if c.leader == nil || c.step.closing || c.leader.transfer != nil {
		c.refuseTicket(r.Ticket)
		return
	}
	p := c.transferTarget(r.To)
	if p == nil {
		c.answer(Answer{Ticket: r.Ticket, Kind: AnswerRefused, Refusal: RefusedNoTarget, Leader: c.self.ID})
		return
	}
	c.note(Note{Kind: NoteTransfer, Peer: p.peer.ID})
	c.beginTransfer(&transfer{ticket: r.Ticket, named: r.To != "", to: p.peer.ID})
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

// transferTarget returns the voter to hand over to: the one named, or the one whose log is longest,
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
func (c *Core) onTransferDisobeyed(from Peer, round RequestID) {
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
		c.answer(Answer{Ticket: t.ticket, Kind: AnswerRefused, Refusal: why, Leader: c.termLeader.id})
	}
	c.leader.transfer = nil
}

// beginHandover keeps a transfer's ticket when its leader steps down.
func (c *Core) beginHandover(l *leader, t *transfer) {
	if t.stall {
		return
	}
	c.cancelHandover(RefusedTimedOut)
	c.clients.handover = &handover{t.ticket, t.named, t.to, c.now.Mono + c.outcomeTime(l, t.to)}
}

// advanceHandover answers the ticket once somebody leads.
func (c *Core) advanceHandover() {
	h := c.clients.handover
	if h == nil || c.termLeader.id == "" {
		return
	}
	if c.termLeader.id == c.self.ID || h.named && c.termLeader.id != h.to {
		c.cancelHandover(RefusedTimedOut)
		return
	}
	c.answer(Answer{Ticket: h.ticket, Kind: AnswerTransferred, Leader: c.termLeader.id})
	c.clients.handover = nil
}

func (c *Core) onHandoverDeadline() {
	if h := c.clients.handover; h != nil && c.now.Mono >= h.deadline {
		c.cancelHandover(RefusedTimedOut)
	}
}

func (c *Core) cancelHandover(why RefusalKind) {
	if h := c.clients.handover; h != nil {
		c.answer(Answer{Ticket: h.ticket, Kind: AnswerRefused, Refusal: why, Leader: c.termLeader.id})
		c.clients.handover = nil
	}
}
