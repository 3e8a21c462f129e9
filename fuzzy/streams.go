package fuzzy

import (
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
	"github.com/coxswain/raft/internal/sim"
	"github.com/coxswain/raft/internal/snapfile"
)

// outStream is the stream of a snapshot to a peer.
type outStream struct {
	*pipeline.Outgoing
	to       raft.Peer
	id       raft.SnapshotID
	file     *snapfile.Reader // it may be discarded meanwhile
	held     bool             // the bytes come from a frozen state instead
	began    raft.Time
	lost     raft.Time // when the connection broke; 0: the receiver has answered since
	bytes    int64     // bytes sent, with repetitions
	reported int64     // bytes that the receiver has, as reported to the core
	armed    sim.Time  // when it is pumped again; 0: it waits for an answer
	waits    bool      // it continues by itself: the pace will let it send more, or it will be given up
}

// streamLimits returns the limits of the streams of a member.
func (n *node) streamLimits() pipeline.StreamLimits {
	p := &n.c.profile
	chunk := max(p.Snapshots.ChunkBytes, 1)
	return pipeline.StreamLimits{
		ElectionTimeout: time.Duration(n.timeout()), ChunkBytes: chunk, WindowBytes: chunk * max(p.Snapshots.WindowChunks, 1),
		BytesPerSecond: int64(p.Snapshots.BytesPerSecond), BytesMax: 1 << 40,
	}
}

// A quorum may need a member that first needs a snapshot. If a stream was stalled before the heal, the leader gives it up
// after 64 election timeouts. It offers the snapshot again after a pause of up to 80. On a healed link a chunk takes at most
// an eighth of a unit, with its acknowledgement and its write. In a world that takes time, a chunk takes at most a whole
// unit. A second snapshot may have to follow the first.
const (
	chunksPerUnit    = 8
	brokenStreamTime = 64 + 80
)

// snapshotUnits returns the units needed to bring a follower to a base.
func (p *Profile) snapshotUnits() sim.Time {
	s := &p.Snapshots
	if !s.On {
		return 0
	}
	units := sim.Time(s.BytesMax/s.ChunkBytes + 2)
	if p.World.quiet() {
		units /= chunksPerUnit
	}
	if s.BytesPerSecond > 0 {
		units += sim.In(time.Second) * sim.Time(s.BytesMax) / sim.Time(s.BytesPerSecond) / p.unit()
	}
	return brokenStreamTime + 2*units
}

// offers begins or continues the stream that belongs to an offer. It is called when the offer leaves. It returns false if the
// offer must not leave.
func (n *node) offers(m *raft.Message) bool {
	offer, ok := m.Body.(raft.InstallSnapshot)
	if !ok {
		return true
	}
	to := n.c.at(m.To).index
	switch o := n.vault.out[to]; {
	case o != nil && o.Carries(*m):
	case offer.Snapshot.Held:
		if !n.streamHeld(*m, &offer.Snapshot) {
			return false
		}
	default:
		n.endStream(to)
		if f := &n.disk.files; f.random.Chance(n.c.profile.Snapshots.Failures) { // the process has too many files open
			f.tree.FailOpens(0)
			defer f.tree.FailOpens(-1)
		}
		file, err := n.openSnapshot(offer.Snapshot.File)
		if err != nil {
			n.c.check.checkUnreadable(n, offer.Snapshot.ID, err)
			n.post(raft.SnapshotSent{To: m.To, File: offer.Snapshot.File, Err: err})
			return true
		}
		stream := pipeline.NewOutgoing(n.now().Mono, *m, n.streamLimits())
		n.vault.out[to] = &outStream{Outgoing: stream, to: m.To, id: offer.Snapshot.File, file: file, began: n.now().Mono}
	}
	n.pump(to)
	return true
}

// pump carries out the next request of the stream to a peer.
func (n *node) pump(to int) {
	for o := n.vault.out[to]; o != nil && n.core != nil; {
		now := n.now().Mono
		ask := o.Next(now)
		o.waits = ask.Wake > 0
		switch {
		case ask.End:
			n.endStream(to)
			if o.held {
				n.vault.release()
			}
			n.c.stats.Streams++
			n.post(raft.SnapshotSent{To: o.to, File: o.id, Err: ask.Err})
			return
		case ask.Chunk:
			n.sendChunk(o, now, ask)
		default:
			if ask.Wake > 0 {
				n.wakeVault(&o.armed, ask.Wake, vaultPump+int64(to))
			}
			return
		}
	}
}

func (n *node) sendChunk(o *outStream, now raft.Time, ask pipeline.Ask) {
	data, end := []byte(nil), ask.At+int64(ask.Bytes)
	n.c.check.checkStream(n, o, end)
	if o.held { // Outgoing keeps the bytes
		n.vault.held.heldSent(now, end)
	} else if data = make([]byte, ask.Bytes); ask.Bytes > 0 {
		if _, err := o.file.ReadAt(data, ask.At); err != nil {
			n.c.check.checkUnreadable(n, o.file.Snapshot().ID, err)
			o.Fail(err)
			return
		}
	}
	if m, ok := o.Chunk(now, ask.At, data); ok {
		n.c.check.checkChunk(n, o, &m, ask.Bytes)
		n.transmit(m, 64+ask.Bytes)
	}
}

