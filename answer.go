package raft

// Answer answers a request. Every request is answered.
type Answer struct {
	RequestID RequestID
	Kind      AnswerKind
	ID        EntryID     // AnswerAccepted; AnswerReadSafe: the index alone; AnswerSnapshot
	Refusal   RefusalKind // AnswerRefused
	Leader    NodeID      // the member to ask instead, if known; AnswerTransferred: the new leader
}

// AnswerKind is the outcome of a request.
type AnswerKind uint8

// The answers to a request.
const (
	// AnswerAccepted: the proposal is in the leader's log at ID. Either that entry is applied here, or a
	// second answer follows: AnswerNotApplied or AnswerUnknown.
	AnswerAccepted AnswerKind = 1
	// AnswerRefused: a proposal is not applied and never will be; a read or a transfer did not succeed. Refusal
	// says why, Leader whom to ask.
	AnswerRefused AnswerKind = 2
	// AnswerNotApplied: another entry was committed at the index of the accepted one, which will never be
	// committed.
	AnswerNotApplied AnswerKind = 3
	// AnswerUnknown: leadership ended while the entry was pending; it may or may not be applied.
	AnswerUnknown AnswerKind = 4
	// AnswerReadSafe: a read is linearizable once ID.Index is applied here.
	AnswerReadSafe AnswerKind = 5
	// AnswerTransferred: the transfer has succeeded; Leader leads now.
	AnswerTransferred AnswerKind = 6
	// AnswerSnapshot: a snapshot of ID is durable, and covers everything that was applied when it was requested.
	AnswerSnapshot AnswerKind = 7
)

// RefusalKind says why a request was refused.
type RefusalKind uint8

// The reasons of AnswerRefused.
const (
	RefusedNotLeader      RefusalKind = 1  // this member does not lead; Answer.Leader does, if known
	RefusedTransferring   RefusalKind = 2  // this leader is transferring its leadership to Answer.Leader
	RefusedOverloaded     RefusalKind = 3  // a limit of CoreConfig is reached: try again later
	RefusedClosing        RefusalKind = 4  // the node is closing
	RefusedNoTarget       RefusalKind = 5  // no other voter can take over, or the one named cannot
	RefusedTimedOut       RefusalKind = 6  // the transfer or the read did not end in time
	RefusedTooLarge       RefusalKind = 7  // the proposal is larger than CommandBytesMax
	RefusedStalled        RefusalKind = 8  // the leader's disk is stalled, and nobody could take over yet
	RefusedSnapshotFailed RefusalKind = 9  // the snapshot was not taken; the trace says why
	RefusedUnsupported    RefusalKind = 10 // CoreConfig.Snapshots is off
)

// answer adds an answer to this step's Output.
func (c *Core) answer(a Answer) { c.step.out.Answers = append(c.step.out.Answers, a) }

func (c *Core) growAnswers(n int) {
	if c.step.out.Answers == nil {
		c.step.out.Answers = make([]Answer, 0, n)
	}
}

// refuseRequest refuses a request and names the member to ask instead, if it is known.
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

// endLeadership ends the requests of a leader that steps down: it refuses the local reads, leaves the pending
// proposals to settle, and keeps waiting for the outcome of a transfer.
func (c *Core) endLeadership(l *leader) {
	for _, reads := range [][]read{l.reads.now, l.reads.next} {
		for _, r := range reads {
			if (r.from == Peer{}) {
				c.answer(Answer{RequestID: r.requestID, Kind: AnswerRefused, Refusal: RefusedNotLeader})
			}
		}
	}
	c.endOffers(l)
	c.step.lost = append(c.step.lost, l.pending...)
	if l.transfer != nil {
		c.awaitTransferOutcome(l, l.transfer)
	}
}

// settle answers the pending proposals of a leader that stepped down or was closed in this step. Truncating
// an entry here does not decide its outcome: another member may still hold it, win the next election and
// commit it; so may this one, if it crashes before the truncation is durable. The outcome is only known once
// another entry is committed at its index, and not even then if a leader has contradicted what is committed
// here. Proposals that are being applied are answered by the applier.
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

// close answers every open request. All later requests are refused.
func (c *Core) close() {
	c.step.closing = true
	c.refuseForwarded()
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
	c.refuseSnapshotRequests(RefusedClosing)
}
