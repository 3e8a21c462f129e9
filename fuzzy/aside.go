package fuzzy

import (
	"errors"
	"slices"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
)

// This file has stores that are set aside, as package member does it: those that are damaged or an older image, once a leader has
// confirmed their member, and those of removed members that are told to join again. N106 judges it.

// aside is the search of a process that cannot use its store for a leader that lets it set the store aside.
type aside struct {
	n      *node
	why    error
	store  joining.Store
	round  int64
	asked  []string // addresses, in this round
	open   int      // questions of this round without an answer
	closed bool
}

// discardPause is the time between two rounds of questions.
const discardPause = time.Second

// beginAside begins the search, if the process was started so.
func (n *node) beginAside() {
	if n.c.profile.Members.Pace == 0 || n.aside != nil && !n.aside.closed || n.c.phase != safetyPhase {
		return
	}
	a := &aside{n: n, store: joining.Store{ID: n.id, ClusterName: "simulated"}}
	if own := n.disk.cluster(); own != (raft.ClusterID{}) && (n.c.scene != nil || n.seekingStream().IntN(8) > 0) {
		a.store.Cluster = own
	}
	if a.why = error(&raft.CorruptError{File: "raft.db", Reason: errAsked, Cluster: a.store.Cluster}); n.disk.mark != nil {
		a.why = n.disk.mark.Err()
	}
	ask, err := joining.Refused(a.why, true, 0)
	if n.aside = a; ask && err == nil {
		n.c.faulted("%s waits for a leader that lets it set its store aside: %v", n.name(), a.why)
		a.ask(0)
	}
}

// ask begins a round of questions.
func (a *aside) ask(round int64) {
	if a == nil || a.closed || round != a.round || !a.n.c.mayAsk() {
		return
	}
	nobody := raft.WhoReply{ClusterName: a.store.ClusterName, Cluster: a.store.Cluster}
	kept := (*joining.KeptError)(nil)
	if err := joining.MayDiscard(a.why, a.store, nobody); errors.As(err, &kept) && kept.Final {
		a.closed = true
		return
	}
	a.round++
	a.asked, a.open = nil, 0
	for _, other := range a.n.c.nodes {
		a.askAt(other.place)
	}
	if a.open == 0 {
		a.later()
	}
}

func (a *aside) later() {
	a.n.c.queue.Push(a.n.c.now()+a.n.c.unpaced(discardPause), event{kind: evAside, node: int16(a.n.index), a: a.round})
}

func (a *aside) askAt(address string) {
	c := a.n.c
	if address == "" || address == a.n.place || slices.Contains(a.asked, address) || len(a.asked) >= 2*joining.SeedsMax {
		return
	}
	a.asked = append(a.asked, address)
	a.open++
	i := slices.IndexFunc(c.nodes, func(other *node) bool { return other.place == address })
	q := raft.Who{ClusterName: a.store.ClusterName, From: raft.Peer{ID: a.n.id}, Address: a.n.place, Confirm: true}
	a.n.inquire(inquiry{
		question: joining.Question{Address: address, Who: q, Timeout: whoWorkMax + time.Second}, to: c.nodeAt(i, a.n.seeking.random), aside: a,
	})
}

// answered takes an answer.
func (a *aside) answered(one *inquiry) {
	n := a.n
	if a.closed || a != n.aside || !n.disk.damaged {
		a.closed = true
		return
	}
	a.open--
	if one.err == nil {
		if joining.MayDiscard(a.why, a.store, one.reply) == nil && n.keepsOne() {
			n.c.check.checkAside(n, a, one)
			n.setAside()
			return
		}
		if leader := joining.LeaderAddress(&one.reply); leader != "" {
			a.askAt(leader)
		}
	}
	if a.open == 0 {
		a.later()
	}
}

// setAside gives the member an empty store, with which it joins again.
func (n *node) setAside() {
	n.c.stats.Aside++
	n.c.faulted("%s sets its store aside", n.name())
	n.empty()
	n.ended, n.disk.damaged, n.rejoin = false, false, 0
	n.restartIn(1)
}

