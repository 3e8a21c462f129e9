package storage_test

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/storage"
)

// insideVariable says that the test runs in a mount namespace of its own.
const insideVariable = "COXSWAIN_STORAGE_INSIDE"

// withOwnMounts runs body in a process where it may mount: it starts this test again there.
func withOwnMounts(t *testing.T, body func(dir string)) {
	if os.Getenv(insideVariable) != "" {
		require.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		dir := t.TempDir()
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
		body(dir)
		return
	}
	inside := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	inside.Env = append(os.Environ(), insideVariable+"=1")
	inside.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		inside.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		inside.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		inside.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	var out bytes.Buffer
	inside.Stdout, inside.Stderr = &out, &out
	if err := inside.Start(); err != nil {
		t.Skipf("no mount namespace here: %v", err)
	}
	if err := inside.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	require.Contains(t, out.String(), "--- PASS: "+t.Name())
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
		assert.Equal(t, err, b.Write(logWrite(last, 0, 1)), "it is not written to again")
		entries, err := b.Entries(raft.Span{After: 0, Last: last.Index}, math.MaxInt)
		require.NoError(t, err)
		assert.Len(t, entries, int(last.Index), "it can still be read")
		require.NoError(t, b.Close())

		_, err = storage.OpenBolt(filepath.Join(dir, "another"), storage.BoltOptions{})
		require.ErrorIs(t, err, storage.ErrDiskFull)
		left, err := os.ReadDir(filepath.Join(dir, "another"))
		if err == nil {
			assert.Empty(t, left, "a store that could not be made leaves nothing behind")
		}

		require.NoError(t, os.Remove(filler))
		b, stored := mustLoad(t, dir)
		assert.Equal(t, last, stored.Log.Last)
		require.NoError(t, b.Write(logWrite(last, 0, 1)))
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
