package storage

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/crashdisk"
	"github.com/coxswain/raft/internal/leaks"
)

// fullDisk is a store with only its segments on a small disk.
type fullDisk struct {
	*Log
	tree *crashdisk.Tree
	dir  string
}

func onFullDisk(t *testing.T, quota int64) *fullDisk {
	leaks.Check(t)
	f := &fullDisk{tree: crashdisk.New(), dir: t.TempDir()}
	require.NoError(t, f.tree.FS().MakeDir(f.dir))
	f.tree.Quota(quota)
	f.open(t)
	return f
}

func (f *fullDisk) open(t *testing.T) raft.Stored {
	var err error
	f.Log, err = openLogOn(f.tree.FS(), f.dir, LogOptions{SegmentBytes: 4 << 10})
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	stored, err := f.Load(t.Context(), orders)
	require.NoError(t, err)
	return stored
}

// fill writes the given number of entries, one at a time, and sends the first error.
func (f *fullDisk) fill(entries int) <-chan error {
	ended := make(chan error, 1)
	go func() {
		for i := range entries {
			e := raft.Entry{Index: raft.Index(i + 2), Term: 1, Kind: raft.EntryCommand, Data: make([]byte, 100)}
			after := raft.EntryID{Term: 1, Index: e.Index - 1}
			if err := f.Write(raft.StorageWrite{Log: &raft.LogWrite{After: after, Entries: []raft.Entry{e}, Reset: i == 0}}); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	return ended
}

func (f *fullDisk) awaitRoom(t *testing.T, want bool) {
	require.Eventually(t, func() bool { return (f.Room() == nil) == want }, time.Minute, time.Millisecond)
}

// If the disk has no room for another segment, only writes stop. The entries stay readable. Room reports the full disk while
// the store can still write. Writes continue when there is room again.
func TestLog_WaitsForRoom(t *testing.T) {
	f := onFullDisk(t, 9<<10)
	require.NoError(t, f.Room())
	ended := f.fill(100)
	f.awaitRoom(t, false)
	require.ErrorIs(t, f.Room(), syscall.ENOSPC)
	require.Empty(t, ended)
	f.tree.Quota(1 << 20)
	require.NoError(t, <-ended)
	f.awaitRoom(t, true)
	require.NoError(t, f.Close())
	f.tree.Cut(crashdisk.KeepNothing)
	assert.Equal(t, raft.EntryID{Term: 1, Index: 101}, f.open(t).Log.Last)
}

// If the disk is full, a write reuses the segments that compaction has left behind, even before a call of Prune.
func TestLog_PrunesWhenTheDiskIsFull(t *testing.T) {
	f := onFullDisk(t, 13<<10)
	after := raft.EntryID{Term: 1, Index: 1}
	for i := range 200 {
		w := raft.StorageWrite{Log: &raft.LogWrite{After: after, Reset: i == 0}}
		w.Log.Entries = []raft.Entry{{Index: after.Index + 1, Term: 1, Kind: raft.EntryCommand, Data: make([]byte, 100)}}
		if i%10 == 9 {
			base := aSnapshot().Base
			base.ID = after
			w.Base = &base
		}
		require.NoError(t, f.Write(w))
		after.Index++
	}
	assert.LessOrEqual(t, f.tree.Used(), int64(13<<10))
}

func TestLog_GivesUpWaitingForRoom(t *testing.T) {
	for what, end := range map[string]func(*fullDisk) error{
		"Close":  func(f *fullDisk) error { return f.Close() },
		"GiveUp": func(f *fullDisk) error { f.GiveUp(); return nil },
	} {
		t.Run(what, func(t *testing.T) {
			f := onFullDisk(t, 9<<10)
			ended := f.fill(100)
			f.awaitRoom(t, false)
			require.NoError(t, end(f))
			require.ErrorIs(t, <-ended, ErrStoreClosed)
			require.NoError(t, f.Close())
			f.tree.Quota(1 << 20)
			last := f.open(t).Log.Last.Index
			assert.Greater(t, last, raft.Index(2), "acknowledged entries are there")
			assert.Less(t, last, raft.Index(101))
		})
	}
}

// Without room for its first segment, Load fails.
func TestLog_IsNotLoadedWithoutRoom(t *testing.T) {
	tree, dir := crashdisk.New(), t.TempDir()
	require.NoError(t, tree.FS().MakeDir(dir))
	tree.Quota(1 << 10)
	for range 2 {
		l, err := openLogOn(tree.FS(), dir, LogOptions{SegmentBytes: 4 << 10})
		require.NoError(t, err)
		_, err = l.Load(t.Context(), orders)
		require.ErrorIs(t, err, ErrDiskFull)
		require.ErrorContains(t, err, filepath.Join(dir, LogDir))
		require.NoError(t, l.Close())
	}
	tree.Quota(1 << 20)
	f := &fullDisk{tree: tree, dir: dir}
	assert.EqualValues(t, 3, f.open(t).StartCount)
}

// After a failed sync the store accepts no more writes, even if the disk works again.
func TestLog_AFailedSyncEndsIt(t *testing.T) {
	f := onFullDisk(t, 0)
	f.tree.FailSyncs(0)
	require.ErrorIs(t, <-f.fill(1), syscall.EIO)
	f.tree.FailSyncs(-1)
	require.ErrorIs(t, <-f.fill(1), syscall.EIO)
	assert.False(t, errors.Is(f.Room(), syscall.EIO), "the disk is not full")
}

// A write may find no room even in an allocated segment, for example on a copy-on-write file system. The store then fails
// with an error that says what to do. It keeps all acknowledged entries, and at most a part of the failed write.
func TestLog_AFullDiskInTheMiddleOfABatch(t *testing.T) {
	failed := 0
	for call := 10; call <= 15; call++ { // earlier calls prepare a segment, and are tried again
		f := onFullDisk(t, 0)
		require.NoError(t, <-f.fill(1))
		large := raft.Entry{Index: 3, Term: 1, Kind: raft.EntryCommand, Data: make([]byte, 300<<10)} // more than one write of the file takes
		write := raft.StorageWrite{Log: &raft.LogWrite{After: raft.EntryID{Term: 1, Index: 2}, Entries: []raft.Entry{large}}}
		f.tree.FailAt(call, syscall.ENOSPC)
		err := f.Write(write)
		f.tree.FailAt(0, nil)
		if err != nil {
			failed++
			require.ErrorIs(t, err, ErrDiskFull)
			require.ErrorContains(t, err, filepath.Join(f.dir, LogDir))
			require.ErrorIs(t, f.Write(write), ErrDiskFull, "nothing is written after that")
		}
		require.NoError(t, f.Close())
		last := f.open(t).Log.Last.Index
		assert.GreaterOrEqual(t, last, raft.Index(2), "call %d", call)
		assert.LessOrEqual(t, last, raft.Index(3), "call %d", call)
	}
	assert.Positive(t, failed)
}
