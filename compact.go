package raft

// This file decides when a member takes a snapshot, and up to which entry it compacts the log:
//
//	"Each server takes snapshots independently, covering just the committed entries in its log." (§7)
//
// The core names the exact entry, so that it can describe the snapshot. A snapshot counts once its record is durable. Every
// other snapshot file is a left-over.

// snapshots is what a member knows about its own snapshots.
type snapshots struct {
	covered    EntryID           // the newest recorded snapshot covers the log up to here, or the DurableFSM has synced it
	reported   Index             // of a DurableFSM: the last entry that it says it has synced
	taking     *Take             // asked for and not answered
	writing    *Snapshot         // the last record issued, as long as it is not durable
	retryAt    Time              // earliest next attempt after a failure, unless a caller asks
	pause      Time              // the last pause after a failure
	asked      []snapshotRequest // of callers
	held       *held             // of a DurableFSM on a leader: the frozen state that is being sent
	spoken     []spoken          // the peers whose connections speak an earlier protocol, or carry smaller appends
	restoring  *Snapshot         // the FSM has yet to restore this one
	restoreOut bool              // the Output has asked it to
}

// snapshotRequest is a caller that waits for a snapshot.
type snapshotRequest struct {
	requestID RequestID
	at        Index // it must cover the log up to here
}

// snapshotPausesMax bounds, in election timeouts, the pause after a snapshot that failed.
const snapshotPausesMax = 64

// startSnapshots continues from the recorded snapshot, and returns the index up to which the log is known to be committed. If
// the recorded snapshot has no file, its entries count as covered only as far as the FSM reports them. The FSM may have lost
// what it synced before, and then needs these entries again.
func (c *Core) startSnapshots(recorded Snapshot) Index {
	s := &c.snaps
	s.covered = c.log.Base.ID
	if recorded.ID.Index > s.covered.Index {
		s.covered = recorded.ID
	}
	s.reported = s.covered.Index
	switch {
	case recorded.File == SnapshotID{}:
	case recorded.ID.Index > c.log.applied:
		s.restoring = &recorded
	case c.cfg.DurableFSM:
		c.record(Snapshot{Base: recorded.Base}) // the FSM holds it, and a crash came before this was recorded
	}
	committed := s.covered.Index
	if s.restoring == nil && c.log.applied < committed {
		s.covered = c.log.id(c.log.applied)
		s.reported = s.covered.Index
	}
	return committed
}

// keepSnapshots does a step's remaining work on snapshots.
func (c *Core) keepSnapshots() {
	c.answerSnapshots()
	c.takeSnapshot()
	c.endHeld()
	c.discardReplaced()
}

// requestSnapshot records a request for a snapshot. The request is answered once a snapshot covers everything that is being
// applied now.
func (c *Core) requestSnapshot(t RequestID) {
	s := &c.snaps
	switch {
	case c.step.closing:
		c.refuseRequest(t)
	case !c.cfg.Snapshots:
		c.answer(Answer{RequestID: t, Kind: AnswerRefused, Refusal: RefusedUnsupported})
	case len(s.asked) >= c.cfg.ProposalsMax:
		c.answer(Answer{RequestID: t, Kind: AnswerRefused, Refusal: RefusedOverloaded})
	default:
		s.asked = append(s.asked, snapshotRequest{t, c.log.applying})
		if c.log.applying <= s.covered.Index { // it is answered at once
			c.compact()
		}
	}
}

// answerSnapshots answers the requests that a durable snapshot covers.
func (c *Core) answerSnapshots() {
	s, n := &c.snaps, 0
	for _, r := range s.asked {
		if r.at <= s.covered.Index {
			c.answer(Answer{RequestID: r.requestID, Kind: AnswerSnapshot, ID: s.covered})
			continue
		}
		s.asked[n] = r
		n++
	}
	s.asked = s.asked[:n]
}

func (c *Core) refuseSnapshotRequests(why RefusalKind) {
	for _, r := range c.snaps.asked {
		c.answer(Answer{RequestID: r.requestID, Kind: AnswerRefused, Refusal: why})
	}
	c.snaps.asked = nil
}

