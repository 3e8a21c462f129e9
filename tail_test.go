package raft

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// entriesOf returns the entries (after, last] of one term, with data of that size.
func entriesOf(term Term, after, last Index, size int) []Entry {
	var out []Entry
	for i := after + 1; i <= last; i++ {
		out = append(out, Entry{Index: i, Term: term, Kind: EntryCommand, Data: make([]byte, size)})
	}
	return out
}

func TestTail_ServesWhatWasWritten(t *testing.T) {
	tl := newTail(10, 1<<20)
	tl.write(&LogWrite{After: EntryID{1, 10}, Entries: entriesOf(2, 10, 13, 1), Generation: 1})
	tl.write(&LogWrite{After: EntryID{2, 13}, Entries: entriesOf(2, 13, 15, 1), Generation: 1})

	for _, row := range []struct {
		rule        string
		span        Span
		bytes       int
		first, last Index // of what is returned; 0 = nothing
	}{
		{"all of it", Span{10, 15}, 1 << 20, 11, 15},
		{"a part within one write", Span{11, 12}, 1 << 20, 12, 12},
		{"a part over two writes", Span{12, 14}, 1 << 20, 13, 14},
		{"never more than there is", Span{12, 99}, 1 << 20, 13, 15},
		{"never more than the bytes", Span{10, 15}, 3 * (RecordOverheadBytes + 1), 11, 13},
		{"at least one, whatever the bytes", Span{12, 15}, 1, 13, 13},
		{"nothing if the first one is below", Span{9, 15}, 1 << 20, 0, 0},
		{"nothing if the first one is above", Span{15, 16}, 1 << 20, 0, 0},
	} {
		t.Run(row.rule, func(t *testing.T) {
			got, first := tl.read(row.span, row.bytes)
			expect.Equal(t, Index(11), first)
			if row.first == 0 {
				require.Empty(t, got)
				return
			}
			require.NotEmpty(t, got)
			expect.Equal(t, row.first, got[0].Index)
			expect.Equal(t, row.last, got[len(got)-1].Index)
		})
	}
}

func TestTail_KeepsWhatIsNotOnTheDiskWhateverItsLimit(t *testing.T) {
	tl := newTail(0, 1000)
	for i := Index(0); i < 100; i += 10 {
		tl.write(&LogWrite{After: EntryID{1, i}, Entries: entriesOf(1, i, i+10, 100), Generation: 1})
	}
	got, _ := tl.read(Span{0, 100}, 1<<20)
	require.Len(t, got, 100)

	tl.markPersisted(1, 55)
	got, first := tl.read(Span{50, 100}, 1<<20)
	expect.Equal(t, Index(51), first, "evicted by whole writes, none of which is missing on the disk")
	expect.Len(t, got, 50)
	expect.Equal(t, 50*(100+RecordOverheadBytes), tl.waitingBytes())

	tl.markPersisted(1, 100)
	expect.LessOrEqual(t, tl.memory, 1000)
	expect.Zero(t, tl.waitingBytes())
}

// The limit is one of memory, and small entries cost much more than the bytes of their records.
func TestTail_TakesNoMoreMemoryThanItsLimit(t *testing.T) {
	require.LessOrEqual(t, reflect.TypeFor[Entry]().Size(), uintptr(entryMemory))
	const limit = 8 << 20
	for _, row := range []struct{ data, together int }{
		{0, 1}, {0, 500}, {8, 1}, {8, 100}, {100, 1}, {100, 50}, {1000, 1}, {5000, 7}, {40_000, 1}, {300_000, 2},
	} {
		t.Run(fmt.Sprintf("%d bytes, %d in a write", row.data, row.together), func(t *testing.T) {
			tl, before := newTail(0, limit), heapInUse()
			at := EntryID{}
			for written := 0; written < 2*limit; {
				entries := entriesOf(1, at.Index, at.Index+Index(row.together), row.data)
				for i := range entries {
					entries[i].Seal()
				}
				tl.write(&LogWrite{After: at, Entries: entries, Generation: 1})
				at = entries[row.together-1].ID()
				tl.markPersisted(1, at.Index)
				written += recordBytes(entries)
			}
			took := heapInUse() - before
			t.Logf("%.2f of the limit", float64(took)/limit)
			expect.LessOrEqual(t, took, limit*21/20)
			expect.GreaterOrEqual(t, took, limit*7/10, "the limit is used")
			runtime.KeepAlive(tl)
		})
	}
}

func heapInUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func TestTail_AMarkOfAnOlderGenerationSaysNothing(t *testing.T) {
	tl := newTail(0, 1)
	tl.write(&LogWrite{Entries: entriesOf(1, 0, 5, 1), Generation: 1})
	tl.write(&LogWrite{After: EntryID{1, 2}, Entries: entriesOf(2, 2, 4, 1), Generation: 2})

	tl.markPersisted(1, 5)
	got, _ := tl.read(Span{0, 4}, 1<<20)
	require.Len(t, got, 4, "what the disk has of the older log is not what is here")
	expect.Equal(t, EntryID{1, 2}, got[1].ID())
	expect.Equal(t, EntryID{2, 3}, got[2].ID())
}

func TestTail_AResetForgetsTheLog(t *testing.T) {
	tl := newTail(0, 1<<20)
	tl.write(&LogWrite{Entries: entriesOf(1, 0, 5, 1), Generation: 1})
	tl.write(&LogWrite{After: EntryID{7, 3}, Entries: entriesOf(7, 3, 4, 1), Reset: true, Generation: 2})
	got, first := tl.read(Span{0, 4}, 1<<20)
	require.Empty(t, got)
	expect.Equal(t, Index(4), first)
	got, _ = tl.read(Span{3, 4}, 1<<20)
	require.Len(t, got, 1)
	expect.Equal(t, EntryID{7, 4}, got[0].ID())
}

func TestTail_IsTheEndOfANaiveLog(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		tl, naive, generation, term := newTail(0, 500), []Entry(nil), uint64(1), Term(1)
		persisted := Index(0)
		for range 30 {
			after := Index(len(naive))
			if rng.IntN(4) == 0 {
				after -= Index(rng.IntN(int(after) + 1))
				generation++
				term++
			}
			added := entriesOf(term, after, after+Index(rng.IntN(4)), rng.IntN(40))
			var id EntryID
			if after > 0 {
				id = naive[after-1].ID()
			}
			tl.write(&LogWrite{After: id, Entries: added, Generation: generation})
			naive = append(naive[:after:after], added...)
			persisted = min(persisted, after)
			if rng.IntN(2) == 0 {
				mark := Index(rng.IntN(len(naive) + 1))
				tl.markPersisted(generation, mark)
				persisted = max(persisted, mark)
			}
			_, first := tl.read(Span{}, 1)
			got, _ := tl.read(Span{first - 1, Index(len(naive))}, 1<<20)
			require.Equal(t, len(naive)-int(first)+1, len(got))
			for i, e := range got {
				require.Equal(t, naive[int(first)-1+i].ID(), e.ID())
			}
			require.Greater(t, first, Index(0))
			require.LessOrEqual(t, first, persisted+1, "what is not on the disk as it is now is here")
		}
	}
}
