package fuzzy

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/crashdisk"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/snapfile"
)

// The invariants of snapshots.
//
//	G9   A snapshot's data about its last entry and the cluster is committed. The snapshot holds the state that the committed entries up to its last entry produce. (§7)
//	N47  A snapshot is installed only if the log does not hold its last entry, and it is recorded before the log is replaced. (Figure 13)
//	N49  The bytes in a file, and the bytes that arrive by a stream, are exactly the bytes of the snapshot that was taken.
//	N50  A file is complete and durable before a record names it. It is discarded only if no durable record names it. A start leaves only the file that the record names. A completed file is recorded or discarded at once. A process has only the files open that its work needs, and keeps no others.
//	N51  A snapshot holds exactly the state at the entry that the core has named, and at most one is being taken.
//	N56  No snapshot takes the room on the disk that is reserved for the log.
//	N58  At most one state is frozen, and it is streamed once. If the receiver acknowledges nothing, the state is held for at most ten election timeouts.
//	N62  A restoration begins only when its record is durable, and moves the state machine forward. (Figure 13)
//	N64  The bytes of snapshots leave on their own lane, no faster than the limit of their stream.
//
// N61 is also checked here.

// checkBase checks the beginning of a log on the disk.
func (k *checker) checkBase(n *node) {
	base := n.disk.base.ID
	if base.Index > k.committed() || k.canonical[base.Index-1].id != base {
		k.broken("N61", "%s: the log begins after %v, which is not committed", n, base)
	}
	durable := n.disk.saved.applied.Index
	if n.disk.snapshot.File != (raft.SnapshotID{}) {
		durable = max(durable, n.disk.snapshot.ID.Index)
	}
	if base.Index > durable {
		k.broken("N61", "%s: the log begins after %v, but the durable state ends with %d", n, base, durable)
	}
}

// checkTake checks a snapshot that the core requests.
func (k *checker) checkTake(n *node, t *raft.Take) {
	v := &n.vault
	if v.take != nil && !v.needless || v.writing && !v.needless {
		k.broken("N51", "%s requests a snapshot of %v while one is being taken", n, t.ID)
	}
	if n.applied > t.ID.Index {
		k.broken("N51", "%s requests a snapshot of %v, but has applied %d", n, t.ID, n.applied)
	}
	k.checkSnapshotBase(n, &t.Base)
}

// heldTimeouts is the number of election timeouts for which a member holds a frozen state without progress. It includes one
// election timeout for late timers.
const heldTimeouts = 10 + 1

// arrivedTimeouts is the number of election timeouts for which a frozen state remains after its receiver has acknowledged all
// bytes. The stream waits 64 election timeouts for the receiver to sync the bytes. If the connection breaks, the stream waits
// 10 more for an answer to the next offer. WriteTo has already returned, so the frozen state costs its state machine nothing.
const arrivedTimeouts = 64 + 10 + 1

// checkFreeze checks that the member holds no other frozen state.
func (k *checker) checkFreeze(n *node) {
	if h := n.vault.held; h != nil {
		k.broken("N58", "%s freezes a state while it holds that of %v", n, h.file.snapshot.ID)
	}
}

// checkHeldState checks the time for which a state has been frozen without progress. It does not count the time in which the
// process was paused.
func (k *checker) checkHeldState(n *node) {
	h, now, timeout := n.vault.held, n.now().Mono, raft.Time(n.timeout())
	if h == nil {
		return
	}
	if stood := now - h.looked; stood > timeout/2 {
		h.since += stood
	}
	h.looked = now
	if h.overdue(now, timeout) {
		k.broken("N58", "%s holds the frozen state of %v, without an acknowledgement since %v", n, h.file.snapshot.ID, h.since)
	}
}

