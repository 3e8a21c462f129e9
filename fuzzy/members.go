package fuzzy

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/coxswain/raft"
)

// This file finds the members that messages and configurations name. A member is one incarnation of an id. The disk of a node
// carries one incarnation at a time. A wiped disk gets a new incarnation.

// at returns the node whose disk carries an incarnation, or carried it before the disk was wiped. If no disk ever carried the
// incarnation, at returns the node with the id. This happens because a probe goes to any incarnation, and a garbled message
// may name an incarnation that does not exist. at returns nil for a stranger with an id that no node has.
func (c *cluster) at(p raft.Peer) *node {
	for _, n := range c.nodes {
		if n.disk.carried(p.Incarnation) && n.id == p.ID {
			return n
		}
	}
	return c.named(p.ID)
}

// carried reports whether the disk carries an incarnation, or carried it before the disk was wiped.
func (d *disk) carried(i raft.Incarnation) bool {
	return d.incarnation == i || slices.ContainsFunc(d.ghosts, func(g ghost) bool { return g.incarnation == i })
}

// named returns the node with an id, or nil if there is none. Clients, and members that probe, know only the id.
func (c *cluster) named(id raft.NodeID) *node {
	i := slices.IndexFunc(c.nodes, func(n *node) bool { return n.id == id })
	if i < 0 {
		return nil
	}
	return c.nodes[i]
}

// name returns the node's name in traces. A twin has the id of another node, so its name differs from its id.
func (n *node) name() string {
	if n.c.nodes[n.index] != n.c.named(n.id) {
		return string(n.id) + "'" + n.c.mark
	}
	return string(n.id) + n.c.mark
}

// nameOf returns the name of a member or a stranger in traces.
func (c *cluster) nameOf(p raft.Peer) string {
	if n := c.at(p); n != nil {
		return n.name()
	}
	return string(p.ID)
}

// String returns the node's name in failure texts. The name contains the incarnation on the node's disk if members may
// change. Then another node may have the same id, and the node's own disk may become another member.
func (n *node) String() string { return n.c.title(n.peer()) }

// title returns the name of a member or a stranger in failure texts. Configurations print incarnations in the same way.
func (c *cluster) title(p raft.Peer) string {
	if !c.profile.Members.on() {
		return c.nameOf(p)
	}
	return fmt.Sprintf("%s/%04x", c.nameOf(p), uint64(p.Incarnation)&0xffff)
}

// names lists the nodes of a set.
func (c *cluster) names(set uint64) string {
	var list []string
	for ; set != 0; set &= set - 1 {
		list = append(list, c.nodes[bits.TrailingZeros64(set)].name())
	}
	return strings.Join(list, " ")
}

// peerSet is a set of a few members.
type peerSet []raft.Peer

func (s peerSet) has(p raft.Peer) bool { return slices.Contains(s, p) }

func (s *peerSet) add(p raft.Peer) {
	if !s.has(p) {
		*s = append(*s, p)
	}
}

// member returns the member of a configuration with this incarnation, or nil.
func member(config *raft.Configuration, p raft.Peer) *raft.Member {
	for i := range config.Members {
		if m := &config.Members[i]; m.Incarnation == p.Incarnation && m.ID == p.ID {
			return m
		}
	}
	return nil
}

// includes reports whether a configuration names a member with this incarnation.
func includes(config *raft.Configuration, p raft.Peer) bool { return member(config, p) != nil }

// votes reports whether a configuration gives this incarnation a vote, in either half.
func votes(config *raft.Configuration, p raft.Peer) bool {
	return votesOn(config, p) || slices.Contains(config.Outgoing, p)
}

// needs reports whether a configuration may need this incarnation as a leader. It may if the incarnation votes, or will vote
// once the change takes effect.
func needs(config *raft.Configuration, p raft.Peer) bool {
	m := member(config, p)
	return votes(config, p) || m != nil && m.Next == raft.NextVoter
}

// votesOn reports whether a configuration names this incarnation as a voter that will remain one. Only such a voter is a
// target of a transfer.
func votesOn(config *raft.Configuration, p raft.Peer) bool {
	m := member(config, p)
	return m != nil && m.Kind == raft.Voter
}

// peerOf returns the member to which a leader's progress belongs.
func peerOf(p *raft.PeerProgress) raft.Peer { return raft.Peer{ID: p.ID, Incarnation: p.Incarnation} }

// progressOn returns a leader's progress for a member, or nil if the leader has none.
func progressOn(s *raft.CoreStatus, peer raft.Peer) *raft.PeerProgress {
	for i := range s.Peers {
		if p := &s.Peers[i]; peerOf(p) == peer {
			return p
		}
	}
	return nil
}
