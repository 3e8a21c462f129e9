package fuzzy

import (
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// The invariant of reads of bounded staleness.
//
//	G23  What a member proves about the age of its state is true: a state in which everything up to the index is applied contains every entry that any member had committed by that time, on the member's own clock. So does the state that a client reads with the largest age that is proved.

// checkFresh checks a proof of the core, and keeps it for the clients' reads.
func (k *checker) checkFresh(n *node, f raft.Freshness) {
	if f == (raft.Freshness{}) {
		return
	}
	k.c.stats.Ages++
	if f.Since.At > n.now().Mono {
		k.broken("G23", "%s proves the age of a state at a time that has not come", n)
	}
	k.checkContains(n, f.Index, f.Since.At, "proves")
	n.ages = n.ages.With(f, n.applied)
}

// readStale reads the state of a member with the least age that the member serves, which is the strictest read.
func (w *workload) readStale(n *node) {
	if n.core == nil || n.frozen {
		return
	}
	since := n.ages.Since(n.applied)
	if since == 0 {
		w.c.stats.StaleRefused++
		return
	}
	w.c.stats.StaleReads++
	w.c.check.checkContains(n, n.applied, since, "serves")
}

// checkContains checks that a state contains everything that was committed before a time on the member's clock. The clock may
// run fast or slowly, or may have been suspended: only what it showed counts.
func (k *checker) checkContains(n *node, index raft.Index, since raft.Time, does string) {
	if index >= k.committed() {
		return
	}
	missing := &k.canonical[index]
	committed := n.clock.Showed(missing.at) - n.born + 1 // as the member's process would have read it
	if committed < sim.Time(since) {
		k.broken("G23", "%s %s that its state at %d contained everything %v ago, but %v was committed %v ago, on its clock", n, does,
			index, time.Duration(n.now().Mono-since), missing.id, time.Duration(sim.Time(n.now().Mono)-committed))
	}
}
