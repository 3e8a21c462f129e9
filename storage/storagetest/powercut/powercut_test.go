package powercut_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/storage/storagetest/powercut"
)

func TestMain(m *testing.M) {
	powercut.Main()
	os.Exit(m.Run())
}

func mount(t *testing.T) (*powercut.FS, string) {
	dir := t.TempDir()
	fs, err := powercut.Mount(dir)
	if err != nil {
		t.Skipf("no power cuts here: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, fs.Close()) })
	return fs, dir
}

func syncDir(t *testing.T, dir string) {
	d, err := os.Open(dir)
	require.NoError(t, err)
	require.NoError(t, d.Sync())
	require.NoError(t, d.Close())
}

// write writes the bytes at the offset, and leaves the file open.
func write(t *testing.T, name, bytes string, offset int64) *os.File {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	_, err = f.WriteAt([]byte(bytes), offset)
	require.NoError(t, err)
	return f
}

func read(t *testing.T, name string) string {
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(b)
}

func TestPowerCut_ForgetsWhatWasNotSynced(t *testing.T) {
	fs, dir := mount(t)
	name := filepath.Join(dir, "f")
	f := write(t, name, "synced", 0)
	require.NoError(t, f.Sync())
	syncDir(t, dir)
	write(t, name, "SYNCED and more", 0)
	write(t, filepath.Join(dir, "g"), "its name was never synced", 0)
	assert.Equal(t, "SYNCED and more", read(t, name), "a killed process loses nothing")

	require.NoError(t, fs.PowerCut())

	assert.Equal(t, "synced", read(t, name))
	assert.NoFileExists(t, filepath.Join(dir, "g"))
	_, err := f.WriteAt([]byte("x"), 0)
	assert.Error(t, err, "a file that was open returns errors")
}

func TestPowerCut_ANameIsDurableOnceItsDirectoryIsSynced(t *testing.T) {
	fs, dir := mount(t)
	f := write(t, filepath.Join(dir, "old"), "text", 0)
	require.NoError(t, f.Sync())
	syncDir(t, dir)
	require.NoError(t, os.Rename(filepath.Join(dir, "old"), filepath.Join(dir, "new")))

	require.NoError(t, fs.PowerCut())
	assert.Equal(t, "text", read(t, filepath.Join(dir, "old")))
	assert.NoFileExists(t, filepath.Join(dir, "new"))

	require.NoError(t, os.Rename(filepath.Join(dir, "old"), filepath.Join(dir, "new")))
	syncDir(t, dir)
	require.NoError(t, fs.PowerCut())
	assert.Equal(t, "text", read(t, filepath.Join(dir, "new")))
	assert.NoFileExists(t, filepath.Join(dir, "old"))
}

func TestPowerCutKeeping_KeepsSomeBlocksWhole(t *testing.T) {
	const block = 512
	fs, dir := mount(t)
	name := filepath.Join(dir, "f")
	old, fresh := make([]byte, 64*block), make([]byte, 64*block)
	for i := range old {
		old[i], fresh[i] = 'o', 'n'
	}
	require.NoError(t, write(t, name, string(old), 0).Sync())
	syncDir(t, dir)
	write(t, name, string(fresh), 0)

	require.NoError(t, fs.PowerCutKeeping(1))

	left := read(t, name)
	require.Len(t, left, len(old))
	kept := 0
	for b := range 64 {
		block := left[b*block : (b+1)*block]
		require.Contains(t, []string{string(old[:len(block)]), string(fresh[:len(block)])}, block)
		if block[0] == 'n' {
			kept++
		}
	}
	assert.Greater(t, kept, 0)
	assert.Less(t, kept, 64)
}

func TestFailSyncs_LeavesWhatAKillWithinASyncLeaves(t *testing.T) {
	fs, dir := mount(t)
	name := filepath.Join(dir, "f")
	f := write(t, name, "first", 0)
	require.NoError(t, f.Sync())
	syncDir(t, dir)

	require.NoError(t, fs.FailSyncs(1))
	write(t, name, "again", 0)
	require.NoError(t, f.Sync(), "one more sync succeeds")
	write(t, name, "later", 0)
	assert.Error(t, f.Sync())
	assert.Equal(t, "later", read(t, name))
	require.NoError(t, fs.PowerCut())
	assert.Equal(t, "again", read(t, name))
}

func TestFill_FailsWritesUntilThereIsRoomAgain(t *testing.T) {
	fs, dir := mount(t)
	f := write(t, filepath.Join(dir, "f"), "first", 0)
	require.NoError(t, fs.Fill(true))
	_, err := f.WriteAt([]byte("FIRST"), 0)
	assert.ErrorIs(t, err, syscall.ENOSPC)
	assert.ErrorIs(t, f.Truncate(100), syscall.ENOSPC)
	assert.ErrorIs(t, os.WriteFile(filepath.Join(dir, "g"), nil, 0o600), syscall.ENOSPC)
	require.NoError(t, f.Sync(), "the existing data can be synced")
	require.NoError(t, fs.Fill(false))
	write(t, filepath.Join(dir, "f"), "again", 0)
	assert.Equal(t, "again", read(t, filepath.Join(dir, "f")))
}

func TestQuota_BoundsTheDiskAndIsReported(t *testing.T) {
	fs, dir := mount(t)
	unlimited, err := files.OS.Free(dir)
	require.NoError(t, err)
	assert.Greater(t, unlimited, int64(1)<<30)
	require.NoError(t, fs.Quota(64<<10))
	f := write(t, filepath.Join(dir, "f"), "a block", 0)
	free, err := files.OS.Free(dir)
	require.NoError(t, err)
	assert.EqualValues(t, 64<<10-512, free)
	_, err = f.WriteAt(make([]byte, 64<<10), 512)
	assert.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, fs.Fill(true))
	free, err = files.OS.Free(dir)
	require.NoError(t, err)
	assert.Zero(t, free)
	require.NoError(t, fs.PowerCut())
	require.NoError(t, fs.Fill(false))
	free, err = files.OS.Free(dir)
	require.NoError(t, err)
	assert.EqualValues(t, 64<<10, free, "it outlasts a power cut; the file was never synced")
}

func TestLie_LosesWhatWasSynced(t *testing.T) {
	fs, dir := mount(t)
	name := filepath.Join(dir, "f")
	require.NoError(t, write(t, name, "honest", 0).Sync())
	syncDir(t, dir)
	require.NoError(t, fs.Lie())
	require.NoError(t, write(t, name, "a lie!", 0).Sync())
	require.NoError(t, fs.PowerCut())
	assert.Equal(t, "honest", read(t, name))
}

func TestStallSyncs_HoldsSyncsUntilTheyAreResumed(t *testing.T) {
	fs, dir := mount(t)
	name := filepath.Join(dir, "f")
	f, other := write(t, name, "first", 0), write(t, filepath.Join(dir, "g"), "read me", 0)
	syncDir(t, dir)
	require.NoError(t, f.Sync())

	require.NoError(t, fs.StallSyncs(time.Hour))
	write(t, name, "later", 0)
	synced := make(chan error, 2)
	go func() { synced <- f.Sync() }()
	go func() { synced <- other.Sync() }()
	assert.Equal(t, "read me", read(t, filepath.Join(dir, "g")), "only syncs wait")
	assert.Empty(t, synced)

	require.NoError(t, fs.ResumeSyncs())
	assert.NoError(t, <-synced)
	assert.NoError(t, <-synced)
	require.NoError(t, f.Sync(), "later ones do not wait")
	require.NoError(t, fs.PowerCut())
	assert.Equal(t, "later", read(t, name))
}

func TestStallSyncs_IsASlowDiskIfItIsShort(t *testing.T) {
	const delay = 50 * time.Millisecond
	fs, dir := mount(t)
	f := write(t, filepath.Join(dir, "f"), "text", 0)
	require.NoError(t, fs.StallSyncs(delay))
	for range 2 {
		began := time.Now()
		require.NoError(t, f.Sync())
		assert.GreaterOrEqual(t, time.Since(began), delay)
	}
	assert.ErrorContains(t, fs.StallSyncs(0), "more than 0")
}

func TestStallSyncs_EndsWithAPowerCutWhichTheSyncDoesNotSurvive(t *testing.T) {
	fs, dir := mount(t)
	name := filepath.Join(dir, "f")
	f := write(t, name, "first", 0)
	require.NoError(t, f.Sync())
	syncDir(t, dir)
	require.NoError(t, fs.StallSyncs(time.Hour))
	write(t, name, "later", 0)
	synced := make(chan error, 1)
	go func() { synced <- f.Sync() }()
	require.NoError(t, fs.PowerCut())
	assert.Error(t, <-synced)
	assert.Equal(t, "first", read(t, name))
	require.NoError(t, write(t, name, "again", 0).Sync(), "the disk works again")
}

// A terminal or a supervisor signals all processes of a group. The serving process must outlive the processes that use the disk.
func TestMain_IgnoresSignalsToTheProcessGroup(t *testing.T) {
	fs, dir := mount(t)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		require.NoError(t, fs.Signal(s))
		require.NoError(t, fs.PowerCut(), "%v", s)
		_, err := os.Stat(dir)
		require.NoError(t, err, "%v", s)
	}
}
