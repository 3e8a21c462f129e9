package fuzzy

import (
	"fmt"
	"slices"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
)

// The invariants of petitions, of corrections, and of stores that are set aside (see petitions.go, corrections.go, aside.go).
//
//	N104 A petition changes only the members with the id of its process, and adds only a process that is at its address. It takes the place of no leader. It takes that of another member only if the petitioner was at the member's address, or if the leader has not heard the member for 2 s and no process is at its addresses, or if it has not heard the member in 10 s of petitions, of which a pause counts 2 s at most. Who is granted its petition is a member.
//	N105 A member corrects its own entry to what it was started with, until the entry was right once. It takes back no later change of others. It corrects the address of another member only to what that member has said.
//	N106 A store is set aside only if it is damaged or an older image, and if, since the question, a majority has been heard by a leader of its cluster, whose committed configuration names its member. The store of a removed member is set aside only for a start that names its removal.

// watching is how long a leader has not heard a member while others have petitioned for its place.
type watching struct {
	peer  raft.Peer
	last  raft.Time // of the last petition
	quiet time.Duration
}

// watchPetition notes a petition for the place of other members.
func (k *checker) watchPetition(n *node, from raft.Peer, known *joining.Leader) {
	now, pace := n.now().Mono, time.Duration(k.c.profile.Members.Pace)
	for _, m := range known.Config.Members {
		if m.ID != from.ID || m.Peer() == from {
			continue
		}
		i := slices.IndexFunc(n.desk.watched, func(w watching) bool { return w.peer == m.Peer() })
		if i < 0 {
			n.desk.watched = append(n.desk.watched, watching{peer: m.Peer(), last: now})
			continue
		}
		w := &n.desk.watched[i]
		passed := time.Duration(now-w.last) * pace
		if n.desk.silence(n, m.Peer()) < passed {
			w.quiet = 0
		} else {
			w.quiet += min(passed, 2*time.Second)
		}
		w.last = now
	}
}

// checkGrant checks what a leader does about a petition.
func (k *checker) checkGrant(n *node, q *raft.Who, c *raft.Change) {
	var touched, taken []raft.Peer
	for _, m := range c.Add {
		touched = append(touched, m.Peer())
	}
	for _, r := range c.Replace {
		touched, taken = append(touched, r.Old, r.New.Peer()), append(taken, r.Old)
	}
	for _, u := range c.Update {
		touched = append(touched, u.Peer)
		k.c.holds(u.Peer == q.From && (u.Address == nil || *u.Address == q.Address), "N104", "%s updates %s for %s", n, k.c.title(u.Peer), k.c.title(q.From))
	}
	taken = append(taken, c.Remove...)
	touched = slices.Concat(touched, taken, c.Promote, c.Demote)
	for _, p := range touched {
		k.c.holds(p.ID == q.From.ID, "N104", "%s changes %s for %s", n, k.c.title(p), k.c.title(q.From))
	}
	for _, p := range taken {
		why := k.holdsPlace(n, q.From, p)
		k.c.holds(why == "" && p != n.peer(), "N104", "%s gives the place of %s to %s, but %s", n, k.c.title(p), k.c.title(q.From), why)
	}
}

// holdsPlace says why a petitioner must not get the place of a member yet; "": it may.
func (k *checker) holdsPlace(n *node, caller, old raft.Peer) string {
	m, pace := raft.Member{ID: old.ID, Incarnation: old.Incarnation}, k.c.profile.Members.Pace
	if named := member(&n.status.Config, old); named != nil {
		m = *named
	}
	silence, listens := n.desk.silence(n, old), false
	for _, address := range n.addressesOf(m) {
		for _, other := range k.c.nodes {
			if other.id == caller.ID && other.disk.carried(caller.Incarnation) && slices.Contains(other.places, address) {
				return ""
			}
			down := time.Duration(k.c.now()-other.diedAt) * time.Duration(pace)
			listens = listens || other.place == address && (other.core != nil || down < joining.RefusedMin)
		}
	}
	quiet := time.Duration(0)
	for _, w := range n.desk.watched {
		if w.peer == old {
			quiet = w.quiet
		}
	}
	switch {
	case !listens && silence >= 2*time.Second, silence >= 10*time.Second && quiet >= 10*time.Second:
		return ""
	}
	return fmt.Sprintf("it was heard %v ago, was silent for %v of petitions, and a process is at its addresses: %v", silence, quiet, listens)
}

