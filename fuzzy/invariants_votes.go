package fuzzy

import (
	"slices"
	"time"

	"github.com/coxswain/raft"
)

// The invariants of timers and votes from the early side, and of a member that is told to stop.
//
//	N25  A member campaigns no sooner than one election timeout after it heard its leader, made its vote durable, campaigned or started, unless that leader has stepped down. (§5.2)
//	N26  A pre-vote is granted as a vote would be, to a candidate whose log is at least as up to date, and only by a member that hears no leader. (dissertation §9.6)
//	N27  Members that are started with the same seed draw different election timeouts.
//	N28  A member that is told that its node closes answers all open requests at once, and accepts no more.

// early checks that an election timer did not end too soon. Events come before timers: what was heard in this
// step counts.
func (k *checker) early(n *node, before *raft.CoreStatus, out *raft.Output) {
	s, w := &n.status, &n.seen
	if w.heard == w.now || before.Role == raft.Leader {
		w.rested = w.now
	}
	if durable := s.Durable != before.Durable && s.Durable == n.hard && s.Durable.Vote != (raft.Peer{}); durable {
		w.rested = w.now // the vote has the time to elect somebody from now on
	}
	if w.freed == w.now {
		w.rested = w.now - n.timeout() // it may stand at once
	}
	for i := range out.Trace {
		switch out.Trace[i].Kind {
		case raft.TraceTimeout:
			if w.now-w.rested < n.timeout() {
				k.broken("N25", "%s stands for election in term %d after %v", n.id, s.Term, time.Duration(w.now-w.rested))
			}
		case raft.TraceSteppedDown: // its leader leads no more: there is nobody to wait for
			w.rested = w.now - n.timeout()
		case raft.TraceVoteGranted, raft.TracePreCampaign, raft.TraceCampaign:
			w.rested = w.now
		}
	}
}

// preVotes checks who is granted a pre-vote; heard is when the leader had last been heard before the step.
func (k *checker) preVotes(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output, heard raft.Time) {
	s, w := &n.status, &n.seen
	cut := out.Write.Log != nil && out.Write.Log.After.Index < before.Last.Index
	follows := before.Leader != "" && heard > 0 && w.now-heard < n.timeout()
	same := s.Term == before.Term && s.Leader == before.Leader && s.Role == before.Role
	for _, list := range [2][]raft.Message{out.Send, out.Write.Then} {
		for i := range list {
			grant, ok := list[i].Body.(raft.PreVoteReply)
			if !ok || !grant.Granted {
				continue
			}
			if same && (follows || s.Role == raft.Leader) {
				k.broken("N26", "%s, which hears %s, grants %s a pre-vote", n.id, s.Leader, list[i].To.ID)
			}
			term, asked := asks(events, list[i].To, grant.ID)
			if !cut && older(asked, before.Last) || term+1 < before.Term {
				k.broken("N26", "%s, in term %d with a log up to %v, grants %s a pre-vote in term %d with a log up to %v",
					n.id, before.Term, before.Last, list[i].To.ID, term, asked)
			}
		}
	}
}

// asks finds the pre-vote request that a grant answers: its sender's term, and the end of its log. None is of term 0.
func asks(events []raft.Event, from raft.Peer, id raft.RPCID) (raft.Term, raft.EntryID) {
	for _, e := range events {
		r, ok := e.(raft.Received)
		if !ok || r.Message.From != from {
			continue
		}
		if b, ok := r.Message.Body.(raft.PreVoteRequest); ok && b.ID == id {
			return r.Message.Term, b.Last
		}
	}
	return 0, raft.EntryID{}
}

// The draws of timers that are compared, and how many of them may be the same by chance: of so many out of 150
// million nanoseconds three are equal once in a hundred million runs.
const (
	timersMax = 300
	alikeMax  = 2
)

// compared notes an election timeout that a life has drawn, where all are started with one seed.
func (k *checker) compared(n *node, timeout raft.Time) {
	if !k.c.profile.Node.OneSeed || len(k.timers) >= timersMax {
		return
	}
	if k.timers == nil {
		k.timers = map[raft.Time]life{}
	}
	this := life{n.index, n.life}
	if other, drawn := k.timers[timeout]; drawn && other != this {
		if k.alike++; k.alike > alikeMax {
			k.broken("N27", "%s draws an election timeout of %v, as %s did, and so for the %d. time", n.id, timeout, nodeID(other.node), k.alike)
		}
	}
	k.timers[timeout] = this
}

// life is one life of a member.
type life struct {
	node  int
	count uint32
}

// closes checks a member from the step on in which it is told that its node stops.
func (k *checker) closes(n *node, events []raft.Event, out *raft.Output) {
	told := slices.ContainsFunc(events, func(e raft.Event) bool {
		_, closing := e.(raft.Closing)
		return closing
	})
	was := n.seen.closed
	if n.seen.closed = was || told; !n.seen.closed {
		return
	}
	final := map[raft.RequestID]bool{}
	for i := range out.Answers {
		a := &out.Answers[i]
		if was && a.Kind == raft.AnswerAccepted {
			k.broken("N28", "%s takes request %d after it was told to stop", n.id, a.RequestID)
		}
		final[a.RequestID] = final[a.RequestID] || a.Kind != raft.AnswerAccepted
	}
	if told {
		k.allClosed(n, final, max(n.applyTo.Index, out.Apply.Index))
	}
}

// allClosed: what is being applied is answered by the applier, and the rest has its answer.
func (k *checker) allClosed(n *node, final map[raft.RequestID]bool, applying raft.Index) {
	for _, a := range n.accepted {
		if k.c.work.requests[a.requestID].kind == readRequest || a.id.Index <= applying {
			final[a.requestID] = true
		}
	}
	for i := n.firstRequestID; i < len(k.c.work.requests); i++ {
		r, t := &k.c.work.requests[i], raft.RequestID(i)
		open := r.state == unanswered || r.state == acceptedOnly
		if r.node == n && r.life == n.life && open && !final[t] {
			k.broken("N28", "%s was told to stop, and does not answer request %d (state %d)", n.id, t, r.state)
		}
	}
}
