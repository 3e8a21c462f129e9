package fuzzy

import (
	"fmt"
	"slices"

	"github.com/coxswain/raft"
)

// The second phase in runs in which the members change.

// chooseAmong draws the core so that it holds a quorum of every configuration that may still decide. The other voters,
// learners and nodes outside the configuration are included at random.
func (l *liveness) chooseAmong(standing []*loggedConfig) (core uint64, missing string) {
	c := l.c
	var able []int
	for _, n := range c.nodes {
		if n.disk.damaged || n.ended {
			continue
		}
		able = append(able, n.index)
	}
	able = c.acquainted(able)
	if missing := l.unreached(standing, among64(able)); missing != "" {
		return 0, missing
	}
	order := make([]int, 0, len(able))
	for _, i := range able {
		order = slices.Insert(order, l.random.IntN(len(order)+1), i)
	}
	for _, i := range order {
		if l.random.Coin() || l.unreached(standing, core) != "" {
			core |= 1 << i
		}
	}
	for i := 0; !l.anyAwake(core) && i < len(order); i++ {
		if c.nodes[order[i]].disk.hard.Term > 0 {
			core |= 1 << order[i]
		}
	}
	if !l.anyAwake(core) {
		return 0, noneAwake
	}
	return core, ""
}

func among64(nodes []int) (set uint64) {
	for _, i := range nodes {
		set |= 1 << i
	}
	return set
}

// unreached names a configuration without a quorum in a set of nodes; "" if there is none.
func (l *liveness) unreached(standing []*loggedConfig, set uint64) string {
	for _, s := range standing {
		sound := quorum(&s.Configuration, func(p raft.Peer) bool {
			n := l.c.at(p)
			return n.peer() == p && set>>n.index&1 == 1
		})
		if !sound.reached() {
			return fmt.Sprintf("%v of the configuration of entry %d have a disk that works", sound, s.index)
		}
	}
	return ""
}

// settled reports whether the leader's configuration is committed and no change of it is in progress.
func (l *liveness) settled() bool {
	s := &l.leader.status
	return s.ConfigCommitted == s.ConfigIndex && len(s.Config.Outgoing) == 0 && !waits(&s.Config) && votes(&s.Config, l.leader.peer())
}

// settles reports whether there is a leader, and the change of members has ended: a joint configuration is left, and a
// waiting change takes effect or is given up.
func (l *liveness) settles() bool { return l.elected() && l.settled() }

// whole reports whether all members that the leader's configuration names are healed, and no other node interferes.
func (l *liveness) whole() bool {
	if !l.exiled && l.core+1 != 1<<len(l.c.nodes) {
		return false
	}
	for _, m := range l.leader.status.Config.Members {
		if l.healed(m.Peer()) == nil {
			return false
		}
	}
	return true
}

// parting reports whether removed members still have time to learn about their removal. A leader that sends them entries
// is not idle yet. A leader that knew about the removal at its election no longer serves them, so they may lack the
// entry that tells them. Then they learn it once the members that knew them no longer dial them, and disconnect them.
func (l *liveness) parting() bool {
	departing := func(p raft.PeerProgress) bool { return p.Departing }
	return slices.ContainsFunc(l.leader.status.Peers, departing) || slices.ContainsFunc(l.unaware(), func(u unaware) bool {
		return !l.leader.seen.inOffice.removes(u.removed.peer()) && u.by.dials(u.removed)
	})
}

// unaware is a removed member that takes itself for a voter, and a member that it dials and that knows better.
type unaware struct{ removed, by *node }

// unaware returns the healed members that still take themselves for voters, although they dial a member that knows
// better.
func (l *liveness) unaware() (found []unaware) {
	if !l.c.profile.Members.on() || !l.c.profile.Node.Handshakes {
		return nil
	}
	for _, n := range l.members() {
		if n.removedIn == n.life+1 || !votes(n.config(), n.peer()) || l.counts(n) {
			continue
		}
		for _, m := range n.config().Members {
			other := l.healed(m.Peer())
			if other != nil && other != n && other.core != nil && other.knowsRemoved(n.peer()) && n.meets(other) && n.dials(other) {
				found = append(found, unaware{n, other})
			}
		}
	}
	return found
}

// checkRemovalKnown checks that no removed, healed member still takes itself for a member if it dials one that knows
// better.
func (l *liveness) checkRemovalKnown() {
	for _, u := range l.unaware() {
		l.c.mustHold(false, "L18", "%s was removed, but does not know it, although it dials %s, which knows it", u.removed, u.by)
	}
}

// outvoted says what is missing if the healed members are no longer a quorum because a leader has continued a change; ""
// if they are one. A member that the leader had heard may have been cut off, have ended permanently a moment before, or
// have a disk that no longer writes. If disks have lost acknowledged entries, a healed member may be the one that still
// knows of them, and has to end.
func (l *liveness) outvoted() string {
	newest := l.c.newestCommitted()
	if newest != nil && l.c.lost {
		sound := l.core
		for _, n := range l.c.nodes {
			if n.disk.damaged {
				sound &^= 1 << n.index
			}
		}
		if missing := l.unreached([]*loggedConfig{newest}, sound); missing != "" {
			return missing
		}
	}
	if newest == nil || !l.c.profile.Members.on() {
		return ""
	}
	if missing := l.unreached([]*loggedConfig{newest}, l.core); missing != "" {
		return missing
	}
	for _, n := range l.members() {
		if in := configured(n.log); in != nil && in.index > newest.index {
			if missing := l.unreached([]*loggedConfig{in}, l.alive(in)); missing != "" {
				return missing
			}
		}
	}
	return ""
}

// alive returns the nodes that may still decide with an uncommitted configuration. A node whose disk no longer writes
// cannot decide. But the leader that appended the configuration counts even then: no leader begins a change while its
// own disk is stalled.
func (l *liveness) alive(in *loggedConfig) uint64 {
	set := l.core
	for _, n := range l.c.nodes {
		stopped := n.disk.stopped() && l.c.check.leaders[in.term] != n.peer()
		if !l.exiled && n.core != nil && !n.frozen && !stopped {
			set |= 1 << n.index
		}
	}
	return set
}