// takeSnapshot asks for a snapshot of the entries that are being applied, if one is due. A leader must have said that these
// entries are committed. A DurableFSM's report is not enough, because this member may use the base to contradict a leader
// (see contradiction). After a failure, takeSnapshot pauses unless a caller asks for a snapshot, because that caller may have
// made room.
func (c *Core) takeSnapshot() {
	s, to := &c.snaps, c.log.applying
	if !c.cfg.Snapshots || c.marked() || c.step.closing || s.taking != nil || s.writing != nil || s.restoring != nil ||
		to > c.log.provenCommit || c.log.term(to) == 0 || c.now.Mono < s.retryAt && len(s.asked) == 0 {
		return
	}
	hold := c.wantsHeld()
	if !hold && !c.snapshotDue(to) {
		return
	}
	s.taking = &Take{Base: c.baseAt(to), Sync: c.cfg.DurableFSM && !hold, Hold: hold}
	take := *s.taking
	c.keep().Take = &take
	c.trace(TraceEvent{Kind: TraceTake, ID: take.ID})
}

// snapshotDue reports whether a snapshot is due: by entries, by bytes, or because a caller asks for it or a follower needs
// it.
func (c *Core) snapshotDue(to Index) bool {
	s := &c.snaps
	if to <= s.covered.Index {
		return false
	}
	bytes := c.log.bytesUpTo(to) - c.log.bytesUpTo(s.covered.Index)
	return len(s.asked) > 0 || c.wantsFile(to) || to-s.covered.Index >= Index(c.cfg.SnapshotEntries) ||
		bytes >= uint64(max(int64(c.cfg.SnapshotLogBytes), c.disk.snapshot.Size))
}

// baseAt returns what must be kept of the entries up to i:
//
//	"To enable cluster membership changes (Section 6), the snapshot also includes the latest configuration in the log as
//	of last included index." (§7)
func (c *Core) baseAt(i Index) Base {
	assert(i > 0 && i <= c.log.commit, "only committed entries are covered")
	_, bootstrapper := c.origin()
	latest := c.log.configAt(i)
	return Base{
		ID: c.log.id(i), Time: c.log.LastTime, Cluster: c.cluster(), Bootstrapper: bootstrapper,
		ConfigIndex: latest.Index, Config: latest.Config,
	}
}

// RecordedSnapshot returns the newest snapshot whose record is durable. Its File is zero if there is none. Like Status, it only
// reads the core.
func (c *Core) RecordedSnapshot() Snapshot { return c.disk.snapshot }

// BaseAt describes the state once the entries up to id are applied. It returns false if the log does not hold that entry, or if
// the entry is not known to be committed. Like Status, it only reads the core.
func (c *Core) BaseAt(id EntryID) (base Base, held bool) {
	if id.Index > 0 && id.Index >= c.log.Base.ID.Index && id.Index <= c.log.commit && c.log.id(id.Index) == id {
		base, held = c.baseAt(id.Index), true
	}
	return base, held
}

func (c *Core) onSnapshotTaken(e SnapshotTaken) {
	s := &c.snaps
	if s.taking == nil || s.taking.ID != e.Take {
		c.discard(e.Snapshot.File) // a snapshot from a leader has made it superfluous
		return
	}
	take := *s.taking
	s.taking = nil
	if e.Err != nil {
		c.onTakeFailed(take, e.Err)
		return
	}
	assert(e.Snapshot.ID == take.ID || take.Sync, "what was taken is what was asked for")
	assert(e.Snapshot.Held == take.Hold, "a state is held if that was asked for")
	assert((e.Snapshot.File == SnapshotID{}) == take.Sync, "a snapshot has a file, unless the FSM has synced instead")
	s.retryAt, s.pause = 0, 0
	taken := e.Snapshot
	taken.Base = take.Base
	switch {
	case take.Hold:
		c.onHeld(taken)
	case take.Sync:
		s.reported = max(s.reported, e.Snapshot.ID.Index)
		c.covered(take.ID)
		c.trace(TraceEvent{Kind: TraceTaken, ID: take.ID})
	default:
		c.record(taken)
	}
}

// onTakeFailed reports the failure to the callers at once, and tries again after a pause, which doubles each time. If the FSM
// failed to freeze its state for a follower, only that follower waits. The FSM may still sync, so that the log can be
// compacted.
func (c *Core) onTakeFailed(take Take, err error) {
	c.trace(TraceEvent{Kind: TraceTakeFailed, ID: take.ID, Text: err.Error()})
	if take.Hold {
		if p := c.waitsForHeld(); p != nil {
			c.pauseOffers(p)
		}
		return
	}
	s := &c.snaps
	s.pause = min(max(2*s.pause, c.electionTimeout()), snapshotPausesMax*c.electionTimeout())
	s.retryAt = c.now.Mono + s.pause
	c.refuseSnapshotRequests(RefusedSnapshotFailed)
}

