package fuzzy

import (
	"slices"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/crashdisk"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/pipeline"
	"github.com/coxswain/raft/internal/segments"
	"github.com/coxswain/raft/internal/sim"
)

// logPath is the directory of the segments on a simulated disk.
const logPath = "log"

// segmented is the part of a disk that holds the log in segments. The production code of the library writes and reads the
// segments. The other fields of the disk hold the data that a store keeps in bbolt.
type segmented struct {
	random  *sim.Stream
	stats   *SegmentStats
	tree    *crashdisk.Tree
	catalog segments.Catalog // as last made durable
	hinted  raft.Index       // the commit index stored with the catalog
	log     *segments.Log    // of the running process

	ahead    bool             // the running write is already made; its end waits for room on the disk
	of       raft.Incarnation // to which the segments belong; 0: to that of the disk
	cut      *raft.LogWrite   // what a process was writing when it ended, of which any prefix may be there; nil: nothing
	late     bool             // the power is off, but what was being kept at that moment may still become durable
	failing  bool             // a sync or another call of the next write fails
	failed   failedWrite      // of the running process
	reached  raft.Index       // the commit index in the recorded batches, up to the end of the log
	written  uint64           // bytes of all entries ever written
	told     raft.Index       // the highest commit index ever written
	recent   [2]appended      // the last writes, newest first: damage to them may be taken for an interrupted write
	fullTill sim.Time         // the disk has no room for another segment before this time
	full     bool             // the disk takes no other write until then, either
	waited   bool             // the running write has waited for room
	readTo   raft.Index       // where a slow reader is
	tended   bool             // the process will maintain its segments later
	handOver pipeline.FullDiskTransfer
	shortening
	former   []byte // an earlier content of a file, which may be put back
	formerAt string // its path
	spoiled  bool   // a file was damaged
}

// failedWrite is the part of a process's write that failed, if any.
type failedWrite uint8

const (
	noneFailed   failedWrite = iota
	tendingFails             // no write of the core
	recordsFail              // nothing of the write is durable
	entriesFail              // all but the entries is durable
)

// appended is a write of entries.
type appended struct {
	ends []raft.Entry // the possible last entries of the log if the write, or a part of it, is lost
}

// endsWith reports whether a log may be the log that remains if the write, or a part of it, is lost.
func (a *appended) endsWith(l *segments.Log) bool {
	return slices.ContainsFunc(a.ends, func(e raft.Entry) bool { return endsWith(l, &e) })
}

func newSegmented(c *cluster, i int) segmented {
	s := segmented{random: sim.NewStream(c.seed.Number, sim.DiskConcern<<32+sim.Concern(i)), stats: &c.stats.Segments}
	s.empty()
	return s
}

// empty replaces this part of the disk by an empty one.
func (s *segmented) empty() {
	*s = segmented{random: s.random, stats: s.stats, tree: crashdisk.New()}
	s.tree.ForgetFailed()
}

// copied returns this part for an image of the disk.
func (s *segmented) copied() segmented {
	c := *s
	c.tree, c.log = s.tree.Clone(), nil
	return c
}

// putBack replaces this part of the disk by the same part of an image.
func (s *segmented) putBack(i segmented) {
	i.random = s.random
	*s = i
	s.fullTill = 0
	s.room() // the image is written to a disk that has room
	s.end(true)
}

// keep makes the list of the segments durable. After the power is off, it keeps nothing, except for a write that is already
// in progress.
func (s *segmented) keep(life *crashdisk.Life, c segments.Catalog) (err error) {
	if err := life.Alive(); err != nil {
		if s.late || s.random.Coin() {
			s.late = true
			return err
		}
		s.late = true
	}
	before := len(s.catalog.Listed)
	s.catalog, err = segments.DecodeCatalog(c.Encode())
	s.stats.Rolled += max(len(s.catalog.Listed)-before, 0)
	s.stats.Pruned += max(before-len(s.catalog.Listed), 0)
	return err
}

// openLog returns the log of a process that starts.
func (n *node) openLog() *segments.Log {
	s, p := &n.disk.segments, &n.c.profile.Segments
	life := s.tree.Life()
	var l *segments.Log
	factor := sim.Pick(s.random, 1, 1, 1, 2)
	if n.c.scene != nil {
		factor = 1 // a scenario counts segments
	}
	sizes := segments.Sizes{
		SegmentBytes: int64(p.Bytes * factor), FirstBytes: int64(p.FirstBytes), BatchBytes: p.BatchBytes, MarkBytes: int64(p.MarkBytes),
		BufferBytes: p.BufferBytes, FillBytes: 2 * int64(p.BufferBytes),
	}
	l = segments.New(s.tree.FS(), logPath, sizes, segments.Owner{
		Salt: s.random.Uint64,
		Keep: func(c segments.Catalog) error { return s.keep(life, c) },
		Await: func(bytes int64) error {
			err := l.Prepare(bytes)
			if files.NoRoom(err) || err == nil && s.random.Coin() { // it may have been without room before
				if err := prune(l); err != nil {
					return err
				}
				err = l.Prepare(bytes)
			}
			if passes(err) && s.fullTill > 0 {
				s.waited = true
				s.room()
				err = l.Prepare(bytes)
			}
			return err
		},
		Pause: func(time.Duration) {},
	})
	return l
}

