package fuzzy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
	"github.com/coxswain/raft/internal/sim"
	"github.com/coxswain/raft/internal/snapfile"
)

// snapFile is a snapshot with the bytes of its file.
type snapFile struct {
	snapshot raft.Snapshot
	payload  []byte
}

// vault is the part of a process that handles snapshots.
type vault struct {
	take      *raft.Take // requested; the applier has not reached its entry yet
	writing   bool       // the snapshot taken is being written
	taken     snapFile
	file      *snapfile.Writer // its file; nil: not created yet
	wrote     int              // bytes written to file
	needless  bool             // an install has made this snapshot, or the next one, superfluous
	restore   *raft.Snapshot
	installed bool         // the log was replaced, but the machine is not restored yet
	out       []*outStream // by peer
	redials   []sim.Time   // by peer: when it is dialed again
	held      *heldState   // the frozen state of a DurableFSM; nil: none
	syncing   bool         // the restored state is being synced
	in        *pipeline.Incoming
	work      pipeline.Work // the work that the stream in waits for
	spool     *snapfile.Writer
	asked     *raft.Receive  // waits for that work
	waiting   []raft.Message // chunks that wait for that work, at most a window of them
	expires   sim.Time       // when the stream in is checked next; 0: never

	ends [vaultEnds]sim.Time // by kind of event: when that work of the disk ends; 0: no such work
}

// The kinds of an evVault event.
const (
	vaultTaken int64 = iota
	vaultRestored
	vaultSynced
	vaultSpool
	vaultEnds // number of kinds above, each of which ends some work of the disk
	vaultWrite
	vaultExpire
	vaultPump // plus the number of the peer
)

var errWriteTo = errors.New("fuzzy: the snapshot was not written")

// beginVault prepares the snapshots of a process that starts. It returns false if the process ends at once.
func (n *node) beginVault() bool {
	n.vault = vault{out: make([]*outStream, len(n.c.nodes)), redials: make([]sim.Time, len(n.c.nodes))}
	n.vault.in = pipeline.NewIncoming(n.peer(), n.streamLimits())
	return n.cleanFiles()
}

// endInstall makes the log begin after the recorded snapshot, if the log does not hold the snapshot's entry. In this case a
// crash came after the write of the record and before the reset of the log.
func (d *disk) endInstall(n *node) {
	id := d.snapshot.ID
	if id.Index == 0 || id.Index <= d.base.ID.Index || int(id.Index) <= len(d.log) && d.log[id.Index-1].entry.ID() == id {
		return
	}
	d.log, d.base = n.c.check.prefix(n, id), d.snapshot.Base
	n.compactSegments(true)
	n.c.stats.EndedInstalls++
}

// keepSnapshots carries out an output's instructions about snapshots.
func (n *node) keepSnapshots(k *raft.Keep) {
	v := &n.vault
	for _, p := range k.Stop {
		n.endStream(n.c.at(p).index)
	}
	for _, id := range k.Discard {
		n.c.check.checkDiscard(n, id)
		if v.holds(&raft.Snapshot{File: id}) {
			v.release()
		}
		v.in.Discarded(id)
		_ = n.files().Discard(id) // the next start removes what this leaves
	}
	if k.Take != nil {
		n.c.check.checkTake(n, k.Take)
		take := *k.Take
		v.take, v.needless = &take, false
		n.takeIfReached()
	}
	if k.Receive != nil {
		v.asked = k.Receive
		n.takeChunks()
	}
}

// takeIfReached freezes the machine once it has applied exactly the entries of the requested snapshot. Then it begins to
// write the snapshot.
func (n *node) takeIfReached() {
	v := &n.vault
	if v.take == nil || v.writing || n.hang.batch.Index > 0 || v.restore != nil || v.installed || n.applied != v.take.ID.Index {
		return
	}
	take := *v.take
	v.take = nil
	switch {
	case take.Sync:
		n.syncFor(take)
		return
	case take.Hold:
		n.freezeFor(take)
		return
	}
	f := n.capture(take.Base)
	longer := n.hosted.freeze(take.ID)
	n.c.check.checkCaptured(n, &f)
	v.writing, v.taken, v.file, v.wrote = true, f, nil, 0
	size := n.announced(&f)
	if err := n.space().Begin(size, n.disk.snapshot.Size); err != nil {
		n.endTaking(err)
		return
	}
	n.c.check.checkRoomTaken(n, size)
	n.vaultIn(n.disk.took(n)+longer, vaultTaken)
}

