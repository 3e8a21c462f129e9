package fuzzy

import (
	"slices"

	"github.com/coxswain/raft"
)

// The invariants of leases. They hold as long as no clock leaves the bound that leases allow.
//
//	G12  In true time, at most one member believes in a lease, and no other member commits an entry in a higher term while it does. (dissertation §6.4.1)
//	N107 Until a promise of a member has ended on its own clock, it neither votes nor campaigns, unless the leader has asked for the election. After a start, it waits as long as its stamp says.
//	N108 A member promises at most what its durable stamp says, and what the leader asks for.

// checkLeases checks a step, and publishes the member's lease, as its node does before anything else of the output.
func (k *checker) checkLeases(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	n.lease = out.Lease
	k.checkPromised(n, events, out)
	for _, list := range [2][]raft.Message{out.Send, out.Write.Then} {
		for i := range list {
			k.recordPromise(n, &list[i])
		}
	}
	leads := n.status.Role == raft.Leader && n.status.Commit > before.Commit
	if !leads && !n.believes() {
		return
	}
	for _, other := range k.c.nodes {
		if other == n || !other.believes() {
			continue
		}
		if n.believes() {
			k.broken("G12", "%s and %s believe in leases of the terms %d and %d", n, other, n.lease.Term, other.lease.Term)
		}
		if n.status.Term > other.lease.Term {
			k.broken("G12", "%s commits entry %d in term %d, while %s believes in its lease of term %d", n, n.status.Commit, n.status.Term, other, other.lease.Term)
		}
	}
}

// recordPromise notes a promise that leaves a member, or will once a write is durable. It counts from the step.
func (k *checker) recordPromise(n *node, m *raft.Message) {
	var p raft.Promise
	switch body := m.Body.(type) {
	case raft.HeartbeatReply:
		p = body.Promise
	case raft.AppendReply:
		p = body.Promise
	}
	if p.Duration == 0 {
		return
	}
	if stamp := n.disk.hard.Lease; p.Duration > stamp {
		k.broken("N108", "%s promises a lease of %d, and its durable stamp is %d", n, p.Duration, stamp)
	}
	if asked, known := n.seen.sought[p.SentAt]; !known || p.Duration > asked {
		k.broken("N108", "%s promises a lease of %d for a request at %d, which has asked for %d", n, p.Duration, p.SentAt, asked)
	}
	n.seen.promised = max(n.seen.promised, n.seen.now+p.Duration)
	k.c.stats.Promises++
}

// checkPromised checks what a member does while it has promised a lease.
func (k *checker) checkPromised(n *node, events []raft.Event, out *raft.Output) {
	for _, e := range events {
		if r, received := e.(raft.Received); received {
			n.seen.recordAsked(r.Message.Body)
		}
	}
	if n.seen.now >= n.seen.promised {
		return
	}
	for _, list := range [2][]raft.Message{out.Send, out.Write.Then} {
		for i := range list {
			m := &list[i]
			switch body := m.Body.(type) {
			case raft.VoteReply:
				if body.Granted && !transfers(events, m.To) {
					k.broken("N107", "%s votes for %s, %v before its promise ends", n, m.To.ID, n.seen.promised-n.seen.now)
				}
			case raft.PreVoteReply:
				if body.Granted {
					k.broken("N107", "%s grants a pre-vote to %s, %v before its promise ends", n, m.To.ID, n.seen.promised-n.seen.now)
				}
			case raft.VoteRequest:
				if !body.Transfer {
					k.broken("N107", "%s campaigns, %v before its promise ends", n, n.seen.promised-n.seen.now)
				}
			}
		}
	}
}

// transfers reports whether a candidate asks in this step for a vote because a leader has told it to campaign.
func transfers(events []raft.Event, candidate raft.Peer) bool {
	return slices.ContainsFunc(events, func(e raft.Event) bool {
		r, received := e.(raft.Received)
		if !received || r.Message.From != candidate {
			return false
		}
		request, asks := r.Message.Body.(raft.VoteRequest)
		return asks && request.Transfer
	})
}

// recordAsked notes which promises this step's messages ask for.
func (w *witness) recordAsked(b raft.Body) {
	var p raft.Promise
	switch body := b.(type) {
	case raft.Heartbeat:
		p = body.Promise
	case raft.AppendRequest:
		p = body.Promise
	}
	if p.Duration > 0 {
		if w.sought == nil {
			w.sought = map[raft.Time]raft.Time{}
		}
		w.sought[p.SentAt] = max(w.sought[p.SentAt], p.Duration)
	}
}
