package raft

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// logOf holds one entry for each term, from index 1 on; bootstrap is left aside.
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
		{"the place before the log", EntryID{0, 0}, true},
		{"that place in another term", EntryID{1, 0}, false},
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

// compactedLog is logOf with everything up to base gone.
func compactedLog(base Index, terms ...Term) *log {
	l := logOf(terms...)
	l.compact(Base{ID: l.id(base)})
	return l
}

// The border of a compacted log, from both sides. Everything up to the base is committed, so every later leader has it,
// and it matches every append that is possible at all.
func TestLog_AtTheBase(t *testing.T) {
	l := compactedLog(4, 0, 1, 1, 4, 4, 6) // base 4@4, then 5@4 6@6
	for _, row := range []struct {
		rule string
		id   EntryID
		want bool
	}{
		{"the place before the log", EntryID{0, 0}, true},
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
	require.Equal(t, EntryID{4, 4}, l.known(3), "what was compacted is known by the base")
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
