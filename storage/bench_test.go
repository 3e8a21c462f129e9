package storage_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/storage"
)

// These benchmarks measure one durable write, which is the hot path of every member.
func BenchmarkBolt_Write(b *testing.B) { benchmarkWrites(b, storage.KindBolt) }
func BenchmarkLog_Write(b *testing.B)  { benchmarkWrites(b, storage.KindSegments) }

func benchmarkWrites(b *testing.B, kind storage.Kind) {
	for _, entries := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("%d×128B", entries), func(b *testing.B) {
			store, err := storage.Open(b.TempDir(), storage.Options{New: kind})
			require.NoError(b, err)
			defer store.Close()
			_, err = store.Load(b.Context(), member)
			require.NoError(b, err)
			first := logWrite(raft.EntryID{}, 0, 1)
			require.NoError(b, store.Write(first))
			last := first.Log.Entries[0].ID()
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				w := logWrite(last, 1, entries)
				for k := range w.Log.Entries {
					w.Log.Entries[k].Data = make([]byte, 128)
					w.Log.Entries[k].Seal()
				}
				b.StartTimer()
				if err := store.Write(w); err != nil {
					b.Fatal(err)
				}
				last = w.Log.Entries[entries-1].ID()
			}
		})
	}
}

// These benchmarks measure a start with 200,000 entries of 128 B. They also measure one pass over the log, 1 MiB at a time.
func BenchmarkBolt_Load(b *testing.B) { benchmarkLoad(b, storage.KindBolt) }
func BenchmarkLog_Load(b *testing.B)  { benchmarkLoad(b, storage.KindSegments) }

func benchmarkLoad(b *testing.B, kind storage.Kind) {
	dir := b.TempDir()
	store, err := storage.Open(dir, storage.Options{New: kind})
	require.NoError(b, err)
	_, err = store.Load(b.Context(), member)
	require.NoError(b, err)
	last := raft.EntryID{}
	for range 400 {
		w := logWrite(last, 1, 500)
		for k := range w.Log.Entries {
			if e := &w.Log.Entries[k]; e.Kind == raft.EntryCommand {
				e.Data = make([]byte, 128)
			}
		}
		require.NoError(b, store.Write(w))
		last = w.Log.Entries[499].ID()
	}
	require.NoError(b, store.Close())
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			store, err = storage.Open(dir, storage.Options{})
			require.NoError(b, err)
			_, err = store.Load(b.Context(), member)
			require.NoError(b, err)
			require.NoError(b, store.Close())
		}
	})
	store, err = storage.Open(dir, storage.Options{})
	require.NoError(b, err)
	defer store.Close()
	_, err = store.Load(b.Context(), member)
	require.NoError(b, err)
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for after := raft.Index(0); after < last.Index; {
				entries, err := store.Entries(raft.Span{After: after, Last: last.Index}, 1<<20)
				if err != nil {
					b.Fatal(err)
				}
				after = entries[len(entries)-1].Index
			}
		}
	})
}
