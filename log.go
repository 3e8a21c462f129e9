package raft

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// This file holds what a member knows of a log without its payloads: which term wrote which entry, and how far the log is
// committed and applied.

// log records which term wrote which index, and how far the log is committed and applied. It keeps no
// payloads.
type log struct {
	StoredLog
	commit       Index // commitIndex
	provenCommit Index // commitIndex without what only a DurableFSM reports as committed; a leader trusts that, too
	applying     Index // the entries up to here have been handed to the FSM
	applied      Index // lastApplied, as the FSM reported it
	batch        batch // that the FSM is applying, as far as the host has reported
	// generation rises with every truncation. So a span from before a truncation can be recognised.
	generation uint64
}

func newLog(stored StoredLog) log {
	return log{StoredLog: stored, generation: 1}
}

// term returns the term of the entry at i, which must be in the log or be its base:
//
//	"the last included index is the index of the last entry in the log that the snapshot replaces (the last entry the
//	state machine had applied), and the last included term is the term of this entry. These are preserved to support
//	the AppendEntries consistency check for the first log entry following the snapshot" (§7)
func (l *log) term(i Index) Term {
	base := l.Base.ID
	assert(i >= base.Index && i <= l.Last.Index, "only the base and the entries behind it have a term")
	if i == base.Index {
		return base.Term
	}
	return l.Runs[l.run(i)].Term
}

// run returns the position of the run that the entry at i belongs to; i is above the base.
func (l *log) run(i Index) int {
	if n := len(l.Runs); l.Runs[n-1].First <= i {
		return n - 1 // the common case
	}
	return sort.Search(len(l.Runs), func(k int) bool { return l.Runs[k].First > i }) - 1
}

func (l *log) id(i Index) EntryID { return EntryID{l.term(i), i} }

// known returns the entry at i. If that entry was compacted, known returns the base. Terms never fall along the log, so no
// entry below the base has a higher term than the base.
func (l *log) known(i Index) EntryID { return l.id(max(i, l.Base.ID.Index)) }

// has is the consistency check:
//
//	"Reply false if log doesn't contain an entry at prevLogIndex whose term matches prevLogTerm
//	(§5.3)." (Figure 2)
//
// Every entry up to the base is committed, so it is in the log of every later leader. Below the base, therefore, has only
// reports whether the term is possible.
func (l *log) has(id EntryID) bool {
	if id.Index < l.Base.ID.Index {
		return id.Term <= l.Base.ID.Term
	}
	return id.Index <= l.Last.Index && l.term(id.Index) == id.Term
}

// lastWithTermAtMost returns the last entry at or below i whose term is at most t. If all entries above the base have higher
// terms, it returns the base, where the logs agree because the base is committed. i must not be below the base. After a
// conflict, both the leader and the follower skip entries with this function. So they need at most one probe for each term in
// which they differ (dissertation §3.5).
func (l *log) lastWithTermAtMost(i Index, t Term) EntryID {
	i = min(i, l.Last.Index)
	assert(i >= l.Base.ID.Index, "nothing below the base is looked for")
	for i > l.Base.ID.Index {
		k := l.run(i)
		if l.Runs[k].Term <= t {
			return l.id(i)
		}
		i = l.Runs[k].First - 1
	}
	return l.Base.ID
}

// cut returns the last index of a span that begins after the given index. The span holds at least one entry, and otherwise
// about bytesMax bytes at most. cut also returns the span's size, to within the distance of two size marks.
func (l *log) cut(after Index, bytesMax int) (last Index, bytes int) {
	assert(after >= l.Base.ID.Index && after < l.Last.Index, "a span to cut holds an entry, and none that was compacted")
	from := l.bytesUpTo(after)
	if total := l.bytesUpTo(l.Last.Index) - from; total <= uint64(bytesMax) {
		return l.Last.Index, int(total)
	}
	fit := sort.Search(int(min(l.Last.Index-after, math.MaxInt)), func(k int) bool {
		return l.bytesUpTo(after+Index(k)+1)-from > uint64(bytesMax)
	})
	last = after + Index(max(fit, 1))
	return last, int(l.bytesUpTo(last) - from)
}

