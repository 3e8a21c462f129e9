package fuzzy

import (
	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// The last stage of some runs. It permanently cuts links between the healed nodes, so that one of the four named topologies
// remains. All logs are equal then, so any member that still reaches a quorum both ways can lead (Howard & Abraham 2020). If
// there is no such member, Raft promises nothing, and the stage checks nothing.

// part begins the stage. It returns false if the stage has nothing to check.
func (l *liveness) part() bool {
	c := l.c
	random := sim.NewStream(c.seed.Number, sim.PartitionConcern<<16)
	leader := l.leader.index
	shape, node := random.IntN(12), random.IntN(len(c.nodes)) // most runs end without this stage
	if node == leader {
		node = (node + 1) % len(c.nodes)
	}
	if shape >= 4 || l.leader.core == nil || !l.exiled && !l.whole() {
		return false
	}
	switch shape {
	case 0:
		c.net.Links.Bridge(node)
	case 1:
		c.net.Links.ConstrainedElection(leader, node)
	case 2:
		var order []int
		for _, n := range l.members() {
			i := random.IntN(len(order) + 1)
			order = append(order[:i], append([]int{n.index}, order[i:]...)...)
		}
		c.net.Links.Chain(order)
	case 3:
		c.net.Links.BehindBridge(leader, node)
	}
	if l.reachers() == 0 {
		return false
	}
	c.faulted("permanently: %s", c.severed())
	l.began, l.probe = l.term(), 0
	l.next(parted)
	return true
}

// reachers returns the voters of the core that can lead: each reaches enough of the core's voters, and these reach it. A
// member does not reach a member that permanently rejects it, whatever the links are.
func (l *liveness) reachers() (set uint64) {
	config := &l.leader.status.Config
	for _, n := range l.members() {
		met := quorum(config, func(p raft.Peer) bool {
			other := l.healed(p)
			return other != nil && !other.disk.damaged && n.meets(other)
		})
		if votes(config, n.peer()) && met.reached() {
			set |= 1 << n.index
		}
	}
	return set
}

// obeyed reports whether the present leader has committed a new write. A leader that cannot commit gets no request. With one
// more entry than the other members, it would prevent the election of a leader that can commit.
func (l *liveness) obeyed() bool {
	w := l.c.work
	if !l.elected() || l.reachers()>>l.leader.index&1 == 0 {
		return false
	}
	r := &w.requests[l.probe]
	if r.state == answeredWell {
		return true
	}
	waits := r.node == l.leader && r.life == l.leader.life && (r.state == unanswered || r.state == acceptedOnly)
	if !waits {
		l.probe = w.write(l.leader, 0, 1)
	}
	return false
}

// asksUnhealed reports whether a member sends its reads to a leader that was not healed. The network may lose their messages,
// so the member repeats its request for as long as N38 allows. A read may first wait as long for an earlier request.
func (l *liveness) asksUnhealed(n *node) bool {
	leader := raft.Peer{ID: n.status.Leader, Incarnation: n.status.LeaderIncarnation}
	return leader.ID != "" && l.core>>l.c.at(leader).index&1 == 0
}