// record writes a record that makes a complete file count. If s has no file, the record says that no file counts any longer.
func (c *Core) record(s Snapshot) {
	before, written := c.step.out.Write.Snapshot, s
	c.snaps.writing, c.step.out.Write.Snapshot = &s, &written
	if before != nil {
		c.discard(before.File) // the other snapshot of this step is never recorded
	}
}

// onRecordPersisted makes a snapshot count once its record is durable.
func (c *Core) onRecordPersisted() {
	s := &c.snaps
	if s.writing == nil || c.disk.snapshot.File != s.writing.File || c.disk.snapshot.ID != s.writing.ID {
		return
	}
	s.writing = nil
	if id := c.disk.snapshot.ID; s.covered.Index < id.Index {
		c.covered(id)
		if s.restoring == nil {
			c.trace(TraceEvent{Kind: TraceTaken, ID: id})
		}
	}
}

// covered records that the entries up to id are no longer needed to build the FSM's state.
func (c *Core) covered(id EntryID) {
	assert(id.Index > c.snaps.covered.Index, "each snapshot covers more than the one before")
	c.snaps.covered = id
	c.compact()
}

// compact drops entries that a durable snapshot covers, or that the DurableFSM has synced:
//
//	"Once a server completes writing a snapshot, it may delete all log entries up through the last included index, as
//	well as any prior snapshot." (§7)
//
// In memory the entries are gone at once. A crash before the write is durable leaves a longer log, which does no harm.
func (c *Core) compact() {
	if !c.cfg.Snapshots || c.marked() {
		return
	}
	to := c.compactable()
	if to <= c.log.Base.ID.Index || c.log.term(to) == 0 || !c.worthCompacting(to) {
		return
	}
	if c.leader != nil {
		c.leader.compacted(&c.log, to)
	}
	base := c.baseAt(to)
	c.log.compact(base)
	c.step.out.Write.Base = &base
	c.trace(TraceEvent{Kind: TraceCompacted, ID: base.ID})
}

// compactable returns the index up to which the log may be compacted. It keeps SnapshotTailBytes and, within bounds, the
// entries that heard followers need next. With a DurableFSM it keeps everything after the last entry that the FSM reports,
// because the log's base must not be newer than that entry. The FSM reports only commands, so entries of other kinds may
// follow.
func (c *Core) compactable() Index {
	covered := c.snaps.covered.Index
	if c.cfg.DurableFSM {
		covered = min(covered, c.snaps.reported)
	}
	to := min(covered, c.log.keeping(uint64(c.cfg.SnapshotTailBytes)))
	if c.leader == nil {
		return to
	}
	for i := range c.leader.peers {
		p := &c.leader.peers[i]
		bytes := c.holdBytes(p)
		if held := c.heldFor(p); held < to {
			to = min(to, max(held, c.log.keeping(bytes)))
		}
	}
	return to
}

// holdBytes bounds the bytes of entries that the leader keeps for a follower. If the follower has received a snapshot larger
// than SnapshotHoldBytes, it may need as many bytes of entries to catch up.
func (c *Core) holdBytes(p *progress) uint64 {
	usual := uint64(c.cfg.SnapshotHoldBytes)
	if p.state != snapshot && c.log.bytesUpTo(c.log.Last.Index)-c.log.bytesUpTo(p.match) <= usual {
		p.brought = 0 // it has caught up
	}
	return max(usual, uint64(p.brought))
}

// holdTimeoutsMax is the number of election timeouts for which a leader keeps entries for a follower that acknowledges
// nothing.
const holdTimeoutsMax = 64

// heldFor returns the entry before the first one that is kept for a follower.
func (c *Core) heldFor(p *progress) Index {
	switch {
	case p.state == snapshot && p.snap.snapshot.ID.Index > 0:
		return p.snap.snapshot.ID.Index // also while the link is broken: a stalled stream ends by itself
	case p.state == snapshot, p.state == stale, p.departs > 0, !c.heardLately(p):
	case c.now.Mono-p.matchedAt < holdTimeoutsMax*c.electionTimeout():
		return p.match
	}
	return c.log.Last.Index
}

// worthCompacting reports whether enough entries would be dropped, since each compaction costs a write. If a caller has asked
// for the snapshot, any number is enough, because the caller may need the room.
func (c *Core) worthCompacting(to Index) bool {
	for _, r := range c.snaps.asked {
		if r.at <= c.snaps.covered.Index {
			return true
		}
	}
	base := c.log.Base.ID.Index
	bytes := c.log.bytesUpTo(to) - c.log.bytesUpTo(base)
	return to-base >= Index(c.cfg.SnapshotEntries)/8 || bytes >= uint64(c.cfg.SnapshotLogBytes)/8
}

