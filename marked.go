package raft

import "fmt"

// This file ends a member whose store must not go on: the verdict is written first, and no restart clears
// it. From the moment at which it is noticed the member neither votes nor acknowledges, applies nothing
// more, and serves neither reads nor writes.

// marked reports whether a verdict about this store was found, durable or not.
func (c *Core) marked() bool { return c.disk.mark != nil }

// mark takes a verdict. What was to be promised in this step is not said any more, nor is any yes to a caller:
// a read that was confirmed a moment ago would show a state that the others may not share.
func (c *Core) mark(m Mark) {
	c.trace(TraceEvent{Kind: TraceMarked, Peer: m.By.ID, Text: m.Detail})
	c.becomeFollower(c.hard.Term, "")
	c.cancelTransferOutcome(RefusedNotLeader)
	clear(c.step.sends)
	c.step.sends = c.step.sends[:0]
	c.takeBackAnswers()
	c.disk.mark = &m
	c.step.out.Write.Mark = &m
}

// takeBackAnswers turns this step's answers that serve a caller into refusals; no answer has left yet.
func (c *Core) takeBackAnswers() {
	for i := range c.step.out.Answers {
		switch a := &c.step.out.Answers[i]; a.Kind {
		case AnswerReadSafe, AnswerTransferred:
			*a = Answer{RequestID: a.RequestID, Kind: AnswerRefused, Refusal: RefusedNotLeader}
		}
	}
}

// onEventOfMarked answers callers, takes what its own node tells it, and hears nobody.
func (c *Core) onEventOfMarked(e Event) {
	switch e := e.(type) {
	case Received:
		c.onMessageToMarked(e.Message)
	case Persisted:
		c.disk.acknowledge(e.Seq, c.now.Mono)
	case Applied:
		c.onApplied(e.ID)
	case Proposed:
		for _, p := range e.Proposals {
			c.refuseRequest(p.RequestID)
		}
	case ReadRequested:
		c.refuseRequest(e.RequestID)
	case TransferRequested:
		c.refuseRequest(e.RequestID)
	case Closing:
		c.close()
	}
}

// onMessageToMarked tells again only the leader to which this member has answered that it lost what it
// acknowledged: that answer may be lost.
func (c *Core) onMessageToMarked(m Message) {
	if why := c.misaddressed(m); why != "" {
		c.refuse(m, why)
		return
	}
	_, beats := m.Body.(Heartbeat)
	if beats && c.disk.mark.Kind == MarkStaleImage && m.From == c.disk.mark.By && m.Term == c.hard.Term {
		c.send(m.From, c.disk.lossReport)
	}
}

// onLostLog takes an append of this term's leader that begins where this member has acknowledged the log in
// this very term, and the log is not there: it has lost what was durable. Only a leader of a newer term may
// have it cut, and that one would have raised the term. So this store is an older image of the disk, or the
// disk does not keep what it says it has synced; a vote may be forgotten like the entries.
func (c *Core) onLostLog(leader Peer, r AppendRequest, answer AppendConflict) {
	if r.Acknowledged == 0 || r.Prev.Index != r.Acknowledged && c.log.Last.Index >= r.Acknowledged || !c.names(leader) {
		return
	}
	c.mark(Mark{
		Kind: MarkStaleImage, By: leader, Term: c.hard.Term,
		Detail: fmt.Sprintf("in term %d it has acknowledged the log up to %d, and what the store holds of that ends at %v",
			c.hard.Term, r.Acknowledged, answer.Hint),
	})
	c.disk.lossReport = answer
}

// contradiction compares an append with what is committed here:
//
//	"Leader Completeness: if a log entry is committed in a given term, then that entry will be present
//	in the logs of the leaders for all higher-numbered terms." (Figure 3)
//
// It returns our committed entry that the leader cannot have, and the entry of its log that shows it: the one
// in the same place, or one further on of an earlier term, for terms never fall along a log.
//
// What is committed only by the word of an FSM that keeps its own state does not count: the FSM may remember
// an entry that was committed in a term that this member has forgotten in a crash, and an earlier leader that
// is still about has never heard of (Figure 8).
func (c *Core) contradiction(r AppendRequest) (ours, theirs EntryID, found bool) {
	commit := c.log.id(c.log.told)
	if r.Prev.Index > commit.Index {
		return commit, r.Prev, r.Prev.Term < commit.Term
	}
	if !c.log.has(r.Prev) {
		return c.log.id(r.Prev.Index), r.Prev, true
	}
	for _, e := range r.Entries {
		if e.Index > commit.Index {
			break
		}
		if !c.log.has(e.ID()) {
			return c.log.id(e.Index), e.ID(), true
		}
	}
	return EntryID{}, EntryID{}, false
}

// contradicted ends a member whose committed entry a leader of a newer term does not have. What was
// acknowledged is lost in the rest of the cluster, and this member is the last witness of it: it must not
// serve a history that the others do not share, nor may its log be brought in line with theirs.
//
// It takes no word of a leader that contradicts itself, be it that the entry is of its own term, or that it
// has proved the entry to match before: that is a fault of another kind, and the message is refused.
func (c *Core) contradicted(leader Peer, r AppendRequest) bool {
	ours, theirs, found := c.contradiction(r)
	if !found || ours.Term >= c.hard.Term || ours.Index <= c.termLeader.proved || !c.names(leader) {
		return false
	}
	c.mark(Mark{
		Kind: MarkContradicted, By: leader, Term: c.hard.Term, Ours: ours, Theirs: theirs,
		Detail: fmt.Sprintf("entry %v is committed here, and the leader's log has %v", ours, theirs),
	})
	return true
}
