package storage

import (
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/internal/snapfile"
)

// troubled is a disk that fails when a test wants it to. It also counts the open files.
type troubled struct {
	files.FS
	rename atomic.Pointer[error]
	create atomic.Pointer[error]
	sync   atomic.Pointer[error]  // error of syncing a directory
	opens  atomic.Pointer[error]  // error of opening a file for reading
	fills  atomic.Pointer[func()] // called before each write; if it is set, Allocate is not supported
	open   atomic.Int64           // number of open files
	free   atomic.Int64           // bytes that Free returns; 0: those of the real disk
	pause  atomic.Int64           // nanoseconds that Create takes
}

func (d *troubled) Free(dir string) (int64, error) {
	if free := d.free.Load(); free != 0 {
		return free, nil
	}
	return d.FS.Free(dir)
}

func (d *troubled) Remove(name string) error {
	if info, err := os.Stat(name); err == nil && d.free.Load() != 0 {
		d.free.Add(info.Size())
	}
	return d.FS.Remove(name)
}

func (d *troubled) Rename(from, to string) error {
	if err := d.rename.Load(); err != nil {
		return *err
	}
	return d.FS.Rename(from, to)
}

func (d *troubled) Create(name string) (files.File, error) {
	<-time.After(time.Duration(d.pause.Load()))
	if err := d.create.Load(); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: *err}
	}
	return d.counted(d.FS.Create(name))
}

func (d *troubled) SyncDir(dir string) error {
	if err := d.sync.Load(); err != nil {
		return *err
	}
	return d.FS.SyncDir(dir)
}

func (d *troubled) Open(name string) (files.File, error) {
	if err := d.opens.Load(); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: *err}
	}
	return d.counted(d.FS.Open(name))
}

func (d *troubled) OpenWrite(name string) (files.File, error) { return d.counted(d.FS.OpenWrite(name)) }

func (d *troubled) counted(f files.File, err error) (files.File, error) {
	if err != nil {
		return nil, err
	}
	d.open.Add(1)
	return troubledFile{f, d}, nil
}

type troubledFile struct {
	files.File
	d *troubled
}

func (f troubledFile) WriteAt(p []byte, at int64) (int, error) {
	if fills := f.d.fills.Load(); fills != nil {
		(*fills)()
	}
	return f.File.WriteAt(p, at)
}

func (f troubledFile) Allocate(size int64) error {
	if f.d.fills.Load() != nil {
		return errors.ErrUnsupported
	}
	return f.File.Allocate(size)
}

func (f troubledFile) Close() error {
	f.d.open.Add(-1)
	return f.File.Close()
}

// busy is a log whose entries fill several segments.
type busy struct {
	*Log
	disk *troubled
	dir  string
	last raft.EntryID
}

func newBusy(t *testing.T) *busy {
	leaks.Check(t)
	b := &busy{disk: &troubled{FS: files.OS}, dir: t.TempDir(), last: raft.EntryID{Term: 1, Index: 1}}
	var err error
	b.Log, err = openLogOn(b.disk, b.dir, LogOptions{SegmentBytes: 16 << 10})
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	_, err = b.Load(t.Context(), orders)
	require.NoError(t, err)
	require.NoError(t, b.more(100))
	return b
}

// more writes that many entries of 1,000 bytes.
func (b *busy) more(entries int) error {
	for range entries {
		w := raft.StorageWrite{Log: &raft.LogWrite{After: b.last, Reset: b.last.Index == 1}}
		b.last.Index++
		w.Log.Entries = []raft.Entry{{Index: b.last.Index, Term: 1, Kind: raft.EntryCommand, Data: make([]byte, 1000)}}
		if err := b.Write(w); err != nil {
			return err
		}
	}
	return nil
}

// compacted makes the log begin after its last entry, and then prunes the log.
func (b *busy) compacted(t *testing.T) {
	base := aSnapshot().Base
	base.ID = b.last
	require.NoError(t, b.Write(raft.StorageWrite{Base: &base}))
	for more := true; more; {
		var err error
		more, err = b.Prune()
		require.NoError(t, err)
	}
}

func (b *busy) spares(t *testing.T) []string {
	names, err := filepath.Glob(filepath.Join(b.dir, LogDir, "spare-*"))
	require.NoError(t, err)
	return names
}

// If a prepared segment is too small for the next entry, the log removes the segment to make room for a larger one.
func TestLog_ReplacesAPreparedSegmentThatIsTooSmall(t *testing.T) {
	b := newBusy(t)
	require.NoError(t, b.more(8))
	require.Eventually(t, func() bool { return !b.log.Wanted() }, time.Minute, time.Millisecond)
	b.disk.free.Store(20 << 10)
	large := raft.Entry{Index: b.last.Index + 1, Term: 1, Kind: raft.EntryCommand, Data: make([]byte, 30<<10)}
	written := make(chan error, 1)
	go func() {
		written <- b.Write(raft.StorageWrite{Log: &raft.LogWrite{After: b.last, Entries: []raft.Entry{large}}})
	}()
	select {
	case err := <-written:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		require.Fail(t, "the write waits for more room")
	}
}