// checkSnapshotBase checks what a base says.
func (k *checker) checkSnapshotBase(n *node, b *raft.Base) {
	i := b.ID.Index
	if i == 0 || i > k.committed() || k.canonical[i-1].id != b.ID {
		k.broken("G9", "%s has a snapshot of %v, which is not committed", n, b.ID)
		return
	}
	if k.first == nil {
		first, err := raft.DecodeBootstrap(k.canonical[0].slot.entry.Data)
		if err != nil {
			k.broken("G9", "entry 1 does not decode: %v", err)
			return
		}
		k.first = &first
	}
	first, config := k.first, k.canonical[i-1].slot.config
	if cmp.Or(k.c.id, first.Cluster) != b.Cluster || first.Bootstrapper != b.Bootstrapper || b.ConfigIndex != config.index ||
		!config.Equal(b.Config) || b.Time < k.canonical[i-1].slot.entry.Time {
		k.broken("G9", "%s has a snapshot of %v that says something untrue about the cluster: %+v", n, b.ID, *b)
	}
}

// checkCaptured checks the state of a snapshot, and records its bytes.
func (k *checker) checkCaptured(n *node, f *snapFile) {
	k.checkContent(n, f)
	if k.payloads == nil {
		k.payloads = map[raft.SnapshotID][]byte{}
	}
	k.payloads[f.snapshot.File] = f.payload
}

// checkContent checks that a file holds the state at the file's entry.
func (k *checker) checkContent(n *node, f *snapFile) {
	k.checkSnapshotBase(n, &f.snapshot.Base)
	m := newMachine(&k.c.profile)
	if i := f.snapshot.ID.Index; k.c.failure == nil && (!m.decode(f.payload) || m.digest() != k.canonical[i-1].state) {
		k.broken("G9", "%s has a snapshot of %v that holds another state", n, f.snapshot.ID)
	}
}

// checkArrived checks a snapshot that has arrived by a stream.
func (k *checker) checkArrived(n *node, s *raft.Snapshot) {
	k.checkDurableFile(n, s)
	k.checkContent(n, &snapFile{*s, k.payloads[s.File]})
}

// checkFinished checks some of the snapshot files that members have written themselves.
func (k *checker) checkFinished(n *node, s *raft.Snapshot) {
	if n.disk.files.random.IntN(4) == 0 {
		k.checkDurableFile(n, s)
	}
}

// checkDurableFile checks that a file would survive a power cut now. It must then hold the bytes of the snapshot that was
// taken.
func (k *checker) checkDurableFile(n *node, s *raft.Snapshot) {
	if n.disk.files.spoiled {
		return
	}
	disk := n.disk.files.tree.Clone()
	disk.Cut(crashdisk.KeepNothing)
	files := snapfile.OpenSized(disk.FS(), snapshotsPath, n.c.profile.fileSizes())
	payload, err := read(files.OpenRecorded(*s))
	if err != nil {
		k.broken("N50", "%s has a snapshot of %v whose file would not survive a power cut: %v", n, s.ID, err)
	} else if taken, known := k.payloads[s.File]; !known || !bytes.Equal(taken, payload) {
		k.broken("N49", "%s has bytes for %v that differ from those taken", n, s.ID)
	}
}

// checkDurableName checks that a file would survive a power cut now. Unlike checkDurableFile, it does not check the bytes,
// because they were checked when the file was completed.
func (k *checker) checkDurableName(n *node, s *raft.Snapshot) {
	disk := n.disk.files.tree.Clone()
	disk.Cut(crashdisk.KeepNothing)
	if _, err := disk.FS().Open(pathOf(s.File)); err != nil && !n.disk.files.spoiled {
		k.broken("N50", "%s records a snapshot of %v whose file would not survive a power cut: %v", n, s.ID, err)
	}
}

// checkUnreadable checks that a member has a reason to fail when it reads a snapshot.
func (k *checker) checkUnreadable(n *node, id raft.EntryID, err error) {
	var corrupt *raft.CorruptError
	damaged := errors.As(err, &corrupt)
	if damaged && n.disk.files.spoiled || !damaged && (errors.Is(err, syscall.EIO) || files.NoDescriptor(err) || n.disk.wasRemoved(err)) {
		return
	}
	k.broken("N50", "%s cannot read its snapshot of %v: %v", n, id, err)
}

// wasRemoved reports whether the error says that a file is missing, and a fault has removed that file. A leader may still
// send that file although the leader has recorded a newer one. If the recorded file is missing, the error is a
// *raft.CorruptError instead.
func (d *disk) wasRemoved(err error) bool {
	var missing *fs.PathError
	return errors.Is(err, fs.ErrNotExist) && errors.As(err, &missing) && missing.Path == d.files.removed &&
		missing.Path != pathOf(d.snapshot.File)
}

