package storage

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/crashdisk"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/leaks"
)

// asideImagesMax is more than the number of states that one power cut can leave, because at most eight names are unsynced.
const asideImagesMax = 1 << 9

// asideContent is the content of the store that the tests set aside. There is also a file of the application beside the
// store.
var asideContent = map[string]string{
	BoltFile: "term, vote and log", "snapshots/s1.snap": "a state", "snapshots/s2.snap.part": "half",
	"log/0000000000000001.seg": "entries", "log/0000000000000002.seg": "more entries",
}

func storeToSetAside(t *testing.T) *crashdisk.Tree {
	leaks.Check(t)
	tree := crashdisk.New()
	disk := tree.FS()
	require.NoError(t, disk.MakeDir("data/snapshots"))
	require.NoError(t, disk.MakeDir("data/"+LogDir))
	writeFile(t, disk, "data/application", "its own")
	for _, name := range slices.Sorted(maps.Keys(asideContent)) {
		writeFile(t, disk, filepath.Join("data", name), asideContent[name])
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

// readFile returns the content of a file. If the file does not exist, it returns an empty string.
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

func exists(t *testing.T, disk files.FS, name string) bool {
	_, err := disk.Inode(name)
	if err != nil {
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	return err == nil
}

// mounted is a disk on which some directories are separate mounts.
type mounted struct {
	files.FS
	at []string // the mounts
}

func (m mounted) Mount(name string) (uint64, error) {
	for k, at := range m.at {
		if name == at || strings.HasPrefix(name, at+"/") {
			return uint64(k + 1), nil
		}
	}
	return m.FS.Mount(name)
}

func (m mounted) Rename(from, to string) error {
	a, err := m.Mount(from)
	if err != nil {
		return err
	}
	if b, _ := m.Mount(filepath.Dir(to)); a != b {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: syscall.EXDEV}
	}
	return m.FS.Rename(from, to)
}

// Remove is durable at once on a mount, which has its own journal.
func (m mounted) Remove(name string) error {
	err := m.FS.Remove(name)
	if err == nil && slices.Contains(m.at, filepath.Dir(name)) {
		err = m.FS.SyncDir(filepath.Dir(name))
	}
	return err
}

var asideMounts = [][]string{nil, {"data/log"}, {"data/log", "data/snapshots"}}

// checkSetAside calls setAside again, as an operator does after a crash or an error. The call must finish the first call, in
// the same directory. If nothingLost is true, every file must be there. If the first call has moved anything, a start between
// the two calls must fail.
func checkSetAside(t *testing.T, disk files.FS, nothingLost bool) {
	begun, present := exists(t, disk, "data/"+asideRecord), exists(t, disk, "data/"+BoltFile)
	if !begun && present {
		for name, content := range asideContent {
			require.Equal(t, content, readFile(t, disk, filepath.Join("data", name)), "a start finds the store as it was")
		}
	}
	if !begun && !present {
		for name := range asideContent {
			require.Empty(t, readFile(t, disk, filepath.Join("data", name)), "the start of an empty store would delete it")
		}
	} else {
		aside, err := setAside(disk, "data", "aside")
		require.NoError(t, err)
		require.Equal(t, "data/aside", aside)
	}
	for _, gone := range []string{asideRecord, asideRecord + ".new"} {
		require.Empty(t, readFile(t, disk, filepath.Join("data", gone)))
	}
	_, err := disk.List("data/aside-2")
	require.ErrorIs(t, err, fs.ErrNotExist, "one directory is enough")
	require.Equal(t, "its own", readFile(t, disk, "data/application"))
	for name, content := range asideContent {
		require.Empty(t, readFile(t, disk, filepath.Join("data", name)))
		if nothingLost {
			require.Equal(t, content, readFile(t, disk, filepath.Join("data/aside", name)))
		}
	}
}

// The process may die, the power may fail and the disk may fail at any call.
func TestSetAside_EachCrash(t *testing.T) {
	images := 0
	for _, mounts := range asideMounts {
		for stop, ended := 0, false; !ended; stop++ {
			tree := storeToSetAside(t)
			tree.StopAfter(stop)
			_, err := setAside(mounted{tree.FS(), mounts}, "data", "aside")
			ended = err == nil
			images += crashdisk.EveryImage(tree, asideImagesMax, func(image *crashdisk.Tree) {
				// After a power cut, such a disk may have only half of a rename: the old name is gone, and the new name is
				// missing.
				checkSetAside(t, mounted{image.FS(), mounts}, false)
			})
			cut := tree.Clone()
			cut.Cut(crashdisk.KeepNothing)
			checkSetAside(t, mounted{cut.FS(), mounts}, true)
			checkSetAside(t, mounted{tree.Clone().FS(), mounts}, true) // the process was killed
		}
	}
	t.Logf("%d images", images)
	require.Greater(t, images, 20)
}

// The second call finishes the first call. The second call may also be interrupted.
func TestSetAside_EachCrashOfTheNextCall(t *testing.T) {
	for _, mounts := range asideMounts {
		for stop, ended := 0, false; !ended; stop++ {
			tree := storeToSetAside(t)
			tree.StopAfter(stop)
			_, err := setAside(mounted{tree.FS(), mounts}, "data", "aside")
			ended = err == nil
			for again, ended := 0, false; !ended; again++ {
				next := tree.Clone()
				next.StopAfter(again)
				_, err := setAside(mounted{next.FS(), mounts}, "data", "aside")
				ended = err == nil || !errors.Is(err, crashdisk.ErrPowerOff) // the first call had ended
				cut := next.Clone()
				cut.Cut(crashdisk.KeepNothing)
				checkSetAside(t, mounted{cut.FS(), mounts}, true)
				checkSetAside(t, mounted{next.Clone().FS(), mounts}, true)
			}
		}
	}
}

func TestSetAside_EachError(t *testing.T) {
	for _, mounts := range asideMounts {
		for call, ended := 1, false; !ended; call++ {
			tree := storeToSetAside(t)
			tree.FailAt(call, syscall.EIO)
			_, err := setAside(mounted{tree.FS(), mounts}, "data", "aside")
			if ended = err == nil; !ended {
				require.ErrorIs(t, err, syscall.EIO)
			}
			checkSetAside(t, mounted{tree.Clone().FS(), mounts}, true)
			require.Less(t, call, 200)
		}
	}
}

// An earlier release ignores the record, and may start between the two calls. If raft.db is gone, the earlier release creates
// a new store and deletes the unrecorded snapshots. If raft.db is damaged, an operator may also use the earlier release to
// set the store aside. Neither store is lost, and the new store stays.
func TestSetAside_BesideAnEarlierRelease(t *testing.T) {
	started := map[string]string{BoltFile: "a new store", "log/0000000000000001.seg": "its entries", "snapshots/s3.snap": "its state"}
	for stop, ended := 0, false; !ended; stop++ {
		tree := storeToSetAside(t)
		tree.StopAfter(stop)
		_, err := setAside(tree.FS(), "data", "aside")
		ended = err == nil
		tree.StopAfter(-1)
		disk := tree.FS()
		var places []string
		for name := range asideContent {
			place := filepath.Join("data/aside", name)
			if readFile(t, disk, filepath.Join("data", name)) != "" {
				place = filepath.Join("data/aside-by-it", name)
				require.NoError(t, disk.MakeDir(filepath.Dir(place)))
				require.NoError(t, disk.Rename(filepath.Join("data", name), place))
			}
			places = append(places, place)
		}
		for _, name := range slices.Sorted(maps.Keys(started)) {
			writeFile(t, disk, filepath.Join("data", name), started[name])
		}
		if exists(t, disk, "data/"+asideRecord) {
			_, err := setAside(disk, "data", "aside")
			require.NoError(t, err)
		}
		require.Empty(t, readFile(t, disk, "data/"+asideRecord))
		for name, content := range started {
			require.Equal(t, content, readFile(t, disk, filepath.Join("data", name)))
		}
		for _, place := range places {
			require.NotEmpty(t, readFile(t, disk, place), place)
		}
	}
}

// SetAside ignores a damaged record, and no start succeeds while the record is there.
func TestSetAside_ADamagedRecord(t *testing.T) {
	for _, text := range []string{"", "nonsense", `{"aside":"../elsewhere"}`, `{"aside":"snapshots"}`, `{"aside":"aside/../.."}`} {
		disk := storeToSetAside(t).FS()
		writeFile(t, disk, "data/"+asideRecord, text)
		checkSetAside(t, disk, true)
		writeFile(t, disk, "data/"+asideRecord, text)
		_, err := setAside(disk, "data", "aside")
		require.ErrorIs(t, err, fs.ErrNotExist, "all was moved")
		require.False(t, exists(t, disk, "data/"+asideRecord))
	}
}

// If a SetAside of a store is unfinished, no process can open the store. The next call of SetAside sets the remaining files
// aside.
func TestSetAside_NoStartBeforeItHasEnded(t *testing.T) {
	dir := compactedStore(t)
	require.NoError(t, aside{Name: "aside-1"}.record(files.OS, dir))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "aside-1"), 0o700))
	before, err := os.ReadDir(dir)
	require.NoError(t, err)
	for name, open := range map[string]func() error{
		"Open":     func() error { _, err := Open(dir, Options{}); return err },
		"OpenBolt": func() error { _, err := OpenBolt(dir, BoltOptions{}); return err },
		"OpenLog":  func() error { _, err := OpenLog(dir, LogOptions{}); return err },
		"Migrate":  func() error { _, err := Migrate(t.Context(), dir, KindSegments, MigrateOptions{}); return err },
	} {
		var unfinished *UnfinishedAsideError
		require.ErrorAs(t, open(), &unfinished, name)
		require.ErrorContains(t, unfinished, "storage.SetAside again")
		require.FileExists(t, unfinished.Record)
	}
	after, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// SetAside moves raft.db before it ends. Until it ends, it keeps other processes from creating a new store.
