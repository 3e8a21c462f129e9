package storage

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/crashdisk"
	"github.com/coxswain/raft/internal/files"
)

// asideImagesMax is more than the states that one power cut can leave: at most four names are not synced.
const asideImagesMax = 1 << 6

// asideContent is what the tests set aside, beside a file of the application.
var asideContent = map[string]string{
	BoltFile: "term, vote and log", "snapshots/s1.snap": "a state", "snapshots/s2.snap.part": "half",
	"log/0000000000000001.seg": "entries",
}

func storeToSetAside(t *testing.T) *crashdisk.Tree {
	tree := crashdisk.New()
	disk := tree.FS()
	require.NoError(t, disk.MakeDir("data/snapshots"))
	require.NoError(t, disk.MakeDir("data/"+LogDir))
	writeFile(t, disk, "data/application", "its own")
	for name, content := range asideContent {
		writeFile(t, disk, filepath.Join("data", name), content)
	}
	require.NoError(t, disk.SyncDir("data"))
	require.NoError(t, disk.SyncDir("data/snapshots"))
	require.NoError(t, disk.SyncDir("data/"+LogDir))
	return tree
}

func writeFile(t *testing.T, disk files.FS, name, content string) {
	f, err := disk.Create(name)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte(content), 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

// readFile returns the content of a file, empty if it does not exist.
func readFile(t *testing.T, disk files.FS, name string) string {
	f, err := disk.Open(name)
	if err != nil {
		require.ErrorIs(t, err, fs.ErrNotExist)
		return ""
	}
	size, err := f.Size()
	require.NoError(t, err)
	content := make([]byte, size)
	_, err = f.ReadAt(content, 0)
	require.NoError(t, err)
	return string(content)
}

// checkSetAside calls setAside again, as one does after a crash or an error, if the store is still there. A start in
// between must not find snapshots without the store that recorded them: it would delete them. If nothingLost is true,
// every file must be somewhere.
func checkSetAside(t *testing.T, disk files.FS, nothingLost bool) {
	if readFile(t, disk, "data/"+BoltFile) == "" {
		for name := range asideContent {
			require.Empty(t, readFile(t, disk, filepath.Join("data", name)), "the start of an empty store would delete it")
		}
	} else {
		_, err := setAside(disk, "data", "aside")
		require.NoError(t, err)
	}
	require.Equal(t, "its own", readFile(t, disk, "data/application"))
	for name, content := range asideContent {
		require.Empty(t, readFile(t, disk, filepath.Join("data", name)))
		if nothingLost {
			places := []string{readFile(t, disk, filepath.Join("data/aside", name)), readFile(t, disk, filepath.Join("data/aside-2", name))}
			require.Contains(t, places, content)
		}
	}
}

// The process may die, the power may go off and the disk may fail at any call.
func TestSetAside_EachCrash(t *testing.T) {
	images := 0
	for stop, ended := 0, false; !ended; stop++ {
		tree := storeToSetAside(t)
		tree.StopAfter(stop)
		_, err := setAside(tree.FS(), "data", "aside")
		ended = err == nil
		images += crashdisk.EveryImage(tree, asideImagesMax, func(image *crashdisk.Tree) {
			checkSetAside(t, image.FS(), false) // of a rename, such a disk may keep the half that takes the old name away
		})
		cut := tree.Clone()
		cut.Cut(crashdisk.KeepNothing)
		checkSetAside(t, cut.FS(), true)
		checkSetAside(t, tree.Clone().FS(), true) // the process was killed
	}
	t.Logf("%d images", images)
	require.Greater(t, images, 20)
}

func TestSetAside_EachError(t *testing.T) {
	for call, ended := 1, false; !ended; call++ {
		tree := storeToSetAside(t)
		tree.FailAt(call, syscall.EIO)
		_, err := setAside(tree.FS(), "data", "aside")
		if ended = err == nil; !ended {
			require.ErrorIs(t, err, syscall.EIO)
		}
		checkSetAside(t, tree.Clone().FS(), true)
		require.Less(t, call, 50)
	}
}

func TestSetAside_InUse(t *testing.T) {
	dir := compactedStore(t)
	for _, what := range []string{"loaded", "damaged since"} {
		b, err := OpenBolt(dir, BoltOptions{})
		require.NoError(t, err)
		_, err = b.Load(t.Context(), orders)
		require.NoError(t, err)
		if what == "damaged since" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, BoltFile), make([]byte, 1<<16), 0o600))
		}
		before, err := os.ReadDir(dir)
		require.NoError(t, err)
		_, err = SetAside(dir)
		require.ErrorIs(t, err, raft.ErrLocked, what)
		require.ErrorContains(t, err, dir)
		after, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Equal(t, before, after, what)
		_ = b.Close()
	}
	aside, err := SetAside(dir)
	require.NoError(t, err, "a damaged store can be set aside")
	require.FileExists(t, filepath.Join(aside, BoltFile))
}

