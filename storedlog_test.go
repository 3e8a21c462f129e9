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

func (n naiveLog) follower(term Term, bytes int) Entry {
	e := Entry{Index: n.last().Index + 1, Term: term, Kind: EntryCommand, Time: int64(len(n)), Data: make([]byte, bytes)}
	if e.Index == 1 {
		e.Kind, e.Data = EntryBootstrap, aBootstrap(1).Encode()
	}
	return e
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

func TestStoredLog_WithoutATruncationBytesAreWithinTwoMarks(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	var stored StoredLog
	var naive naiveLog
	for range 2000 {
		e := naive.follower(1, someSize(random))
		stored.append(e)
		naive = append(naive, e)
	}
	stored.Bootstrap = &Bootstrap{}
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
					stored.compact(Base{ID: naive[base-1].ID()})
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
		for i := base; i <= naive.last().Index; i++ {
			want := float64(naive.bytesUpTo(i) - naive.bytesUpTo(base))
			require.InDelta(t, want, float64(stored.bytesUpTo(i)-stored.bytesUpTo(base)), float64(2*sizeMarkBytes*(1+changes)))
		}
	}
}

func TestStoredLog_ObserveRefusesWhatCannotFollow(t *testing.T) {
	var bootstrapped StoredLog
	require.NoError(t, bootstrapped.Observe(naiveLog{}.follower(2, 0)))
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
	} {
		before := row.log
		require.Error(t, row.log.Observe(row.e), row.rule)
		require.Equal(t, before, row.log, "%s: nothing is changed", row.rule)
	}
}