func TestSetAside_KeepsOthersOutUntilItsEnd(t *testing.T) {
	dir := bootstrappedStore(t)
	unlock, err := lockDir(dir, 0)
	require.NoError(t, err)
	require.NoError(t, os.Rename(filepath.Join(dir, BoltFile), filepath.Join(dir, "moved")))
	_, err = OpenLog(dir, LogOptions{LockWait: time.Millisecond})
	require.ErrorIs(t, err, raft.ErrLocked)
	require.NoFileExists(t, filepath.Join(dir, BoltFile))
	require.NoError(t, os.Rename(filepath.Join(dir, "moved"), filepath.Join(dir, BoltFile)))
	_, err = SetAside(dir)
	require.ErrorIs(t, err, raft.ErrLocked)
	unlock()

	earlier, err := bbolt.Open(filepath.Join(dir, BoltFile), 0o600, nil) // as v0.3.0, which locks raft.db alone
	require.NoError(t, err)
	_, err = SetAside(dir)
	require.ErrorIs(t, err, raft.ErrLocked)
	_, err = OpenBolt(dir, BoltOptions{LockWait: time.Millisecond})
	require.ErrorIs(t, err, raft.ErrLocked)
	require.NoError(t, earlier.Close())
	_, err = SetAside(dir)
	require.NoError(t, err)
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
	require.NoFileExists(t, filepath.Join(moved[1], snapshotDir), "the second store had no snapshots")
	kept, err := loaded(t.Context(), t, moved[0])
	require.NoError(t, err)
	require.EqualValues(t, 4, kept.Hard.Term, "the store that was set aside has everything")
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

// Open waits for a process that sets the store aside. Afterwards Open creates a new store. Its kind is the kind in the
// options, not the kind of the former store.
func TestSetAside_WhileOpenWaits(t *testing.T) {
	dir := bootstrappedStore(t)
	unlock, err := lockDir(dir, 0)
	require.NoError(t, err)
	opening := make(chan error, 1)
	var store raft.SnapshotStorage
	go func() {
		var err error
		store, err = Open(dir, Options{New: KindSegments, LockWait: time.Minute})
		opening <- err
	}()
	require.NoError(t, os.Rename(filepath.Join(dir, BoltFile), filepath.Join(dir, "moved")))
	unlock()
	require.NoError(t, <-opening)
	require.IsType(t, &Log{}, store)
	require.NoError(t, store.Close())

	for _, place := range []string{t.TempDir(), filepath.Join(dir, "missing")} {
		_, err := openBoltOn(files.OS, place, BoltOptions{access: toChange})
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = openLogOn(files.OS, place, LogOptions{access: toChange})
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.NoFileExists(t, filepath.Join(place, BoltFile))
	}
}

// A process is about to open the store, and another process sets the store aside. The first process must not create a file
// without records in its place. It must not use the file that was set aside, either.
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
	require.ErrorIs(t, checkName(waits, late.path), raft.ErrLocked, "another file has that name now")
}

