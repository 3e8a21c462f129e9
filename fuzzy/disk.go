package fuzzy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
	"github.com/coxswain/raft/internal/sim"
)

// disk models the durable contents of a store that writes in transactions, as bbolt does.
type disk struct {
	random      *sim.Stream
	incarnation raft.Incarnation
	startCount  uint64 // count of the last start in the pedigree
	pedigree
	hands     *sim.Stream // draws nonces, and when members dial
	epoch     int         // how often an older image has replaced the disk
	lossy     bool        // one of these images lacked something
	lies      []lie       // synced entries that the disk has lost
	hard      raft.HardState
	snapshot  raft.Snapshot // the recorded one; zero: none
	files     fileSystem
	segments  segmented
	base      raft.Base // the log begins after it; only the checks use the slots up to it
	log       []slot
	commit    raft.Index
	saved     saved    // the state of a DurableFSM
	stallTill sim.Time // no write ends before this time
	fails     bool     // the next write fails
	healed    bool     // it works as fast as the profile's World says
	damaged   bool     // permanently: its node does not start
	mark      *raft.Mark
	ghosts    []ghost
	recovery  *raft.Entry // which the next start appends; nil: the disk was not recovered
}

// stopped reports whether the disk writes nothing more for the rest of the run.
func (d *disk) stopped() bool { return d.stallTill == sim.Never || d.segments.fullTill == sim.Never }

// ghost is the former state of a disk that was wiped or replaced. The ghost is kept because the acknowledgements for this
// state were true.
type ghost struct {
	incarnation raft.Incarnation
	log         []slot
}

// lie is the first of the synced entries that a disk has lost in one injection. The hash covers the log up to this entry.
type lie struct {
	index  raft.Index
	hash   uint64
	config *loggedConfig // the newest configuration of the lost log
}

// held reports whether the disk with the incarnation holds a log up to an index. It also counts the logs that the disk held
// before it was emptied or replaced by an older image.
func (d *disk) held(i raft.Incarnation, to raft.Index, hash uint64) bool {
	if h, there := at(d.log, to); d.incarnation == i && there && h == hash {
		return true
	}
	for _, g := range d.ghosts {
		if h, there := at(g.log, to); g.incarnation == i && there && h == hash {
			return true
		}
	}
	return false
}

// bootstrap returns the contents of entry 1.
func (d *disk) bootstrap() (raft.Bootstrap, bool) {
	if len(d.log) == 0 {
		return raft.Bootstrap{}, false
	}
	f, err := raft.DecodeBootstrap(d.log[0].entry.Data)
	return f, err == nil
}

// cluster returns the id of the cluster that the disk's member belongs to; zero: none yet.
func (d *disk) cluster() raft.ClusterID {
	if later := d.recovered(); later != (raft.ClusterID{}) {
		return later
	}
	first, _ := d.bootstrap()
	return first.Cluster
}

// recovered returns that id if the disk says it besides entry 1, as it does after a recovery or if the log begins later.
func (d *disk) recovered() raft.ClusterID { return cmp.Or(d.hard.Cluster, d.base.Cluster) }

// loads completes what an earlier process has left, and returns the state from which a process starts. It returns false if the process
// ends meanwhile.
func (n *node) loads() (raft.Stored, bool) {
	if n.disk.endInstall(n); !n.endRecovery() {
		return raft.Stored{}, false
	}
	stored, err := n.disk.load()
	if err != nil {
		n.c.fail(Safety, "N4", "%s: the stored log does not load: %v", n, err)
	}
	return stored, err == nil
}

// load returns the state from which a process starts.
func (d *disk) load() (raft.Stored, error) {
	stored := raft.Stored{
		Incarnation: d.incarnation, StartCount: d.startCount, Mark: d.mark, Hard: d.hard, Commit: d.commit, Applied: d.saved.applied,
		Snapshot: d.snapshot,
	}
	if d.base.ID.Index > 0 {
		stored.Log.Begin(d.base)
	}
	for _, s := range d.log[d.base.ID.Index:] {
		if err := stored.Log.Observe(*s.entry); err != nil {
			return raft.Stored{}, err
		}
	}
	return stored, nil
}

