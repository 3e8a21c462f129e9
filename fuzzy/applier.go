package fuzzy

import "github.com/coxswain/raft"

// acceptance is a proposal that this member has accepted and has not applied yet.
type acceptance struct {
	id        raft.EntryID
	requestID raft.RequestID
}

// applyUpTo tells the applier to apply entries up to this one.
func (n *node) applyUpTo(to raft.EntryID) {
	n.applyTo = to
	if n.applying {
		return
	}
	n.applying = true
	n.later(n.slow+n.random.Exponential(n.c.profile.ElectionTimeout/500), event{kind: evApply})
}

const (
	applyBytesMax  = 1 << 16 // entry bytes of one read by the applier
	appliesPerRead = 16      // one batch in so many is read through the member's log
)

// apply completes a batch of the applier, unless it hangs.
func (n *node) apply() {
	n.applying = false
	to := n.applyTo
	v := &n.vault
	if v.take != nil && v.take.ID.Index < to.Index {
		to = v.take.ID
	}
	if to.Index <= n.applied || v.restore != nil || n.hangs(to) {
		return
	}
	n.complete(to)
}

// complete ends a batch.
func (n *node) complete(to raft.EntryID) {
	n.c.check.checkApplied(n, to)
	if !n.advance(to.Index) {
		return
	}
	n.appliedMost = max(n.appliedMost, n.applied)
	n.hosted.apply(n.applied)
	n.c.check.checkState(n)
	n.save()
	n.c.work.appliedOn(n)
	n.post(raft.Applied{ID: to})
	n.takeIfReached()
	n.applyOn()
}

// applyOn continues with the entries that remain to be applied.
func (n *node) applyOn() {
	if n.applyTo.Index > n.applied {
		n.applyUpTo(n.applyTo)
	}
}

// advance applies the entries up to an index to the member's machine. A real applier reads all of them through the log cache
// and the disk. Here most entries come from the simulation's copy of the log. This is enough because the same reader also
// fills each outgoing append, where the checker checks everything that the reader returns.
func (n *node) advance(to raft.Index) bool {
	n.batches++
	if n.machine.ledger != nil {
		return n.advanceSessions(to)
	}
	for n.batches%appliesPerRead != 0 && n.applied < to && to <= n.last() {
		n.machine.apply(n.log[n.applied].command)
		n.applied++
	}
	for n.applied < to {
		entries, err := n.reader().Read(raft.Span{After: n.applied, Last: to}, applyBytesMax)
		if err != nil && n.vault.installed {
			return false // the log was replaced, so nothing is applied until the restore
		}
		if err != nil {
			n.c.check.broken("N43", "%s cannot read the entries to apply after %d: %v", n, n.applied, err)
			return false
		}
		for i := range entries {
			n.machine.apply(commandOf(&entries[i]))
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
			w.c.check.checkAcknowledgement(r, a.id)
			if r.relayed != nil {
				n.finishes(r, raft.ForwardApplied, a.id)
				continue
			}
			if r.session == nil {
				w.record(r, r.serial)
			} else {
				w.sessionAnswered(r, a.id)
			}
			w.done(a.requestID, "")
		default:
			kept = append(kept, a) // another entry holds the index; a second answer of the core will say so
		}
	}
	n.accepted = kept
}