// checkRoomTaken checks that a snapshot may take more bytes on the disk. If more is -1, the size is unknown, and only the
// present size is checked.
func (k *checker) checkRoomTaken(n *node, more int64) {
	f, reserve := &n.disk.files, int64(n.c.profile.Snapshots.ReserveBytes)
	if reserve == 0 {
		reserve = 1 << 20 // more than any simulated log needs
	}
	if f.fullTill > n.c.now() && f.free-f.tree.Used()-reserve < max(more, 0) {
		k.broken("N56", "%s writes %d bytes of a snapshot to a disk with %d free bytes, of which %d are reserved", n, more, f.free-f.tree.Used(), reserve)
	}
}

// checkChunk checks a chunk that is about to leave. A burst of two chunks may leave at once, and a third chunk may leave on
// credit.
func (k *checker) checkChunk(n *node, o *outStream, m *raft.Message, bytes int) {
	p, took := n.streamLimits(), n.now().Mono-o.began
	o.bytes += int64(bytes)
	if m.Lane() != raft.LaneSnapshot {
		k.broken("N64", "%s sends a chunk on the lane %v", n, m.Lane())
	}
	if most := 3*int64(p.ChunkBytes) + int64(took)*p.BytesPerSecond/int64(time.Second); p.BytesPerSecond > 0 && o.bytes > most {
		k.broken("N64", "%s has sent %d bytes of a snapshot in %v, over the limit of %d bytes per second", n, o.bytes, time.Duration(took), p.BytesPerSecond)
	}
}

// checkRecord checks a record of a snapshot that is about to become durable.
func (k *checker) checkRecord(n *node, s *raft.Snapshot) {
	k.checkSnapshotBase(n, &s.Base)
	if s.File != (raft.SnapshotID{}) {
		k.checkDurableName(n, s)
	}
	if s.File == (raft.SnapshotID{}) && s.ID.Index > n.disk.saved.applied.Index {
		k.broken("N57", "%s records that its state machine holds %v, but it has synced only %v", n, s.ID, n.disk.saved.applied)
	}
	if s.ID.Index < n.disk.snapshot.ID.Index {
		k.broken("N51", "%s records a snapshot of %v over that of %v", n, s.ID, n.disk.snapshot.ID)
	}
}