// syncFor makes the state of a DurableFSM durable.
func (n *node) syncFor(take raft.Take) {
	n.disk.saved.machine.become(n.machine)
	n.disk.saved.applied = n.told(take.ID.Index)
	reported := raft.Snapshot{Base: take.Base}
	reported.ID = n.disk.saved.applied
	n.post(raft.SnapshotTaken{Take: take.ID, Snapshot: reported})
}

// capture returns a snapshot file with the present state.
func (n *node) capture(base raft.Base) snapFile {
	filler := n.disk.random.LogUniform(1, n.c.profile.Snapshots.BytesMax)
	f := snapFile{payload: n.machine.encode(filler, n.disk.random.Uint64())}
	f.snapshot = raft.Snapshot{Base: base, Size: int64(len(f.payload)), Sum: crc32.Checksum(f.payload, castagnoli)}
	binary.LittleEndian.PutUint64(f.snapshot.File[:], n.disk.random.Uint64()|1)
	return f
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// writeOn writes the next piece of the snapshot that is being taken.
func (n *node) writeOn() {
	if n.vault.file == nil && !n.hosted.written(&n.vault.taken) {
		n.endTaking(errWriteTo)
		return
	}
	done, err := n.writeTaken()
	if err == nil && !done {
		n.vaultIn(n.disk.took(n), vaultTaken)
		return
	}
	n.endTaking(err)
}

// writeTaken does the disk's work for the next piece of the snapshot, or completes the file.
func (n *node) writeTaken() (done bool, err error) {
	v := &n.vault
	if v.file == nil {
		if v.file, err = n.files().Create(v.taken.snapshot.File); err != nil {
			return false, err
		}
	}
	if rest := v.taken.payload[v.wrote:]; len(rest) > 0 {
		if err := n.space().Left(0); err != nil {
			return false, err
		}
		n.c.check.checkRoomTaken(n, 0)
		written, err := v.file.Write(rest[:min(len(rest), snapshotSyncBytes)])
		v.wrote += written
		return false, err
	}
	if n.disk.random.Chance(n.c.profile.Snapshots.Failures) {
		return false, errWriteTo
	}
	return true, v.file.Finish(v.taken.snapshot)
}

// endTaking ends the writing of a snapshot.
func (n *node) endTaking(err error) {
	v := &n.vault
	f, file := v.taken, v.file
	v.writing, v.taken, v.file = false, snapFile{}, nil
	if err == nil {
		n.c.check.checkFinished(n, &f.snapshot)
		n.post(raft.SnapshotTaken{Take: f.snapshot.ID, Snapshot: f.snapshot})
	} else {
		n.hosted.abandon()
		if file != nil {
			_ = file.Abort() // the next start removes what this leaves
		}
		n.post(raft.SnapshotTaken{Take: f.snapshot.ID, Err: err})
	}
	n.takeIfReached()
	n.applyOn() // the applier may have waited to freeze the next one
}

// restoreLater schedules the restoration of the machine from a snapshot.
func (n *node) restoreLater(s raft.Snapshot) {
	n.c.check.checkRestoration(n, &s)
	n.vault.restore, n.vault.take, n.vault.installed, n.vault.needless = &s, nil, true, true
	n.applyTo = s.ID
	n.vaultIn(n.disk.tookBytes(n, int(s.Size)), vaultRestored)
}

func (n *node) restored() {
	v := &n.vault
	s := v.restore
	if s == nil || n.hang.batch.Index > 0 {
		return
	}
	payload, err := n.readSnapshot(s)
	if err != nil {
		n.cannotRead(s.ID, err)
		return
	}
	if !n.c.check.checkRestoredBytes(n, s, payload) || !n.machine.decode(payload) {
		return
	}
	n.hosted.restore(s.ID, payload)
	if n.c.profile.Node.Durable {
		v.syncing = true
		n.vaultIn(n.disk.tookBytes(n, len(payload)), vaultSynced)
		return
	}
	n.serveRestored()
}

// serveRestored continues after the machine has adopted the state of a snapshot.
func (n *node) serveRestored() {
	v := &n.vault
	s := v.restore
	v.restore, v.installed, v.syncing = nil, false, false
	n.applied = s.ID.Index
	n.appliedMost = max(n.appliedMost, n.applied)
	n.c.check.checkState(n)
	n.c.stats.Restores++
	n.c.work.appliedOn(n)
	n.post(raft.Applied{ID: s.ID})
	n.applyOn()
}

// vaultIn schedules, or reschedules, the end of the disk's work for snapshots.
func (n *node) vaultIn(d sim.Time, a int64) {
	n.vault.ends[a] = n.c.now() + d
	n.later(d, event{kind: evVault, a: a})
}

// endVault ends the work for snapshots of a disk that works again.
func (n *node) endVault() {
	v := &n.vault
	for a, at := range v.ends {
		if at > n.c.now() {
			n.vaultIn(0, int64(a))
		}
	}
	if v.held != nil && v.held.writesAt > n.c.now() {
		n.writeHeldIn(0)
	}
}

// vaultEvent handles an event of the vault.
func (n *node) vaultEvent(a int64) {
	if a < vaultEnds {
		if at := n.vault.ends[a]; at == 0 || n.c.now() < at {
			return // it was rescheduled
		}
		n.vault.ends[a] = 0
	}
	switch a {
	case vaultTaken:
		n.writeOn()
	case vaultRestored:
		n.restored()
	case vaultSynced:
		n.restoredSynced()
	case vaultWrite:
		n.writeHeld()
	case vaultSpool:
		n.spooled()
	case vaultExpire:
		if n.c.now() >= n.vault.expires {
			n.vault.expires = 0
			n.act(n.vault.in.Expire(n.now().Mono))
			n.expireLater()
		}
	default:
		if o := n.vault.out[a-vaultPump]; o != nil && n.c.now() >= o.armed {
			o.armed = 0
			n.pump(int(a - vaultPump))
		}
	}
}

// tookBytes draws the time that the disk needs to write and sync this many bytes.
func (d *disk) tookBytes(n *node, size int) sim.Time {
	took := d.took(n)
	for written := snapshotSyncBytes; written < size; written += snapshotSyncBytes {
		took += d.took(n)
	}
	return took
}

// snapshotSyncBytes is the number of bytes after which a snapshot file is synced.
const snapshotSyncBytes = 4096

// encode returns the state, followed by filler bytes. The salt makes all bytes of two snapshots of the same state differ, so
// that the checker notices a mixture of both.
func (m *machine) encode(filler int, salt uint64) []byte {
	if m.ledger != nil {
		return m.ledger.encode(filler, salt)
	}
	return m.encodeAlone(filler, salt)
}

// encodeAlone returns the state without a table of sessions.
func (m *machine) encodeAlone(filler int, salt uint64) []byte {
	b := binary.LittleEndian.AppendUint64(nil, salt)
	b = binary.LittleEndian.AppendUint64(b, m.history^salt)
	for _, v := range m.values {
		b = binary.LittleEndian.AppendUint64(b, v^salt)
	}
	return append(b, bytes.Repeat([]byte{byte(salt)}, filler)...)
}

// machineBytes returns the length of an encoded state.
func machineBytes(keys int) int { return 16 + 8*keys }

// decode adopts a state that encode has returned.
func (m *machine) decode(b []byte) bool {
	if m.ledger != nil {
		return m.ledger.decode(b)
	}
	return m.decodeAlone(b)
}

func (m *machine) decodeAlone(b []byte) bool {
	if len(b) < machineBytes(len(m.values)) {
		return false
	}
	salt := binary.LittleEndian.Uint64(b)
	m.history, m.contents = binary.LittleEndian.Uint64(b[8:])^salt, 0
	for key := range m.values {
		v := binary.LittleEndian.Uint64(b[16+8*key:]) ^ salt
		m.values[key] = v
		m.contents ^= mix(uint64(key), 0) ^ mix(uint64(key), v)
	}
	return true
}