// compacted adapts what the leader knows of its followers to a log that begins after entry to.
func (l *leader) compacted(log *log, to Index) {
	for i := range l.peers {
		p := &l.peers[i]
		if p.match >= log.Base.ID.Index && p.match < to && p.compacted.Index != p.match {
			p.compacted = log.id(p.match)
		}
		switch {
		case p.state == stale || p.next > to:
		case p.state == snapshot:
			p.next = to + 1
		default:
			p.becomeProbe(to+1, to)
		}
	}
}

// acknowledgedEntry returns the last entry that a follower has acknowledged, or the base if its term is not known.
func (c *Core) acknowledgedEntry(p *progress) EntryID {
	if p.compacted.Index == p.match {
		return p.compacted
	}
	return c.log.known(p.match)
}

// restoresFirst reports whether the FSM must restore a snapshot before it applies anything.
func (c *Core) restoresFirst() bool {
	return c.snaps.restoring != nil && !c.snaps.restoreOut
}

// issueRestore makes the FSM restore a snapshot once the snapshot's record is durable. If the process crashes during the
// restoration, the next start repeats it.
func (c *Core) issueRestore() {
	s := &c.snaps
	if !c.restoresFirst() || c.marked() || c.outdated() || c.disk.snapshot.File != s.restoring.File {
		return
	}
	restore := *s.restoring
	assert(restore.ID.Index > c.log.applied && restore.ID.Index >= c.log.applying, "the FSM never goes back")
	c.log.applying, s.restoreOut = restore.ID.Index, true
	c.step.out.Restore = &restore
}

// onRestored ends a restoration. A DurableFSM has synced the state, so the snapshot's file no longer counts.
func (c *Core) onRestored() {
	s := &c.snaps
	if s.restoring == nil || c.log.applied < s.restoring.ID.Index {
		return
	}
	c.trace(TraceEvent{Kind: TraceRestored, ID: s.restoring.ID})
	if c.cfg.DurableFSM && !c.marked() {
		s.reported = s.restoring.ID.Index
		c.record(Snapshot{Base: s.restoring.Base})
	}
	s.restoring, s.restoreOut = nil, false
}

// keep returns this step's Keep.
func (c *Core) keep() *Keep {
	if c.step.out.Keep == nil {
		c.step.out.Keep = &Keep{}
	}
	return c.step.out.Keep
}

// discard deletes a snapshot file, unless the durable record or the record being written names the file.
func (c *Core) discard(file SnapshotID) {
	writing := c.snaps.writing
	if file == (SnapshotID{}) || file == c.disk.snapshot.File || writing != nil && writing.File == file {
		return
	}
	keep := c.keep()
	keep.Discard = append(keep.Discard, file)
}

// discardReplaced deletes each file whose record has been durably replaced, unless this leader still sends the file to a
// follower.
func (c *Core) discardReplaced() {
	n := 0
	for _, file := range c.disk.replaced {
		if c.leader != nil && c.leader.offers(file) {
			c.disk.replaced[n] = file
			n++
			continue
		}
		c.discard(file)
	}
	c.disk.replaced = c.disk.replaced[:n]
}

// snapshotWakeAt returns the time at which to try again after a failure.
func (c *Core) snapshotWakeAt() Time {
	if at := c.snaps.retryAt; at > c.now.Mono {
		return at
	}
	return c.now.Mono + idleMax
}

// takeBackSnapshots cancels this step's work on snapshots if the store is marked, because the log is evidence. It keeps the
// installation of a leader's snapshot, because the mark may be about what this member committed by installing it.
func (c *Core) takeBackSnapshots() {
	w := &c.step.out.Write
	w.Base, c.step.out.Keep = nil, nil
	if w.Log == nil || !w.Log.Reset {
		w.Snapshot = nil
	}
	c.snaps.taking, c.follower.offer = nil, nil
	c.refuseSnapshotRequests(RefusedNotLeader)
}

func (c *Core) statusOfSnapshots(status *CoreStatus) {
	s := &c.snaps
	status.Snapshot, status.SnapshotBytes = s.covered, max(c.disk.snapshot.Size, 0)
	if s.taking != nil {
		status.Taking = s.taking.ID
	}
	if s.restoring != nil {
		status.Restoring = s.restoring.ID
	}
	if o := c.follower.offer; o != nil && o.snapshot.ID.Index > c.log.commit {
		status.Receiving, status.ReceivingFrom = o.snapshot.ID, o.from.ID
	}
}