// checkCleaned checks the files that remain after a start has removed the others.
func (k *checker) checkCleaned(n *node) {
	list, err := n.disk.files.tree.Clone().FS().List(snapshotsPath)
	recorded := n.disk.files.dir.Path(n.disk.snapshot.File)
	for _, file := range list {
		if filepath.Join(snapshotsPath, file.Name) != recorded {
			k.broken("N50", "%s starts and leaves %s, which no record names", n, file.Name)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.broken("N50", "%s starts, but its files cannot be listed: %v", n, err)
	}
}

// checkHeldFiles checks which files a process has open and keeps, when it ends and at the end of the run.
func (k *checker) checkHeldFiles(n *node) {
	f, v := &n.disk.files, &n.vault
	if n.core == nil || f.dir == nil {
		return
	}
	writers, readers := 0, 0
	for _, w := range []*snapfile.Writer{v.file, v.spool} {
		if w != nil {
			writers++
		}
	}
	for _, o := range v.out {
		if o != nil && o.file != nil {
			readers++
		}
	}
	if open := f.tree.OpenFiles(); open != writers+readers {
		k.broken("N50", "%s has %d files open, but writes %d and reads %d", n, open, writers, readers)
	}
	// Besides the recorded one, a file that was taken and one that arrived may wait to be recorded or discarded.
	if parts, others := n.needless(); parts > writers || others > 2 {
		k.broken("N50", "%s keeps %d unfinished files, of which it writes %d, and %d finished ones that it neither records nor reads",
			n, parts, writers, others)
	}
}

// needless counts the unfinished files of a process, and the finished ones that it neither records nor reads.
func (n *node) needless() (parts, others int) {
	f := &n.disk.files
	if f.dir == nil || f.failed { // the next start removes what could not be removed
		return 0, 0
	}
	list, _ := f.tree.Clone().FS().List(snapshotsPath)
	for _, file := range list {
		path := filepath.Join(snapshotsPath, file.Name)
		switch {
		case strings.HasSuffix(path, ".part"):
			parts++
		case path != pathOf(n.disk.snapshot.File) && !slices.ContainsFunc(n.vault.out, func(o *outStream) bool {
			return o != nil && o.file != nil && pathOf(o.id) == path
		}):
			others++
		}
	}
	return parts, others
}

// checkCompletedFiles checks that the core records or discards each file that its host has completed.
func (k *checker) checkCompletedFiles(n *node, events []raft.Event, out *raft.Output) {
	for _, e := range events {
		taken, _ := e.(raft.SnapshotTaken)
		arrived, _ := e.(raft.SnapshotArrived)
		s := cmp.Or(taken.Snapshot.File, arrived.Snapshot.File)
		names := func(w raft.Write) bool { return w.Snapshot != nil && w.Snapshot.File == s }
		counts := n.disk.snapshot.File == s || names(out.Write) || slices.ContainsFunc(n.queue, names)
		discarded := out.Keep != nil && slices.Contains(out.Keep.Discard, s)
		if s != (raft.SnapshotID{}) && !taken.Snapshot.Held && !n.doomed && !counts && !discarded {
			k.broken("N50", "%s neither records nor discards a snapshot that its host has completed: %+v", n, e)
		}
	}
}

// checkDone checks that a member has the file of a stream that it calls complete.
func (k *checker) checkDone(n *node, m *raft.Message) {
	if p, ok := m.Body.(raft.SnapshotProgress); ok && p.Done && n.disk.files.removed != pathOf(p.File) {
		if _, err := n.disk.files.tree.Clone().FS().Open(pathOf(p.File)); errors.Is(err, fs.ErrNotExist) {
			k.broken("N50", "%s has the whole stream of %s, but no such file", n, k.c.title(m.To))
		}
	}
}

// checkDiscard checks a file that is to be deleted.
func (k *checker) checkDiscard(n *node, id raft.SnapshotID) {
	if n.disk.snapshot.File == id {
		k.broken("N50", "%s discards the file of its recorded snapshot", n)
	}
	if f := &n.disk.files; f.removed == pathOf(id) {
		f.removed = "" // from now on, nobody may rely on it
	}
}

// checkRestoration checks the beginning of a restoration.
func (k *checker) checkRestoration(n *node, s *raft.Snapshot) {
	if n.disk.snapshot.File != s.File || n.disk.snapshot.ID != s.ID {
		k.broken("N62", "%s is to restore %v, but its disk records %v", n, s.ID, n.disk.snapshot.ID)
	}
	if s.ID.Index <= n.applied {
		k.broken("N62", "%s is to restore %v, but has applied %d", n, s.ID, n.applied)
	}
}

// checkRestoredBytes checks the bytes from which a state machine is restored.
func (k *checker) checkRestoredBytes(n *node, s *raft.Snapshot, payload []byte) bool {
	taken, known := k.payloads[s.File]
	if !known || !bytes.Equal(taken, payload) {
		k.broken("N49", "%s restores %v from bytes that differ from those taken", n, s.ID)
		return false
	}
	return true
}

// checkInstall checks a write that replaces the log.
func (k *checker) checkInstall(n *node, w *raft.Write) {
	id := w.Log.After
	if w.Snapshot == nil || w.Snapshot.ID != id {
		k.broken("N47", "%s replaces its log by %v, but records no snapshot of it", n, id)
	}
	if n.holds(id) {
		k.broken("N47", "%s installs a snapshot of %v, which its log holds", n, id)
	}
}

// prefix returns the committed log up to an entry. This log replaces the log of a member that installs a snapshot.
func (k *checker) prefix(n *node, id raft.EntryID) []slot {
	if id.Index > k.committed() || id.Index > 0 && k.canonical[id.Index-1].id != id {
		k.broken("N47", "%s replaces its log by %v, which is not committed", n, id)
		return nil
	}
	log := make([]slot, id.Index)
	for i := range log {
		log[i] = k.canonical[i].slot
	}
	return log
}

// restoring returns the entry up to which an output restores the state machine.
func restoring(out *raft.Output) raft.Index {
	if out.Restore == nil {
		return 0
	}
	return out.Restore.ID.Index
}
