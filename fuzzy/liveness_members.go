package fuzzy

import (
	"fmt"
	"slices"

	"github.com/coxswain/raft"
)

// The second phase in runs in which the members change.

// chooseAmong draws a core that holds a quorum of every configuration that may still decide. It includes other voters,
// learners, and nodes outside the configuration at random.
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

// unreached names a configuration that has no quorum in a set of nodes; "" if all configurations have one.
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

// settles reports whether there is a leader and the change of members has ended. It has ended if a joint configuration is
// left, and a waiting change has taken effect or was given up.
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

// parting reports whether removed members still have time to learn about their removal. A leader that sends them entries is
// not idle yet. A leader that knew about the removal at its election no longer serves the removed members. So they may lack
// the entry that removed them. They learn about the removal later, when the members that know it stop dialing them and
// disconnect them.
func (l *liveness) parting() bool {
	departing := func(p raft.PeerProgress) bool { return p.Departing }
	return slices.ContainsFunc(l.leader.status.Peers, departing) || slices.ContainsFunc(l.unaware(), func(u unaware) bool {
		return !l.leader.seen.inOffice.removes(u.removed.peer()) && u.by.dials(u.removed)
	})
}

// unaware is a pair of members: a removed member that believes that it is a voter, and a member that it dials and that knows
// about the removal.
type unaware struct{ removed, by *node }

// unaware returns the healed, removed members that still believe that they are voters, although they dial a member that knows
// about the removal.
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

// checkRemovalKnown checks that no healed, removed member still believes that it is a voter while it dials a member that
// knows about the removal.
func (l *liveness) checkRemovalKnown() {
	for _, u := range l.unaware() {
		l.c.mustHold(false, "L18", "%s was removed, but does not know it, although it dials %s, which knows it", u.removed, u.by)
	}
}

// outvoted names the missing resource if the healed members are no longer a quorum because a leader has continued a change.
// It returns "" if they are still a quorum. The leader may have heard a member that was then cut off, ended permanently, or
// got a disk that no longer writes. If disks have lost acknowledged entries, a healed member that still knows these entries
// may have to end.
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

// alive returns the nodes that may still decide with an uncommitted configuration. A node with a disk that no longer writes
// cannot decide. The exception is the leader that appended the configuration, because no leader begins a change while its own
// disk is stalled.
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
