package fuzzy

import (
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// Planned transfers: a loop holds proposals back while its core waits for the outcome of one, as a node does.

// drawPlanned draws whether the loops hold proposals back. Those of the other clusters leave it to their cores to refuse the
// proposals.
func drawPlanned(seed Seed, p *Profile) {
	p.Load.Holds = sim.NewStream(seed.Number, sim.Profile<<28).Coin()
}

// heldWrites are the proposals of one request that a member holds back.
type heldWrites struct {
	node      *node
	life      uint32
	proposals []raft.Proposal
}

// propose passes proposals to a member's loop, which may hold them back.
func (w *workload) propose(n *node, proposals []raft.Proposal) {
	if w.c.profile.Load.Holds && !n.closing && n.core.HoldsProposals() {
		w.held = append(w.held, heldWrites{n, n.life, proposals})
		return
	}
	n.post(raft.Proposed{Proposals: proposals})
}

// release passes on what a member has held back, once its core no longer waits for the outcome of a transfer, or once the
// member is told to stop.
func (w *workload) release(n *node) {
	if len(w.held) == 0 || n.core.HoldsProposals() && !n.closing {
		return
	}
	held := w.held
	w.held = nil
	for _, h := range held {
		switch {
		case h.node != n:
			w.held = append(w.held, h)
		case h.life == n.life:
			n.post(raft.Proposed{Proposals: h.proposals})
		}
	}
}

// checkOwesNothing checks that a member has applied what it has accepted when it tells the target of a planned transfer to
// campaign. What it accepted in an earlier term is another leader's matter. A member that can apply nothing does not wait. One that is about to end waits for an election timeout at least.
func (k *checker) checkOwesNothing(n *node) {
	s, w := &n.status, &n.seen
	r := k.c.work.request(w.transfer)
	if r == nil || r.urgent || s.DiskStalled || s.FSMHangs || r.leaving && w.now-w.since >= n.timeout() {
		return
	}
	owes := slices.ContainsFunc(n.accepted, func(a acceptance) bool {
		return a.id.Term == s.Term && k.c.work.requests[a.requestID].kind == writeRequest
	})
	k.c.holds(!owes, "H5", "%s tells another member to campaign in term %d, but has not applied all that it has accepted", n, s.Term)
}
