package fuzzy

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/coxswain/raft"
)

// How the simulation finds the members named by messages and configurations. A member is one incarnation of an id. The
// disk of a node carries one incarnation at a time, and gets another one when it is wiped.

// at returns the node whose disk carries an incarnation, or carried it before it was wiped. If no disk ever did, the id
// decides: a probe goes to any incarnation, and a garbled message may name one that does not exist. It returns nil for a
// stranger whose id no node has.
func (c *cluster) at(p raft.Peer) *node {
	for _, n := range c.nodes {
		if n.disk.carried(p.Incarnation) && n.id == p.ID {
			return n
		}
	}
	return c.named(p.ID)
}

// carried reports whether the disk carries an incarnation, or carried it before it was wiped.
func (d *disk) carried(i raft.Incarnation) bool {
	return d.incarnation == i || slices.ContainsFunc(d.ghosts, func(g ghost) bool { return g.incarnation == i })
}

// named returns the node with an id, for those that know only the id: clients, and members that probe. It returns nil if
// there is none.
func (c *cluster) named(id raft.NodeID) *node {
	i := slices.IndexFunc(c.nodes, func(n *node) bool { return n.id == id })
	if i < 0 {
		return nil
	}
	return c.nodes[i]
}

// name returns what a trace calls the node. A twin has the id of another node.
func (n *node) name() string {
	if n.c.nodes[n.index] != n.c.named(n.id) {
		return string(n.id) + "'"
	}
	return string(n.id)
}

// nameOf returns what a trace calls a member, or a stranger.
func (c *cluster) nameOf(p raft.Peer) string {
	if n := c.at(p); n != nil {
		return n.name()
	}
	return string(p.ID)
}

// String returns the name of the node in failure texts. The name contains the incarnation on its disk if another node
// may have its id, or its own disk may become another member.
func (n *node) String() string { return n.c.title(n.peer()) }

// title returns the name of a member or a stranger in failure texts. Configurations name incarnations in the same way.
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

// needs reports whether a configuration may need this incarnation as a leader: it votes, or will vote once the change
// takes effect.
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

// peerOf returns the member that a leader's progress describes.
func peerOf(p *raft.PeerProgress) raft.Peer { return raft.Peer{ID: p.ID, Incarnation: p.Incarnation} }

// progressOn returns a leader's progress for a member, or nil if there is none.
func progressOn(s *raft.CoreStatus, peer raft.Peer) *raft.PeerProgress {
	for i := range s.Peers {
		if p := &s.Peers[i]; peerOf(p) == peer {
			return p
		}
	}
	return nil
}