// prune deletes the segments that are empty after compaction.
func prune(l *segments.Log) (err error) {
	for more := true; more && err == nil; {
		more, err = l.Prune()
	}
	return err
}

// room ends a time in which the disk is full or the process lacks file descriptors.
func (s *segmented) room() {
	s.full = false
	s.tree.Fill(false)
	s.tree.FailOpens(-1)
	s.tree.Quota(0)
}

// make makes a write durable as a store does. First it writes everything except the entries, in one step. Then it writes the
// entries.
func (s *segmented) make(d *disk, w *raft.Write) (failed failedWrite, err error) {
	life, l := s.tree.Life(), w.Log
	s.told = max(s.told, w.Commit)
	keep := func(c segments.Catalog) error { return s.keep(life, c) }
	switch {
	case l != nil && l.Reset:
		err = s.log.Reset(l.After, keep)
	case w.Hard != nil || w.Snapshot != nil || w.Base != nil || w.Mark != nil:
		if err = s.log.Failed(); err == nil {
			err = keep(s.log.Catalog())
		}
		if err == nil && w.Base != nil {
			s.log.Compact(w.Base.ID)
		}
	}
	if err != nil {
		return recordsFail, err
	}
	if l == nil || len(l.Entries) == 0 && l.After == s.log.Last() {
		return noneFailed, nil
	}
	if err = s.log.Append(l.After, l.Entries, max(d.commit, w.Commit)); err != nil {
		return entriesFail, err
	}
	return noneFailed, nil
}

// recordsOf returns the part of a write that becomes durable before its entries.
func recordsOf(w *raft.Write) raft.Write {
	r := raft.Write{Mark: w.Mark, Hard: w.Hard, Snapshot: w.Snapshot, Base: w.Base}
	if l := w.Log; l != nil && l.Reset {
		r.Log = &raft.LogWrite{After: l.After, Reset: true}
	}
	return r
}

// keepsRecords reports whether a write has more than entries and a commit index.
func keepsRecords(w *raft.Write) bool {
	return w.Mark != nil || w.Hard != nil || w.Snapshot != nil || w.Base != nil || w.Log != nil && w.Log.Reset
}

// writeSegments makes the running write durable. It returns false if the write has not ended yet.
func (n *node) writeSegments(w *raft.Write) bool {
	s := &n.disk.segments
	if s.ahead {
		s.ahead = false
		return true
	}
	if s.fullTill > 0 && s.fullTill <= n.c.now() {
		s.fullTill = 0
		s.room()
	}
	failed, err := s.make(&n.disk, w)
	if err != nil {
		n.c.check.checkLogFailure(n, err)
		s.stats.Failed++
		s.failed = failed
		n.crash()
		n.restartIn(s.random.Exponential(n.c.profile.ElectionTimeout * 4))
		return false
	}
	if s.waited { // the write ends when there is room
		s.waited, s.ahead = false, true
		s.stats.Waits++
		n.endWriteIn(max(s.fullTill-n.c.now(), 0))
		return false
	}
	n.tendLater()
	return true
}

// madeSegments records a durable write before the model of the disk changes.
func (d *disk) madeSegments(n *node, w *raft.Write) {
	s := &d.segments
	if keepsRecords(w) {
		s.hinted = max(d.commit, w.Commit)
	}
	l := w.Log
	switch {
	case l == nil:
		return
	case l.Reset:
		s.stats.Resets++
		start := raft.Entry{Index: l.After.Index, Term: l.After.Term}
		s.reached, s.recent = min(s.reached, l.After.Index), [2]appended{{append([]raft.Entry{start}, l.Entries...)}}
		if len(l.Entries) == 0 {
			return
		}
	case len(l.Entries) == 0 && l.After == d.lastID():
		return
	default:
		s.noteAppend(n, l)
	}
	s.reached = min(max(s.reached, d.commit, w.Commit), l.After.Index+raft.Index(len(l.Entries)))
}

// noteAppend records the entries, or some of the entries, of a write.
func (s *segmented) noteAppend(n *node, l *raft.LogWrite) {
	d := &n.disk
	s.written += uint64(pipeline.RecordBytes(l.Entries))
	last := d.lastID()
	ends := append([]raft.Entry{*d.entryAt(last.Index), *d.entryAt(l.After.Index)}, l.Entries...)
	s.recent = [2]appended{{ends}, s.recent[0]}
	if l.After.Index < last.Index {
		s.stats.Truncations++
	}
}

// entryAt returns an entry of the log, or the zero entry at index 0.
func (d *disk) entryAt(i raft.Index) *raft.Entry {
	if i == 0 {
		return &raft.Entry{}
	}
	return d.log[i-1].entry
}

func (d *disk) lastID() raft.EntryID { return d.entryAt(raft.Index(len(d.log))).ID() }
