package raft

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// naiveLog is what StoredLog stands for: every entry.
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

// configurationNamed names its entry.
func configurationNamed(id EntryID) Configuration {
	c := aBootstrap(1).Configuration
	c.Members[0].Meta, c.Level = id.String(), featureLevelMembers
	return c
}

// someSize is mostly small, now and then large.
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
	require.LessOrEqual(t, uint64(len(stored.Sizes)), marksMax, "marks are few")
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
		require.Greater(t, stored.Configs[0].Index, stored.Base.ID.Index, "what is compacted is not kept")
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
	short.LastTime, short.Sizes = long.LastTime, long.Sizes
	require.Equal(t, short, long)

	long.truncate(EntryID{})
	require.Empty(t, long.Runs)
	require.Empty(t, long.Sizes)
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

// A compacted log tells of the entries that are left what the whole one would, and may be truncated and go on.
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

// A log that goes on after a truncation writes over nothing that a copy of it holds.
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
