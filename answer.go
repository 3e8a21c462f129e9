package raft

// Answer answers a request. Every request is answered.
type Answer struct {
	RequestID RequestID
	Kind      AnswerKind
	ID        EntryID     // AnswerAccepted; AnswerReadSafe: the index alone
	Refusal   RefusalKind // AnswerRefused
	Leader    NodeID      // who to ask instead, if known
}

// AnswerKind says how a request went.
type AnswerKind uint8

// The answers to a request.
const (
	// AnswerAccepted: the proposal is in the leader's log at ID. A second answer follows,
	// AnswerNotApplied or AnswerUnknown, unless ID is applied.
	AnswerAccepted AnswerKind = 1
	// AnswerRefused: not applied and never will be; Refusal says why, Leader who to ask.
	AnswerRefused AnswerKind = 2
	// AnswerNotApplied: another entry was committed in place of the accepted one, which never will be.
	AnswerNotApplied AnswerKind = 3
	// AnswerUnknown: leadership ended while the entry was pending; it may or may not be applied.
	AnswerUnknown AnswerKind = 4
	// AnswerReadSafe: a read is linearizable once ID.Index is applied here.
	AnswerReadSafe AnswerKind = 5
	// AnswerTransferred: Leader leads now.
	AnswerTransferred AnswerKind = 6
)

// RefusalKind says why a request was refused.
type RefusalKind uint8

// The reasons of AnswerRefused.
const (
	RefusedNotLeader    RefusalKind = 1 // this member does not lead; Answer.Leader does, if known
	RefusedTransferring RefusalKind = 2 // leadership is on its way to Answer.Leader
	RefusedOverloaded   RefusalKind = 3 // a limit of CoreConfig is reached: try again later
	RefusedClosing      RefusalKind = 4 // the node stops
	RefusedNoTarget     RefusalKind = 5 // a transfer to nobody, or to one that is no voter or not heard
	RefusedTimedOut     RefusalKind = 6 // the transfer or the read did not end within its bound
	RefusedTooLarge     RefusalKind = 7 // the proposal is over the limit
	RefusedStalled      RefusalKind = 8 // the leader's disk stands still, and nobody could take over yet
)

// answer hands a request's answer out.
func (c *Core) answer(a Answer) { c.step.out.Answers = append(c.step.out.Answers, a) }

func (c *Core) growAnswers(n int) {
	if c.step.out.Answers == nil {
		c.step.out.Answers = make([]Answer, 0, n)
	}
}

// refuseRequest says no, and who to ask instead.
func (c *Core) refuseRequest(t RequestID) {
	a := Answer{RequestID: t, Kind: AnswerRefused, Refusal: RefusedNotLeader, Leader: c.termLeader.id}
	switch {
	case c.step.closing:
		a.Refusal = RefusedClosing
	case c.leader != nil && c.leader.transfer != nil:
		a.Refusal, a.Leader = RefusedTransferring, c.leader.transfer.to
	}
	c.answer(a)
}

// retire settles what a leader leaves behind when its term of office ends.
func (c *Core) retire(l *leader) {
	for _, reads := range [][]read{l.reads.now, l.reads.next} {
		for _, r := range reads {
			if (r.from == Peer{}) {
				c.answer(Answer{RequestID: r.requestID, Kind: AnswerRefused, Refusal: RefusedNotLeader})
			}
		}
	}
	c.step.lost = append(c.step.lost, l.pending...)
	if l.transfer != nil {
		c.awaitTransferOutcome(l, l.transfer)
	}
}

// settle answers the proposals of a leader that stepped down in this step. That an entry was cut from
// this log does not settle its fate: another member may hold it, win the next election and commit it,
// and so may this one, if it crashes before the cut is durable. Only a commit of another entry in its
// place does, unless a leader has contradicted what is committed here. What is being applied meanwhile is
// answered by the applier.
func (c *Core) settle() {
	for _, o := range c.step.lost {
		kept := c.log.has(o.id)
		switch {
		case kept && o.id.Index <= c.log.applying:
		case !kept && o.id.Index <= c.log.commit && !c.marked():
			c.answer(Answer{RequestID: o.requestID, Kind: AnswerNotApplied, ID: o.id})
		default:
			c.answer(Answer{RequestID: o.requestID, Kind: AnswerUnknown, ID: o.id})
		}
	}
	c.step.lost = c.step.lost[:0]
}

// close answers every open request; from now on all are refused.
func (c *Core) close() {
	c.step.closing = true
	for _, t := range append(c.clients.asked, c.clients.waiting...) {
		c.refuseRequest(t)
	}
	c.clients.asked, c.clients.waiting = nil, nil
	if l := c.leader; l != nil {
		c.step.lost = append(c.step.lost, l.pending...)
		l.pending, l.bytes = nil, 0
		for _, r := range append(l.reads.now, l.reads.next...) {
			if (r.from == Peer{}) {
				c.refuseRequest(r.requestID)
			}
		}
		l.reads = leaderReads{}
		c.cancelTransfer(RefusedClosing)
	}
	c.cancelTransferOutcome(RefusedClosing)
}