// Room also reports an error other than a full disk, so that a leader refuses proposals before a write fails.
func TestLog_ReportsEarlyThatItCannotContinue(t *testing.T) {
	b := newBusy(t)
	denied := error(syscall.EACCES)
	b.disk.create.Store(&denied)
	for b.Room() == nil {
		if err := b.more(1); err != nil {
			assert.ErrorIs(t, err, ErrNotWritable)
			break
		}
	}
	require.ErrorIs(t, b.Room(), syscall.EACCES)
	b.disk.create.Store(nil)
}

// If clients have taken all file descriptors, the member does not end. It waits, as it does for a full disk.
func TestLog_WaitsForAFileDescriptor(t *testing.T) {
	b := newBusy(t)
	none := error(syscall.EMFILE)
	b.disk.create.Store(&none)
	written := make(chan error, 1)
	go func() { written <- b.more(100) }()
	var before uint64
	require.Eventually(t, func() bool { // until a write waits
		waits := before == b.writes.Load()
		before = b.writes.Load()
		return waits && errors.Is(b.Room(), syscall.EMFILE)
	}, time.Minute, 50*time.Millisecond)
	require.Empty(t, written)
	b.disk.create.Store(nil)
	require.NoError(t, <-written)
	assert.NoError(t, b.Room())
}

// Before a write records a snapshot, it opens the file of the snapshot. If no file descriptor is left, the write waits and
// does not fail.
func TestStores_WaitForAFileDescriptorToRecordASnapshot(t *testing.T) {
	for _, kind := range []Kind{KindBolt, KindSegments} {
		for _, closes := range []bool{false, true} {
			store, b, err := newPlace(t).open(kind)
			require.NoError(t, err)
			_, err = store.Load(t.Context(), orders)
			require.NoError(t, err)
			disk := &troubled{FS: files.OS}
			b.dir = snapfile.Open(disk, filepath.Join(filepath.Dir(b.path), snapshotDir))
			s := aSnapshot()
			s.File, s.Size = raft.SnapshotID{1}, 5
			w, err := store.CreateSnapshot(s.File)
			require.NoError(t, err)
			_, err = w.Write(make([]byte, s.Size))
			require.NoError(t, err)
			s.Sum = crc32.Checksum(make([]byte, s.Size), crc32.MakeTable(crc32.Castagnoli))
			require.NoError(t, w.Finish(s))
			none := error(syscall.EMFILE)
			disk.opens.Store(&none)
			written := make(chan error, 1)
			go func() {
				written <- store.Write(raft.StorageWrite{Snapshot: &s, Log: &raft.LogWrite{After: s.ID, Reset: true}})
			}()
			select {
			case err := <-written:
				require.Fail(t, "the write did not wait", "%v", err)
			case <-time.After(2 * retryMin):
			}
			if room, ok := store.(raft.RoomStorage); ok {
				require.ErrorContains(t, room.Room(), "raise the limit of open files")
			}
			if closes {
				store.(interface{ GiveUp() }).GiveUp()
				require.ErrorIs(t, <-written, ErrStoreClosed)
			} else {
				disk.opens.Store(nil)
				require.NoError(t, <-written)
			}
			require.NoError(t, store.Close())
		}
	}
}

func TestLog_KeepsItsSpareFilesWithoutAFileDescriptor(t *testing.T) {
	b := newBusy(t)
	b.compacted(t)
	require.Eventually(t, func() bool { return !b.log.Wanted() }, time.Minute, time.Millisecond)
	before := len(b.spares(t))
	require.NotZero(t, before)
	none := error(syscall.ENFILE)
	b.disk.sync.Store(&none)
	written := make(chan error, 1)
	go func() { written <- b.more(100) }()
	require.Eventually(t, func() bool { return b.Room() != nil }, time.Minute, time.Millisecond)
	assert.Len(t, b.spares(t), before)
	b.disk.sync.Store(nil)
	require.NoError(t, <-written)
}

// A member that ends does not wait for a fill to finish, even if its last write needs the segment.
func TestLog_GiveUpEndsAFill(t *testing.T) {
	b := newBusy(t)
	large := raft.Entry{Index: b.last.Index + 1, Term: 1, Kind: raft.EntryCommand, Data: make([]byte, 2<<20)}
	giveUp := b.GiveUp
	b.disk.fills.Store(&giveUp)
	err := b.Write(raft.StorageWrite{Log: &raft.LogWrite{After: b.last, Entries: []raft.Entry{large}}})
	require.ErrorIs(t, err, ErrStoreClosed)
}

