package fuzzy

import "github.com/coxswain/raft"

// acceptance is a proposal that waits to be applied here.
type acceptance struct {
	id        raft.EntryID
	requestID raft.RequestID
}

// applyUpTo has the applier apply up to an entry.
func (n *node) applyUpTo(to raft.EntryID) {
	n.applyTo = to
	if n.applying {
		return
	}
	n.applying = true
	n.later(n.slow+n.random.Exponential(n.c.profile.ElectionTimeout/500), event{kind: evApply})
}

// apply completes a batch of the applier. The state of an FSM is a function of the committed entries, so that only
// its index is kept; see versions.
func (n *node) apply() {
	n.applying = false
	to := n.applyTo
	if to.Index <= n.applied {
		return
	}
	n.c.check.applied(n, to)
	n.applied = to.Index
	n.c.work.appliedOn(n)
	n.post(raft.Applied{ID: to})
}

func (n *node) forget(t raft.RequestID) {
	for i := range n.accepted {
		if n.accepted[i].requestID == t {
			n.accepted = append(n.accepted[:i], n.accepted[i+1:]...)
			return
		}
	}
}

// appliedOn answers the requests that wait for entries that this member has applied by now.
func (w *workload) appliedOn(n *node) {
	kept := n.accepted[:0]
	for _, a := range n.accepted {
		r := &w.requests[a.requestID]
		switch {
		case a.id.Index > n.applied:
			kept = append(kept, a)
		case r.kind == readRequest:
			w.record(r, w.c.check.valueAt(r.key, n.applied))
			w.done(a.requestID, "")
		case n.log[a.id.Index-1].entry.ID() == a.id:
			r.applied = true
			w.c.check.acknowledged(r, a.id)
			w.record(r, r.serial)
			w.done(a.requestID, "")
		default:
			kept = append(kept, a) // another entry is there: a second answer of the core will say so
		}
	}
	n.accepted = kept
}
