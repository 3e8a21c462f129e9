package fuzzy

import (
	"cmp"
	"slices"
	"time"

	"github.com/coxswain/raft"
)

// The invariants of who should lead.
//
//	G21  A leader begins a takeover only for a voter with a higher priority that it has heard lately, that has all entries or lacks them only for a short time, and whose last report says that nothing hinders it and that it does not back off. It has led for ten seconds before, unless it is a standby.
//	N87  Only in a cluster with priorities does a store say that its member leads, or count another loss. A loss counts once, and only if the member has led, or its leader has told it to campaign.
//	N88  The successors that a leader names are voters that are no standbys and that nothing hinders, sorted by priority and then by id.
//	L22  Once a cluster is healed and has fallen quiet, no standby leads it, unless no other healed voter can lead or somebody has named it.

// officeMin is how long a leader leads before it transfers its leadership for a priority.
const officeMin = 10 * raft.Time(time.Second)

// checkTakeover checks the takeovers that a leader begins.
func (k *checker) checkTakeover(n *node, before *raft.CoreStatus, out *raft.Output) {
	s, w := &n.status, &n.seen
	for i := range out.Trace {
		e := &out.Trace[i]
		if e.Kind != raft.TraceTakeover {
			continue
		}
		k.c.stats.Takeovers++
		own := n.priority(s, n.peer())
		if own > 0 && w.now-w.led < officeMin {
			k.broken("G21", "%s transfers its leadership to %s because of a priority, after %v", n, e.Peer, time.Duration(w.now-w.led))
		}
		if !slices.ContainsFunc(s.Peers, func(p raft.PeerProgress) bool {
			was := progressOn(before, peerOf(&p))
			able := n.able(s, &p) || was != nil && n.able(before, was) // its report may have come in this step, after the choice
			return p.ID == e.Peer && able && votesOn(&s.Config, peerOf(&p)) && n.priority(s, peerOf(&p)) > own && w.now-w.of(peerOf(&p)).heard < max(n.timeout(), 2*w.of(peerOf(&p)).roundTrip)
		}) {
			k.broken("G21", "%s transfers its leadership to %s because of a priority, but it is not able or its priority is not higher", n, e.Peer)
		}
	}
}

// checkLosses checks what a step writes about the leadership of its member.
func (k *checker) checkLosses(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	w := &n.seen
	prioritized := hasPriorities(n.config()) || n.configBefore != nil && hasPriorities(&n.configBefore.Configuration)
	led, counted := before.Role == raft.Leader, 0
	for i := range out.Trace {
		switch out.Trace[i].Kind {
		case raft.TraceTimeoutNow:
			w.asked = true
		case raft.TraceLeader:
			led, w.asked = true, false
		case raft.TraceBackoff:
			counted++
			k.c.holds(led || w.asked, "N87", "%s counts a loss, but neither led nor was told to campaign", n)
			w.asked = false
		}
	}
	if was, now := w.hardWas, n.hard; now.Leading && !was.Leading && (n.status.Role != raft.Leader || !prioritized) ||
		int(now.Losses)-int(was.Losses) > counted || counted > 0 && !prioritized {
		k.broken("N87", "%s has counted %d losses in a step, and its hard state is %+v after %+v", n, counted, now, was)
	}
	k.recordNames(n, events, out)
}

// recordNames records the terms in which a leader that somebody has named does not transfer for a priority.
func (k *checker) recordNames(n *node, events []raft.Event, out *raft.Output) {
	w := &n.seen
	for _, e := range events {
		switch e := e.(type) {
		case raft.TransferRequested:
			if e.To != "" {
				w.named = n.status.Term
			}
		case raft.Received:
			if t, ok := e.Message.Body.(raft.TimeoutNow); ok && t.Named {
				w.named = e.Message.Term + 1
			}
		}
	}
	for i := range out.Trace {
		if out.Trace[i].Kind == raft.TraceTakeover {
			w.triedAt = w.now
		}
	}
}

func hasPriorities(c *raft.Configuration) bool {
	return slices.ContainsFunc(c.Members, func(m raft.Member) bool { return m.Priority != 0 })
}

// checkSuccessors checks the list of a leader that has sent a heartbeat with a new one. The list is as of the last round.
func (k *checker) checkSuccessors(n *node, before *raft.CoreStatus) {
	s := &n.status
	if s.Role != raft.Leader || slices.Equal(s.Successors, before.Successors) && s.Term == before.Term || n.configBefore != nil && n.configBefore != configured(n.log) {
		return
	}
	for _, p := range s.Successors {
		now, was := progressOn(s, p), progressOn(before, p)
		able := now != nil && n.able(s, now) || was != nil && n.able(before, was)
		if !able || !votesOn(&s.Config, p) {
			k.broken("N88", "%s names %s as its successor, which is not able", n, k.c.title(p))
		}
	}
	if !slices.IsSortedFunc(s.Successors, func(a, b raft.Peer) int {
		return cmp.Or(cmp.Compare(n.priority(s, b), n.priority(s, a)), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Incarnation, b.Incarnation))
	}) {
		k.broken("N88", "%s names its successors in a wrong order: %v", n, idsOfPeers(s.Successors))
	}
}

// checkCaretaker checks L22 at the end of the quiet.
func (l *liveness) checkCaretaker() {
	n := l.leader
	s := &n.status
	running := len(s.Config.Outgoing) > 0 || waits(&s.Config)
	if s.Role != raft.Leader || !l.exiled || !l.c.profile.steady() || n.priority(s, n.peer()) > 0 || n.seen.named == s.Term || running || n.seen.triedAt > n.seen.led && n.seen.now-n.seen.triedAt < officeMin {
		return
	}
	for i := range s.Peers {
		p := &s.Peers[i]
		other := l.healed(peerOf(p))
		if other != nil && votesOn(&s.Config, peerOf(p)) && n.able(s, p) && l.counts(other) && l.electable(other) {
			l.c.mustHold(false, "L22", "%s leads as a caretaker, although %s can lead\n%s", n, other, l.c.describe())
		}
	}
}
