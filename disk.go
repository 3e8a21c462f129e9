package raft

// disk records what is durable here, and the writes that are not durable yet.
type disk struct {
	hard HardState
	// persisted is the end of the longest prefix of the present log that is durable here.
	persisted Index
	mark      *Mark // nil: none. It may not be durable yet
	// lossReport, with MarkStaleImage, is the answer that tells the leader that acknowledged entries are lost.
	lossReport AppendConflict
	snapshot   Snapshot     // the recorded one; zero: none
	replaced   []SnapshotID // files whose record is gone; they may still be on their way to a follower
	seq        Seq          // of the last write issued
	pending    []pendingWrite
	endedAt    Time   // when a write last ended; 0: none has
	took       recent // how long the latest writes kept the disk busy
}

// pendingWrite is a write that is not known to be durable yet.
type pendingWrite struct {
	seq    Seq
	issued Time
	hard   *HardState
	// snapshot is the record of a snapshot that it makes durable.
	snapshot *Snapshot
	try      bool // it changes nothing
	// mark is the (leader's term, index) up to which the log is durable once this write is. A later
	// truncation lowers its index, so that entries that were overwritten do not count as durable.
	mark EntryID
}

// truncated records that the log has been truncated: the entries above after are gone.
func (d *disk) truncated(after Index) {
	d.persisted = min(d.persisted, after)
	for i := range d.pending {
		d.pending[i].mark.Index = min(d.pending[i].mark.Index, after)
	}
}

// issue numbers a write and records what it will make durable. A write that makes no term, no snapshot and no entries
// durable is not pending.
func (d *disk) issue(now Time, w *Write, mark EntryID) Seq {
	d.seq++
	if w.Hard != nil || w.Snapshot != nil || mark.Index > 0 {
		try := w.Hard != nil && *w.Hard == d.hard && w.Snapshot == nil && mark.Index == 0
		d.pending = append(d.pending, pendingWrite{d.seq, now, w.Hard, w.Snapshot, try, mark})
	}
	return d.seq
}

func (d *disk) acknowledge(seq Seq, now Time) {
	assert(seq <= d.seq, "only writes that were issued become durable")
	n := 0
	if len(d.pending) > 0 && d.pending[0].seq <= seq {
		if took := now - d.busySince(); !d.pending[0].try || took > d.took.max() {
			d.took.add(took) // a small write that is quick does not say that larger ones are
		}
		d.endedAt = now
	}
	for n < len(d.pending) && d.pending[n].seq <= seq {
		w := d.pending[n]
		if w.hard != nil {
			assert(w.hard.Term >= d.hard.Term, "the durable term never decreases")
			assert(w.mark.Term <= w.hard.Term, "no entry is newer than the durable term")
			d.hard = *w.hard
		}
		if w.snapshot != nil {
			if (d.snapshot.File != SnapshotID{}) {
				d.replaced = append(d.replaced, d.snapshot.File)
			}
			d.snapshot = *w.snapshot
		}
		d.persisted = max(d.persisted, w.mark.Index)
		n++
	}
	d.pending = append(d.pending[:0], d.pending[n:]...)
}

// idle reports whether nothing is being written.
func (d *disk) idle() bool { return len(d.pending) == 0 }

// busySince returns when the disk began the oldest pending write; there must be one. Time that the write
// spent waiting for an earlier one does not count.
func (d *disk) busySince() Time { return max(d.pending[0].issued, d.endedAt) }

// onPersisted records that a write, and all writes before it, are durable.
func (c *Core) onPersisted(seq Seq) {
	before := c.disk.hard
	c.disk.acknowledge(seq, c.now.Mono)
	assert(c.disk.persisted <= c.log.Last.Index, "what is durable is in the log")
	if c.disk.hard == c.hard && c.disk.hard != before {
		c.onVoteDurable()
	}
	c.onRecordPersisted()
	c.onBootstrapPersisted()
}
