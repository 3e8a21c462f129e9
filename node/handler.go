package node

import (
	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/pipeline"
)

// handler implements raft.Handler, the side of the node that a transport calls.
type handler struct{ node *Node }

func (e handler) Hello(to raft.Peer) raft.Hello {
	return e.node.identity.hello(to)
}

func (e handler) Check(h raft.Hello) *raft.Rejection {
	r := e.node.identity.admit(h)
	if r != nil {
		e.node.counters.refused(r.Reason)
		e.node.identity.noteOwnRejection(h.From, r)
		if r.Asked() || e.node.identity.inVain(r.Reason) {
			return r
		}
		e.node.identity.warn(warning{h.From, hasRefused}, r)
	}
	return r
}

func (e handler) Up(h raft.Hello) {
	i := e.node.identity
	i.mu.Lock()
	if _, known := i.live[h.From]; known || len(i.live) < strangersMax {
		i.live[h.From] = h.Lineage.Last()
	}
	i.hear(h.From)
	i.noteAnnounced(h)
	for _, p := range []raft.Peer{h.From, {ID: h.From.ID}} { // the contact may be open
		delete(i.refusals, p)
		delete(i.refused, p)
		delete(i.warned, warning{p, wasRefused})
	}
	i.updateWiped()
	i.mu.Unlock()
	e.node.forwards.lost(h.From) // an earlier start of it
	e.node.watched.wakeAll()     // for requests that wait for a connection to the leader
	e.node.invitations.up(h)
	e.node.counters.connected.Add(1)
	e.node.post(raft.PeerUp{
		ID: h.From.ID, Incarnation: h.From.Incarnation, StartCount: h.StartCount, Uninitialized: h.Uninitialized(), Protocol: h.Protocol,
		AppendBytesMax: e.node.appendLimitTo(settingsIn(h)),
	})
}

// Accepted makes this member dial the peer back if the peer is a stranger. The reason is that this member sends only on
// connections that it has dialed.
func (e handler) Accepted(h raft.Hello) {
	e.node.identity.accepted(h.From)
	e.node.forwards.lost(h.From) // answers on an earlier connection from it
	e.node.contacts.called(h)
	e.node.invitations.accepted(h)
}

func (e handler) Lost(p raft.Peer, refused bool) {
	i := e.node.identity
	i.mu.Lock()
	delete(i.live, p)
	i.mu.Unlock()
	e.node.counters.lost.Add(1)
	e.node.streamer.disconnected(p)
	e.node.forwards.lost(p)
	e.node.invitations.failed(p, nil)
	e.node.post(raft.PeerLost{Peer: p, Refused: refused})
}

// ForwardLost implements raft.ForwardHandler.
func (e handler) ForwardLost(p raft.Peer) { e.node.forwards.lost(p) }

func (e handler) Rejected(by raft.Peer, r raft.Rejection) {
	i := e.node.identity
	e.node.counters.refused(r.Reason)
	asked := e.node.invitations.failed(by, &r)
	i.noteRejection(by, r)
	if !asked && !i.inVain(r.Reason) {
		i.warn(warning{by, wasRefused}, &r)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if r.From.ID == by.ID {
		v := i.handshake(by)
		i.setMark(v.Told(r))
		if index := v.ToldRemoval(r); index > 0 {
			e.node.endRemoved(&raft.RemovedError{Index: index})
		}
	}
	if i.mark != nil {
		i.node.writer.queue.wake()
	}
}

func (e handler) Receive(from raft.Peer, batch []raft.Message) {
	n := e.node
	n.identity.mu.Lock()
	n.identity.hear(from)
	n.identity.mu.Unlock()
	lacking := n.lacksRoom()
	if lacking != nil {
		n.roomWatch.lacking.wake()
	}
	full := lacking != nil && (isFull(lacking) || files.NoDescriptor(lacking)) // for other errors, the write itself fails
	var forwarded []raft.Message
	for _, m := range batch {
		switch {
		case m.From != from:
			n.counters.droppedForged.Add(1)
		case m.Lane() == raft.LaneForward:
			if forwarded == nil {
				forwarded = make([]raft.Message, 0, len(batch))
			}
			forwarded = append(forwarded, m)
		case e.stream(m):
		case entryBytes(m) > 0 && n.writer.depth() >= n.cfg.ReceivedMax,
			!n.mailbox.receive(m, n.cache.WaitingBytes(), full, &n.cfg):
			n.counters.droppedReceived.Add(1)
		default:
			n.counters.received.Add(1)
		}
	}
	if len(forwarded) > 0 {
		n.counters.received.Add(uint64(len(forwarded)))
		n.forwards.receive(forwarded)
	}
}

// stream processes the messages of snapshot streams, which do not go to the core. It reports whether m was such a message. If
// this member takes no snapshots, stream refuses the leader's offer.
func (e handler) stream(m raft.Message) bool {
	n, taken := e.node, false
	switch m.Body.(type) {
	case raft.SnapshotChunk:
		taken = n.receiver.chunk(m)
	case raft.SnapshotProgress:
		taken = n.streamer.answered(m)
	case raft.InstallSnapshot:
		if n.files == nil {
			n.senders.send([]raft.Message{pipeline.RefuseSnapshot(m, raft.StreamUnsupported)})
		}
		return false
	default:
		return false
	}
	if taken {
		n.counters.received.Add(1)
	} else {
		n.counters.droppedReceived.Add(1)
	}
	return true
}
