package node

import (
	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// handler implements raft.Handler, the side of the node that a transport calls.
type handler struct{ node *Node }

func (e handler) Hello(to raft.NodeID) raft.Hello {
	return e.node.identity.hello(to)
}

func (e handler) Check(h raft.Hello) *raft.Rejection {
	r := e.node.identity.admit(h)
	if r != nil {
		e.node.counters.refused(r.Reason)
		e.node.identity.warn(h.From.ID, r.Reason, "refused a member", r)
		if r.Reason == raft.RejectWrongIncarnation {
			e.node.identity.addMisnamed(h)
		}
	}
	return r
}

func (e handler) Up(h raft.Hello) {
	i := e.node.identity
	i.mu.Lock()
	if _, known := i.live[h.From.ID]; known || len(i.live) < strangersMax {
		i.live[h.From.ID] = h.Lineage.Last()
	}
	i.hear(h.From.ID)
	delete(i.refusals, h.From.ID)
	delete(i.misnamed, h.From.ID)
	delete(i.warned, h.From.ID)
	i.updateWiped()
	i.mu.Unlock()
	e.node.counters.connected.Add(1)
	e.node.post(raft.PeerUp{ID: h.From.ID, Incarnation: h.From.Incarnation, StartCount: h.StartCount, Uninitialized: h.Uninitialized(), Protocol: h.Protocol})
}

func (e handler) Lost(id raft.NodeID, refused bool) {
	i := e.node.identity
	i.mu.Lock()
	delete(i.live, id)
	i.mu.Unlock()
	e.node.counters.lost.Add(1)
	e.node.streamer.disconnected(id)
	e.node.post(raft.PeerLost{ID: id, Refused: refused})
}

func (e handler) Rejected(by raft.NodeID, r raft.Rejection) {
	i := e.node.identity
	e.node.counters.refused(r.Reason)
	i.warn(by, r.Reason, "was refused by a member", &r)
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, known := i.refusals[by]; known || len(i.refusals) < strangersMax {
		i.refusals[by] = r
	}
	i.updateWiped()
	if r.From.ID == by {
		i.setMark(i.handshake(by).Told(r))
	}
	if i.mark != nil {
		i.node.writer.queue.wake()
	}
}

func (e handler) Receive(from raft.NodeID, batch []raft.Message) {
	n := e.node
	n.identity.mu.Lock()
	n.identity.hear(from)
	n.identity.mu.Unlock()
	for _, m := range batch {
		switch {
		case m.From.ID != from:
			n.counters.droppedForged.Add(1)
		case e.stream(m):
		case entryBytes(m) > 0 && n.writer.depth() >= n.cfg.ReceivedMax,
			!n.mailbox.receive(m, n.cache.WaitingBytes(), &n.cfg):
			n.counters.droppedReceived.Add(1)
		default:
			n.counters.received.Add(1)
		}
	}
}

// stream takes the messages of streams in, which are not for the core, and reports whether the message is one of them.
// A member that takes no snapshots says so to the leader that offers one.
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
