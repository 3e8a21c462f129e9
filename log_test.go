package raft

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// logOf returns a log with one entry for each term, from index 1 on, without the content of the bootstrap.
func logOf(terms ...Term) *log {
	l := newLog(StoredLog{})
	for i, term := range terms {
		l.append(Entry{Index: Index(i + 1), Term: term, Data: make([]byte, 100)})
	}
	return &l
}

func TestLog_KeepsTermsAsRuns(t *testing.T) {
	l := logOf(0, 1, 1, 1, 4, 4, 7)
	require.Equal(t, []TermRun{{0, 1}, {1, 2}, {4, 5}, {7, 7}}, l.Runs)
	for i, want := range []Term{0, 0, 1, 1, 1, 4, 4, 7} {
		require.Equal(t, want, l.term(Index(i)))
	}
	l.truncate(l.id(5))
	require.Equal(t, []TermRun{{0, 1}, {1, 2}, {4, 5}}, l.Runs)
	require.Equal(t, EntryID{4, 5}, l.Last)
	l.truncate(EntryID{})
	require.Empty(t, l.Runs)
}

// "Reply false if log doesn't contain an entry at prevLogIndex whose term matches prevLogTerm (§5.3)."
// (Figure 2)
func TestLog_Has(t *testing.T) {
	l := logOf(0, 1, 1, 4)
	for _, row := range []struct {
		rule string
		id   EntryID
		want bool
	}{
		{"the position before the log", EntryID{0, 0}, true},
		{"that position in another term", EntryID{1, 0}, false},
		{"an entry", EntryID{1, 3}, true},
		{"the last", EntryID{4, 4}, true},
		{"another term at its place", EntryID{3, 4}, false},
		{"beyond the log", EntryID{4, 5}, false},
		{"far beyond", EntryID{4, 1<<64 - 1}, false},
	} {
		require.Equal(t, row.want, l.has(row.id), row.rule)
	}
	require.True(t, logOf().has(EntryID{}))
	require.False(t, logOf().has(EntryID{1, 1}))
}

func TestLog_LastWithTermAtMost(t *testing.T) {
	l := logOf(0, 1, 1, 4, 4, 5)
	for _, row := range []struct {
		rule  string
		index Index
		term  Term
		want  EntryID
	}{
		{"the entry itself", 6, 5, EntryID{5, 6}},
		{"beyond the log: its end", 99, 9, EntryID{5, 6}},
		{"skip one term", 6, 4, EntryID{4, 5}},
		{"skip several", 6, 3, EntryID{1, 3}},
		{"begin in the middle of a run", 4, 4, EntryID{4, 4}},
		{"down to entry 1", 5, 0, EntryID{0, 1}},
		{"nothing before index 0", 0, 9, EntryID{}},
	} {
		require.Equal(t, row.want, l.lastWithTermAtMost(row.index, row.term), row.rule)
	}
	require.Equal(t, EntryID{}, logOf().lastWithTermAtMost(5, 5))
	require.Equal(t, EntryID{}, logOf(3, 3).lastWithTermAtMost(2, 2), "no entry is old enough")
}

// compactedLog returns logOf, compacted up to base.
func compactedLog(base Index, terms ...Term) *log {
	l := logOf(terms...)
	l.compact(Base{ID: l.id(base)})
	return l
}

