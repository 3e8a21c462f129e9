package fuzzy

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
	"github.com/coxswain/raft/internal/sim"
	"github.com/coxswain/raft/transport"
)

// outboxMax is the maximum number of messages that wait for a sender. It corresponds to Config.SendQueueMax.
const outboxMax = 200

// send takes a message from the core. The message's promises must be true now, although the message may still wait in the
// sender's queue.
func (n *node) send(m raft.Message) {
	n.c.check.checkLeaving(n, &m)
	if !n.offers(&m) || n.c.at(m.To) == nil { // a member of the past no longer exists
		return
	}
	if n.c.scene.keepsSends(n) {
		n.outbox = append(n.outbox, m)
		return
	}
	if n.holdsBack(m) {
		return
	}
	late := n.random.Chance(n.c.profile.Node.LateSend)
	if !late && len(n.outbox) == 0 {
		n.deliver([]raft.Message{m})
		return
	}
	if len(n.outbox) >= outboxMax {
		n.dropped(m, nil)
		return
	}
	n.outbox = append(n.outbox, m)
	if len(n.outbox) == 1 {
		n.later(n.sendWait(), event{kind: evFlush})
	}
}

// sendWait draws how long a sender waits for its connection.
func (n *node) sendWait() sim.Time {
	if n.disk.healed {
		return n.random.Exponential(n.c.profile.shortestTimeout() / 30)
	}
	return n.random.Exponential(n.c.profile.Node.SendWait)
}

// flush runs the senders. Each sender gets the messages for its peer and lane.
func (n *node) flush() {
	waiting := n.outbox
	n.outbox = nil
	slices.SortStableFunc(waiting, func(a, b raft.Message) int {
		return cmp.Or(cmp.Compare(n.c.at(a.To).index, n.c.at(b.To).index), cmp.Compare(a.Lane(), b.Lane()))
	})
	for len(waiting) > 0 && n.core != nil {
		k := 1
		for k < len(waiting) && n.c.at(waiting[k].To) == n.c.at(waiting[0].To) && waiting[k].Lane() == waiting[0].Lane() {
			k++
		}
		n.deliver(waiting[:k])
		waiting = waiting[k:]
	}
}

// deliver sends the messages for one connection. It joins appends and fills them with entries. A message may carry fewer
// entries than the core expects, so that a span leaves in pieces.
func (n *node) deliver(waiting []raft.Message) {
	most := n.limits.AppendBytesMax
	for i := range waiting {
		if r, ok := waiting[i].Body.(raft.AppendRequest); ok && r.Generation == n.cache.Generation() {
			n.c.check.checkSpan(n, &r)
		}
	}
	if n.c.failure != nil {
		return
	}
	if waiting[0].Lane() == raft.LaneBulk && n.random.IntN(16) == 0 {
		most = 1 + n.random.IntN(most)
	}
	n.reader().Deliver(waiting, most, n.c.at(waiting[0].To).carries(), n.leaves, n.unfilled)
	n.c.check.checkDelivered(n, waiting, n.left)
	clear(n.left)
	n.left = n.left[:0]
}

// reader returns a reader of the present log.
func (n *node) reader() pipeline.Log { return pipeline.Log{Cache: n.cache, Storage: &n.disk} }

// leave puts a message on the wire, unless the connection breaks.
func (n *node) leave(m raft.Message) {
	n.left = append(n.left, m)
	r, ok := m.Body.(raft.AppendRequest)
	if !ok {
		n.transmit(m, 64)
		return
	}
	n.c.check.checkFilledAppend(n, &r, n.c.at(m.To).carries())
	if l := configured(n.log); r.Prev.Index < l.index && l.index <= r.Last.Index && n.configSent != l {
		n.configSent = l
		n.c.reaches(n, configSent, l)
	}
	if n.random.Chance(n.c.profile.Node.DropSpan) {
		n.dropped(m, nil)
		return
	}
	n.transmit(m, 64+pipeline.RecordBytes(r.Entries))
}

// stale handles an append whose entries are no longer in the log.
func (n *node) stale(m raft.Message, err error) {
	n.left = append(n.left, m)
	r := m.Body.(raft.AppendRequest) // only appends are filled
	if !errors.Is(err, pipeline.ErrOversized) && r.Generation == n.cache.Generation() && r.Prev.Index >= n.disk.begins() {
		n.c.check.broken("N44", "%s cannot fill an append from %v to %v: %v", n, r.Prev, r.Last, err)
	}
	n.dropped(m, err)
}

// dropped reports a dropped append to the core.
func (n *node) dropped(m raft.Message, why error) {
	if e, appends := pipeline.Dropped(m, why); appends {
		n.post(e)
	}
}