// keeping returns the last index above which about the given number of bytes of entries stay in the log. It returns the base
// if the log has fewer bytes.
func (l *log) keeping(bytes uint64) Index {
	base, end := l.Base.ID.Index, l.bytesUpTo(l.Last.Index)
	fewer := sort.Search(int(min(l.Last.Index-base, math.MaxInt)), func(k int) bool {
		return end-l.bytesUpTo(base+Index(k)+1) < bytes
	})
	return base + Index(fewer)
}

// replace makes the log empty. The log then begins after base.
func (l *log) replace(base Base) {
	l.StoredLog = StoredLog{Base: base, Last: base.ID, LastTime: max(l.LastTime, base.Time)}
	l.generation++
}

// upToDate compares a candidate's log with ours:
//
//	"If the logs have last entries with different terms, then the log with the later term is more
//	up-to-date. If the logs end with the same term, then whichever log is longer is more
//	up-to-date." (§5.4.1)
func upToDate(theirs, ours EntryID) bool {
	return theirs.Term > ours.Term || theirs.Term == ours.Term && theirs.Index >= ours.Index
}

// appendEntries adds entries to the log and to this step's write.
func (c *Core) appendEntries(entries []Entry) {
	write := c.logWrite()
	for _, e := range entries {
		assert(e.Index == c.log.Last.Index+1, "entries are appended without a gap")
		assert(e.Term >= c.log.Last.Term && e.Term <= c.hard.Term, "terms never fall along the log, nor pass the current one")
		c.log.append(e)
		if e.Kind == EntryBootstrap || e.Kind == EntryConfiguration || e.Kind == EntryRecovery {
			c.adoptConfig(e)
		}
	}
	if len(write.Entries) == 0 {
		write.Entries = entries[:len(entries):len(entries)]
	} else {
		write.Entries = append(write.Entries, entries...)
	}
}

// truncate drops every entry above after from the log. If a dropped entry held the configuration in force, the configuration
// before it is in force again.
func (c *Core) truncate(after Index) {
	assert(after >= c.log.commit, "a committed entry is never dropped")
	assert(c.leader == nil, "a leader never deletes entries of its log (§5.3, Leader Append-Only)")
	c.trace(TraceEvent{Kind: TraceTruncated, ID: c.log.id(after), Index: c.log.Last.Index})
	write := c.logWrite()
	if after < write.After.Index {
		write.After, write.Entries = c.log.id(after), nil
	} else {
		// The slice is clipped, so that the next append does not overwrite entries of the message that brought these entries.
		write.Entries = slices.Clip(write.Entries[:after-write.After.Index])
	}
	before, needed := c.log.config().Index, c.config().needs(c.self)
	c.log.truncate(c.log.id(after))
	if now := c.log.config().Index; now < before && now > 0 { // at 0, another entry 1 is appended in this step
		c.trace(TraceEvent{Kind: TraceConfigRolledBack, Index: now})
		c.configChanged(needed)
	}
	c.log.generation++
	write.Generation = c.log.generation
	c.disk.truncated(after)
}

// replaceLog drops the whole log. The log then begins after base. Nothing of the new log is durable before this step's write
// is.
func (c *Core) replaceLog(base Base) {
	assert(base.ID.Index > c.log.commit, "no committed entry is dropped that a snapshot does not cover")
	assert(c.leader == nil, "a leader never deletes entries of its log (§5.3, Leader Append-Only)")
	needed := c.config().needs(c.self)
	c.log.replace(base)
	c.configChanged(needed)
	c.disk.truncated(0)
	c.step.out.Write.Base = nil // a base that this step has compacted to
	c.step.out.Write.Log = &LogWrite{After: base.ID, Reset: true, Generation: c.log.generation}
}

// logWrite returns this step's write of the log. If there is none yet, it begins one at the log's end.
func (c *Core) logWrite() *LogWrite {
	w := &c.step.out.Write
	if w.Log == nil {
		w.Log = &LogWrite{After: c.log.Last, Generation: c.log.generation}
	}
	return w.Log
}

