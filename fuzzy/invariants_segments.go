package fuzzy

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"syscall"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/segments"
)

// The invariants of logs in segments.
//
//	N78  A start finds every acknowledged entry, then a prefix of the entries that were being written, and nothing else. It finds a commit index that was reached.
//	N79  A start refuses damage to data that was known to be durable, and names the file. It refuses nothing else. Damage never shortens a log.
//	N80  A log in segments takes writes until a write or a sync fails. A full disk that has room again is no failure.
//	N81  After each write, a log in segments holds exactly the entries that were written.
//	N82  If a leader knows that its disk has no room for the next segment, it accepts no proposal. After that segment is ready, the leader refuses none for lack of room.

// endsWith reports whether the last entry of a log is e. It compares contents as well as ids: a repeated bootstrap can write a
// different entry with index 1 and term 0.
func endsWith(l *segments.Log, e *raft.Entry) bool {
	last := l.Last()
	if e.ID() != last || last == l.Start() {
		return e.ID() == last
	}
	entries, err := l.Entries(raft.Span{After: last.Index - 1, Last: last.Index}, 1)
	return err == nil && bytes.Equal(entries[0].Record(), e.Record())
}

// prefixIn returns the number of entries of a write that a log holds at its end; 0 if it ends with none of them.
func prefixIn(l *segments.Log, w *raft.LogWrite) int {
	return 1 + slices.IndexFunc(w.Entries, func(e raft.Entry) bool { return endsWith(l, &e) })
}

// checkRecovery checks the entries that a start has found, and makes the model of the disk hold exactly these entries. It
// returns false if the process ends.
func (k *checker) checkRecovery(n *node, found *segments.Found) bool {
	d, s := &n.disk, &n.disk.segments
	last := s.log.Last()
	cut := s.cut
	s.cut = nil
	switch {
	case endsWith(s.log, d.entryAt(d.lastID().Index)):
	case cut != nil && (last == cut.After || prefixIn(s.log, cut) > 0):
		k.c.stats.Segments.Prefixes++
		d.write(n, &raft.Write{Log: &raft.LogWrite{After: cut.After, Entries: cut.Entries[:prefixIn(s.log, cut)]}}, -1)
	case s.spoiled && (s.recent[0].endsWith(s.log) || s.recent[1].endsWith(s.log)):
		k.c.stats.Segments.Shortened++
		s.end(true)
		d.damaged = true
		return false
	case s.spoiled:
		k.broken("N79", "%s has a damaged log, but starts with a log up to %v; it was durable up to %v", n.id, last, d.lastID())
		return false
	default:
		k.broken("N78", "%s starts with a log up to %v; it was durable up to %v (%v)", n.id, last, d.lastID(), cut)
		return false
	}
	k.checkStored(n, found)
	most := max(s.told, d.commit)
	if found.Commit < min(s.reached, last.Index) || found.Commit > min(most, last.Index) {
		k.broken("N78", "%s starts with commit index %d; the log had reached %d, and no member more than %d", n.id, found.Commit, s.reached, most)
	}
	d.commit = max(s.hinted, found.Commit)
	return k.c.failure == nil
}

// checkStored compares a log, and the state that a start has loaded from it, with the model of the disk.
func (k *checker) checkStored(n *node, found *segments.Found) {
	d, s := &n.disk, &n.disk.segments
	stored, err := d.load()
	if err != nil {
		k.broken("N78", "%s: the stored log does not load: %v", n.id, err)
		return
	}
	if !reflect.DeepEqual(found.Log, stored.Log) {
		k.broken("N78", "%s starts with a log other than the one it holds: %+v, not %+v", n.id, found.Log, stored.Log)
	}
	k.checkLogBounds(n)
	last := raft.Index(len(d.log))
	for at := d.base.ID.Index; at < last; {
		entries, err := s.log.Entries(raft.Span{After: at, Last: last}, n.c.profile.Segments.BufferBytes)
		if err != nil {
			k.broken("N78", "%s cannot read after entry %d of its log up to %d: %v", n.id, at, last, err)
			return
		}
		for i := range entries {
			if at++; !bytes.Equal(entries[i].Record(), d.log[at-1].entry.Record()) {
				k.broken("N78", "%s reads %v instead of %v", n.id, entries[i].ID(), d.log[at-1].entry.ID())
				return
			}
		}
	}
}

// checkReadOn lets a slow reader continue at the place that it had reached, which a truncation may have replaced meanwhile.
func (k *checker) checkReadOn(n *node) {
	d, s := &n.disk, &n.disk.segments
	base, last := d.base.ID.Index, raft.Index(len(d.log))
	if s.readTo < base || s.random.IntN(8) == 0 {
		s.readTo = base + raft.Index(s.random.IntN(int(last-base)+1))
	}
	if s.readTo >= last {
		return
	}
	entries, err := d.Entries(raft.Span{After: s.readTo, Last: last}, 1+s.random.IntN(n.c.profile.Segments.BufferBytes))
	for i := range entries {
		if s.readTo++; !bytes.Equal(entries[i].Record(), d.entryAt(s.readTo).Record()) {
			err = fmt.Errorf("entry %v instead of %v", entries[i].ID(), d.entryAt(s.readTo).ID())
		}
	}
	if err != nil {
		k.broken("N81", "%s reads up to entry %d: %v", n, s.readTo, err)
	}
}

// checkLogBounds checks where a log begins and ends.
func (k *checker) checkLogBounds(n *node) {
	d, l := &n.disk, n.disk.segments.log
	if l.Start() != d.base.ID || l.Last() != d.lastID() {
		k.broken("N81", "%s has a log from after %v up to %v, but wrote one from after %v up to %v", n.id, l.Start(), l.Last(), d.base.ID, d.lastID())
	}
}

// checkLogRefusal checks that a start has a reason to refuse the log.
func (k *checker) checkLogRefusal(n *node, err error) {
	var corrupt *raft.CorruptError
	if !n.disk.segments.spoiled || !errors.As(err, &corrupt) || corrupt.File == "" {
		k.broken("N79", "%s refuses its log: %v", n.id, err)
	}
}

// checkLogFailure checks that a log has a reason to take no more writes.
func (k *checker) checkLogFailure(n *node, err error) {
	s := &n.disk.segments
	if !s.full || !errors.Is(err, syscall.ENOSPC) {
		k.broken("N80", "%s: the log takes no more writes: %v", n.id, err)
	}
}

// checkRoomRefusal checks whether a member must accept or refuse proposals. It is called before a proposal is made.
func (k *checker) checkRoomRefusal(n *node, refuses bool) {
	s := &n.disk.segments
	switch {
	case refuses && !s.ahead && !s.log.Wanted():
		k.broken("N82", "%s refuses a proposal, although the next segment is ready or not needed yet", n)
	case refuses && n.status.Leader != n.id:
		k.broken("N82", "%s refuses a proposal because of its disk, but does not lead", n)
	case !refuses && n.status.Leader == n.id && s.without() != nil:
		k.broken("N82", "%s accepts a proposal although its disk is full: %v", n, s.without())
	}
}