func TestSetAside_TheNextStartIsOfAnEmptyStore(t *testing.T) {
	dir := compactedStore(t)
	snapshot := filepath.Join(dir, snapshotDir, "1.snap")
	require.NoError(t, os.MkdirAll(filepath.Dir(snapshot), 0o700))
	require.NoError(t, os.WriteFile(snapshot, []byte("a state"), 0o600))
	var moved []string
	for range 3 { // within a second
		aside, err := SetAside(dir)
		require.NoError(t, err)
		require.Equal(t, dir, filepath.Dir(aside))
		require.NotContains(t, moved, aside)
		moved = append(moved, aside)
		stored, err := loaded(t.Context(), t, dir)
		require.NoError(t, err)
		require.Equal(t, raft.Stored{File: filepath.Join(dir, BoltFile), Incarnation: orders.Fresh, StartCount: 1, Lineage: raft.Lineage{{Count: 1}}}, stored)
	}
	require.FileExists(t, filepath.Join(moved[0], snapshotDir, "1.snap"))
	require.NoFileExists(t, filepath.Join(moved[1], snapshotDir), "there were no snapshots any more")
	kept, err := loaded(t.Context(), t, moved[0])
	require.NoError(t, err)
	require.EqualValues(t, 4, kept.Hard.Term, "whoever examines the store finds everything")
}

func TestSetAside_WhereNoStoreIs(t *testing.T) {
	dir := t.TempDir()
	for _, place := range []string{dir, filepath.Join(dir, "missing")} {
		_, err := SetAside(place)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, place)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A process that was about to open the store while it was set aside neither creates a file without records in its place,
// nor uses what was set aside.
func TestSetAside_BesideAProcessThatStarts(t *testing.T) {
	dir := bootstrappedStore(t)
	late := &boltStore{path: filepath.Join(dir, BoltFile)}
	require.NoError(t, late.checkFile(lockWaitDefault))
	waits, err := os.Open(late.path)
	require.NoError(t, err)
	defer waits.Close()
	require.NoError(t, checkName(waits, late.path))
	_, err = SetAside(dir)
	require.NoError(t, err)

	require.ErrorIs(t, late.openFile(lockWaitDefault), fs.ErrNotExist)
	require.NoFileExists(t, late.path)
	require.ErrorIs(t, checkName(waits, late.path), raft.ErrLocked)
	_, err = loaded(t.Context(), t, dir)
	require.NoError(t, err)
	require.ErrorIs(t, checkName(waits, late.path), raft.ErrLocked, "another file has the name now")
}

// The address of a sighting is not a new version of the record: an earlier release skips it.
func TestLineage_AnEarlierReleaseSkipsAddresses(t *testing.T) {
	type earlier struct {
		ID          string      `codec:"id"`
		Incarnation uint64      `codec:"inc"`
		Start       storedStart `codec:"boot"`
		Term        uint64      `codec:"term,omitempty"`
	}
	encoded, err := aLineage().encode()
	require.NoError(t, err)
	body, err := openRecord(lineageName, 1, encoded)
	require.NoError(t, err)
	var read struct {
		Seen []earlier `codec:"seen,omitempty"`
	}
	require.NoError(t, codec.NewDecoderBytes(body, metaHandle()).Decode(&read))
	assert.Equal(t, []earlier{{ID: "n2", Incarnation: 5, Start: storedStart{Count: 3, Nonce: 4}, Term: 6}}, read.Seen)

	var old []byte
	require.NoError(t, codec.NewEncoderBytes(&old, metaHandle()).Encode(read))
	l, err := decodeLineage(sealed(append([]byte{1}, old...)))
	require.NoError(t, err)
	assert.Equal(t, []raft.Sighting{{Peer: peer("n2", 5), Start: raft.StartID{Count: 3, Nonce: 4}, Term: 6}}, l.memory.Seen)
}
