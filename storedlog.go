package raft

import (
	"fmt"
	"slices"
	"sort"
)

// StoredLog is what the core knows about the entries of a log, without their payloads. Build it with Observe, after
// Begin if the log does not begin at entry 1.
type StoredLog struct {
	Base      Base        // the log begins behind it; zero: at entry 1
	Last      EntryID     // Base.ID if the log holds no entry
	LastTime  int64       // no entry has a higher stamp
	Runs      []TermRun   // which term wrote which of the log's indexes, in order
	Sizes     []SizeMark  // where in the log its bytes are, roughly
	Configs   []ConfigRun // which configuration is in force from which of the log's indexes on, in order
	Bootstrap *Bootstrap  // the content of entry 1; nil if the log does not hold it
}

// TermRun says that the entries from First up to the next run's First carry Term.
type TermRun struct {
	Term  Term
	First Index
}

// ConfigRun says that the entry at Index holds Config, which is in force from there up to the next run's Index.
type ConfigRun struct {
	Index  Index
	Config Configuration
}

// SizeMark says that the records up to Index take Bytes bytes. There is one about every sizeMarkBytes bytes, which is
// enough to limit the size of appends without a number for each entry.
type SizeMark struct {
	Index Index
	Bytes uint64
}

const sizeMarkBytes = 64 << 10

// Begin makes an empty log begin behind b. Call it before the first Observe.
func (s *StoredLog) Begin(b Base) {
	assert(s.Last == EntryID{}, "a log begins before its first entry")
	*s = StoredLog{Base: b, Last: b.ID, LastTime: b.Time}
}

// Observe adds the next entry of a log; call it for every entry in order. It returns an error if the entry cannot
// follow the ones before it.
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

// adoptConfig takes in the configuration that an entry holds, if it holds one. It returns an error, and changes nothing, if
// the configuration may not follow the one before it.
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

// configRun returns the last of the first n runs; if n is 0, that of the base.
func (s *StoredLog) configRun(n int) ConfigRun {
	if n == 0 {
		return ConfigRun{s.Base.ConfigIndex, s.Base.Config}
	}
	return s.Configs[n-1]
}

// configsFrom returns the configuration in force at i, and those that the entries behind i hold.
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

// accepts returns an error if a configuration among the entries may not follow the one before it. The entry before the
// first of them must be in the log, or be its base.
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

// append is Observe without the checks, and without the configuration that the entry may hold.
func (s *StoredLog) append(e Entry) {
	if n := len(s.Runs); n == 0 || s.Runs[n-1].Term != e.Term {
		s.Runs = append(s.Runs, TermRun{e.Term, e.Index})
	}
	s.Last = e.ID()
	s.LastTime = max(s.LastTime, e.Time)
	size := uint64(len(e.Data) + RecordOverheadBytes)
	n := len(s.Sizes)
	switch {
	case n == 0:
		s.Sizes = append(s.Sizes, SizeMark{e.Index - 1, 0}, SizeMark{e.Index, size})
	case n == 1 || size >= sizeMarkBytes || s.Sizes[n-1].Bytes-s.Sizes[n-2].Bytes >= sizeMarkBytes:
		// A large entry has its own mark, so that the estimates of its neighbours stay close.
		s.Sizes = append(s.Sizes, SizeMark{e.Index, s.Sizes[n-1].Bytes + size})
	default: // the last mark moves on until it is sizeMarkBytes away from the one before it
		s.Sizes[n-1] = SizeMark{e.Index, s.Sizes[n-1].Bytes + size}
	}
}

// truncate drops every entry above after, which must be in the log or be its base.
func (s *StoredLog) truncate(after EntryID) {
	keep := sort.Search(len(s.Runs), func(i int) bool { return s.Runs[i].First > after.Index })
	s.Runs = s.Runs[:keep]
	bytes := s.bytesUpTo(after.Index)
	marks := sort.Search(len(s.Sizes), func(i int) bool { return s.Sizes[i].Index >= after.Index })
	s.Sizes = slices.Clip(s.Sizes[:marks])
	if len(s.Sizes) > 0 {
		s.Sizes = append(s.Sizes, SizeMark{after.Index, bytes})
	}
	s.Configs = s.Configs[:s.configsUpTo(after.Index)]
	s.Last = after
	if after.Index == 0 {
		s.Bootstrap = nil
	}
}

// compact drops every entry up to b.ID, which must be in the log or be its base. From then on the base keeps the
// configuration in force there.
func (s *StoredLog) compact(b Base) {
	bytes := s.bytesUpTo(b.ID.Index)
	if s.Last.Index == b.ID.Index {
		s.Runs = nil
	} else {
		behind := sort.Search(len(s.Runs), func(i int) bool { return s.Runs[i].First > b.ID.Index+1 })
		s.Runs = slices.Clone(s.Runs[behind-1:])
		s.Runs[0].First = b.ID.Index + 1
	}
	marks := sort.Search(len(s.Sizes), func(i int) bool { return s.Sizes[i].Index > b.ID.Index })
	s.Sizes = append([]SizeMark{{b.ID.Index, bytes}}, s.Sizes[marks:]...)
	s.Configs = s.Configs[s.configsUpTo(b.ID.Index):]
	s.Base, s.Bootstrap = b, nil
}

// bytesUpTo estimates how many bytes the records up to i take, to within the distance of two marks. Entries that were
// compacted count, too, so only differences mean something. Each truncation adds as much again to the error of later
// estimates.
func (s *StoredLog) bytesUpTo(i Index) uint64 {
	at := sort.Search(len(s.Sizes), func(k int) bool { return s.Sizes[k].Index >= i })
	if at == len(s.Sizes) {
		if at == 0 {
			return 0
		}
		return s.Sizes[at-1].Bytes
	}
	if at == 0 || s.Sizes[at].Index == i {
		return s.Sizes[at].Bytes
	}
	from, to := s.Sizes[at-1], s.Sizes[at]
	return from.Bytes + (to.Bytes-from.Bytes)*uint64(i-from.Index)/uint64(to.Index-from.Index)
}
