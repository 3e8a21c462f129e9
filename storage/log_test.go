package storage_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/storage"
)

func openedLog(t testing.TB, opts storage.LogOptions) *storage.Log {
	leaks.Check(t)
	l, err := storage.OpenLog(t.TempDir(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	_, err = l.Load(t.Context(), member)
	require.NoError(t, err)
	return l
}

// A write of entries is the hot path of every member, and it allocates no memory.
func TestLog_AWriteOfEntriesAllocatesNothing(t *testing.T) {
	l := openedLog(t, storage.LogOptions{})
	var writes []raft.StorageWrite
	last := raft.EntryID{}
	for range 200 {
		w := logWrite(last, 1, 10)
		for k := range w.Log.Entries {
			w.Log.Entries[k].Seal()
		}
		last = w.Log.Entries[9].ID()
		writes = append(writes, w)
	}
	next := 0
	write := func() {
		if err := l.Write(writes[next]); err != nil {
			t.Fatal(err)
		}
		next++
	}
	for range 50 { // the buffers grow
		write()
	}
	assert.Zero(t, testing.AllocsPerRun(100, write))
}
