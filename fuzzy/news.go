package fuzzy

import (
	"slices"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// This file has the news that the process of a peer has ended (raft.Handler.Lost). A member hears it if its connection to the
// peer broke and the redial was refused. News may be late, and it may be a lie: a middlebox answers for a peer that lives. But
// one thing always holds: after the news, nothing arrives that the peer sent before, because its connections are closed.

// news is what the transport of a running process knows about the processes of its peers.
type news struct {
	random   *sim.Stream
	late     sim.Time // until then, news takes long
	vanished bool     // the host answers nobody, as if it had no power
	peers    []heardOf
}

// heardOf is about one peer.
type heardOf struct {
	connected raft.Peer // a connection to it is open; zero: none
	broken    raft.Peer // it broke, and the peer has not connected again
	since     uint64    // id of the first message that was sent after news of its end; earlier ones of the peer never arrive
	refused   sim.Time  // until then a middlebox refuses dials of the peer
}

// startNews is called when a process starts. Its connections are new. If the host was silent, those of the former process are
// reset now.
func (n *node) startNews() {
	if n.news.vanished {
		n.news.vanished = false
		n.c.tellPeers(n, false)
	}
	if n.news.random == nil {
		n.news.random = sim.NewStream(n.c.seed.Number, sim.NetworkConcern<<16+sim.Concern(n.index))
	}
	n.news = news{random: n.news.random, peers: make([]heardOf, len(n.c.nodes))}
}

// isConnected notes that a peer's present process has connected.
func (n *node) isConnected(peer *node) {
	if peer.core != nil {
		h := &n.news.peers[peer.index]
		h.connected, h.broken = peer.peer(), raft.Peer{}
	}
}

// isOpen reports whether the connection is open on which a message has arrived.
func (n *node) isOpen(from *node, e envelope) bool {
	if h := &n.news.peers[from.index]; e.id < h.since {
		return false
	}
	if e.start == from.disk.start() {
		n.isConnected(from)
	}
	return true
}

// isBroken is called when the connection to a peer has broken. If the redial is refused, news follows.
func (n *node) isBroken(peer *node) {
	h, links, mean := &n.news.peers[peer.index], n.c.net.Links, n.c.profile.ElectionTimeout/50
	if h.connected == (raft.Peer{}) {
		return
	}
	h.broken, h.connected = h.connected, raft.Peer{}
	if peer.core != nil || peer.news.vanished || !n.connected(peer) || !links.Up(n.index, peer.index) || !links.Up(peer.index, n.index) {
		return
	}
	if n.c.now() < n.news.late {
		mean = 2 * n.c.profile.ElectionTimeout
	}
	n.later(n.news.random.Exponential(mean), event{kind: evNews, a: int64(peer.index)})
}

// tellNews tells the core the news, unless the peer has connected again. Then nothing arrives any more that it sent before.
func (n *node) tellNews(peer *node) {
	h := &n.news.peers[peer.index]
	if h.broken == (raft.Peer{}) {
		return
	}
	p := h.broken
	h.broken, h.since = raft.Peer{}, uint64(n.c.net.Sent+1)
	n.disk.segments.held = slices.DeleteFunc(n.disk.segments.held, func(e envelope) bool { return e.message.From == p })
	n.c.stats.News++
	n.post(raft.PeerLost{Peer: p, Refused: true})
}

// isRefused reports whether a middlebox refuses the member's dials of a peer.
func (n *node) isRefused(peer *node) bool { return n.c.now() < n.news.peers[peer.index].refused }

// healNews ends the lies that a member was told.
func (n *node) healNews() {
	n.news.late = 0
	for i := range n.news.peers {
		n.news.peers[i].refused = 0
	}
}

// hearsLie tells a member the lie that an injection has prepared.
func (n *node) hearsLie(a int64) {
	if n.c.phase == safetyPhase && !n.c.lulls.resting() {
		n.lie(n.c.nodes[a&0xff], sim.Time(a>>8))
	}
}

// lie breaks all connections between a member and a peer that lives. A middlebox refuses the member's dials for a while. The
// peer can dial the member at once.
func (n *node) lie(peer *node, length sim.Time) {
	if n.core == nil || peer.core == nil || n == peer {
		return
	}
	n.c.faulted("%s is told that %s has ended, for %v", n.name(), peer.name(), time.Duration(length).Round(time.Millisecond))
	h := &n.news.peers[peer.index]
	h.refused = n.c.now() + length
	n.c.connection(peer, n, false)
	n.c.connection(peer, n, true)
	n.peerEvent(int64(peer.index) << 1)
	n.tellNews(peer)
	n.later(length, event{kind: evPeer, a: int64(peer.index)<<1 | 1})
}

// vanish ends the process of a host that answers nobody any more, so that no connection breaks.
func (n *node) vanish() {
	n.news.vanished = true
	n.crash()
}

// misinform makes news about a process false or late, makes its host vanish, or crashes the favorite. Often the process is the
// leader.
func (m *nemesis) misinform(c *cluster, n *node) {
	if leader := c.leader(); leader >= 0 && m.random.IntN(4) > 0 {
		n = c.nodes[leader]
	}
	length := 1 + m.random.Exponential(m.rate.For)
	if n.core == nil {
		return
	}
	switch m.rate.Fault {
	case Favorite:
		m.crashFavorite(c)
	case Vanish:
		c.faulted("the host of %s vanishes", n.name())
		n.vanish()
		n.restartIn(length)
	case LateNews:
		c.faulted("some hear late of the end of processes, for %v", time.Duration(length).Round(time.Millisecond))
		for _, other := range c.nodes {
			if m.random.Coin() {
				other.news.late = c.now() + length
			}
		}
	case Lie:
		m.spread(c, n, m.random.IntN(4), length)
	}
}

// spread tells lies about a process to one member, to a minority, to all one after another, or to all at once.
func (m *nemesis) spread(c *cluster, about *node, shape int, length sim.Time) {
	order, count, after := m.order(len(c.nodes)), len(c.nodes), sim.Time(0)
	switch shape {
	case 0:
		count = 1
	case 1:
		count = (c.profile.Voters - 1) / 2
	}
	for _, i := range order[:count] {
		c.nodes[i].later(after, event{kind: evLie, a: int64(length)<<8 | int64(about.index)})
		if shape == 2 {
			after += length + m.random.Exponential(c.profile.ElectionTimeout)
		}
	}
}

// drawNews injects faults of news into some runs. It uses its own stream, so that the other settings do not change.
func drawNews(seed Seed, p *Profile) {
	s, timeout := sim.NewStream(seed.Number, sim.Profile<<52), p.ElectionTimeout
	some := s.IntN(8)
	var rates []FaultRate
	for _, kind := range []FaultKind{Vanish, LateNews, Lie} {
		r := FaultRate{kind, s.LogTime(2*timeout, 30*timeout), s.LogTime(timeout/30, 4*timeout)}
		if s.IntN(3) > 0 {
			rates = append(rates, r)
		}
	}
	switch p.Name {
	case "swarm":
		if some > 0 || !p.Node.Connections {
			return
		}
	case "elections":
		if some > 1 {
			return
		}
		p.Node.Connections = true
	case "preference":
	default:
		return
	}
	p.Faults = append(p.Faults, rates...)
}

// shapePreference makes the members hear of the end of processes, true or not, and draws few faults besides.
func shapePreference(s *sim.Stream, p *Profile) {
	p.Voters, p.Learners, p.World = sim.Pick(s, 2, 3, 3, 3, 4, 5, 5, 7), 0, World{}
	p.FaultsFrom, p.Length = sim.In(500*time.Millisecond), sim.In(8*time.Second)
	only(Crash, Close, Pause, Partition, Flap, Reset, Stall)(s, p)
	timeout := p.ElectionTimeout
	for i := range p.Faults {
		p.Faults[i].Every = max(p.Faults[i].Every, 10*timeout)
	}
	p.Faults = slices.DeleteFunc(p.Faults, func(r FaultRate) bool { return r.Fault == Crash })
	p.Faults = append(p.Faults, FaultRate{Crash, s.LogTime(2*timeout, 20*timeout), s.LogTime(timeout/10, 10*timeout)})
	p.Node.Connections = true
	if s.Coin() {
		p.Node.Handshakes = true
	}
}
