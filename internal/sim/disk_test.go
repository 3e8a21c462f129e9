package sim

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newFile(t *testing.T, d *Disk, name, content string) *File {
	f, err := d.Create(name)
	require.NoError(t, err)
	_, err = f.Append([]byte(content))
	require.NoError(t, err)
	return f
}

func read(t *testing.T, d *Disk, name string) string {
	f, err := d.Open(name)
	require.NoError(t, err)
	p := make([]byte, f.Size())
	_, err = f.ReadAt(p, 0)
	require.NoError(t, err)
	return string(p)
}

// crashes runs the same story on many disks and collects what is left of it.
func crashes(t *testing.T, story func(d *Disk), left func(d *Disk) string) map[string]int {
	seen := map[string]int{}
	for seed := range uint64(300) {
		d := NewDisk(NewStream(seed, DiskConcern))
		story(d)
		d.Crash(false)
		seen[left(d)]++
	}
	return seen
}

func names(d *Disk) string {
	s := ""
	for _, name := range d.List("d") {
		f, _ := d.Open(name)
		p := make([]byte, f.Size())
		_, _ = f.ReadAt(p, 0)
		s += name[2:] + "=" + string(p) + " "
	}
	return s
}

func TestDisk_WhatIsSyncedSurvives(t *testing.T) {
	seen := crashes(t, func(d *Disk) {
		require.NoError(t, newFile(t, d, "d/a", "one").Sync())
		require.NoError(t, d.SyncDir("d"))
	}, names)
	assert.Equal(t, map[string]int{"a=one ": 300}, seen)
}

func TestDisk_ASyncedFileNeedsADurableName(t *testing.T) {
	seen := crashes(t, func(d *Disk) { require.NoError(t, newFile(t, d, "d/a", "one").Sync()) }, names)
	assert.Len(t, seen, 2)
	assert.Contains(t, seen, "")
	assert.Contains(t, seen, "a=one ")
}

func TestDisk_UnsyncedWritesAreLostInAnySubset(t *testing.T) {
	seen := crashes(t, func(d *Disk) {
		f := newFile(t, d, "d/a", "......")
		require.NoError(t, f.Sync())
		require.NoError(t, d.SyncDir("d"))
		for i, c := range []string{"1", "2", "3"} {
			_, err := f.WriteAt([]byte(c), 2*i)
			require.NoError(t, err)
		}
	}, names)
	assert.Len(t, seen, 8, "a later write may be durable and an earlier one not")
}

func TestDisk_ARenameIsAllOrNothing(t *testing.T) {
	seen := crashes(t, func(d *Disk) {
		require.NoError(t, newFile(t, d, "d/a", "old").Sync())
		require.NoError(t, d.SyncDir("d"))
		require.NoError(t, newFile(t, d, "d/new", "new").Sync())
		require.NoError(t, d.Rename("d/new", "d/a"))
	}, names)
	for state := range seen {
		assert.Contains(t, []string{"a=old ", "a=new ", "a=old new=new "}, state)
	}
	assert.Len(t, seen, 3)
}

func TestDisk_ARemovedFileMayComeBack(t *testing.T) {
	seen := crashes(t, func(d *Disk) {
		require.NoError(t, newFile(t, d, "d/a", "x").Sync())
		require.NoError(t, d.SyncDir("d"))
		require.NoError(t, d.Remove("d/a"))
	}, names)
	assert.Len(t, seen, 2)
}

func TestDisk_TearsBySectors(t *testing.T) {
	old, wanted := bytes.Repeat([]byte("o"), 4*SectorBytes), bytes.Repeat([]byte("n"), 4*SectorBytes)
	torn := 0
	for seed := range uint64(100) {
		d := NewDisk(NewStream(seed, DiskConcern))
		f := newFile(t, d, "d/a", string(old))
		require.NoError(t, f.Sync())
		require.NoError(t, d.SyncDir("d"))
		_, err := f.WriteAt(wanted, 0)
		require.NoError(t, err)
		d.Crash(true)
		got := read(t, d, "d/a")
		require.Len(t, got, len(old))
		if got != string(old) && got != string(wanted) {
			torn++
		}
	}
	assert.Greater(t, torn, 20)
}

