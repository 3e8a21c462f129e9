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
	deadline Time
	sent     bool // TimeoutNow, at sentAt last
	sentAt   Time
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
	c.leader.transfer = &transfer{
		ticket: r.Ticket, named: r.To != "", to: p.peer.ID, deadline: c.now.Mono + c.electionTimeout(),
	}
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

// heardLately reports whether a member has answered in this term, and within an election timeout. Who came
// under load may have answered appends alone: no heartbeat was due to it.
func (c *Core) heardLately(p *progress) bool {
	answered := p.round != RequestID{} || p.match > 0
	return answered && c.now.Mono-p.heard < c.electionTimeout()
}

// advanceTransfer sends TimeoutNow once the target's log is ours; again with the heartbeats' pace, for
// it may be lost.
func (c *Core) advanceTransfer() {
	t := c.leader.transfer
	if t == nil {
		return
	}
	p := c.leader.peerByID(t.to)
	due := !t.sent || c.now.Mono-t.sentAt >= Time(c.cfg.HeartbeatInterval)
	if p.match == c.log.Last.Index && due {
		t.sent, t.sentAt = true, c.now.Mono
		c.send(p.peer, TimeoutNow{})
	}
}

// wakeAt is when to repeat TimeoutNow, or to give up.
func (t *transfer) wakeAt(interval Time) Time {
	if t.sent {
		return min(t.deadline, t.sentAt+interval)
	}
	return t.deadline
}

// onTransferDeadline gives up:
//
//	"if leadership transfer does not complete after about an election timeout, the prior leader
//	aborts the transfer and resumes accepting client requests." (dissertation §3.10)
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
		c.answer(Answer{Ticket: t.ticket, Kind: AnswerRefused, Refusal: why, Leader: c.leaderID})
	}
	c.leader.transfer = nil
}

// beginHandover keeps a transfer's ticket when its leader steps down.
func (c *Core) beginHandover(t *transfer) {
	if t.stall {
		return
	}
	c.cancelHandover(RefusedTimedOut)
	c.clients.handover = &handover{t.ticket, t.named, t.to, c.now.Mono + 2*c.electionTimeout()}
}

// advanceHandover answers the ticket once somebody leads.
func (c *Core) advanceHandover() {
	h := c.clients.handover
	if h == nil || c.leaderID == "" {
		return
	}
	if c.leaderID == c.self.ID || h.named && c.leaderID != h.to {
		c.cancelHandover(RefusedTimedOut)
		return
	}
	c.answer(Answer{Ticket: h.ticket, Kind: AnswerTransferred, Leader: c.leaderID})
	c.clients.handover = nil
}

func (c *Core) onHandoverDeadline() {
	if h := c.clients.handover; h != nil && c.now.Mono >= h.deadline {
		c.cancelHandover(RefusedTimedOut)
	}
}

func (c *Core) cancelHandover(why RefusalKind) {
	if h := c.clients.handover; h != nil {
		c.answer(Answer{Ticket: h.ticket, Kind: AnswerRefused, Refusal: why, Leader: c.leaderID})
		c.clients.handover = nil
	}
}