// confirms answers whether a member leads, after a round with a quorum that begins now.
func (n *node) confirms(i int, one *inquiry) {
	n.hurries(i)
	if n.status.Role != raft.Leader {
		n.answersTo(i, nil)
		return
	}
	term := n.status.Term
	r := request{kind: readRequest, client: len(n.c.work.clients), node: n, floor: n.c.check.committed()}
	r.ended = func(a raft.Answer) {
		s := &n.status
		one.reply.Confirmed = a.Kind == raft.AnswerReadSafe && s.Role == raft.Leader && s.Term == term && s.ConfigCommitted == s.ConfigIndex
		if !one.answered {
			one.proved, one.lacks = one.reply.Confirmed, n.backing(one)
		}
		n.answersTo(i, nil)
	}
	n.post(raft.ReadRequested{RequestID: n.c.work.ask(r)})
}

// removalTold is a removal that a member was told of by others.
type removalTold struct {
	incarnation raft.Incarnation // of the store
	by          raft.Index
}

// returns restarts some members that cannot use their stores, in runs with petitions: with SetAside, or, if they were removed,
// with Rejoin, which may name another removal. It reports whether it does.
func (n *node) returns() bool {
	if n.c.profile.Members.Pace == 0 || !n.keepsOne() {
		return n.c.profile.Members.Pace > 0
	}
	switch s := n.seekingStream(); {
	case n.disk.damaged && s.IntN(4) > 0:
		n.restartIn(0)
	case !n.ended || s.Coin():
		return false
	default:
		n.ended, n.rejoin = false, n.removedBy()
		if s.IntN(4) == 0 {
			n.rejoin += raft.Index(1 + s.IntN(3))
		}
		n.c.faulted("%s is started to join again after the removal by entry %d", n.name(), n.rejoin)
		n.restartIn(0)
	}
	return true
}

// removedBy returns the entry that has removed the member with this disk; 0: none is known.
func (n *node) removedBy() raft.Index {
	if newest := n.c.newestCommitted(); newest != nil {
		for _, r := range newest.Removed {
			if r.Peer == n.peer() {
				return r.Index
			}
		}
	}
	return n.removal.by
}

// rejoinsAsTold reports whether a start ends because others have told the member of its removal. The store is set aside then.
func (n *node) rejoinsAsTold() bool {
	if n.rejoin == 0 || n.rejoin != n.removal.by || n.removal.incarnation != n.disk.incarnation {
		return false
	}
	n.comesBack(&raft.RemovedError{Index: n.removal.by})
	return n.rejoin == 0
}

// mayStart reports whether a process may start. One that cannot use its store begins to look for a leader.
func (n *node) mayStart() bool {
	if n.core == nil && n.disk.damaged && !n.forever {
		n.beginAside()
	}
	return n.core == nil && !n.disk.damaged && !n.forever && !n.gone && !n.ended && !n.rejoinsAsTold() && !n.comesLater()
}

// refused reports whether a start is refused because the member was removed.
func (n *node) refused(why error) bool {
	if !n.c.check.checkStartRemoved(n, why) {
		return false
	}
	n.comesBack(why)
	return true
}

// comesBack handles the error of a start on the store of a removed member.
func (n *node) comesBack(why error) {
	var removed *raft.RemovedError
	ask, err := joining.Refused(why, false, n.rejoin)
	if n.c.profile.Members.Pace == 0 || ask || err != nil || !errors.As(why, &removed) || !n.keepsOne() {
		return
	}
	n.c.check.checkRejoins(n, removed.Index)
	n.setAside()
}

// keepsOne reports whether one of the first members still has its disk if that of this node is emptied. The founders may begin
// another cluster once all of these disks were emptied.
func (n *node) keepsOne() bool {
	c := n.c
	if c.profile.Members.Pace == 0 {
		return true
	}
	return slices.ContainsFunc(c.nodes[:c.profile.Voters+c.profile.Learners], func(other *node) bool {
		return other != n && len(other.disk.ghosts) == 0
	})
}

// blackout damages the stores of a majority at once. None of them may be set aside after that: no leader is confirmed.
func (m *nemesis) blackout(c *cluster) {
	newest := c.newestCommitted()
	if newest == nil {
		return
	}
	order, hit := m.order(len(c.nodes)), 0
	need := majority(len(votersOf(&newest.Configuration)))
	for _, i := range order {
		n := c.nodes[i]
		if hit < need && votes(&newest.Configuration, n.peer()) && !n.disk.damaged {
			hit++
			n.crash()
			n.disk.damaged = true
			n.restartIn(m.random.Exponential(c.profile.ElectionTimeout))
		}
	}
}
