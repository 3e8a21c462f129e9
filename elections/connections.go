package elections

// This file has the connections between members, for algorithms whose members learn from them that a process has ended. All
// members that are up are connected. When a process ends, its host resets its connections. The member at the other end dials
// again at once, and if the dial is refused, it knows that the process is gone. These packets travel like messages: they are
// late, get lost and meet cut links. No measure counts them.

// Connected is a Machine that learns from its transport that the process of a peer has ended.
type Connected interface {
	Lost(e *Env, peer Rank)
}

// packetKind is the kind of what travels on the network.
type packetKind uint8

const (
	packetMessage packetKind = iota
	packetReset              // the sender's process has ended
	packetDial               // the sender connects again
	packetRefused            // no process listens at the sender's host
)

// resetConnections is called when a process has ended. A host that is silent never calls it: no scenario has one.
func (w *world) resetConnections(from Rank) {
	if !w.algorithm.News {
		return
	}
	for i := range w.members {
		if m := &w.members[i]; m.machine != nil {
			w.sendPacket(from, m.env.self, packetReset, m.life)
		}
	}
}

// sendPacket sends a packet about a connection of the dialing process, which is in this life.
func (w *world) sendPacket(from, to Rank, kind packetKind, life uint32) {
	w.net.Send(w.queue.Now(), int(from-1), int(to-1), 0, 0, envelope{packet: kind, life: life})
}

// arrivePacket handles a packet that is no message.
func (w *world) arrivePacket(from, to Rank, e envelope) {
	m := w.member(to)
	if e.packet == packetDial {
		if m.machine == nil {
			w.sendPacket(to, from, packetRefused, e.life)
		}
		return
	}
	if m.machine == nil || m.life != e.life {
		return // the process whose connection this was has ended, too
	}
	if e.packet == packetReset {
		w.sendPacket(to, from, packetDial, e.life)
		return
	}
	w.record(Record{Kind: RecordLost, Member: to, Peer: from})
	m.machine.(Connected).Lost(&m.env, from)
	w.look(m)
}