// The store is opened again with larger segments. Its spare files are too small for a larger segment.
func TestLog_ALargerSegmentTakesNoSmallerFile(t *testing.T) {
	b := newBusy(t)
	b.compacted(t)
	require.NotEmpty(t, b.spares(t))
	for range 2 {
		require.NoError(t, b.Close())
		var err error
		b.Log, err = OpenLog(b.dir, LogOptions{SegmentBytes: 64 << 10})
		require.NoError(t, err)
		_, err = b.Load(t.Context(), orders)
		require.NoError(t, err)
		require.NoError(t, b.more(20))
	}
}

// An operator who needs room may remove the spare files. The log then creates new files.
func TestLog_ContinuesWithoutItsSpareFiles(t *testing.T) {
	b := newBusy(t)
	b.compacted(t)
	require.NotEmpty(t, b.spares(t))
	for _, name := range b.spares(t) {
		require.NoError(t, os.Remove(name))
	}
	require.NoError(t, b.more(100))
}

// An entry may need a segment that is larger than the spare files. The log removes the spare files to make room for that
// segment.
func TestLog_RemovesSpareFilesForALargerSegment(t *testing.T) {
	b := newBusy(t)
	b.compacted(t)
	require.NotEmpty(t, b.spares(t))
	require.Eventually(t, func() bool { return !b.log.Wanted() }, time.Minute, time.Millisecond)
	b.disk.free.Store(8 << 10)
	large := raft.Entry{Index: b.last.Index + 1, Term: 1, Kind: raft.EntryCommand, Data: make([]byte, 30<<10)}
	require.NoError(t, b.Write(raft.StorageWrite{Log: &raft.LogWrite{After: b.last, Entries: []raft.Entry{large}}}))
	assert.LessOrEqual(t, len(b.spares(t)), 1)
}

// The disk may be so full that it cannot even change a name. Prune then removes the segments and does not keep them as
// spares.
func TestLog_PrunesWithoutRoomForAName(t *testing.T) {
	b := newBusy(t)
	require.Eventually(t, func() bool { return !b.log.Wanted() }, time.Minute, time.Millisecond) // nothing is being prepared
	full := error(&os.LinkError{Op: "rename", Err: syscall.ENOSPC})
	b.disk.rename.Store(&full)
	b.compacted(t)
	assert.Empty(t, b.spares(t))
	b.disk.rename.Store(nil)
	require.NoError(t, b.more(100))
}

// If a sync of the directory fails, Prune also removes the segments and does not keep them as spares.
func TestLog_PrunesWithoutRoomForADirectory(t *testing.T) {
	b := newBusy(t)
	require.Eventually(t, func() bool { return !b.log.Wanted() }, time.Minute, time.Millisecond)
	full := error(syscall.EDQUOT)
	b.disk.sync.Store(&full)
	b.compacted(t)
	assert.Empty(t, b.spares(t))
	b.disk.sync.Store(nil)
	require.NoError(t, b.more(100))
}

// After a long attempt the background waits for a long time. If a write prepares the segment meanwhile, the background stops
// waiting.
func TestLog_PreparesSoonAfterAWriteHas(t *testing.T) {
	b := newBusy(t)
	full := error(syscall.EDQUOT)
	b.disk.create.Store(&full)
	b.disk.pause.Store(int64(retryMax / retryFactor))
	for b.Room() == nil {
		require.NoError(t, b.more(1))
		require.Eventually(t, func() bool { return b.Room() != nil || !b.log.Wanted() }, time.Minute, time.Millisecond)
	}
	b.disk.create.Store(nil)
	b.disk.pause.Store(0)
	began := time.Now()
	for b.Room() != nil { // the write that needs the segment prepares it
		require.NoError(t, b.more(1))
	}
	for range 8 {
		require.NoError(t, b.more(1))
	}
	require.Eventually(t, func() bool { return !b.log.Wanted() }, time.Minute, time.Millisecond)
	assert.Less(t, time.Since(began), retryMax*3/4)
}

// If a log cannot record its segments, the log fails and keeps no file open.
func TestLog_ClosesAllFilesAfterAFailure(t *testing.T) {
	b := newBusy(t)
	b.mu.Lock()
	require.NoError(t, b.db.Close())
	b.mu.Unlock()
	require.Error(t, b.more(100))
	require.NoError(t, b.Close())
	assert.Zero(t, b.disk.open.Load())
}

// slowFull is the error of a full disk. It does not return its text until a test allows it.
type slowFull struct{ read, proceed chan struct{} }

