package storage_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/storage"
)

// It measures one durable write: the hot path of every member.
func BenchmarkBolt_Write(b *testing.B) {
	for _, entries := range []int{1, 64} {
		b.Run(fmt.Sprintf("%d×128B", entries), func(b *testing.B) {
			store, err := storage.OpenBolt(b.TempDir(), storage.BoltOptions{})
			require.NoError(b, err)
			defer store.Close()
			_, err = store.Load(b.Context(), member)
			require.NoError(b, err)
			first := logWrite(raft.EntryID{}, 0, 1)
			require.NoError(b, store.Write(first))
			last := first.Log.Entries[0].ID()
			b.ReportAllocs()
			for b.Loop() {
				w := logWrite(last, 1, entries)
				for k := range w.Log.Entries {
					w.Log.Entries[k].Data = make([]byte, 128)
				}
				if err := store.Write(w); err != nil {
					b.Fatal(err)
				}
				last = w.Log.Entries[entries-1].ID()
			}
		})
	}
}
