package fuzzy

import "github.com/coxswain/raft"

// The invariants that concern clients.
//
//	H1  The history of each key is linearizable. (§8)
//	H2  Serial numbers are unique; a client's reads never go backwards and include its own writes. (G11, G13)
//	H3  Each write takes effect at most once, and exactly once if it was acknowledged. (G10, G11)
//	H4  A write that is reported as not applied is never applied.
//	H5  A planned transfer leaves the outcome of no write unknown: the leader lets another member campaign once it has applied what it has accepted.
//	H6  A member forwards a request with a counter of its own, not past its client's deadline, and again only after the answer that nothing was carried out.
//	    A leader carries out a bounded number of one member's, only of a member of the committed configuration, in the term and the start that they name,
//	    none during a transfer, and no changes or transfers if it takes none of other members.
//	H7  A forwarded change of the members, or transfer, takes effect at most once. It does not if its admin was told so, and a leader has carried it out if the admin was told that.

// recordNeverApplied records an answer that a client's write will never be applied.
func (k *checker) recordNeverApplied(r *request, a raft.Answer) {
	if r.kind != writeRequest || r.relayed != nil { // the member that has forwarded it may send it again
		return
	}
	k.c.work.notTaken(r)
	w := &k.c.work.writes[r.serial]
	if w.index > 0 {
		k.broken("H4", "write %d is answered %d/%d, but committed at %d", r.serial, a.Kind, a.Refusal, w.index)
	}
	w.never = true
}

// checkHistory checks the whole history at the end of a run.
func (c *cluster) checkHistory() {
	if !c.profile.Load.History || c.lost {
		return
	}
	byKey := make([][]operation, c.profile.Load.Keys)
	for _, o := range c.work.complete() {
		byKey[o.key] = append(byKey[o.key], o)
	}
	for key, history := range byKey {
		c.stats.Histories++
		if !linearizable(history) {
			c.fail(Safety, "H1", "the history of key %d (%d operations) is not linearizable", key, len(history))
		}
	}
}

// complete returns the history together with the committed writes whose outcome is unknown to their clients. Such a write may
// take effect at any time after its call. Writes that were never committed are left out.
func (w *workload) complete() []operation {
	list := w.history
	for i := range w.requests {
		r := &w.requests[i]
		if r.kind == writeRequest && r.relayed == nil && r.session == nil && r.serial > 0 && !r.applied && w.writes[r.serial].index > 0 {
			list = append(list, operation{len(w.clients) + i, true, r.key, r.serial, r.called, w.stamp + 1})
		}
	}
	for _, c := range w.sessions.commands {
		if c.effects > 0 && c.answer == nil {
			list = append(list, operation{len(w.clients) + int(c.serial), true, c.key, c.serial, c.called, w.stamp + 1})
		}
	}
	return list
}