// StoredLog is what the core knows about the entries of a log, without their payloads. Build it with Observe, after Begin if
// the log does not begin at entry 1.
type StoredLog struct {
	Base      Base        // the log begins behind it; zero: at entry 1
	Last      EntryID     // Base.ID if the log holds no entry
	LastTime  int64       // the highest stamp
	Runs      []TermRun   // which term wrote which indexes, in order
	sizes     []sizeMark  // where in the log its bytes are, roughly
	Configs   []ConfigRun // the configurations, in order
	Bootstrap *Bootstrap  // the content of entry 1; nil if the log does not hold it
}

// TermRun: the entries from First up to the next run's First have Term.
type TermRun struct {
	Term  Term
	First Index
}

// ConfigRun is the configuration of entry Index, in force up to the next run.
type ConfigRun struct {
	Index  Index
	Config Configuration
}

// sizeMark says that the records up to Index take Bytes bytes. There is about one mark per sizeMarkBytes bytes. That is
// enough to limit the size of appends without storing a number for each entry.
type sizeMark struct {
	Index Index
	Bytes uint64
}

const sizeMarkBytes = 64 << 10

// Begin makes an empty log begin behind b. Call it before the first Observe.
func (s *StoredLog) Begin(b Base) {
	assert(s.Last == EntryID{}, "a log begins before its first entry")
	*s = StoredLog{Base: b, Last: b.ID, LastTime: b.Time}
}

// Observe adds the next entry, in order. The error says why it cannot follow.
func (s *StoredLog) Observe(e Entry) error {
	if e.Index != s.Last.Index+1 || e.Term < s.Last.Term {
		return fmt.Errorf("raft: entry %v follows entry %v", e.ID(), s.Last)
	}
	if (e.Kind == EntryBootstrap) != (e.Index == 1) {
		return fmt.Errorf("raft: entry %v is a %v entry", e.ID(), e.Kind)
	}
	if err := s.adoptConfig(e); err != nil {
		return err
	}
	s.append(e)
	return nil
}

// adoptConfig puts in force the configuration that an entry holds, if it holds one. If the configuration must not follow the
// one before it, adoptConfig changes nothing and returns an error.
func (s *StoredLog) adoptConfig(e Entry) error {
	run := ConfigRun{Index: e.Index}
	switch e.Kind {
	case EntryBootstrap:
		f, err := DecodeBootstrap(e.Data)
		if err != nil {
			return err
		}
		s.Bootstrap, run.Config = &f, f.Configuration
	case EntryConfiguration:
		c, err := DecodeConfiguration(e.Data)
		if err != nil {
			return err
		}
		if err := c.follows(s.config().Config, e.Index); err != nil {
			return fmt.Errorf("raft: the configuration of entry %v may not follow the one before it: %w", e.ID(), err)
		}
		run.Config = c
	case EntryRecovery: // its voters did not agree: a majority of them is lost
		r, err := DecodeRecovery(e.Data)
		if err != nil {
			return err
		}
		run.Config = r.Configuration
	default:
		return nil
	}
	s.Configs = append(slices.Clip(s.Configs), run) // clipped, because copies of the log share the slice
	return nil
}

// config returns the newest configuration of the log; the zero value if the log is empty.
func (s *StoredLog) config() ConfigRun { return s.configRun(len(s.Configs)) }

// configAt returns the newest configuration that the entries up to i hold. i must not be below the base.
func (s *StoredLog) configAt(i Index) ConfigRun {
	assert(i >= s.Base.ID.Index, "no configuration below the base is known")
	return s.configRun(s.configsUpTo(i))
}

// configRun returns the last of the first n runs. If n is 0, it returns the run of the base.
func (s *StoredLog) configRun(n int) ConfigRun {
	if n == 0 {
		return ConfigRun{s.Base.ConfigIndex, s.Base.Config}
	}
	return s.Configs[n-1]
}

// configsFrom returns the configuration in force at i, and those that the entries after i hold.
func (s *StoredLog) configsFrom(i Index) []ConfigRun {
	return append([]ConfigRun{s.configAt(i)}, s.Configs[s.configsUpTo(i):]...)
}

// configsUpTo returns how many runs begin at or below i.
func (s *StoredLog) configsUpTo(i Index) int {
	n := len(s.Configs)
	for n > 0 && s.Configs[n-1].Index > i {
		n--
	}
	return n
}