// Entries reads durable entries. It returns at most bytesMax bytes of records, but at least one record.
func (d *disk) Entries(span raft.Span, bytesMax int) ([]raft.Entry, error) {
	if d.segments.log != nil {
		return d.segments.log.Entries(span, bytesMax)
	}
	if span.After < d.base.ID.Index {
		return nil, fmt.Errorf("%w: entry %d", raft.ErrNotStored, span.After+1)
	}
	slots := d.log[span.After:min(span.Last, raft.Index(len(d.log)))]
	n := 0
	for n < len(slots) {
		if bytesMax -= len(slots[n].entry.Data) + raft.RecordOverheadBytes; bytesMax < 0 && n > 0 {
			break
		}
		n++
	}
	entries := make([]raft.Entry, n)
	for i := range entries {
		entries[i] = *slots[i].entry
	}
	return entries, nil
}

// work gives the next writes to the disk, merged as far as the contract allows.
func (n *node) work() {
	if n.writing > 0 || len(n.queue) == 0 || n.core == nil {
		return
	}
	limit := 1 + n.disk.random.IntN(n.c.profile.Node.MergeMax)
	if n.disk.healed && n.c.profile.World.Disk > 0 {
		limit = len(n.queue) // a slow disk keeps up with its load by merging all waiting writes
	}
	n.merged, n.writing = pipeline.MergeWrites(n.queue[:min(limit, len(n.queue))])
	n.c.check.checkMerge(n, n.queue[:n.writing], &n.merged)
	took := n.disk.took(n)
	if !n.merged.ChangesStore() {
		took = 0 // a write of promises alone needs no sync
	}
	n.endWriteIn(took)
}

// endWriteIn schedules, or reschedules, the end of the running write.
func (n *node) endWriteIn(d sim.Time) {
	n.writes++
	n.later(d, event{kind: evWritten, a: n.writes})
}

func (d *disk) took(n *node) sim.Time {
	delay := n.c.profile.Node.DiskDelay
	if d.healed {
		delay = n.c.profile.World.writes(n.c.profile.ElectionTimeout)
	}
	took := delay.Min + d.random.Exponential(delay.Mean)
	switch delay.Shape {
	case sim.Uniform:
		took = d.random.Between(delay.Min, delay.Min+2*delay.Mean)
	case sim.Pareto:
		took = d.random.Pareto(delay.Min, max(delay.Max, delay.Min))
	}
	return max(took, d.stallTill-n.c.now())
}

// endWrites ends all running writes of a disk that works again. Their scheduled ends assume that the disk is still stalled.
func (n *node) endWrites() {
	if n.writing > 0 {
		n.endWriteIn(0)
	}
	if n.hands.keeping {
		n.endKeepingIn(0)
	}
	n.endVault()
}

// written completes a write. First the write becomes durable, then its promises leave, and then the loop gets the news.
func (n *node) written() {
	d := &n.disk
	if wait := d.stallTill - n.c.now(); wait > 0 { // the stall began while it was written
		n.endWriteIn(wait)
		return
	}
	if d.fails {
		d.fails, d.segments.failing = false, true
		n.c.stats.DiskFailures++
		n.crash() // nothing is acknowledged after a write that failed
		n.restartIn(d.random.Exponential(n.c.profile.ElectionTimeout * 4))
		return
	}
	if d.segments.log != nil && !n.writeSegments(&n.merged) {
		return
	}
	done := n.merged
	n.queue = n.queue[n.writing:]
	n.writing, n.merged = 0, raft.Write{}
	was := configured(d.log)
	d.complete(n, &done)
	if d.segments.log != nil {
		n.c.check.checkLogBounds(n)
		n.c.check.checkReadOn(n)
	}
	if is := configured(d.log); is != was && n.leads() {
		n.c.reaches(n, configPersisted, is)
	}
	if l := done.Log; l != nil {
		n.cache.MarkPersisted(l.Generation, l.After.Index+raft.Index(len(l.Entries)))
	}
	n.c.check.checkCompletedWrites(n)
	n.c.hash.add(uint64(done.Seq), uint64(len(d.log)))
	for _, m := range done.Then {
		if !n.effect() {
			return
		}
		n.send(m)
	}
	if !n.effect() {
		return
	}
	if d.mark != nil { // the node ends
		n.endMarked()
		return
	}
	n.persisted(done.Seq)
	n.work()
}

