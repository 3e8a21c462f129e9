package fuzzy

import (
	"bytes"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
	"github.com/coxswain/raft/transport"
)

// outboxMax bounds what waits for a sender, as Config.SendQueueMax does.
const outboxMax = 200

// send takes a message out of the core: what it promises must be true now. It may wait in the sender's
// queue before it leaves.
func (n *node) send(m raft.Message) {
	n.c.check.leaves(n, &m)
	if n.c.scene.keepsSends(n) {
		n.outbox = append(n.outbox, m)
		return
	}
	late := n.random.Chance(n.c.profile.Node.LateSend)
	if !late && len(n.outbox) == 0 {
		n.fill(m)
		return
	}
	if len(n.outbox) >= outboxMax {
		n.dropped(m)
		return
	}
	n.outbox = append(n.outbox, m)
	if len(n.outbox) == 1 {
		n.later(n.sendWait(), event{kind: evFlush})
	}
}

// sendWait is how long a sender waits for its connection, once it is not healed.
func (n *node) sendWait() sim.Time {
	if n.disk.healed {
		return n.random.Exponential(n.c.profile.ElectionTimeout / 30)
	}
	return n.random.Exponential(n.c.profile.Node.SendWait)
}

// flush lets a sender run: rows of appends are joined into one.
func (n *node) flush() {
	waiting := n.outbox
	n.outbox = nil
	for len(waiting) > 0 && n.core != nil {
		m, k := joined(waiting)
		waiting = waiting[k:]
		n.fill(m)
	}
}

// joined returns the first message, or one append for a row of them, and how many it stands for.
func joined(waiting []raft.Message) (raft.Message, int) {
	first := waiting[0]
	row, ok := first.Body.(raft.AppendRequest)
	k := 1
	for ; ok && k < len(waiting); k++ {
		next, isAppend := waiting[k].Body.(raft.AppendRequest)
		same := waiting[k].To == first.To && waiting[k].Term == first.Term
		if !isAppend || !same || next.Prev != row.Last || next.Generation != row.Generation {
			break
		}
		row.Last, row.Commit = next.Last, max(row.Commit, next.Commit)
	}
	if k > 1 {
		first.Body = row
	}
	return first, k
}

// fill puts the entries into an append, unless the log has changed since it was named. A span may leave
// in two pieces.
func (n *node) fill(m raft.Message) {
	r, ok := m.Body.(raft.AppendRequest)
	if !ok {
		n.transmit(m, 64)
		return
	}
	if r.Generation != n.generation || n.random.Chance(n.c.profile.Node.DropSpan) {
		n.dropped(m)
		return
	}
	n.c.check.span(n, &r)
	if n.c.failure != nil {
		return
	}
	if count := int(r.Last.Index - r.Prev.Index); count > 1 && n.random.IntN(16) == 0 {
		middle := n.log[int(r.Prev.Index)+n.random.IntN(count-1)].entry.ID()
		n.transmitSpan(m, r, r.Prev, middle)
		n.transmitSpan(m, r, middle, r.Last)
		return
	}
	n.transmitSpan(m, r, r.Prev, r.Last)
}

func (n *node) transmitSpan(m raft.Message, r raft.AppendRequest, from, to raft.EntryID) {
	r.Prev, r.Last = from, to
	r.Entries = make([]raft.Entry, 0, to.Index-from.Index)
	size := 64
	for i := from.Index; i < to.Index; i++ {
		e := n.log[i].entry
		size += len(e.Data) + raft.RecordOverheadBytes
		r.Entries = append(r.Entries, *e)
	}
	m.Body = r
	n.transmit(m, size)
}

// dropped reports an append that does not leave.
func (n *node) dropped(m raft.Message) {
	if r, ok := m.Body.(raft.AppendRequest); ok {
		n.post(raft.SendDropped{To: m.To.ID, Span: raft.Span{After: r.Prev.Index, Last: r.Last.Index}})
	}
}

// transmit puts a message on the wire.
func (n *node) transmit(m raft.Message, size int) {
	c := n.c
	lane := 0
	if m.Bulk() {
		lane = 1
	}
	id := uint64(c.net.Sent + 1)
	c.hash.add(uint64(n.index)<<8|uint64(index(m.To.ID)), uint64(m.Term))
	if c.trace != nil {
		c.recordSend(n, id, &m)
	}
	c.net.Send(c.now(), n.index, index(m.To.ID), lane, size, envelope{m, id, n.disk.start()})
}

// recode sends a message through the real codec; false if the receiver cannot read it. Bits that flipped
// on the way must be noticed.
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

// tellPeers lets the others know that a process has begun or ended, if their transport tells.
func (c *cluster) tellPeers(n *node, up bool) {
	if !c.profile.Node.Connections {
		return
	}
	for _, other := range c.nodes {
		if other != n {
			c.connection(other, n, up)
		}
	}
}

// reset breaks the connection between two nodes; it comes back.
func (c *cluster) reset(a, b int) {
	if !c.profile.Node.Connections {
		return
	}
	for _, pair := range [][2]int{{a, b}, {b, a}} {
		c.connection(c.nodes[pair[0]], c.nodes[pair[1]], false)
		c.connection(c.nodes[pair[0]], c.nodes[pair[1]], true)
	}
}

func (c *cluster) connection(n, peer *node, up bool) {
	if n.core == nil || up && !c.net.Links.Up(peer.index, n.index) {
		return
	}
	a := int64(peer.index) << 1
	if up {
		a |= 1
	}
	n.later(n.random.Exponential(c.profile.ElectionTimeout/20), event{kind: evPeer, a: a})
}

func (n *node) peerEvent(a int64) {
	peer := n.c.nodes[a>>1]
	if a&1 == 0 {
		n.post(raft.PeerLost{ID: peer.id, Refused: peer.core == nil})
		return
	}
	if !n.takes(peer, peer.disk.start()) {
		return
	}
	n.post(raft.PeerUp{
		ID: peer.id, Incarnation: peer.disk.incarnation, Boot: peer.disk.boot,
		Blank: len(peer.disk.log) == 0 && peer.disk.hard == raft.HardState{}, Protocol: 1,
	})
}
