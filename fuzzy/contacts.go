package fuzzy

import (
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// Whom a member keeps a connection to, in runs with handshakes whose members change. It dials whom its configuration
// names and, for ten election timeouts, whom that no longer names. It dials a stranger back as long as that one dials it:
// members send only on connections that they have dialed themselves, and a stranger may belong to a newer configuration.

// retainTimeouts is for how many election timeouts a member stays connected to whom its configuration no longer names.
const retainTimeouts = 10

// dropped is a peer that a configuration no longer names.
type dropped struct {
	peer  raft.Peer
	until sim.Time
}

// retain records whom a step has dropped from the configuration.
func (n *node) retain() {
	was, is := n.configBefore, n.config()
	if was == nil || was == configured(n.log) {
		return
	}
	until := n.c.now() + retainTimeouts*n.c.profile.ElectionTimeout
	for i := range was.Members {
		if p := was.Members[i].Peer(); !includes(is, p) {
			n.hands.dropped = append(n.hands.dropped, dropped{p, until})
		}
	}
}

// dials reports whether a running member dials another node of its own accord.
func (n *node) dials(to *node) bool {
	if n.core == nil {
		return false
	}
	p := to.peer()
	for i := range n.config().Members {
		if m := &n.config().Members[i]; m.ID == p.ID && (m.Incarnation == p.Incarnation || m.Incarnation == 0) {
			return true
		}
	}
	return slices.ContainsFunc(n.hands.dropped, func(d dropped) bool { return d.peer == p && n.c.now() < d.until })
}

// connected reports whether two nodes may have connections to each other.
func (n *node) connected(to *node) bool {
	return !n.c.profile.Members.on() || !n.c.profile.Node.Handshakes || n.dials(to) || to.dials(n)
}

// expels reports whether a member has closed its connections to a node because that was removed long enough ago, as far as
// it knows for certain.
func (n *node) expels(from *node) bool {
	p := from.peer()
	if !n.c.profile.Members.on() || !n.c.profile.Node.Handshakes || n.core == nil || includes(n.config(), p) {
		return false
	}
	retained := slices.ContainsFunc(n.hands.dropped, func(d dropped) bool { return d.peer == p && n.c.now() < d.until })
	return !retained && n.knowsRemoved(p)
}

// knowsRemoved reports whether an entry that a member knows to be committed has removed a peer.
func (n *node) knowsRemoved(p raft.Peer) bool {
	i := n.status.Commit
	return i > 0 && slices.ContainsFunc(n.log[i-1].config.Removed, func(r raft.Removal) bool { return r.Peer == p })
}