func (n *node) persisted(seq raft.Seq) {
	if n.c.scene.keepsPersisted(n, seq) {
		return
	}
	if n.random.Chance(n.c.profile.Node.LatePersisted) {
		n.later(n.random.Exponential(n.c.profile.ElectionTimeout/15), event{kind: evPersisted, a: int64(seq)})
		return
	}
	n.post(raft.Persisted{Seq: seq})
}

// write makes a write durable. If entries is negative, the whole write becomes durable. Otherwise the term and vote become
// durable, with that number of entries, and perhaps the commit index that is part of the write.
func (d *disk) write(n *node, w *raft.Write, entries int) {
	if w.Mark != nil && d.mark == nil {
		d.mark, d.damaged = w.Mark, true
	}
	before := d.hard.Term
	if w.Hard != nil {
		n.c.check.checkHardState(n, *w.Hard)
		d.hard = *w.Hard
	}
	if w.Snapshot != nil {
		n.c.check.checkRecord(n, w.Snapshot)
		d.snapshot = *w.Snapshot
	}
	if w.Base != nil {
		d.base = *w.Base
		n.c.check.checkBase(n)
	}
	l := w.Log
	if entries >= 0 && l != nil {
		l = &raft.LogWrite{After: l.After, Entries: l.Entries[:entries], Reset: l.Reset}
	}
	if l != nil {
		n.c.check.checkDurableLog(n, l, before)
		if l.Reset {
			d.log, d.base = n.c.check.prefix(n, l.After), d.snapshot.Base
		}
		d.log = n.c.check.lengthen(n, d.log, l)
	}
	if w.Commit > d.commit && (entries < 0 || d.random.Coin()) {
		d.commit = w.Commit
	}
}

// crash keeps a random prefix of the issued, unacknowledged writes. Merged writes count as one write. crash may also keep a
// part of the next write, unless the store has transactions.
func (d *disk) crash(n *node) {
	d.keepEffects(n)
	if n.c.profile.Segments.On {
		d.crashSegments(n)
		return
	}
	issued := slices.Clone(n.queue)
	if n.writing > 0 {
		issued = append([]raft.Write{n.merged}, n.queue[n.writing:]...)
	}
	keep := d.random.IntN(len(issued) + 1)
	cut := d.random.IntN(5)
	for i := range issued[:keep] {
		d.write(n, &issued[i], -1)
	}
	if keep == len(issued) || n.c.profile.Node.Atomic || cut == 0 {
		return
	}
	w := &issued[keep]
	if cut == 1 {
		d.write(n, &raft.Write{Mark: w.Mark, Hard: w.Hard, Snapshot: w.Snapshot, Commit: w.Commit}, 0)
		return
	}
	if cut == 2 && w.Base != nil {
		d.write(n, &raft.Write{Mark: w.Mark, Hard: w.Hard, Snapshot: w.Snapshot, Base: w.Base, Commit: w.Commit}, 0)
		return
	}
	entries := 0
	if w.Log != nil {
		entries = d.random.IntN(len(w.Log.Entries) + 1)
	}
	d.write(n, w, entries)
}

// wipe empties the disk and gives it a new incarnation.
func (d *disk) wipe() {
	d.ghosts = append(d.ghosts, ghost{d.incarnation, d.log})
	d.incarnation = raft.Incarnation(d.random.Uint64() | 1)
	d.startCount, d.hard, d.log, d.commit, d.mark = 0, raft.HardState{}, nil, 0, nil
	d.base, d.saved.applied, d.saved.restored, d.saved.torn, d.snapshot = raft.Base{}, raft.EntryID{}, raft.EntryID{}, false, raft.Snapshot{}
	d.recovery = nil
	d.files.empty()
	d.segments.empty()
	d.saved.machine.reset()
	d.pedigree = pedigree{met: make([]meeting, len(d.met))}
}

// describe returns the durable state as text.
func (d *disk) describe() string {
	var last raft.EntryID
	if len(d.log) > 0 {
		last = d.log[len(d.log)-1].entry.ID()
	}
	vote := "no vote"
	if d.hard.Vote.ID != "" {
		vote = fmt.Sprintf("its vote for %s", d.hard.Vote.ID)
	}
	from := ""
	if d.base.ID.Index > 0 {
		from = fmt.Sprintf(" after %v", d.base.ID)
	}
	return fmt.Sprintf("its disk keeps term %d, %s, a log%s up to %v", d.hard.Term, vote, from, last)
}