// These are the cases around the base of a compacted log. Everything up to the base is committed, so every later leader has
// it, and it matches every possible append.
func TestLog_AtTheBase(t *testing.T) {
	l := compactedLog(4, 0, 1, 1, 4, 4, 6) // base 4@4, then 5@4 6@6
	for _, row := range []struct {
		rule string
		id   EntryID
		want bool
	}{
		{"the position before the log", EntryID{0, 0}, true},
		{"below the base, an earlier term", EntryID{1, 3}, true},
		{"below the base, the term of the base", EntryID{4, 3}, true},
		{"below the base, a later term", EntryID{5, 3}, false},
		{"the base", EntryID{4, 4}, true},
		{"the base in an earlier term", EntryID{3, 4}, false},
		{"the base in a later term", EntryID{5, 4}, false},
		{"the first entry", EntryID{4, 5}, true},
		{"the first entry in another term", EntryID{5, 5}, false},
		{"the last entry", EntryID{6, 6}, true},
		{"beyond the log", EntryID{6, 7}, false},
	} {
		require.Equal(t, row.want, l.has(row.id), row.rule)
	}
	require.Equal(t, []Term{4, 4, 6}, []Term{l.term(4), l.term(5), l.term(6)})
	require.Equal(t, EntryID{4, 4}, l.known(3), "the base stands for the compacted entries")
	require.Equal(t, EntryID{4, 4}, l.known(4))
	require.Equal(t, EntryID{4, 5}, l.known(5))
	require.Panics(t, func() { l.term(3) }, "nothing below the base has a term")
	require.Panics(t, func() { l.term(7) })
	require.Panics(t, func() { l.cut(3, 1) })
	require.Panics(t, func() { l.lastWithTermAtMost(3, 9) })
	last, _ := l.cut(4, 1)
	require.EqualValues(t, 5, last, "the first entry can be sent")
	last, bytes := l.cut(4, 1000)
	require.EqualValues(t, 6, last)
	require.EqualValues(t, l.bytesUpTo(6)-l.bytesUpTo(4), bytes)

	for _, row := range []struct {
		rule  string
		index Index
		term  Term
		want  EntryID
	}{
		{"the entry itself", 6, 6, EntryID{6, 6}},
		{"down to the first entry", 6, 4, EntryID{4, 5}},
		{"down to the base", 6, 3, EntryID{4, 4}},
		{"the first entry", 5, 4, EntryID{4, 5}},
		{"the first entry is too new", 5, 2, EntryID{4, 4}},
		{"the base itself", 4, 4, EntryID{4, 4}},
		{"the base, whatever its term", 4, 1, EntryID{4, 4}},
	} {
		require.Equal(t, row.want, l.lastWithTermAtMost(row.index, row.term), row.rule)
	}
}

func TestLog_WithoutAnEntryBehindItsBase(t *testing.T) {
	l := compactedLog(3, 0, 1, 2)
	require.Empty(t, l.Runs)
	require.Equal(t, EntryID{2, 3}, l.Last)
	require.True(t, l.has(EntryID{2, 3}))
	require.False(t, l.has(EntryID{2, 4}))
	require.Equal(t, EntryID{2, 3}, l.lastWithTermAtMost(9, 0))
	l.truncate(l.id(3))
	l.append(Entry{Index: 4, Term: 2, Data: make([]byte, 100)})
	require.Equal(t, []TermRun{{2, 4}}, l.Runs)
	require.EqualValues(t, 100+RecordOverheadBytes, l.bytesUpTo(4)-l.bytesUpTo(3))
	l.truncate(l.id(3))
	require.Equal(t, EntryID{2, 3}, l.Last)
	require.Empty(t, l.Runs)
}

// "If the logs have last entries with different terms, then the log with the later term is more
// up-to-date. If the logs end with the same term, then whichever log is longer is more up-to-date."
// (§5.4.1)
func TestLog_UpToDate(t *testing.T) {
	for _, row := range []struct {
		rule         string
		theirs, ours EntryID
		want         bool
	}{
		{"equal", EntryID{2, 3}, EntryID{2, 3}, true},
		{"longer, same term", EntryID{2, 4}, EntryID{2, 3}, true},
		{"shorter, same term", EntryID{2, 2}, EntryID{2, 3}, false},
		{"later term, shorter", EntryID{3, 1}, EntryID{2, 3}, true},
		{"earlier term, longer", EntryID{1, 9}, EntryID{2, 3}, false},
		{"both empty", EntryID{}, EntryID{}, true},
	} {
		require.Equal(t, row.want, upToDate(row.theirs, row.ours), row.rule)
	}
}