func (slowFull) Is(target error) bool { return target == syscall.ENOSPC }
func (e slowFull) Error() string {
	select {
	case e.read <- struct{}{}:
	default:
	}
	<-e.proceed
	return "no space"
}

// The background finds the disk full, and is slow to report it. Meanwhile there is room again, and a write prepares a
// segment. Room must not return the outdated report.
func TestLog_AnOutdatedReportDoesNotCount(t *testing.T) {
	b := newBusy(t)
	require.Eventually(t, func() bool { return !b.log.Wanted() }, time.Minute, time.Millisecond)
	slow := slowFull{make(chan struct{}, 1), make(chan struct{})}
	full := error(slow)
	b.disk.rename.Store(&full)
	for found := false; !found; {
		require.NoError(t, b.more(1)) // the present segment is soon so full that the next one is prepared
		select {
		case <-slow.read:
			found = true
		case <-time.After(time.Millisecond):
		}
	}
	b.disk.rename.Store(nil)
	written := make(chan error, 1)
	go func() { written <- b.more(12) }() // the next segment gets one or two entries, too few to prepare another one
	select {
	case err := <-written:
		written <- err
	case <-time.After(100 * time.Millisecond): // it waits for the background
	}
	close(slow.proceed)
	require.NoError(t, <-written)
	require.Never(t, func() bool { return b.Room() != nil }, 300*time.Millisecond, 10*time.Millisecond)
}

// After an attempt that takes long, the log waits before the next attempt. While an attempt fills the disk, nothing else can
// write.
func TestRetryAfter(t *testing.T) {
	b := newBusy(t)
	b.disk.free.Store(1 << 40)
	assert.Equal(t, retryMin, b.retryAfter(0, syscall.EDQUOT))
	assert.Equal(t, 2*time.Second, b.retryAfter(100*time.Millisecond, syscall.EDQUOT))
	assert.Equal(t, retryMax, b.retryAfter(time.Minute, syscall.EDQUOT))
	assert.Equal(t, retryMin, b.retryAfter(time.Minute, syscall.EMFILE), "the next attempt reuses the filled file")
	b.disk.free.Store(1)
	assert.Equal(t, retryMin, b.retryAfter(time.Minute, syscall.ENOSPC), "the file system will report it at once")
}

func TestOpenLog_RefusesASizeOutsideItsLimits(t *testing.T) {
	for _, size := range []int64{-1, 1, 4<<10 - 1, 1<<30 + 1} {
		dir := t.TempDir()
		_, err := OpenLog(dir, LogOptions{SegmentBytes: size})
		_, migrated := Migrate(t.Context(), dir, KindSegments, MigrateOptions{SegmentBytes: size})
		_, opened := Open(dir, Options{SegmentBytes: size})
		for _, err := range []error{err, migrated, opened} {
			var field *raft.ConfigError
			require.ErrorAs(t, err, &field, size)
			assert.Equal(t, "SegmentBytes", field.Field)
		}
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Empty(t, left)
	}
}

// If a start has no file descriptor, its error says what to do.
func TestExplain_ALackOfFileDescriptors(t *testing.T) {
	err := explain("opening", "/data/raft.db", &fs.PathError{Op: "open", Path: "/data/raft.db", Err: syscall.EMFILE})
	assert.ErrorIs(t, err, syscall.EMFILE)
	assert.EqualError(t, err, "storage: opening /data/raft.db: open /data/raft.db: too many open files: "+files.DescriptorRemedy)
}

// The log reserves twice the size of the last snapshot. It subtracts the bytes that are already written to the next snapshot.
func TestLog_ReservesRoomForTheNextSnapshot(t *testing.T) {
	b := newBusy(t)
	assert.EqualValues(t, b.LogBytes(), b.reserve(), "there is no snapshot yet")
	assert.Greater(t, b.reserve(), int64(100_000))
	for _, row := range []struct{ size, reserve int64 }{{3 << 20, 6 << 20}, {40 << 20, 64 << 20}, {64 << 20, 64 << 20}, {64<<20 + 1, 0}} {
		b.recorded.Store(&raft.Snapshot{Base: aSnapshot().Base, Size: row.size})
		assert.Equal(t, row.reserve, b.reserve())
	}
	b.recorded.Store(&raft.Snapshot{Base: aSnapshot().Base, Size: 1 << 20})
	w, err := b.CreateSnapshot(raft.SnapshotID{1})
	require.NoError(t, err)
	_, err = w.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	assert.InDelta(t, 1<<20, b.reserve(), 64<<10)
	_, err = w.Write(make([]byte, 2<<20))
	require.NoError(t, err)
	assert.Zero(t, b.reserve())
	require.NoError(t, w.Abort())
	assert.EqualValues(t, 2<<20, b.reserve())
}
