package fuzzy

import (
	"slices"
	"time"

	"github.com/coxswain/raft"
)

// The invariants of a state machine that hangs.
//
//	N84  The FSM counts as hanging only if it has been applying one batch for ApplyStallMax. A leader whose FSM hangs accepts no proposal.
//	N85  A leader whose FSM hangs gives up its leadership for this reason only to a voter that has applied the hanging batch.
//	N86  A member whose FSM hangs, or a standby, campaigns three election timeouts later than others, unless it has denied its vote to a candidate because of the candidate's log. If it has stepped down as leader because of this hang, it waits nevertheless.

// checkHangs checks a member with an FSM that may hang.
func (k *checker) checkHangs(n *node, before *raft.CoreStatus, out *raft.Output) {
	s, w, h := &n.status, &n.seen, &n.hang
	if s.FSMHangs && (h.batch.Index == 0 || w.now-h.since < raft.Time(n.applyStallMax)) {
		k.broken("N84", "%s reports that its FSM hangs, in a batch up to %v that began %v ago", n, h.batch, time.Duration(w.now-h.since))
	}
	if n.yields(before, out) {
		w.yielded = h.batch.Index
	}
	for i := range out.Trace {
		switch e := &out.Trace[i]; {
		case e.Kind == raft.TracePreVoteDenied && e.Reason == raft.DeniedOldLog:
			if w.needed = w.now; n.hung(before) { // it campaigns soon, even if its FSM recovers before
				w.cause = max(w.cause, w.now+n.soon()-2*w.waits)
			}
		case e.Kind == raft.TraceTimeout && before.FSMHangs && s.FSMHangs && (w.needed < w.rested || w.yielded == h.batch.Index) && w.now-w.rested < w.rest+3*n.timeout():
			k.broken("N86", "%s, whose FSM hangs, stands for election in term %d after %v", n, s.Term, time.Duration(w.now-w.rested))
		case e.Kind == raft.TraceTimeout && n.standsBack() && w.needed < w.rested && w.now-w.rested < w.rest+3*n.timeout():
			k.broken("N86", "%s, a standby, stands for election in term %d after %v", n, s.Term, time.Duration(w.now-w.rested))
		}
	}
	if s.Role != raft.Leader || !s.FSMHangs || !before.FSMHangs || s.Applied > before.Applied {
		return // if the step has ended a batch, the proposal may have come before the core knew the next batch
	}
	for i := range out.Answers {
		a := &out.Answers[i]
		if r := k.c.work.request(a.RequestID); r != nil && r.kind == writeRequest && a.Kind == raft.AnswerAccepted {
			k.broken("N84", "%s takes a proposal although its FSM hangs", n)
		}
	}
}

// yields reports whether a leader has stepped down because its FSM hangs, and for no other reason.
func (n *node) yields(before *raft.CoreStatus, out *raft.Output) bool {
	s := &n.status
	lost := slices.ContainsFunc(out.Trace, func(e raft.TraceEvent) bool { return e.Kind == raft.TraceQuorumLost })
	return before.Role == raft.Leader && s.Role == raft.Follower && s.Term == before.Term &&
		s.FSMHangs && !s.DiskStalled && votes(n.config(), n.peer()) && !lost
}

// hung reports whether a member lets others campaign first: its FSM hangs, or may have done so until this step ended its batch,
// or it is a standby.
func (n *node) hung(before *raft.CoreStatus) bool {
	return n.status.FSMHangs || n.status.Applied > before.Applied || n.standsBack()
}

// standsBack reports whether a member is a standby, and was one before the step.
func (n *node) standsBack() bool {
	if n.priority(&n.status, n.peer()) > 0 {
		return false
	}
	was := n.configBefore
	if was == nil || n.preferences.NoPriorities {
		return was == nil
	}
	m := member(&was.Configuration, n.peer())
	return m != nil && m.Priority == raft.PriorityNever
}

// soon returns the time for which a member waits for another member's election before it campaigns itself.
func (n *node) soon() raft.Time {
	if n.seen.waits > n.timeout() {
		return n.seen.waits
	}
	e := &n.status.Election
	return min(max(n.status.Span, n.timeout()/15, e.Write+e.Answer), n.timeout())
}

// checkTransferForHang checks a transfer that a leader begins because its FSM hangs.
func (k *checker) checkTransferForHang(n *node, out *raft.Output) {
	for i := range out.Trace {
		if e := &out.Trace[i]; e.Kind == raft.TraceTransfer {
			most := raft.Index(0)
			for j := range n.status.Peers { // its id may occur twice
				if p := &n.status.Peers[j]; p.ID == e.Peer {
					most = max(most, k.c.at(peerOf(p)).appliedMost)
				}
			}
			if most < n.hang.batch.Index {
				k.broken("N85", "%s, whose FSM hangs in a batch up to %v, gives up its leadership to %s, which has applied up to %d",
					n, n.hang.batch, e.Peer, most)
			}
		}
	}
}