// A span holds at least one entry, ends within the log, and exceeds the requested size by at most the distance of two
// size marks.
func TestLog_Cut(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		l, sizes := newLog(StoredLog{}), []int{0}
		for i := range 1 + rng.IntN(60) {
			size := rng.IntN(40 << 10)
			l.append(Entry{Index: Index(i + 1), Term: 1, Data: make([]byte, size)})
			sizes = append(sizes, size+RecordOverheadBytes)
		}
		if rng.IntN(2) == 0 {
			after := 1 + rng.IntN(int(l.Last.Index))
			l.truncate(EntryID{1, Index(after)})
			sizes = sizes[:after+1]
		}
		after, limit := Index(rng.IntN(int(l.Last.Index))), rng.IntN(300<<10)
		last, _ := l.cut(after, limit)
		require.Greater(t, last, after)
		require.LessOrEqual(t, last, l.Last.Index)
		total := 0
		for _, size := range sizes[after+1 : last+1] {
			total += size
		}
		require.LessOrEqual(t, total, max(limit, 40<<10)+2*(sizeMarkBytes+40<<10))
	}
}

// naiveLog is the model of a StoredLog: it keeps every entry.
type naiveLog []Entry

func (n naiveLog) last() EntryID {
	if len(n) == 0 {
		return EntryID{}
	}
	return n[len(n)-1].ID()
}

func (n naiveLog) bytesUpTo(i Index) (bytes uint64) {
	for _, e := range n[:i] {
		bytes += uint64(len(e.Data) + RecordOverheadBytes)
	}
	return bytes
}

func (n naiveLog) runs() (runs []TermRun) {
	for i, e := range n {
		if i == 0 || n[i-1].Term != e.Term {
			runs = append(runs, TermRun{e.Term, e.Index})
		}
	}
	return runs
}

func (n naiveLog) configAt(i Index) ConfigRun {
	for ; i > 1; i-- {
		if e := n[i-1]; e.Kind == EntryConfiguration {
			return ConfigRun{i, configurationNamed(e.ID())}
		}
	}
	if i == 0 {
		return ConfigRun{}
	}
	return ConfigRun{1, aBootstrap(1).Configuration}
}

func (n naiveLog) follower(term Term, bytes int) Entry {
	e := Entry{Index: n.last().Index + 1, Term: term, Kind: EntryCommand, Time: int64(len(n)), Data: make([]byte, bytes)}
	switch {
	case e.Index == 1:
		e.Kind, e.Data = EntryBootstrap, aBootstrap(1).Encode()
	case e.Index%29 == 0:
		e.Kind, e.Data = EntryConfiguration, configurationNamed(e.ID()).Encode()
	}
	return e
}

// configurationNamed returns a configuration whose text names its entry.
func configurationNamed(id EntryID) Configuration {
	c := aBootstrap(1).Configuration
	c.Members[0].Meta, c.Level = id.String(), featureLevelMembers
	return c
}

// someSize returns a size that is usually small and sometimes large.
func someSize(random *rand.Rand) int {
	if random.IntN(200) == 0 {
		return random.IntN(10 * sizeMarkBytes)
	}
	return random.IntN(2000)
}

func TestStoredLog_TellsWhatTheWholeLogWould(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		var stored StoredLog
		var naive naiveLog
		term, truncations := Term(0), uint64(0)
		for range 1500 {
			switch random.IntN(100) {
			case 0:
				keep := random.IntN(len(naive) + 1)
				naive = naive[:keep]
				stored.truncate(naive.last())
				truncations++
			case 1, 2:
				term++
			default:
				e := naive.follower(term, someSize(random))
				require.NoError(t, stored.Observe(e))
				naive = append(naive, e)
			}
		}
		assertTells(t, &stored, naive, truncations)
	}
}

func assertTells(t *testing.T, stored *StoredLog, naive naiveLog, truncations uint64) {
	t.Helper()
	require.Equal(t, naive.last(), stored.Last)
	require.Equal(t, naive.runs(), append([]TermRun(nil), stored.Runs...))
	require.Equal(t, len(naive) > 0, stored.Bootstrap != nil)
	assertConfigs(t, stored, naive)
	tolerance := float64(2 * sizeMarkBytes * (1 + truncations))
	before := uint64(0)
	for i := Index(0); i <= naive.last().Index; i++ {
		got := stored.bytesUpTo(i)
		require.GreaterOrEqual(t, got, before, "bytes never fall along the log")
		require.InDelta(t, float64(naive.bytesUpTo(i)), float64(got), tolerance, "entry %d", i)
		before = got
	}
	marksMax := 2 + 2*naive.bytesUpTo(naive.last().Index)/sizeMarkBytes + truncations
	require.LessOrEqual(t, uint64(len(stored.sizes)), marksMax, "marks are few")
}

