package fuzzy

import (
	"fmt"
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// This file has the addresses of nodes. If a machine moves, its member restarts, and announces its new address from then on.
// At an abandoned address no member answers, or another member does.

// calls returns the identities under which a running member dials a node. There is one for each contact that has an address
// of the node.
func (n *node) calls(to *node) (peers []raft.Peer) {
	if n.hands.book == nil {
		return nil
	}
	for _, k := range n.contacts() {
		told := n.table != nil && n.table[to.index] == to.place && k.ID == to.id || n.found(k.ID) == to.place
		if told || slices.Contains(k.Addresses, to.place) {
			peers = append(peers, k.Peer())
		}
	}
	return peers
}

// tellPlaces gives a node a table with the present addresses of all nodes. The transports of the library have an option for
// such a table.
func (n *node) tellPlaces() {
	n.c.faulted("%s is told the addresses of all members", n.name())
	n.table = make([]string, len(n.c.nodes))
	for i, other := range n.c.nodes {
		n.table[i] = other.place
	}
}

// move restarts some members at other addresses: one member, two members that exchange their addresses, or all members. It
// reports whether the move must be mended. This is so if all members have moved, because then no member finds another one.
func (m *nemesis) move(c *cluster, n, other *node) bool {
	kind := m.random.IntN(8)
	switch {
	case !c.finds():
	case kind == 0:
		for _, n := range c.nodes {
			m.moveTo(c, n, c.fresh(n))
		}
		return true
	case kind == 1 && n != other:
		place := n.place
		m.moveTo(c, n, other.place)
		m.moveTo(c, other, place)
	case kind == 2 && len(c.left) > 0:
		m.moveTo(c, n, c.left[m.random.IntN(len(c.left))])
	default:
		m.moveTo(c, n, c.fresh(n))
	}
	return false
}

// fresh returns an address that no node has ever had.
func (c *cluster) fresh(n *node) string {
	c.moves++
	return fmt.Sprintf("%s:%d", n.name(), 10+c.moves)
}

// moveTo restarts a node at an address. If the address was abandoned, it no longer counts as abandoned.
func (m *nemesis) moveTo(c *cluster, n *node, place string) {
	c.faulted("%s moves from %s to %s", n.name(), n.place, place)
	c.left = append(c.left, n.place)
	n.place, n.places = place, append(n.places, place)
	c.left = slices.DeleteFunc(c.left, func(p string) bool { // if two change places, the other one may already be there
		return slices.ContainsFunc(c.nodes, func(n *node) bool { return n.place == p })
	})
	if n.core != nil {
		n.crash()
		n.restartIn(m.random.Exponential(m.rate.For))
	}
}

// reunite gives a node the address of another node. It does so if a configuration names the other node, and neither node can
// learn the other's address. Each of the two is healed, or leads. A leader that was not healed counts because it may have
// moved, too. It may lead the other members without finding a healed member that has moved.
func (l *liveness) reunite() {
	if !l.c.finds() || l.stage > converging {
		return
	}
	seekers := l.members()
	if i := l.c.leader(); i >= 0 && l.core>>i&1 == 0 && !l.exiled {
		seekers = append(seekers, l.c.nodes[i])
	}
	for _, n := range seekers {
		for _, other := range seekers {
			m, named := n.config().Member(other.id)
			named = named && m.Incarnation == 0 || includes(n.config(), other.peer()) // before the bootstrap, the configuration names only ids
			met := n.dials(other) || other.dials(n) && n.status.Term > 0              // a member called under an id of its list does not call back
			if n == other || !named || met {
				continue
			}
			n.tellPlaces()
			l.correct(n, other)
		}
	}
}

// correct makes a leader change the address of a member in the configuration, if the leader cannot learn the address. Two
// members of one id may run while one replaces the other. Suppose that the leader is one of them, and has moved to the only
// address at which it knows the other one. Then the leader does not dial the other one at all.
func (l *liveness) correct(lead, m *node) {
	entry, _ := lead.config().Peer(m.peer())
	reached := slices.ContainsFunc(lead.contacts(), func(k raft.Contact) bool { return k.ID == m.id })
	if lead.index != l.c.leader() || m.id != lead.id || reached || entry.Address == m.place {
		return
	}
	place := m.place
	l.c.work.change(lead, 0, &changing{Change: raft.Change{Update: []raft.Update{{Peer: m.peer(), Address: &place}}}})
}

// checkFound checks that healed members of the leader's configuration dial each other.
func (l *liveness) checkFound() {
	if !l.c.finds() || !l.exiled {
		return
	}
	for _, n := range l.members() {
		for _, other := range l.members() {
			if n == other || !l.counts(n) || !l.counts(other) || !n.meets(other) || !includes(n.config(), other.peer()) {
				continue
			}
			l.c.mustHold(n.dials(other), "L19", "%s does not dial %s at %s, but %v", n, other, other.place,
				n.contacts())
		}
	}
}

// startedAt identifies a start whose true address is known.
type startedAt struct {
	peer  raft.Peer
	start raft.StartID
}

// checkContacts checks the addresses at which a member dials its peers.
func (k *checker) checkContacts(n *node) {
	for _, d := range n.hands.book.dialed {
		at := n.disk.memory.SeenOf(d.Peer()).Address
		own := d.ID == n.id && at == n.place // another incarnation was there before
		if at != "" && !own && d.Addresses[0] != at {
			k.broken("I11", "%s dials %s at %v, but its newest start announced %s",
				n, k.c.title(d.Peer()), d.Addresses, at)
		}
	}
}

// checkPlaces checks the addresses in a memory.
func (k *checker) checkPlaces(n *node, m *raft.Sightings) {
	for _, s := range m.Seen {
		if place, known := k.announced[startedAt{s.Peer, s.Start}]; known && place != s.Address {
			k.broken("I11", "%s remembers start %v of %s at %s, but it is at %s",
				n, s.Start, k.c.title(s.Peer), s.Address, place)
		}
	}
}

// redialTime returns the interval at which a member dials the contacts that have not accepted its present start.
func (c *cluster) redialTime() sim.Time { return c.profile.ElectionTimeout / 2 }

// redials dials the contacts that have not accepted the node's present start.
func (n *node) redials() {
	for _, other := range n.c.nodes {
		if other != n && other.core != nil && !other.admits(n) && len(n.calls(other)) > 0 {
			n.c.shake(n, other)
		}
	}
	n.later(n.c.redialTime(), event{kind: evRedial})
}