func TestDisk_AFailedSyncLosesPagesThatCanStillBeRead(t *testing.T) {
	lost := 0
	for seed := range uint64(100) {
		d := NewDisk(NewStream(seed, DiskConcern))
		f := newFile(t, d, "d/a", "one")
		require.NoError(t, d.SyncDir("d"))
		d.SetFaults(DiskFaults{FailSync: Million})
		require.ErrorIs(t, f.Sync(), ErrIO)
		d.SetFaults(DiskFaults{})
		require.Equal(t, "one", read(t, d, "d/a"), "the process sees the page cache")
		d.Crash(false)
		if read(t, d, "d/a") != "one" {
			lost++
		}
	}
	assert.Greater(t, lost, 20)
}

func TestDisk_AFullDiskWritesWhatFits(t *testing.T) {
	d := NewDisk(NewStream(1, DiskConcern))
	f := newFile(t, d, "d/a", "123")
	d.SetFaults(DiskFaults{Capacity: 5})
	n, err := f.Append([]byte("456"))
	require.ErrorIs(t, err, ErrNoSpace)
	assert.Equal(t, 2, n)
	assert.Equal(t, "12345", read(t, d, "d/a"))
	require.NoError(t, f.Truncate(1))
	_, err = f.Append([]byte("x"))
	require.NoError(t, err, "space returns")
}

func TestDisk_ABadSectorStaysBadUntilItIsWritten(t *testing.T) {
	d := NewDisk(NewStream(1, DiskConcern))
	f := newFile(t, d, "d/a", string(make([]byte, 2*SectorBytes)))
	d.SetFaults(DiskFaults{FailRead: Million})
	_, err := f.ReadAt(make([]byte, 10), 0)
	require.ErrorIs(t, err, ErrIO)
	d.SetFaults(DiskFaults{})
	_, err = f.ReadAt(make([]byte, 10), 0)
	require.ErrorIs(t, err, ErrIO)
	_, err = f.WriteAt(make([]byte, SectorBytes), 0)
	require.NoError(t, err)
	_, err = f.ReadAt(make([]byte, 10), 0)
	require.NoError(t, err)
}

func TestDisk_AWriteThatFailsMayBeDoneInPart(t *testing.T) {
	d := NewDisk(NewStream(3, DiskConcern))
	f := newFile(t, d, "d/a", "")
	d.SetFaults(DiskFaults{FailWrite: Million})
	n, err := f.Append([]byte("123456"))
	require.ErrorIs(t, err, ErrIO)
	assert.Equal(t, "123456"[:n], read(t, d, "d/a"))
}

func TestDisk_RotsAndReturnsToAnOlderImage(t *testing.T) {
	d := NewDisk(NewStream(1, DiskConcern))
	f := newFile(t, d, "d/a", "one")
	require.NoError(t, f.Sync())
	require.NoError(t, d.SyncDir("d"))
	old := d.Image()
	require.True(t, d.Rot("d/a"))
	assert.NotEqual(t, "one", read(t, d, "d/a"))
	d.Crash(false)
	assert.NotEqual(t, "one", read(t, d, "d/a"), "each reading agrees")
	d.Restore(old)
	assert.Equal(t, "one", read(t, d, "d/a"))
	_, err := f.Append([]byte("x"))
	require.ErrorIs(t, err, ErrDead)
}

func TestDisk_StallsEveryOperation(t *testing.T) {
	d := NewDisk(NewStream(1, DiskConcern))
	d.SetFaults(DiskFaults{StallTill: 100})
	assert.Equal(t, Time(70), d.Took(30))
}