// checkContacted checks a new member whose incarnation the leader has not found out itself.
func (k *checker) checkContacted(n *node, m *raft.Member) {
	at := slices.ContainsFunc(k.c.nodes, func(other *node) bool {
		return other.place == m.Address && other.peer() == m.Peer() && other.core != nil
	})
	k.c.holds(at || includes(&n.status.Config, m.Peer()), "N104", "%s adds %s, which is not at %s", n, k.c.title(m.Peer()), m.Address)
}

// checkGranted checks the answer to a petition.
func (k *checker) checkGranted(n *node, one *inquiry) {
	q := &one.question.Who
	k.c.holds(!one.reply.Granted || includes(&n.status.Config, q.From), "N104", "%s grants the petition of %s, which is no member", n, k.c.title(q.From))
	k.c.holds(q.Petition == nil || one.reply.Granted || one.reply.Reason != "", "N104", "%s does not say why %s is no member", n, k.c.title(q.From))
}

// checkCorrection checks N105.
func (k *checker) checkCorrection(n *node, c *raft.Change) {
	s := &n.seeking
	is, _ := n.status.Config.Peer(n.peer())
	k.c.holds(!s.entry.right, "N105", "%s corrects its entry, which was right in this run", n)
	k.c.holds(len(c.Add)+len(c.Replace)+len(c.Remove)+len(c.Promote)+len(c.Demote) == 0, "N105", "%s changes the members to correct its entry", n)
	for _, u := range c.Update {
		if u.Peer != n.peer() {
			told := u.Address != nil && slices.Contains(s.entry.said, saying{u.Peer, *u.Address})
			k.c.holds(told && u.Meta == nil && u.Priority == nil, "N105", "%s corrects the entry of %s, which has not said so", n, k.c.title(u.Peer))
			continue
		}
		k.c.holds((u.Address == nil || *u.Address == n.place) && (u.Meta == nil || *u.Meta == s.meta), "N105", "%s corrects its entry to what it is not", n)
		if f := s.entry.first; f != nil {
			k.c.holds((u.Address == nil || f.Address == is.Address) && (u.Meta == nil || f.Meta == is.Meta), "N105", "%s takes back a later change of its entry", n)
		}
	}
}

// backing says why a leader, whose round with a quorum has ended, does not back a member that asks for a confirmation.
func (n *node) backing(one *inquiry) string {
	s, of := &n.status, one.of
	heard := quorum(&s.Config, func(p raft.Peer) bool {
		return p == n.peer() || slices.ContainsFunc(n.desk.heard, func(h lastHeard) bool { return h.peer == p && h.true >= one.asked })
	})
	_, named := s.Config.Member(of.id)
	switch {
	case s.Role != raft.Leader || s.ConfigCommitted != s.ConfigIndex || !named:
		return fmt.Sprintf("%s leads no committed configuration with it", n)
	case s.Cluster != of.disk.cluster():
		return fmt.Sprintf("%s is of another cluster", n)
	case !heard.reached():
		return fmt.Sprintf("%s has heard %v since it was asked", n, heard)
	}
	return ""
}

// checkAside checks the answer for which a store is set aside.
func (k *checker) checkAside(n *node, a *aside, one *inquiry) {
	own := n.disk.cluster()
	k.c.holds(one.proved && one.lacks == "", "N106", "%s sets its store aside: a majority is not proved (%s)", n, one.lacks)
	k.c.holds(one.reply.Cluster == own, "N106", "%s sets its store aside for a leader of %v, but is of cluster %v", n, one.reply.Cluster, own)
	k.c.holds(n.disk.damaged && (n.disk.mark == nil || n.disk.mark.Kind != raft.MarkContradicted), "N106", "%s sets its store aside: %v", n, a.why)
}

// checkRejoins checks that the store of a removed member is set aside for a start that names its removal.
func (k *checker) checkRejoins(n *node, by raft.Index) {
	removed := int(by) <= len(k.canonical) && by > 0 && slices.Contains(k.canonical[by-1].slot.config.Removed, raft.Removal{Peer: n.peer(), Index: by})
	k.c.holds(n.rejoin == by && (removed || k.c.lostToDisks()), "N106", "%s joins again, after the removal by entry %d; it was started with %d", n, by, n.rejoin)
}