// transmit puts a message on the wire.
func (n *node) transmit(m raft.Message, size int) {
	c := n.c
	to := c.at(m.To)
	if ofSnapshot(m.Body) && min(n.protocol(), to.protocol()) == 1 {
		return // the transport refuses what the peer cannot read
	}
	if !n.connected(to) || n.isRefused(to) {
		return
	}
	id := uint64(c.net.Sent + 1)
	c.hash.add(uint64(n.index)<<8|uint64(to.index), uint64(m.Term))
	if c.trace != nil {
		c.recordSend(n, c.traced(id), &m)
	}
	c.remember(m)
	c.net.Send(c.now(), n.index, to.index, int(m.Lane()), size, envelope{m, id, n.disk.start()})
}

// recode passes a message through the real codec. It returns false if the receiver cannot read the message. The codec
// must notice flipped bits.
func (c *cluster) recode(m raft.Message, corrupt bool) (raft.Message, bool) {
	frame, err := transport.EncodeMessage(m)
	if err != nil {
		c.fail(Safety, "codec", "%T does not encode: %v", m.Body, err)
		return m, false
	}
	if corrupt {
		sound := bytes.Clone(frame)
		c.wire.Flip(frame)
		if bytes.Equal(sound, frame) {
			corrupt = false
		}
	}
	decoded, err := transport.DecodeMessage(frame)
	if corrupt && err == nil {
		c.check.broken("codec", "a corrupted frame is read: %T", m.Body)
	}
	if !corrupt && err != nil {
		c.check.broken("codec", "%T does not decode: %v", m.Body, err)
	}
	return decoded, err == nil
}

// tellPeers reports the start or end of a process to the others, if their transport reports it.
func (c *cluster) tellPeers(n *node, up bool) {
	if !c.profile.Node.Connections || n.news.vanished {
		return
	}
	for _, other := range c.nodes {
		if other != n {
			c.connection(other, n, up)
		}
	}
}

// reset breaks the connection between two nodes. Then the nodes connect again.
func (c *cluster) reset(a, b int) {
	if !c.profile.Node.Connections {
		return
	}
	for _, pair := range [][2]int{{a, b}, {b, a}} {
		c.connection(c.nodes[pair[0]], c.nodes[pair[1]], false)
		c.connection(c.nodes[pair[0]], c.nodes[pair[1]], true)
	}
}

// breaksAt breaks the connection on which an unreadable frame arrived. If the connection is a snapshot lane, no node gets a
// report about its end. The network garbles no frames between healed members. So if the two nodes are healed now, the frame
// left before they were healed, and its connection has already ended.
func (c *cluster) breaksAt(d sim.Delivery[envelope]) {
	if healed := c.net.Core; healed>>d.From&(healed>>d.To)&1 == 1 {
		return
	}
	if d.Message.message.Lane() == raft.LaneSnapshot {
		c.net.Break(d.From, d.To, int(raft.LaneSnapshot))
		return
	}
	c.reset(d.From, d.To)
}

func (c *cluster) connection(n, peer *node, up bool) {
	if n.core == nil || up && !c.net.Links.Up(peer.index, n.index) {
		return
	}
	a := int64(peer.index) << 1
	if up {
		a |= 1
	}
	n.later(n.random.Exponential(cmp.Or(c.profile.Node.Notice, c.profile.ElectionTimeout/20)), event{kind: evPeer, a: a})
}

func (n *node) peerEvent(a int64) {
	peer := n.c.nodes[a>>1]
	if a&1 == 0 {
		n.isBroken(peer)
		n.pump(peer.index)
		if o, now := n.vault.out[peer.index], n.now().Mono; o != nil {
			if o.lost = cmp.Or(o.lost, now); now-o.lost >= (heldTimeouts-1)*raft.Time(n.timeout()) {
				n.c.check.broken("N55", "%s still has a stream to %s, whose connection broke at %v", n, n.c.title(o.to), o.lost)
			}
			o.Lost(now)
			n.pump(peer.index)
		}
		if at := &n.vault.redials[peer.index]; *at <= n.c.now() && (peer.core == nil || !n.c.net.Links.Up(peer.index, n.index)) {
			*at = n.c.now() + n.c.profile.ElectionTimeout
			n.later(n.c.profile.ElectionTimeout, event{kind: evPeer, a: a}) // each failed dial is reported
		}
		n.losesForwards(peer.peer())
		n.post(raft.PeerLost{Peer: raft.Peer{ID: peer.id, Incarnation: peer.disk.incarnation}})
		return
	}
	if n.isRefused(peer) || !n.takes(peer, peer.disk.start()) {
		return
	}
	n.isConnected(peer)
	n.post(raft.PeerUp{
		ID: peer.id, Incarnation: peer.disk.incarnation, StartCount: peer.disk.startCount,
		Uninitialized: len(peer.disk.log) == 0 && peer.disk.hard == raft.HardState{}, Protocol: min(n.protocol(), peer.protocol()),
		AppendBytesMax: peer.carries(),
	})
}