// accepts returns an error if a configuration among the entries must not follow the configuration before it. The entry before
// the first of the entries must be in the log, or be its base.
func (s *StoredLog) accepts(entries []Entry) error {
	if !slices.ContainsFunc(entries, func(e Entry) bool { return e.Kind == EntryConfiguration }) {
		return nil
	}
	trial := StoredLog{Configs: []ConfigRun{s.configAt(entries[0].Index - 1)}}
	for _, e := range entries {
		if err := trial.adoptConfig(e); err != nil {
			return err
		}
	}
	return nil
}

// append is Observe without the checks. It does not put a configuration in force.
func (s *StoredLog) append(e Entry) {
	if n := len(s.Runs); n == 0 || s.Runs[n-1].Term != e.Term {
		s.Runs = append(s.Runs, TermRun{e.Term, e.Index})
	}
	s.Last = e.ID()
	s.LastTime = max(s.LastTime, e.Time)
	size := uint64(len(e.Data) + RecordOverheadBytes)
	n := len(s.sizes)
	switch {
	case n == 0:
		s.sizes = append(s.sizes, sizeMark{e.Index - 1, 0}, sizeMark{e.Index, size})
	case n == 1 || size >= sizeMarkBytes || s.sizes[n-1].Bytes-s.sizes[n-2].Bytes >= sizeMarkBytes:
		// A large entry has its own mark, so that the estimates of its neighbours stay close.
		s.sizes = append(s.sizes, sizeMark{e.Index, s.sizes[n-1].Bytes + size})
	default: // the last mark moves on until it is sizeMarkBytes away from the one before it
		s.sizes[n-1] = sizeMark{e.Index, s.sizes[n-1].Bytes + size}
	}
}

// truncate drops every entry above after, which must be in the log or be its base.
func (s *StoredLog) truncate(after EntryID) {
	keep := sort.Search(len(s.Runs), func(i int) bool { return s.Runs[i].First > after.Index })
	s.Runs = s.Runs[:keep]
	bytes := s.bytesUpTo(after.Index)
	marks := sort.Search(len(s.sizes), func(i int) bool { return s.sizes[i].Index >= after.Index })
	s.sizes = slices.Clip(s.sizes[:marks])
	if len(s.sizes) > 0 {
		s.sizes = append(s.sizes, sizeMark{after.Index, bytes})
	}
	s.Configs = s.Configs[:s.configsUpTo(after.Index)]
	s.Last = after
	if after.Index == 0 {
		s.Bootstrap = nil
	}
}

// compact drops every entry up to b.ID, which must be in the log or be its base. From then on, the base keeps the
// configuration that is in force at b.ID.
func (s *StoredLog) compact(b Base) {
	bytes := s.bytesUpTo(b.ID.Index)
	if s.Last.Index == b.ID.Index {
		s.Runs = nil
	} else {
		behind := sort.Search(len(s.Runs), func(i int) bool { return s.Runs[i].First > b.ID.Index+1 })
		s.Runs = slices.Clone(s.Runs[behind-1:])
		s.Runs[0].First = b.ID.Index + 1
	}
	marks := sort.Search(len(s.sizes), func(i int) bool { return s.sizes[i].Index > b.ID.Index })
	s.sizes = append([]sizeMark{{b.ID.Index, bytes}}, s.sizes[marks:]...)
	s.Configs = s.Configs[s.configsUpTo(b.ID.Index):]
	s.Base, s.Bootstrap = b, nil
}

// bytesUpTo estimates how many bytes the records up to i take, to within the distance of two marks. It includes compacted
// entries, so only the difference of two estimates means anything. Each truncation adds an error of the same size to later
// estimates.
func (s *StoredLog) bytesUpTo(i Index) uint64 {
	at := sort.Search(len(s.sizes), func(k int) bool { return s.sizes[k].Index >= i })
	if at == len(s.sizes) {
		if at == 0 {
			return 0
		}
		return s.sizes[at-1].Bytes
	}
	if at == 0 || s.sizes[at].Index == i {
		return s.sizes[at].Bytes
	}
	from, to := s.sizes[at-1], s.sizes[at]
	return from.Bytes + (to.Bytes-from.Bytes)*uint64(i-from.Index)/uint64(to.Index-from.Index)
}

// Configuration returns the newest configuration of the log; the zero value if the log is empty.
func (s *StoredLog) Configuration() Configuration { return s.config().Config }
