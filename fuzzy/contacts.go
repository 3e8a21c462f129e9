package fuzzy

import (
	"slices"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// This file has the connections that a member keeps, in runs with handshakes whose members change. The code of package node
// decides which peers a member dials, and at which addresses (pipeline.Contacts). places.go decides which node answers there.
// Members send only on connections that they have dialed themselves.

// book holds a running member's knowledge about the peers that it dials.
type book struct {
	*pipeline.Contacts
	dialed []raft.Contact
	wake   raft.Time // when dialed may change without an event; 0: never
	stale  bool      // dialed may have changed
}

// finds reports whether members have to find each other by their addresses.
func (c *cluster) finds() bool { return c.profile.Members.on() && c.profile.Node.Handshakes }

// openBook opens the book of a process from the contents of the disk. It is called when the process starts.
func (n *node) openBook(stored *raft.Stored) {
	n.hands.book = nil
	if !n.c.finds() {
		return
	}
	contacts := pipeline.NewContacts(n.peer(), n.place, time.Duration(n.timeout()))
	contacts.Stored(stored.Log)
	contacts.Memory(n.disk.memory)
	n.hands.book = &book{Contacts: contacts}
	n.forgetHands() // its connections are new
	n.publish()
}

// publish updates the book. It is called when the configuration, or the knowledge about its commit, may have changed.
func (n *node) publish() {
	b, s := n.hands.book, &n.status
	if b == nil {
		return
	}
	if s.Term > 0 {
		b.Begin()
	}
	b.Config(n.now().Mono, s.Config, s.ConfigCommitted == s.ConfigIndex)
	b.Removed(s.Removals)
	b.stale = true
}

// contacts returns the peers that a running member dials.
func (n *node) contacts() []raft.Contact {
	b, now := n.hands.book, n.now().Mono
	if b.stale || b.wake > 0 && now >= b.wake {
		b.dialed, _, b.wake = b.Dial(now)
		b.stale = false
		for _, p := range b.Expel() {
			n.disconnect(p)
		}
		n.c.check.checkContacts(n)
	}
	return b.dialed
}

// disconnect closes the connections that a peer has dialed; the peer has to shake hands again.
func (n *node) disconnect(p raft.Peer) {
	if from := n.c.at(p); from != nil && from.peer() == p {
		n.hands.admits[from.index] = nil
	}
}

// heardFrom is called when a message of another node has arrived.
func (n *node) heardFrom(from *node) {
	if b := n.hands.book; b != nil {
		b.Heard(from.peer(), n.now().Mono)
		b.stale = b.stale || !n.dials(from)
	}
}

// dials reports whether a running member has dialed another node itself.
func (n *node) dials(to *node) bool {
	if n.core == nil || n.hands.book == nil {
		return false
	}
	return slices.ContainsFunc(n.calls(to), func(p raft.Peer) bool {
		return p.ID == to.id && (p.Incarnation == to.disk.incarnation || p.Incarnation == 0)
	})
}

// connected reports whether a node may send to another one.
func (n *node) connected(to *node) bool { return n.hands.book == nil || n.dials(to) }

// knowsRemoved reports whether an entry that a member knows to be committed has removed a peer.
func (n *node) knowsRemoved(p raft.Peer) bool {
	i := n.status.Commit
	return i > 0 && slices.ContainsFunc(n.log[i-1].config.Removed, func(r raft.Removal) bool { return r.Peer == p })
}
