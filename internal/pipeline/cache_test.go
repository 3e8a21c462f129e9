package pipeline

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// entriesOf returns the entries (after, last]. They have one term, and each has data of the given size.
func entriesOf(term raft.Term, after, last raft.Index, size int) []raft.Entry {
	var out []raft.Entry
	for i := after + 1; i <= last; i++ {
		out = append(out, raft.Entry{Index: i, Term: term, Kind: raft.EntryCommand, Data: make([]byte, size)})
	}
	return out
}

func TestCache_ServesWhatWasWritten(t *testing.T) {
	c := NewCache(10, 1<<20)
	c.Write(&raft.LogWrite{After: raft.EntryID{Term: 1, Index: 10}, Entries: entriesOf(2, 10, 13, 1), Generation: 1})
	c.Write(&raft.LogWrite{After: raft.EntryID{Term: 2, Index: 13}, Entries: entriesOf(2, 13, 15, 1), Generation: 1})

	for _, row := range []struct {
		rule        string
		span        raft.Span
		bytes       int
		first, last raft.Index // of the returned entries; 0: none
	}{
		{"all of it", raft.Span{After: 10, Last: 15}, 1 << 20, 11, 15},
		{"a part within one write", raft.Span{After: 11, Last: 12}, 1 << 20, 12, 12},
		{"a part over two writes", raft.Span{After: 12, Last: 14}, 1 << 20, 13, 14},
		{"never more than there is", raft.Span{After: 12, Last: 99}, 1 << 20, 13, 15},
		{"never more than the bytes", raft.Span{After: 10, Last: 15}, 3 * (raft.RecordOverheadBytes + 1), 11, 13},
		{"at least one, whatever the bytes", raft.Span{After: 12, Last: 15}, 1, 13, 13},
		{"nothing if the first one is below", raft.Span{After: 9, Last: 15}, 1 << 20, 0, 0},
		{"nothing if the first one is above", raft.Span{After: 15, Last: 16}, 1 << 20, 0, 0},
	} {
		t.Run(row.rule, func(t *testing.T) {
			got, first := c.Read(row.span, row.bytes)
			expect.Equal(t, raft.Index(11), first)
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

func TestCache_OfAnIdleLogKeepsOnlyWhatIsNotOnTheDisk(t *testing.T) {
	c := NewCache(0, 1<<20)
	c.Write(&raft.LogWrite{Entries: entriesOf(1, 0, 2, 1), Generation: 1})
	c.Write(&raft.LogWrite{After: raft.EntryID{Term: 1, Index: 2}, Entries: entriesOf(1, 2, 4, 1), Generation: 1})
	c.MarkPersisted(1, 2)
	c.Release()
	_, first := c.Read(raft.Span{After: 0, Last: 4}, 1<<20)
	expect.Equal(t, raft.Index(3), first)
	c.MarkPersisted(1, 4)
	c.Release()
	expect.Zero(t, c.memory)
	_, first = c.Read(raft.Span{After: 0, Last: 4}, 1<<20)
	expect.Equal(t, raft.Index(5), first, "the disk has them all")
	c.Write(&raft.LogWrite{After: raft.EntryID{Term: 1, Index: 4}, Entries: entriesOf(1, 4, 5, 1), Generation: 1})
	entries, _ := c.Read(raft.Span{After: 4, Last: 5}, 1<<20)
	expect.Len(t, entries, 1)
}

// Entries that all readers have read take no memory. There are two exceptions: entries that are not on the disk yet, and
// entries of a write that also has entries that readers still need.
func TestCache_DropsWhatAllReadersHaveRead(t *testing.T) {
	c := NewCache(0, 1<<20)
	for i := raft.Index(0); i < 6; i += 2 {
		c.Write(&raft.LogWrite{After: raft.EntryID{Term: 1, Index: i}, Entries: entriesOf(1, i, i+2, 1), Generation: 1})
	}
	for _, row := range []struct{ persisted, served, first raft.Index }{
		{0, 2, 1}, {4, 1, 1}, {4, 3, 3}, {4, 0, 3}, {4, 6, 5}, {6, 5, 5}, {6, 6, 7},
	} {
		c.MarkPersisted(1, row.persisted)
		c.Served(row.served)
		_, first := c.Read(raft.Span{After: 0, Last: 6}, 1<<20)
		expect.Equal(t, row.first, first, "%+v", row)
	}
	expect.Zero(t, c.memory)
}

func TestCache_KeepsWhatIsNotOnTheDiskWhateverItsLimit(t *testing.T) {
	c := NewCache(0, 1000)
	for i := raft.Index(0); i < 100; i += 10 {
		c.Write(&raft.LogWrite{After: raft.EntryID{Term: 1, Index: i}, Entries: entriesOf(1, i, i+10, 100), Generation: 1})
	}
	got, _ := c.Read(raft.Span{After: 0, Last: 100}, 1<<20)
	require.Len(t, got, 100)

	c.MarkPersisted(1, 55)
	got, first := c.Read(raft.Span{After: 50, Last: 100}, 1<<20)
	expect.Equal(t, raft.Index(51), first, "evicted by whole writes, none of which is missing on the disk")
	expect.Len(t, got, 50)
	expect.Equal(t, 50*(100+raft.RecordOverheadBytes), c.WaitingBytes())

	c.MarkPersisted(1, 100)
	expect.LessOrEqual(t, c.memory, 1000)
	expect.Zero(t, c.WaitingBytes())
}

// The limit counts memory. Small entries take much more memory than the bytes of their records.
func TestCache_TakesNoMoreMemoryThanItsLimit(t *testing.T) {
	require.LessOrEqual(t, reflect.TypeFor[raft.Entry]().Size(), uintptr(entryMemory))
	const limit = 8 << 20
	for _, row := range []struct{ data, together int }{
		{0, 1}, {0, 500}, {8, 1}, {8, 100}, {100, 1}, {100, 50}, {1000, 1}, {5000, 7}, {40_000, 1}, {300_000, 2},
	} {
		t.Run(fmt.Sprintf("%d bytes, %d in a write", row.data, row.together), func(t *testing.T) {
			c, before := NewCache(0, limit), heapInUse()
			at := raft.EntryID{}
			for written := 0; written < 2*limit; {
				entries := entriesOf(1, at.Index, at.Index+raft.Index(row.together), row.data)
				for i := range entries {
					entries[i].Seal()
				}
				c.Write(&raft.LogWrite{After: at, Entries: entries, Generation: 1})
				at = entries[row.together-1].ID()
				c.MarkPersisted(1, at.Index)
				written += RecordBytes(entries)
			}
			took := heapInUse() - before
			t.Logf("%.2f of the limit", float64(took)/limit)
			expect.LessOrEqual(t, took, limit*21/20)
			expect.GreaterOrEqual(t, took, limit*7/10, "the limit is used")
			runtime.KeepAlive(c)
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

func TestCache_AMarkOfAnOlderGenerationSaysNothing(t *testing.T) {
	c := NewCache(0, 1)
	c.Write(&raft.LogWrite{Entries: entriesOf(1, 0, 5, 1), Generation: 1})
	c.Write(&raft.LogWrite{After: raft.EntryID{Term: 1, Index: 2}, Entries: entriesOf(2, 2, 4, 1), Generation: 2})

	c.MarkPersisted(1, 5)
	got, _ := c.Read(raft.Span{After: 0, Last: 4}, 1<<20)
	require.Len(t, got, 4, "the older log on the disk is not the cached one")
	expect.Equal(t, raft.EntryID{Term: 1, Index: 2}, got[1].ID())
	expect.Equal(t, raft.EntryID{Term: 2, Index: 3}, got[2].ID())
}

func TestCache_AResetForgetsTheLog(t *testing.T) {
	c := NewCache(0, 1<<20)
	c.Write(&raft.LogWrite{Entries: entriesOf(1, 0, 5, 1), Generation: 1})
	c.Write(&raft.LogWrite{After: raft.EntryID{Term: 7, Index: 3}, Entries: entriesOf(7, 3, 4, 1), Reset: true, Generation: 2})
	got, first := c.Read(raft.Span{After: 0, Last: 4}, 1<<20)
	require.Empty(t, got)
	expect.Equal(t, raft.Index(4), first)
	got, _ = c.Read(raft.Span{After: 3, Last: 4}, 1<<20)
	require.Len(t, got, 1)
	expect.Equal(t, raft.EntryID{Term: 7, Index: 4}, got[0].ID())
}

func TestCache_IsTheEndOfANaiveLog(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		c, naive, generation, term := NewCache(0, 500), []raft.Entry(nil), uint64(1), raft.Term(1)
		persisted := raft.Index(0)
		for range 30 {
			after := raft.Index(len(naive))
			if rng.IntN(4) == 0 {
				after -= raft.Index(rng.IntN(int(after) + 1))
				generation++
				term++
			}
			added := entriesOf(term, after, after+raft.Index(rng.IntN(4)), rng.IntN(40))
			var id raft.EntryID
			if after > 0 {
				id = naive[after-1].ID()
			}
			c.Write(&raft.LogWrite{After: id, Entries: added, Generation: generation})
			naive = append(naive[:after:after], added...)
			persisted = min(persisted, after)
			if rng.IntN(2) == 0 {
				mark := raft.Index(rng.IntN(len(naive) + 1))
				c.MarkPersisted(generation, mark)
				persisted = max(persisted, mark)
			}
			_, first := c.Read(raft.Span{}, 1)
			got, _ := c.Read(raft.Span{After: first - 1, Last: raft.Index(len(naive))}, 1<<20)
			require.Equal(t, len(naive)-int(first)+1, len(got))
			for i, e := range got {
				require.Equal(t, naive[int(first)-1+i].ID(), e.ID())
			}
			if len(got) > 0 {
				at, bytes := rng.IntN(len(got)), rng.IntN(300)
				span := raft.Span{After: got[at].Index - 1, Last: got[at].Index + raft.Index(rng.IntN(len(got)))}
				want := got[at:min(len(got), int(span.Last-got[0].Index)+1)]
				for len(want) > 1 && RecordBytes(want) > bytes {
					want = want[:len(want)-1]
				}
				part, _ := c.Read(span, bytes)
				require.Equal(t, want, part, "as much of a span as fits, but at least one entry")
			}
			require.Greater(t, first, raft.Index(0))
			require.LessOrEqual(t, first, persisted+1, "the cache has every entry that is not on the disk")
		}
	}
}
