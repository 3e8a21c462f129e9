package fuzzy

import "github.com/coxswain/raft/internal/sim"

// watchStall checks that a leader outside the core does not keep leading with a stalled disk. The check waits while a member
// of the core still catches up with the entries that the leader initially had, because that member may soon lead.
func (l *liveness) watchStall() {
	c := l.c
	i := c.leader()
	if i < 0 || l.core>>i&1 == 1 || !c.nodes[i].stalls() {
		l.staller = nil
		return
	}
	if n := c.nodes[i]; l.staller != n {
		l.staller, l.stalled, l.behind, l.nearest = n, c.now(), n.status.Last.Index, 0
	}
	for _, p := range l.staller.status.Peers {
		if p.Match > l.nearest && p.Match <= l.behind && l.healed(peerOf(&p)) != nil {
			l.stalled, l.nearest = c.now(), p.Match
		}
	}
	stood := c.now() - l.stalled
	limit := max(c.nodes[i].diskStallMax, c.nodes[i].hangMax()) + stallUnits*c.profile.unit()
	c.mustHold(stood <= limit, "L12",
		"%s has led with a stalled disk or FSM for %v, while nodes %b could continue without it\n%s", c.nodes[i], stood, l.core, c.describe())
}

// stalls reports whether a leader can do nothing for its clients, because its disk never completes a write or its FSM never
// completes a batch.
func (n *node) stalls() bool {
	return n.disk.stallTill == sim.Never && n.writing > 0 || n.hang.till == sim.Never && n.hang.batch.Index > 0
}
