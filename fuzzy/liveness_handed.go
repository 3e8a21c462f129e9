package fuzzy

import (
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// The invariant of configurations that a leader leaves unfinished because it dies or is deposed. These are joint
// configurations, and configurations that wait for members to catch up.
//
//	L20  A leader that has reached a quorum without a break for its bound has left every joint configuration. A change that waits for members takes effect if the leader reaches all of them. It is given up if the leader does not reach one of them for longer than the change may wait without progress.

// Handed counts the outcomes of the configurations that leaders left unfinished. Left is the sum of the counts after Joint.
type Handed struct {
	Offices     int      // number of leaders
	Undisturbed int      // leaders that reached a quorum for the bound of L20
	Left        int      // configurations left unfinished
	Joint       int      // joint configurations among them
	Finished    int      // by the next leader
	GivenUp     int      // by the next leader: a member did not catch up, or the change was canceled
	PassedOn    int      // to one more leader, because the next one left it unfinished, too
	Dropped     int      // the next leader does not hold it: it was not committed
	Open        int      // at the end of the run: nobody has led since, or the last leader had too little time
	Longest     sim.Time // from an election until the unfinished configuration was finished or given up
}

// Add adds the counts of another run.
func (h *Handed) Add(o *Handed) {
	h.Offices, h.Undisturbed, h.Left, h.Joint = h.Offices+o.Offices, h.Undisturbed+o.Undisturbed, h.Left+o.Left, h.Joint+o.Joint
	h.Finished, h.GivenUp, h.PassedOn = h.Finished+o.Finished, h.GivenUp+o.GivenUp, h.PassedOn+o.PassedOn
	h.Dropped, h.Open, h.Longest = h.Dropped+o.Dropped, h.Open+o.Open, max(h.Longest, o.Longest)
}

// tenure is the time in office of the leader of the highest term.
type tenure struct {
	node        *node // the leader; nil: nobody has led yet
	term        raft.Term
	began       sim.Time
	in          *loggedConfig // its newest configuration
	since       sim.Time      // when that configuration came into force
	found       *loggedConfig // the unfinished configuration that it found; nil: none, or it is finished
	looked      sim.Time      // when reached was last updated
	reached     []reach       // by node
	undisturbed bool
}

// reach says whether a leader reaches a node.
type reach struct {
	life  uint32
	since sim.Time // when the node became reachable, if it is reached now
	not   sim.Time // when the node became unreachable, if it is not reached now
	now   bool
}

func unfinished(l *loggedConfig) bool { return len(l.Outgoing) > 0 || waits(&l.Configuration) }

// recordTenure follows unfinished configurations from leader to leader. It is called after each step.
func (k *checker) recordTenure(n *node) {
	s, t, l := &n.status, &k.tenure, configured(n.log)
	if s.Role != raft.Leader || s.Term < t.term || l == nil {
		return
	}
	now := k.c.now()
	if s.Term > t.term {
		k.recordSuccession(n, l)
	}
	if l != t.in {
		t.in, t.since = l, now
	}
	if done := t.finished(s.Commit); done != nil {
		h := &k.c.stats.Handed
		if h.Longest = max(h.Longest, now-t.began); waits(&done.before.Configuration) {
			h.GivenUp++
		} else {
			h.Finished++
		}
		t.found = nil
	}
	if bound := k.c.profile.Members.Bound; bound > 0 && (now-t.looked >= k.c.profile.ElectionTimeout/8 || t.looked == t.began) {
		t.recordReached(now)
		k.checkLeavesNothing(bound)
	}
}

// recordSuccession begins the tenure of a leader that was just elected.
func (k *checker) recordSuccession(n *node, l *loggedConfig) {
	h, was := &k.c.stats.Handed, k.tenure
	h.Offices++
	if was.found != nil {
		h.PassedOn++
	}
	held := l
	for held != nil && held != was.in {
		held = held.before
	}
	if was.node != nil && unfinished(was.in) && held == nil {
		h.Dropped++
		h.countLeft(was.in)
	}
	k.tenure = tenure{node: n, term: n.status.Term, began: k.c.now(), in: l, since: k.c.now(), reached: make([]reach, len(k.c.nodes))}
	k.tenure.looked = k.c.now()
	if unfinished(l) {
		k.tenure.found = l
		h.countLeft(l)
	}
}

func (h *Handed) countLeft(l *loggedConfig) {
	if h.Left++; len(l.Outgoing) > 0 {
		h.Joint++
	}
}

// finished returns the committed configuration that ended the unfinished configuration that the leader found at its election;
// nil if there is none yet.
func (t *tenure) finished(commit raft.Index) (first *loggedConfig) {
	if t.found == nil {
		return nil
	}
	for l := t.in; l != nil && l != t.found; l = l.before {
		if !unfinished(l) {
			first = l
		}
	}
	if first == nil || first.index > commit {
		return nil
	}
	return first
}

// endTenure counts the configuration that the last leader leaves unfinished.
func (k *checker) endTenure() {
	h, t := &k.c.stats.Handed, &k.tenure
	switch led := t.node != nil && t.node.core != nil && t.node.status.Role == raft.Leader && t.node.status.Term == t.term; {
	case t.found != nil:
		h.Open++
	case t.node != nil && !led && unfinished(t.in):
		h.Open++
		h.countLeft(t.in)
	}
}

// recordReached records the nodes that the leader reaches. If the leader makes no step for an election timeout, it was
// paused, because it otherwise makes at least one step with every heartbeat.
func (t *tenure) recordReached(now sim.Time) {
	paused := now-t.looked > t.node.c.profile.ElectionTimeout
	for i, n := range t.node.c.nodes {
		r := &t.reached[i]
		works := n.works() && t.node.works() && n.meets(t.node) && n.life == r.life && !paused
		if r.life = n.life; works != r.now || now == t.began {
			r.now, r.since, r.not = works, now, now
		}
	}
	t.looked = now
}

// works reports whether nothing is wrong with a node's process and disk.
func (n *node) works() bool {
	return n.core != nil && !n.frozen && !n.closing && !n.doomed && n.slow == 0 && n.disk.stallTill <= n.c.now() && !n.disk.fails
}

// checkLeavesNothing checks L20.
func (k *checker) checkLeavesNothing(bound sim.Time) {
	t, now := &k.tenure, k.c.now()
	reaches := func(p raft.Peer, length sim.Time) bool {
		n := k.c.at(p)
		return n != nil && n.peer() == p && t.reached[n.index].now && now-t.reached[n.index].since > length
	}
	without := func(length sim.Time) bool { // without a break
		q := quorum(&t.in.Configuration, func(p raft.Peer) bool { return reaches(p, length) })
		return q.reached() && reaches(t.node.peer(), length)
	}
	if !t.undisturbed && without(bound) {
		t.undisturbed = true
		k.c.stats.Handed.Undisturbed++
	}
	limit := bound + sim.Time(t.in.Patience)
	if now-t.since <= bound || len(t.in.Outgoing) == 0 && now-t.since <= limit {
		return
	}
	switch c := &t.in.Configuration; {
	case len(c.Outgoing) > 0:
		k.c.mustHold(!without(bound), "L20", "%s has led for %v and reached a quorum, but is still in %v", t.node, now-t.began, t.in)
	case waits(c) && without(limit):
		joiners := slices.DeleteFunc(slices.Clone(c.Members), func(m raft.Member) bool { return m.Next != raft.NextVoter })
		ready := !slices.ContainsFunc(joiners, func(m raft.Member) bool { return !reaches(m.Peer(), limit) })
		lost := slices.ContainsFunc(joiners, func(m raft.Member) bool { return k.lost(m.Peer(), limit) })
		k.c.mustHold(!ready && !lost, "L20", "%s has led for %v, but %v still waits for members (all reached: %v; one unreached: %v)",
			t.node, now-t.began, t.in, ready, lost)
	}
}

// lost reports whether the leader has not reached a member for this length of time, or no disk carries the member any longer.
func (k *checker) lost(p raft.Peer, length sim.Time) bool {
	n, t := k.c.at(p), &k.tenure
	if n == nil || n.peer() != p {
		return true
	}
	r := t.reached[n.index]
	return !r.now && k.c.now()-r.not > length
}