func assertConfigs(t *testing.T, stored *StoredLog, naive naiveLog) {
	t.Helper()
	for i := stored.Base.ID.Index; i <= naive.last().Index; i++ {
		want := naive.configAt(i)
		got := stored.configAt(i)
		require.Equal(t, want.Index, got.Index, "at %d", i)
		require.True(t, want.Config.Equal(got.Config), "at %d: %+v", i, got)
	}
	require.Equal(t, stored.configAt(naive.last().Index), stored.config())
	if len(stored.Configs) > 0 {
		require.Greater(t, stored.Configs[0].Index, stored.Base.ID.Index, "compacted configurations are not kept")
	}
}

func TestStoredLog_WithoutATruncationBytesAreWithinTwoMarks(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	var stored StoredLog
	var naive naiveLog
	for range 2000 {
		e := naive.follower(1, someSize(random))
		require.NoError(t, stored.Observe(e))
		naive = append(naive, e)
	}
	assertTells(t, &stored, naive, 0)
	require.Equal(t, naive.bytesUpTo(2000), stored.bytesUpTo(2000), "exact at the end")
}

func TestStoredLog_ATruncatedLogIsAsIfItHadNeverBeenLonger(t *testing.T) {
	var short, long StoredLog
	var naive naiveLog
	for i := range 50 {
		e := naive.follower(Term(i/10), 10)
		naive = append(naive, e)
		require.NoError(t, long.Observe(e))
		if i < 25 {
			require.NoError(t, short.Observe(e))
		}
	}
	long.truncate(naive[24].ID())
	short.LastTime, short.sizes = long.LastTime, long.sizes
	require.Equal(t, short, long)

	long.truncate(EntryID{})
	require.Empty(t, long.Runs)
	require.Empty(t, long.sizes)
	require.Empty(t, long.Configs)
	require.Nil(t, long.Bootstrap)
	require.NotZero(t, long.LastTime, "the highest stamp is never forgotten")
	require.NoError(t, long.Observe(naive[0]))
}

func TestStoredLog_MayBeginBehindAnyEntry(t *testing.T) {
	start := EntryID{Term: 3, Index: 1000}
	var stored StoredLog
	stored.Begin(Base{ID: start, Time: 77})
	require.Equal(t, StoredLog{Base: Base{ID: start, Time: 77}, Last: start, LastTime: 77}, stored)
	require.Error(t, stored.Observe(Entry{Index: 1000, Term: 3, Kind: EntryCommand}), "the base is not an entry of the log")
	require.Error(t, stored.Observe(Entry{Index: 1001, Term: 2, Kind: EntryCommand}), "terms never fall")
	for i := range 10 {
		e := Entry{Index: start.Index + 1 + Index(i), Term: 3, Kind: EntryCommand, Data: make([]byte, 100)}
		require.NoError(t, stored.Observe(e))
	}
	require.Zero(t, stored.bytesUpTo(1000))
	require.EqualValues(t, 10*(100+RecordOverheadBytes), stored.bytesUpTo(1010))
	require.EqualValues(t, 5*(100+RecordOverheadBytes), stored.bytesUpTo(1005))
}

// A compacted log gives the same answers about its remaining entries as the whole log. It can be truncated, and then
// continued.
func TestStoredLog_ACompactedLogTellsOfTheRest(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 2))
		var stored StoredLog
		var naive naiveLog
		term, base, changes := Term(0), Index(0), uint64(0)
		for range 800 {
			switch last := naive.last().Index; random.IntN(100) {
			case 0, 1:
				base += Index(random.Uint64N(uint64(last-base) + 1))
				if base > 0 {
					before := slices.Clone(stored.Runs)
					shared := stored.Runs
					run := stored.configAt(base)
					stored.compact(Base{ID: naive[base-1].ID(), ConfigIndex: run.Index, Config: run.Config})
					require.Equal(t, before, shared, "nobody else's runs are changed")
					changes++
				}
			case 2:
				naive = naive[:base+Index(random.Uint64N(uint64(last-base)+1))]
				stored.truncate(naive.last())
				changes++
			case 3, 4:
				term++
			default:
				e := naive.follower(term, someSize(random))
				require.NoError(t, stored.Observe(e))
				naive = append(naive, e)
			}
		}
		require.Equal(t, naive.last(), stored.Last)
		require.Equal(t, base, stored.Base.ID.Index)
		require.Equal(t, naive[base:].runs(), append([]TermRun(nil), stored.Runs...))
		require.Equal(t, base == 0, stored.Bootstrap != nil)
		assertConfigs(t, &stored, naive)
		for i := base; i <= naive.last().Index; i++ {
			want := float64(naive.bytesUpTo(i) - naive.bytesUpTo(base))
			require.InDelta(t, want, float64(stored.bytesUpTo(i)-stored.bytesUpTo(base)), float64(2*sizeMarkBytes*(1+changes)))
		}
	}
}

