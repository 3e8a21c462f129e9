package fuzzy

import "github.com/coxswain/raft"

// The stage of the second phase in which the leader is asked to transfer leadership to one of the healed: nothing is in the
// way of that, so it must come about.

// A transfer takes a unit to bring the target up to date, one for TimeoutNow and the target's own vote, one for the
// other votes, and one until the next leader is heard.
const transferUnits = 4

// feasible reports whether nothing can be in the way of a transfer.
func (l *liveness) feasible() bool {
	p := &l.c.profile
	return l.exiled && p.steady() && p.Node.diskStallMax() >= p.unit()
}

// transferEnded asks for the transfer, and reports whether it has ended.
func (l *liveness) transferEnded() bool {
	w := l.c.work
	if l.transferOutcome == 0 {
		to, some := l.successor()
		if some {
			l.transferOutcome = w.transferTo(l.leader, 0, to)
		}
		return !some
	}
	r := &w.requests[l.transferOutcome]
	l.c.mustHold(r.state != answeredNo, "L13", "%s does not transfer leadership to %q, which nothing is in the way of\n%s", r.node.id, r.to, l.c.describe())
	if r.state == unanswered {
		took := l.c.now() - r.opened
		l.c.mustHold(took <= transferUnits*l.c.profile.unit(), "L13", "%s transfers its leadership to %q for %v", r.node.id, r.to, took)
		return false
	}
	return l.elected()
}

// successor draws a healed voter that the leader has brought up to date and that can win an election. It is asked for
// by name; or no name is given, unless the leader may then choose one that cannot win. It returns false if there is
// none, or if a transfer is not feasible.
func (l *liveness) successor() (raft.NodeID, bool) {
	named, first := l.random.Coin(), l.random.IntN(len(l.c.nodes))
	if !l.feasible() || !l.elected() || l.leader.status.DiskStalled || l.leader.frozen {
		return "", false
	}
	s := &l.leader.status
	for i := range s.Peers {
		p := &s.Peers[(first+i)%len(s.Peers)]
		m, _ := s.Config.Member(p.ID)
		n := l.c.nodes[index(p.ID)]
		if m.Kind != raft.Voter || l.core>>n.index&1 == 0 || !l.counts(n) || p.State != "replicate" || !l.upToDate(p) || !l.electable(n) {
			continue
		}
		if !named && !l.split() {
			return "", true
		}
		return p.ID, true
	}
	return "", false
}

// upToDate reports whether the leader can bring the member's log up to date in time for a transfer. Where the sender
// drops appends, each that it drops costs more than a heartbeat interval, so a member that lags may need too long.
func (l *liveness) upToDate(p *raft.PeerProgress) bool {
	if l.c.profile.Node.DropSpan > 0 {
		return p.Match == l.leader.status.Last.Index
	}
	return p.Match > 0
}

// electable reports whether a healed voter can win an election: it and a majority of the voters, all of them healed,
// take each other's messages. The leader cannot know that of another, where some refuse each other for good, or have
// had nothing to say to each other since one of them was started, so that a vote between them would be lost.
func (l *liveness) electable(n *node) bool {
	met, voters := 0, 0
	for _, m := range l.leader.status.Config.Members {
		if m.Kind != raft.Voter {
			continue
		}
		voters++
		other := l.c.nodes[index(m.ID)]
		if l.core>>other.index&1 == 1 && m.Incarnation == other.disk.incarnation && n.meets(other) && n.hasMet(other) {
			met++
		}
	}
	return met >= majority(voters)
}

// split reports whether the leader, left to itself, may choose one that cannot win.
func (l *liveness) split() bool {
	for _, n := range l.members() {
		m, _ := l.leader.status.Config.Member(n.id)
		if m.Kind == raft.Voter && n != l.leader && l.counts(n) && !l.electable(n) {
			return true
		}
	}
	return false
}

// meets reports whether two nodes can be expected to reach each other: their links work, and neither refuses the
// other for having been started too often to tell whether its disk is an older image.
func (n *node) meets(other *node) bool {
	return n == other || n.c.net.Links.Reach(n.index)>>other.index&1 == 1 && !n.untold(other) && !other.untold(n)
}

// hasMet reports whether two nodes, as they run now, have shaken hands. A real member dials without having anything to
// say; here the first message does, and is lost.
func (n *node) hasMet(other *node) bool {
	return n == other || !n.c.profile.Node.Handshakes || n.admits(other) && other.admits(n)
}

// A request of a client takes a unit to be committed, and one more behind what was under way when it came; an append
// that a sender drops costs a heartbeat and another exchange, and of ten in a row there is one in 10^10. A read that
// is forwarded gives up after two election timeouts, and waits no longer for the one before it.
const requestIDUnits = 12

// prompt checks that what is asked of the healed, once they have a leader, does not wait for too long.
func (l *liveness) prompt() {
	c := l.c
	if l.asked == 0 || !l.exiled || !c.profile.steady() || l.stage > converging {
		return
	}
	bound := (requestIDUnits + l.backlog()) * c.profile.unit()
	for i := l.asked; i < len(c.work.requests); i++ {
		r := &c.work.requests[i]
		open := r.state == unanswered || r.state == acceptedOnly
		if !open && i == l.asked {
			l.asked++
		}
		if !open || r.node.core == nil || r.life != r.node.life || l.core>>r.node.index&1 == 0 || !l.counts(r.node) {
			continue
		}
		c.mustHold(c.now()-r.opened <= bound, "L14", "request %d, asked of %s at %v, waits for %v (state %d)", i, r.node.id,
			r.opened, c.now()-r.opened, r.state)
	}
}
