package storage_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/namespace"
	"github.com/coxswain/raft/storage"
)

// withOwnMounts runs body in a place where it may mount file systems. dir is a directory for the mounts.
func withOwnMounts(t *testing.T, body func(dir string)) {
	namespace.WithMounts(t, func() {
		dir := t.TempDir()
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
		body(dir)
	})
}

func TestBolt_FullDiskIsATypedErrorAndLosesNothing(t *testing.T) {
	withOwnMounts(t, func(dir string) {
		require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"))
		b, _ := mustLoad(t, dir)
		require.NoError(t, b.Write(logWrite(raft.EntryID{}, 0, 1)))
		filler := filepath.Join(dir, "filler")
		require.NoError(t, os.WriteFile(filler, make([]byte, 1<<20), 0o600))

		last, err := fill(b)
		require.ErrorIs(t, err, storage.ErrDiskFull)
		assert.ErrorIs(t, err, syscall.ENOSPC)
		assert.Equal(t, err, b.Write(logWrite(last, 0, 1)), "the store is not written to again")
		entries, err := b.Entries(raft.Span{After: 0, Last: last.Index}, math.MaxInt)
		require.NoError(t, err)
		assert.Len(t, entries, int(last.Index), "the entries can still be read")
		require.NoError(t, b.Close())

		_, err = storage.OpenBolt(filepath.Join(dir, "another"), storage.BoltOptions{})
		require.ErrorIs(t, err, storage.ErrDiskFull)
		left, err := filepath.Glob(filepath.Join(dir, "another", storage.BoltFile+"*"))
		require.NoError(t, err)
		assert.Empty(t, left, "a failed creation leaves no store behind")

		require.NoError(t, os.Remove(filler))
		b, stored := mustLoad(t, dir)
		assert.Equal(t, last, stored.Log.Last)
		require.NoError(t, b.Write(logWrite(last, 0, 1)))
	})
}

// Opening a named pipe would wait for a process that writes to the pipe. So the store must refuse it.
func TestOpen_ANamedPipeInAFilesPlaceIsRefused(t *testing.T) {
	for _, name := range []string{storage.BoltFile, filepath.Join(storage.LogDir, "0000000000000001.seg")} {
		dir := t.TempDir()
		log, err := storage.OpenLog(dir, storage.LogOptions{})
		require.NoError(t, err)
		stored, err := log.Load(t.Context(), member)
		require.NoError(t, err)
		require.NoError(t, log.Write(logWrite(stored.Log.Last, 0, 1)))
		require.NoError(t, log.Close())
		path := filepath.Join(dir, name)
		require.NoError(t, os.Remove(path))
		require.NoError(t, unix.Mkfifo(path, 0o600))

		log, err = storage.OpenLog(dir, storage.LogOptions{})
		if err == nil {
			_, err = log.Load(t.Context(), member)
			require.NoError(t, log.Close())
		}
		assert.ErrorContains(t, err, path)
		assert.ErrorContains(t, err, "not a regular file")
	}
}

// A snapshot for which there is no room leaves nothing behind. The log still accepts writes.
func TestBolt_ASnapshotWithoutRoomLeavesTheLogAlone(t *testing.T) {
	withOwnMounts(t, func(dir string) {
		require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"))
		b, _ := mustLoad(t, dir)
		require.NoError(t, b.Write(logWrite(raft.EntryID{}, 0, 1)))
		require.NoError(t, b.Write(logWrite(raft.EntryID{Index: 1}, 1, 9)))
		free, err := b.FreeBytes()
		require.NoError(t, err)
		assert.Less(t, free, int64(4<<20))
		id := raft.EntryID{Term: 1, Index: 5}
		_, err = take(b, id, 1, make([]byte, 8<<20))
		require.ErrorIs(t, err, syscall.ENOSPC)
		left, err := os.ReadDir(filepath.Join(dir, "snapshots"))
		require.NoError(t, err)
		assert.Empty(t, left)
		again, err := b.FreeBytes()
		require.NoError(t, err)
		assert.Equal(t, free, again)
		require.NoError(t, b.Write(logWrite(raft.EntryID{Term: 1, Index: 10}, 1, 1)))
		s, err := take(b, id, 1, make([]byte, 1<<20))
		require.NoError(t, err, "the same id is free again")
		require.NoError(t, b.Write(raft.StorageWrite{Snapshot: &s}))
	})
}

// DiskBytes counts the whole store, of either kind. If a part of the store is on another mount, DiskBytes returns an error.
func TestOpen_DiskBytesCountsTheWholeStore(t *testing.T) {
	withOwnMounts(t, func(dir string) {
		for _, kind := range []storage.Kind{storage.KindBolt, storage.KindSegments} {
			require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"))
			open := func() raft.DiskStorage {
				s, err := storage.Open(dir, storage.Options{New: kind})
				require.NoError(t, err)
				_, err = s.Load(t.Context(), raft.Identity{Cluster: "c", ID: "n1", Fresh: 1, Nonce: 1})
				require.NoError(t, err)
				return s.(raft.DiskStorage)
			}
			s := open()
			used, free, err := s.DiskBytes()
			require.NoError(t, err)
			assert.GreaterOrEqual(t, used, int64(32<<10))
			assert.InDelta(t, 16<<20, used+free, 64<<10)
			require.NoError(t, s.Close())

			other := filepath.Join(dir, "snapshots")
			require.NoError(t, os.MkdirAll(other, 0o700))
			require.NoError(t, unix.Mount("tmpfs", other, "tmpfs", 0, "size=1m"))
			s = open()
			_, _, err = s.DiskBytes()
			require.ErrorIs(t, err, errors.ErrUnsupported)
			require.NoError(t, s.Close())
			require.NoError(t, unix.Unmount(other, unix.MNT_DETACH))
			require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
		}
	})
}

// fill writes until the disk is full, and returns the last entry that was acknowledged.
func fill(b *storage.Bolt) (last raft.EntryID, err error) {
	last = raft.EntryID{Index: 1}
	for range 1000 {
		w := logWrite(last, 0, 1)
		w.Log.Entries[0].Data = make([]byte, 10_000)
		if err := b.Write(w); err != nil {
			return last, err
		}
		last = w.Log.Entries[0].ID()
	}
	return last, nil
}

func TestBolt_ReadOnlyFileSystemIsATypedErrorAndChangesNothing(t *testing.T) {
	withOwnMounts(t, func(dir string) {
		data, uninitialized := filepath.Join(dir, "data"), filepath.Join(dir, "uninitialized")
		b, _ := mustLoad(t, data)
		require.NoError(t, b.Write(logWrite(raft.EntryID{}, 0, 3)))
		require.NoError(t, b.Close())
		require.NoError(t, os.Mkdir(uninitialized, 0o700))

		require.NoError(t, unix.Mount(dir, dir, "", unix.MS_BIND, ""))
		require.NoError(t, unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		for _, place := range []string{data, uninitialized, filepath.Join(uninitialized, "new")} {
			_, err := storage.OpenBolt(place, storage.BoltOptions{})
			assert.ErrorIs(t, err, storage.ErrNotWritable, place)
			assert.ErrorContains(t, err, place)
		}
		require.NoError(t, unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT, ""))
		_, stored := mustLoad(t, data)
		assert.EqualValues(t, 3, stored.Log.Last.Index)
		assert.EqualValues(t, 2, stored.StartCount)
	})
}