// If a log continues after a truncation, it does not overwrite anything that a copy of the log holds.
func TestStoredLog_CopiesKeepTheirConfigurations(t *testing.T) {
	var first StoredLog
	for i := range Index(4) {
		e := Entry{Index: i + 1, Kind: EntryConfiguration, Data: configurationNamed(EntryID{0, i + 1}).Encode()}
		if i == 0 {
			e = naiveLog{}.follower(0, 0)
		}
		require.NoError(t, first.Observe(e))
	}
	second := first
	first.truncate(EntryID{0, 2})
	require.NoError(t, first.Observe(Entry{Index: 3, Term: 7, Kind: EntryConfiguration, Data: configurationNamed(EntryID{7, 3}).Encode()}))
	third := first
	require.NoError(t, first.Observe(Entry{Index: 4, Term: 7, Kind: EntryConfiguration, Data: configurationNamed(EntryID{7, 4}).Encode()}))
	require.NoError(t, third.Observe(Entry{Index: 4, Term: 8, Kind: EntryConfiguration, Data: configurationNamed(EntryID{8, 4}).Encode()}))
	require.Equal(t, configurationNamed(EntryID{0, 3}), second.configAt(3).Config)
	require.Equal(t, configurationNamed(EntryID{7, 4}), first.config().Config)
	require.Equal(t, configurationNamed(EntryID{8, 4}), third.config().Config)
}

func TestStoredLog_ObserveRefusesWhatCannotFollow(t *testing.T) {
	configured := func(i Index, c Configuration) Entry {
		return Entry{Index: i, Term: 2, Kind: EntryConfiguration, Data: c.Encode()}
	}
	var bootstrapped, behind StoredLog
	require.NoError(t, bootstrapped.Observe(naiveLog{}.follower(2, 0)))
	behind.Begin(Base{ID: EntryID{2, 9}, ConfigIndex: 4, Config: conf("a:vo b:o")})
	for _, row := range []struct {
		rule string
		log  StoredLog
		e    Entry
	}{
		{"an index is left out", bootstrapped, Entry{Index: 3, Term: 2, Kind: EntryCommand}},
		{"an index comes again", bootstrapped, Entry{Index: 1, Term: 2, Kind: EntryBootstrap, Data: aBootstrap(1).Encode()}},
		{"the term falls", bootstrapped, Entry{Index: 2, Term: 1, Kind: EntryCommand}},
		{"a cluster is bootstrapped twice", bootstrapped, Entry{Index: 2, Term: 2, Kind: EntryBootstrap, Data: aBootstrap(1).Encode()}},
		{"the first entry bootstraps nothing", StoredLog{}, Entry{Index: 1, Kind: EntryCommand}},
		{"the bootstrap is damaged", StoredLog{}, Entry{Index: 1, Kind: EntryBootstrap, Data: []byte("damage")}},
		{"the configuration is damaged", bootstrapped, Entry{Index: 2, Term: 2, Kind: EntryConfiguration, Data: []byte("damage")}},
		{"voters change at once", bootstrapped, configured(2, conf("b:v"))},
		{"a configuration comes first", StoredLog{}, configured(1, conf("a:v"))},
		{"a configuration does not follow that of the base", behind, configured(10, conf("a:v"))},
	} {
		before := row.log
		require.Error(t, row.log.Observe(row.e), row.rule)
		require.Equal(t, before, row.log, "%s: nothing is changed", row.rule)
	}
}
