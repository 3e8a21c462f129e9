package fuzzy

import (
	"fmt"
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
	"github.com/coxswain/raft/internal/sim"
)

// disk models a store that writes in transactions, as bbolt does: what is durable, and nothing else.
type disk struct {
	random      *sim.Stream
	incarnation raft.Incarnation
	startCount  uint64 // of the last start in the pedigree
	pedigree
	hands     *sim.Stream // nonces, and when members dial
	epoch     int         // images that were put in its place
	lossy     bool        // one of them had less on it
	lies      []lie       // what it has lost of its log, though it had synced it
	hard      raft.HardState
	log       []slot
	commit    raft.Index
	stallTill sim.Time // no write ends before
	fails     bool     // the next write does
	healed    bool     // it works as the profile's World says
	damaged   bool     // it was found to be, for good: its node does not start
	mark      *raft.Mark
	ghosts    []ghost
}

// ghost is a disk that was wiped: what it had acknowledged was true.
type ghost struct {
	incarnation raft.Incarnation
	log         []slot
}

// lie is the first entry of those that a disk lost at once after it had synced them; the hash covers the log up to it.
type lie struct {
	index raft.Index
	hash  uint64
}

// held reports whether the disk that carries or carried the incarnation holds a log up to an index, or did so
// before it was emptied or an older image took its place.
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

// bootstrap is what entry 1 says.
func (d *disk) bootstrap() (raft.Bootstrap, bool) {
	if len(d.log) == 0 {
		return raft.Bootstrap{}, false
	}
	f, err := raft.DecodeBootstrap(d.log[0].entry.Data)
	return f, err == nil
}

// load returns what a process starts from.
func (d *disk) load() (raft.Stored, error) {
	stored := raft.Stored{Incarnation: d.incarnation, StartCount: d.startCount, Mark: d.mark, Hard: d.hard, Commit: d.commit}
	for i := range d.log {
		if err := stored.Log.Observe(*d.log[i].entry); err != nil {
			return raft.Stored{}, err
		}
	}
	return stored, nil
}

// Entries reads what is durable, at most bytesMax bytes of records but at least one.
func (d *disk) Entries(span raft.Span, bytesMax int) ([]raft.Entry, error) {
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

// work gives the disk the next writes, merged as far as the contract allows.
func (n *node) work() {
	if n.writing > 0 || len(n.queue) == 0 || n.core == nil {
		return
	}
	limit := 1 + n.disk.random.IntN(n.c.profile.Node.MergeMax)
	if n.disk.healed && n.c.profile.World.Disk > 0 {
		limit = len(n.queue) // a slow disk keeps up with its load by taking all that waits at once
	}
	n.merged, n.writing = pipeline.MergeWrites(n.queue[:min(limit, len(n.queue))])
	n.c.check.merged(n)
	took := n.disk.took(n)
	if !n.merged.ChangesStore() {
		took = 0 // promises alone need no sync
	}
	n.endWriteIn(took)
}

// endWriteIn plans, or plans anew, when the running write ends.
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

// endWrites lets all end that a disk is at, as it works again: the ends were planned for as long as it would not.
func (n *node) endWrites() {
	if n.writing > 0 {
		n.endWriteIn(0)
	}
	if n.hands.keeping {
		n.endKeepingIn(0)
	}
}

// written ends a write: it is durable, its promises leave, and then the loop hears of it.
func (n *node) written() {
	d := &n.disk
	if wait := d.stallTill - n.c.now(); wait > 0 { // the stall began while it was written
		n.endWriteIn(wait)
		return
	}
	if d.fails {
		d.fails = false
		n.c.stats.DiskFailures++
		n.crash() // nothing is acknowledged after a write that failed
		n.restartIn(d.random.Exponential(n.c.profile.ElectionTimeout * 4))
		return
	}
	done := n.merged
	n.queue = n.queue[n.writing:]
	n.writing, n.merged = 0, raft.Write{}
	d.write(n, &done, -1)
	if l := done.Log; l != nil {
		n.cache.MarkPersisted(l.Generation, l.After.Index+raft.Index(len(l.Entries)))
	}
	n.c.check.made(n)
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
		n.endsMarked()
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

// write makes a write durable: all of it, or, if entries is not negative, the term and vote, that many of its
// entries, and perhaps the hint that rides along.
func (d *disk) write(n *node, w *raft.Write, entries int) {
	if w.Mark != nil && d.mark == nil {
		d.mark, d.damaged = w.Mark, true
	}
	before := d.hard.Term
	if w.Hard != nil {
		n.c.check.durableHard(n, *w.Hard)
		d.hard = *w.Hard
	}
	l := w.Log
	if entries >= 0 && l != nil {
		l = &raft.LogWrite{After: l.After, Entries: l.Entries[:entries], Reset: l.Reset}
	}
	if l != nil {
		n.c.check.durableLog(n, l, before)
		d.log = extend(d.log, l)
	}
	if w.Commit > d.commit && (entries < 0 || d.random.Coin()) {
		d.commit = w.Commit
	}
}

// crash keeps a random prefix of what was issued and not acknowledged, where merged writes are one. The first
// write that is not kept may be so in part, unless the store has transactions.
func (d *disk) crash(n *node) {
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
		d.write(n, &raft.Write{Mark: w.Mark, Hard: w.Hard, Commit: w.Commit}, 0)
		return
	}
	entries := 0
	if w.Log != nil {
		entries = d.random.IntN(len(w.Log.Entries) + 1)
	}
	d.write(n, w, entries)
}

// wipe empties the disk: another incarnation comes back.
func (d *disk) wipe() {
	d.ghosts = append(d.ghosts, ghost{d.incarnation, d.log})
	d.incarnation = raft.Incarnation(d.random.Uint64() | 1)
	d.startCount, d.hard, d.log, d.commit, d.mark = 0, raft.HardState{}, nil, 0, nil
	d.pedigree = pedigree{met: make([]meeting, len(d.met))}
}

// describe says what is durable.
func (d *disk) describe() string {
	var last raft.EntryID
	if len(d.log) > 0 {
		last = d.log[len(d.log)-1].entry.ID()
	}
	vote := "no vote"
	if d.hard.Vote.ID != "" {
		vote = fmt.Sprintf("its vote for %s", d.hard.Vote.ID)
	}
	return fmt.Sprintf("its disk keeps term %d, %s, a log up to %v", d.hard.Term, vote, last)
}
