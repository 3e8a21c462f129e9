package fuzzy

import (
	"slices"

	"github.com/coxswain/raft"
)

// The stage of the second phase in which the leader gets a request to transfer its leadership to a healed member. Nothing
// prevents the transfer, so it must succeed.

// A transfer takes four units. The first brings the target up to date. The second is for TimeoutNow and the target's own
// vote, and the third for the other votes. The fourth passes until the members hear the new leader.
const transferUnits = 4

// feasible reports whether nothing can prevent a transfer.
func (l *liveness) feasible() bool {
	p := &l.c.profile
	return l.exiled && p.steady() && !slices.ContainsFunc(l.c.nodes, func(n *node) bool { return n.diskStallMax < p.unit() })
}

// transferEnded requests the transfer, and reports whether it has ended.
func (l *liveness) transferEnded() bool {
	w := l.c.work
	if l.transferOutcome == 0 {
		to, some := l.successor()
		if some {
			l.transferOutcome, l.term0 = w.transferTo(l.leader, 0, raft.TransferRequested{To: to}), l.leader.status.Term
			l.transfers++
		}
		return !some
	}
	r := &w.requests[l.transferOutcome]
	l.c.mustHold(r.state != answeredNo || l.contested(r.to), "L13", "%s does not transfer its leadership to %q, although nothing prevents it\n%s", r.node, r.to, l.c.describe())
	if r.state == unanswered {
		took := l.c.now() - r.opened
		l.c.mustHold(took <= transferUnits*l.c.profile.unit()+l.c.profile.Node.WorkStopMax, "L13", "%s takes too long to transfer its leadership to %q: %v", r.node, r.to, took)
		return false
	}
	if !l.elected() || l.c.profile.Node.Unequal == 0 || l.transfers >= unequalTransfers {
		return l.elected()
	}
	l.transferOutcome = 0
	return false
}

// contested reports whether the target of a transfer has campaigned, and another member with another election timeout has, too.
// Such a member may ask for pre-votes between any two heartbeats.
func (l *liveness) contested(to raft.NodeID) bool {
	target := l.c.named(to)
	return l.c.profile.Node.Unequal > 1 && target != nil && target.hard.Term > l.term0 && slices.ContainsFunc(l.members(), func(n *node) bool {
		return n != target && n.hard.Vote == n.peer() && n.hard.Term >= target.hard.Term
	})
}

// unequalTransfers is the number of further transfers if election timeouts differ. They go alternately to the member with the
// shortest timeout and to the member with the longest.
const unequalTransfers = 4

// successor draws a healed voter that the leader has brought up to date and that can win an election. It returns the id for
// the request. The id is empty if the request names no target, which is possible if every voter that the leader may choose
// can win. successor returns false if there is no such voter, or if a transfer is not feasible.
func (l *liveness) successor() (raft.NodeID, bool) {
	named, first := l.random.Coin(), l.random.IntN(len(l.c.nodes))
	if !l.feasible() || !l.leads() || l.leader.status.DiskStalled || l.leader.status.FSMHangs || l.leader.status.TransferringUntil > 0 || l.leader.frozen {
		return "", false
	}
	s := &l.leader.status
	var extreme *node
	for i := range s.Peers {
		p := &s.Peers[(first+i)%len(s.Peers)]
		peer := peerOf(p)
		n := l.c.at(peer)
		if !votesOn(&s.Config, peer) || l.core>>n.index&1 == 0 || !l.counts(n) || p.State != "replicate" || !l.upToDate(p) || !l.electable(n) {
			continue
		}
		if l.c.profile.Node.Unequal > 0 {
			if extreme == nil || n.faster > extreme.faster == (l.transfers%2 == 1) {
				extreme = n
			}
			continue
		}
		if !named && !l.split() && l.leader.priority(s, peer) > 0 {
			return "", true
		}
		return p.ID, true
	}
	if extreme != nil {
		return extreme.id, true
	}
	return "", false
}

// leads reports whether all members follow a leader. If election timeouts differ, it is enough that the leader leads, because
// some members request pre-votes between any two heartbeats.
func (l *liveness) leads() bool {
	return l.elected() || l.c.profile.Node.Unequal > 1 && l.leader.leads()
}

// upToDate reports whether the leader can bring the member's log up to date in time for a transfer. This takes one unit if
// all entries that the member lacks are already in flight. If the sender drops appends, each drop costs more than a heartbeat
// interval, so a member that lags may need too long.
func (l *liveness) upToDate(p *raft.PeerProgress) bool {
	last := l.leader.status.Last.Index
	if l.c.profile.Node.DropSpan > 0 {
		return p.Match == last
	}
	return p.Match > 0 && p.Next > last
}

// electable reports whether a healed voter can win an election. It can if it and a majority of the voters, all of them
// healed, accept each other's messages. The leader cannot know this. Two other members may permanently reject each other. Or
// they have not shaken hands since one of them started, so that a vote between them would be lost.
func (l *liveness) electable(n *node) bool {
	met := quorum(&l.leader.status.Config, func(p raft.Peer) bool {
		other := l.healed(p)
		return other != nil && n.meets(other) && n.hasMet(other)
	})
	return met.reached()
}

// split reports whether the leader may choose a target that cannot win, if the request names no target.
func (l *liveness) split() bool {
	for _, n := range l.members() {
		if votesOn(&l.leader.status.Config, n.peer()) && n != l.leader && l.counts(n) && !l.electable(n) {
			return true
		}
	}
	return false
}

// meets reports whether two nodes should be able to reach each other. Their links must work, and neither may reject the other
// permanently. A node rejects another one permanently if that one was started too often to tell whether its disk is an older
// image.
func (n *node) meets(other *node) bool {
	return n == other || n.c.net.Links.Reach(n.index)>>other.index&1 == 1 && !n.rejectsPermanently(other) && !other.rejectsPermanently(n)
}

// hasMet reports whether two nodes have shaken hands since they started. A real member dials even if it has nothing to send.
// Here the first message makes the member dial, and is lost.
func (n *node) hasMet(other *node) bool {
	return n == other || !n.c.profile.Node.Handshakes || n.admits(other) && other.admits(n)
}

// A client's request takes one unit to commit, and one more if it waits for an earlier exchange. If a sender drops an append,
// this costs a heartbeat and another exchange. Ten appends in a row are dropped once in 10^10 runs. A forwarded read gives up
// after two election timeouts, and waits at most that long for an earlier read.
const requestIDUnits = 12

// checkPrompt checks that requests to the healed members are answered in time, once these members have a leader.
func (l *liveness) checkPrompt() {
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
		if !open || r.kind == changeRequest || r.node.core == nil || r.life != r.node.life || l.core>>r.node.index&1 == 0 || !l.counts(r.node) {
			continue
		}
		c.mustHold(c.now()-r.opened <= bound, "L14", "request %d, sent to %s at %v, has waited for %v (state %d)", i, r.node,
			r.opened, c.now()-r.opened, r.state)
	}
}

// succeeded reports whether another member leads because of a TimeoutNow. Nobody asks for a transfer in the quiet, so that
// message was sent before.
func (l *liveness) succeeded() bool {
	return slices.ContainsFunc(l.c.nodes, func(n *node) bool {
		return n.core != nil && n.status.Role == raft.Leader && n.status.Term == l.quieted+1 && n.status.Cause == raft.CauseTransfer
	})
}
