package fuzzy

import (
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
	"github.com/coxswain/raft/internal/sim"
)

// This file hosts a raft.DurableFSM whose state must be sent to another member. Such a state has no snapshot file. The host
// freezes the state, and streams the frozen state directly.

// heldState is a frozen state. It exists only in the memory of its process.
type heldState struct {
	file     snapFile  // what WriteTo writes
	written  int       // bytes that WriteTo has written so far
	failsAt  int       // offset at which WriteTo fails; negative: it does not fail
	writesAt sim.Time  // when WriteTo continues; 0: it waits for room, or has returned
	sent     int64     // offset up to which bytes have been sent at least once
	acked    int64     // offset up to which the receiver has the bytes
	owed     bool      // another party must act next: the core must offer the state, or its receiver acknowledge bytes
	since    raft.Time // when owed became true
	looked   raft.Time // when owed was last checked
}

// freezeFor freezes the state of a DurableFSM for a stream.
func (n *node) freezeFor(take raft.Take) {
	v, s := &n.vault, &n.c.profile.Snapshots
	if n.disk.random.Chance(s.Failures) {
		n.post(raft.SnapshotTaken{Take: take.ID, Err: errWriteTo})
		return
	}
	n.c.check.checkFreeze(n)
	now := n.now().Mono
	v.held = &heldState{file: n.capture(take.Base), failsAt: -1, owed: true, since: now, looked: now}
	h := v.held
	n.c.check.checkCaptured(n, &h.file)
	if n.disk.random.Chance(s.Failures) {
		h.failsAt = n.disk.random.IntN(len(h.file.payload))
	}
	n.c.stats.Freezes++
	offered := h.file.snapshot
	offered.Size, offered.Sum, offered.Held = -1, 0, true
	n.post(raft.SnapshotTaken{Take: take.ID, Snapshot: offered})
}

// holds reports whether a snapshot is the frozen state of this member.
func (v *vault) holds(s *raft.Snapshot) bool {
	return v.held != nil && v.held.file.snapshot.File == s.File
}

// streamHeld begins the only stream of a frozen state. There can be no second stream, because WriteTo is called only once.
// streamHeld returns false if that stream has already ended. In this case the core has already made the offer, but the offer
// is not sent.
func (n *node) streamHeld(offer raft.Message, s *raft.Snapshot) bool {
	v := &n.vault
	if !v.holds(s) {
		return false
	}
	h, now := v.held, n.now().Mono
	if h.written > 0 || h.writesAt > 0 {
		n.c.check.broken("N58", "%s streams the frozen state of %v twice", n, s.ID)
		return false
	}
	to := n.c.at(offer.To).index
	v.out[to].close()
	v.out[to] = &outStream{
		Outgoing: pipeline.NewOutgoing(now, offer, n.streamLimits()), to: offer.To, id: s.File, held: true, began: now,
	}
	h.since = now
	n.writeHeldLater()
	return true
}

// writeHeldLater lets WriteTo continue after the time that the state machine needs to read its next bytes.
func (n *node) writeHeldLater() { n.writeHeldIn(n.disk.took(n)) }

func (n *node) writeHeldIn(d sim.Time) {
	n.vault.held.writesAt = n.c.now() + d
	n.later(d, event{kind: evVault, a: vaultWrite})
}

// writeHeld lets WriteTo write its next bytes.
func (n *node) writeHeld() {
	v := &n.vault
	h := v.held
	if h == nil || n.c.now() < h.writesAt || h.writesAt == 0 {
		return // the freeze that this write belonged to has ended
	}
	to := slices.IndexFunc(v.out, func(o *outStream) bool { return o != nil && o.held })
	if h.writesAt = 0; to < 0 {
		return
	}
	next := h.file.payload[h.written:min(len(h.file.payload), h.written+1+n.disk.random.IntN(snapshotSyncBytes))]
	switch h.written += v.out[to].Fill(next); {
	case h.failsAt >= 0 && h.written > h.failsAt:
		v.out[to].Fail(errWriteTo)
	case h.written == len(h.file.payload):
		v.out[to].Filled()
	case v.out[to].Room() > 0:
		n.writeHeldLater()
	}
	n.pump(to)
}

// heldProgress records the bytes that a receiver has acknowledged. If WriteTo waits for room, WriteTo continues.
func (n *node) heldProgress(o *outStream, begun bool) {
	h := n.vault.held
	if acked, _ := o.Acknowledged(); acked > h.acked {
		h.acked, h.since = acked, n.now().Mono
		h.owed = h.sent > acked
	} else if begun && h.sent == acked {
		h.owed = false
	}
	if h.acked == int64(h.written) && o.Room() == 0 && h.written < len(h.file.payload) && !o.Next(n.now().Mono).End {
		n.c.check.broken("N58", "%s has no room for more of the frozen state of %v, but its receiver has all of it so far", n, h.file.snapshot.ID)
	}
	if h.writesAt == 0 && h.written < len(h.file.payload) && o.Room() > 0 {
		n.writeHeldLater()
	}
}

// heldSent records a chunk that leaves.
func (h *heldState) heldSent(now raft.Time, end int64) {
	if h.sent = max(h.sent, end); !h.owed {
		h.owed, h.since = true, now
	}
}

// arrived reports whether the receiver has acknowledged all bytes.
func (h *heldState) arrived() bool { return h.acked == int64(len(h.file.payload)) }

// overdue reports whether another party has exceeded the time in which it must act.
func (h *heldState) overdue(now, timeout raft.Time) bool {
	limit := heldTimeouts * timeout
	if h.arrived() {
		limit = arrivedTimeouts * timeout
	}
	return h.owed && now-h.since > limit
}

// endStream ends the stream to a peer without notifying the core.
func (n *node) endStream(to int) {
	v := &n.vault
	if o := v.out[to]; o != nil && o.held && v.held != nil {
		v.held.owed, v.held.since = true, n.now().Mono
	}
	v.out[to].close()
	v.out[to] = nil
}

// close closes the file of a stream.
func (o *outStream) close() {
	if o != nil && o.file != nil {
		_ = o.file.Close() // the next start removes what this leaves
	}
}

// release releases a frozen state.
func (v *vault) release() {
	v.held = nil
	for i, o := range v.out {
		if o != nil && o.held {
			v.out[i] = nil
		}
	}
}