// streamed takes a message of a stream. The core does not see such a message. streamed returns false for any other message.
func (n *node) streamed(m raft.Message) bool {
	now := n.now().Mono
	switch m.Body.(type) {
	case raft.SnapshotChunk:
		if v := &n.vault; len(v.waiting) < n.c.profile.Snapshots.WindowChunks {
			v.waiting = append(v.waiting, m)
		}
		n.takeChunks()
	case raft.SnapshotProgress:
		from := n.c.at(m.From).index
		if o := n.vault.out[from]; o != nil {
			o.Progress(now, m)
			o.lost = 0
			if done, _ := o.Acknowledged(); done > o.reported {
				o.reported = done
				n.post(raft.SnapshotSending{To: o.to, File: o.id, Bytes: done})
			}
			if o.held {
				n.heldProgress(o, m.Body.(raft.SnapshotProgress).Begin)
				done, _ := o.Acknowledged()
				n.post(raft.SnapshotSending{To: o.to, File: o.id, Bytes: done})
			}
			n.pump(from)
		}
	default:
		return false
	}
	return true
}

// isStream reports whether a message belongs to a stream.
func isStream(b raft.Body) bool {
	switch b.(type) {
	case raft.SnapshotChunk, raft.SnapshotProgress:
		return true
	}
	return false
}

// takeChunks begins the requested stream and processes the waiting chunks, until the disk has work for the stream.
func (n *node) takeChunks() {
	v := &n.vault
	if v.asked != nil && !v.busy() {
		w := v.in.Receive(n.now().Mono, *v.asked, n.space().Room())
		if v.asked = nil; w.Open != nil {
			n.c.check.checkRoomTaken(n, w.Open.Size)
		}
		n.act(w)
		n.expireLater()
	}
	for len(v.waiting) > 0 && !v.busy() {
		m := v.waiting[0]
		v.waiting = v.waiting[1:]
		n.act(v.in.Chunk(n.now().Mono, m))
		n.expireLater()
	}
}

func (v *vault) busy() bool { return v.work.Open != nil || v.work.Write != nil || v.work.Finish != nil }

// act does the work of the receiving side.
func (n *node) act(w pipeline.Work) {
	v := &n.vault
	if w.Abort && v.spool != nil {
		_ = v.spool.Abort() // the next start removes what this leaves
		v.spool = nil
	}
	for _, m := range w.Send {
		n.c.check.checkDone(n, &m)
		n.transmit(m, 64)
	}
	if w.Arrived != nil {
		n.post(*w.Arrived)
	}
	if w.Open == nil && w.Write == nil && w.Finish == nil {
		return
	}
	v.work = w
	took := n.disk.tookBytes(n, len(w.Write))
	if w.Finish != nil && !n.disk.healed && n.disk.random.IntN(lateFinish) == 0 {
		took += n.disk.random.Exponential(2 * n.c.profile.ElectionTimeout)
	}
	n.vaultIn(took, vaultSpool)
}

// lateFinish is the mean number of received files per file with a slow last sync. A slow sync takes about as long as an
// election, because the disk has much else to sync. Meanwhile another leader may bring the member up to date.
const lateFinish = 4

// writeSpool does the disk's work for the receiving side.
func (n *node) writeSpool() (err error) {
	v, dir := &n.vault, n.files()
	switch w := v.work; {
	case w.Open != nil:
		v.spool, err = dir.Create(w.Open.File)
	case w.Write != nil:
		_, err = v.spool.Write(w.Write)
	case w.Finish != nil:
		err = v.spool.Finish(*w.Finish)
	}
	return err
}

// spooled ends the disk's work for the receiving side.
func (n *node) spooled() {
	v := &n.vault
	w, why := v.work, raft.StreamRefusal(0)
	if n.writeSpool() != nil {
		why = raft.StreamFailed
	}
	v.work = pipeline.Work{}
	switch {
	case w.Open != nil:
		n.act(v.in.Opened(why))
	case w.Write != nil:
		next := v.in.Written(n.space().Room(), why)
		if !next.Abort {
			n.c.check.checkRoomTaken(n, 0)
		}
		n.act(next)
	case w.Finish != nil:
		if why == 0 {
			v.spool = nil
			n.c.check.checkArrived(n, w.Finish)
		}
		n.act(v.in.Finished(why))
	}
	n.takeChunks()
}

func (n *node) expireLater() {
	if wake := n.vault.in.Wake(); wake > 0 {
		n.wakeVault(&n.vault.expires, wake, vaultExpire)
	}
}

// wakeVault schedules an event for a local time, unless an earlier event is already scheduled.
func (n *node) wakeVault(armed *sim.Time, at raft.Time, a int64) {
	due := n.c.now() + max(sim.Time(at-n.now().Mono), sim.In(time.Microsecond))
	if *armed == 0 || due < *armed {
		*armed = due
		n.c.queue.Push(due, event{kind: evVault, node: int16(n.index), life: n.life, a: a})
	}
}
