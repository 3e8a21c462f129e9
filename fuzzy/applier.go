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

// applyBytesMax bounds the entries of one read of the applier.
const applyBytesMax = 1 << 16

// apply completes a batch of the applier.
func (n *node) apply() {
	n.applying = false
	to := n.applyTo
	if to.Index <= n.applied {
		return
	}
	n.c.check.applied(n, to)
	if !n.advance(to.Index) {
		return
	}
	n.c.check.sameState(n)
	n.c.work.appliedOn(n)
	n.post(raft.Applied{ID: to})
}

// advance reads the entries up to an index and applies them to the member's machine.
func (n *node) advance(to raft.Index) bool {
	for n.applied < to {
		entries, err := n.reader().Read(raft.Span{After: n.applied, Last: to}, applyBytesMax)
		if err != nil {
			n.c.check.broken("N43", "%s cannot read what it is to apply behind %d: %v", n.id, n.applied, err)
			return false
		}
		for i := range entries {
			n.machine.apply(&entries[i])
		}
		n.applied += raft.Index(len(entries))
	}
	if chance := n.c.profile.Node.Differ; chance > 0 && n.random.Chance(chance) {
		n.machine.history++
	}
	return true
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
			w.record(r, n.machine.values[r.key])
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