// The address of a sighting does not need a new version of the record, because an earlier release skips the address.
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

// roomFor is a file system with room for copies of a log, up to the given number of bytes.
type roomFor struct {
	mounted
	bytes int64
}

func (r roomFor) Free(string) (int64, error) {
	copies, err := r.List("data/aside/" + LogDir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return r.bytes + asideReserve - bytesOf(copies), err
}

// An interrupted call leaves copies that take room. The next call of SetAside counts that room as available.
func TestSetAside_AnInterruptedCopyLeavesRoomForItsEnd(t *testing.T) {
	tree := crashdisk.New()
	disk := tree.FS()
	require.NoError(t, disk.MakeDir("data/"+LogDir))
	writeFile(t, disk, "data/raft.db", "x")
	for _, n := range []string{"1", "2", "3"} {
		writeFile(t, disk, "data/log/000000000000000"+n+".seg", strings.Repeat(n, 1<<10))
	}
	require.NoError(t, disk.SyncDir("data"))
	require.NoError(t, disk.SyncDir("data/log"))
	tight := func(f files.FS) files.FS { return roomFor{mounted{f, []string{"data/log"}}, 3 << 10} }
	for stop, ended := 0, false; !ended; stop++ {
		next := tree.Clone()
		next.StopAfter(stop)
		_, err := setAside(tight(next.FS()), "data", "aside")
		ended = err == nil
		if again := next.Clone(); exists(t, again.FS(), "data/"+asideRecord) {
			_, err = setAside(tight(again.FS()), "data", "aside")
			require.NoError(t, err, "after %d operations", stop)
		}
	}
}

// After an interrupted call, an earlier release may itself set the store aside and create a new one. The record of the
// interrupted call is still beside the new store. This release must use the new store, because the record belongs to the
// former one.
func TestOpen_KeepsTheStoreOfAnEarlierRelease(t *testing.T) {
	dir := bootstrappedStore(t)
	require.NoError(t, aside{Name: "aside-1", File: 12345}.record(files.OS, dir))
	b, err := OpenBolt(dir, BoltOptions{})
	require.NoError(t, err)
	require.NoError(t, b.Close())
	require.NoFileExists(t, filepath.Join(dir, asideRecord))
}
