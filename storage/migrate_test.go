package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/crashdisk"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/golden"
	"github.com/coxswain/raft/internal/leaks"
)

// act is one action of a member on its store.
type act = func(*testing.T, raft.SnapshotStorage)

var bothKinds = []Kind{KindBolt, KindSegments}

func other(k Kind) Kind {
	if k == KindBolt {
		return KindSegments
	}
	return KindBolt
}

func writes(w raft.StorageWrite) act {
	return func(t *testing.T, s raft.SnapshotStorage) { require.NoError(t, s.Write(w)) }
}

// appends returns an act that appends count entries after the entry after.
func appends(after raft.EntryID, term raft.Term, count int) act {
	w := &raft.LogWrite{After: after}
	for i := after.Index + 1; i <= after.Index+raft.Index(count); i++ {
		w.Entries = append(w.Entries, raft.Entry{Index: i, Term: term, Kind: raft.EntryCommand, Data: make([]byte, int(i)*37%400), Time: int64(i)})
	}
	return writes(raft.StorageWrite{Log: w, Commit: after.Index})
}

// aBootstrap writes the first entry, a vote, and a sighting of another member.
func aBootstrap() raft.StorageWrite {
	n1 := raft.Member{ID: "n1", Address: "h1:1", Incarnation: orders.Fresh}
	b := raft.Bootstrap{
		Cluster: raft.ClusterID{1}, Bootstrapper: n1.Peer(), Probe: raft.RPCID{StartCount: 1, Counter: 1},
		Configuration: raft.NewConfiguration([]raft.Member{n1}),
	}
	seen := raft.Sighting{Peer: raft.Peer{ID: "n2", Incarnation: 9}, Start: raft.StartID{Count: 3, Nonce: 8}, Term: 2, Address: "h2:1"}
	return raft.StorageWrite{
		Hard:   &raft.HardState{Term: 6, Vote: raft.Peer{ID: "n2", Incarnation: 9}},
		Memory: &raft.Sightings{Seen: []raft.Sighting{seen}, Confirmed: []raft.Sighting{seen}},
		Log:    &raft.LogWrite{Entries: []raft.Entry{{Index: 1, Kind: raft.EntryBootstrap, Data: b.Encode()}}},
	}
}

func aConfiguration(i raft.Index) raft.StorageWrite {
	c := raft.NewConfiguration([]raft.Member{{ID: "n1", Address: "h1:1", Incarnation: 7}, {ID: "n2", Address: "h2:1", Incarnation: 9, Kind: raft.Learner}})
	c.Level = 1
	e := raft.Entry{Index: i, Term: 3, Kind: raft.EntryConfiguration, Data: c.Encode()}
	return raft.StorageWrite{Log: &raft.LogWrite{After: raft.EntryID{Term: 3, Index: i - 1}, Entries: []raft.Entry{e}}}
}

func snapshots(id raft.EntryID, install bool) act {
	return func(t *testing.T, s raft.SnapshotStorage) {
		snapshot := aSnapshot()
		snapshot.ID, snapshot.File = id, raft.SnapshotID{1}
		w, err := s.CreateSnapshot(snapshot.File)
		require.NoError(t, err)
		require.NoError(t, w.Finish(snapshot))
		write := raft.StorageWrite{Snapshot: &snapshot}
		if !install {
			write.Base = &snapshot.Base
		}
		require.NoError(t, s.Write(write))
	}
}

// whole makes a log of several terms with truncations. The log takes several segments or pages.
var whole = []act{
	writes(aBootstrap()), appends(raft.EntryID{Index: 1}, 1, 30), appends(raft.EntryID{Term: 1, Index: 20}, 3, 9),
	writes(aConfiguration(30)), appends(raft.EntryID{Term: 3, Index: 30}, 5, 40), appends(raft.EntryID{Term: 5, Index: 55}, 6, 1),
}

var histories = map[string][]act{
	"a store that was not started":                 nil,
	"no entries":                                   {writes(raft.StorageWrite{Hard: &raft.HardState{Term: 2, Vote: raft.Peer{ID: "n3", Incarnation: 4}}})},
	"a whole log":                                  whole,
	"a compacted log":                              append(whole[:len(whole):len(whole)], snapshots(raft.EntryID{Term: 3, Index: 30}, false)),
	"an empty log after a snapshot":                append(whole[:len(whole):len(whole)], snapshots(raft.EntryID{Term: 6, Index: 56}, false)),
	"an installation that a crash has interrupted": append(whole[:len(whole):len(whole)], snapshots(raft.EntryID{Term: 7, Index: 90}, true)),
	"a log that was reset": append(whole[:len(whole):len(whole)],
		writes(raft.StorageWrite{Log: &raft.LogWrite{After: raft.EntryID{Term: 6, Index: 70}, Reset: true}}), appends(raft.EntryID{Term: 6, Index: 70}, 6, 12)),
}

// place is where a test keeps a store. raft.db is a real file. The segments may be on a disk that crashes.
type place struct {
	disk files.FS
	dir  string
}

// newPlace returns a place in a memory file system, if there is one. The tests do not depend on real syncs.
func newPlace(t *testing.T) place {
	leaks.Check(t)
	dir, err := os.MkdirTemp("/dev/shm", "storage-test-")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return place{files.OS, dir}
}

func (p place) open(kind Kind) (raft.SnapshotStorage, *boltStore, error) {
	if kind == KindBolt {
		b, err := openBoltOn(p.disk, p.dir, BoltOptions{})
		if err != nil {
			return nil, nil, err
		}
		return b, &b.boltStore, nil
	}
	l, err := openLogOn(p.disk, p.dir, LogOptions{SegmentBytes: 4 << 10})
	if err != nil {
		return nil, nil, err
	}
	return l, &l.boltStore, nil
}

// fill makes a closed store of the given kind. If does is not empty, a second start of the member carries out these acts.
func (p place) fill(t *testing.T, kind Kind, does []act) {
	for start := range 2 {
		s, _, err := p.open(kind)
		require.NoError(t, err)
		if len(does) > 0 {
			_, err = s.Load(t.Context(), orders)
			require.NoError(t, err)
		}
		for _, do := range does[:len(does)*start] {
			do(t, s)
		}
		require.NoError(t, s.Close())
	}
}

func (p place) migrate(to Kind) (Migrated, error) {
	return migrateOn(context.Background(), p.disk, p.dir, to, MigrateOptions{SegmentBytes: 4 << 10, copyBytes: 2 << 10})
}

// held is the content of a store, independent of its kind.
type held struct {
	meta    metaRecord
	lineage lineageRecord
	stored  raft.Stored
	base    raft.Base
	records string // records of all entries
}

// holds reads the content of the store without a start, and also returns its kind. It requires that the store can be opened
// only as that kind.
func (p place) holds(t testing.TB) (h held, kind Kind) {
	t.Helper()
	for _, k := range bothKinds {
		s, b, err := p.open(k)
		if err != nil {
			require.ErrorIs(t, err, ErrOtherLog)
			continue
		}
		require.Empty(t, kind, "a store has only one kind")
		kind = k
		h = p.read(t, s, b)
		require.NoError(t, s.Close())
	}
	require.NotEmpty(t, kind, "a store has a kind")
	return h, kind
}

func (place) read(t testing.TB, s raft.SnapshotStorage, b *boltStore) (h held) {
	t.Helper()
	m := &migration{ctx: context.Background(), store: b, read: s.Entries}
	err := m.scan()
	require.NoError(t, err)
	h.meta, h.lineage, h.base = m.meta, b.lineage, b.written.base
	h.meta.Format = 0
	h.stored = raft.Stored{Hard: b.written.hard, Commit: min(b.written.commit, m.log.Last.Index), Snapshot: b.written.snapshot, Log: m.log}
	if m.log.Last != m.log.Base.ID {
		entries, err := s.Entries(raft.Span{After: m.log.Base.ID.Index, Last: m.log.Last.Index}, 1<<30)
		require.NoError(t, err)
		for _, e := range entries {
			h.records += string(e.Record())
		}
	}
	return h
}

// starts loads the store and writes to it. It returns the data that Load found.
func (p place) starts(t testing.TB, kind Kind) raft.Stored {
	t.Helper()
	s, _, err := p.open(kind)
	require.NoError(t, err)
	stored, err := s.Load(context.Background(), orders)
	require.NoError(t, err)
	last := stored.Log.Last
	if last.Index > 0 {
		e := raft.Entry{Index: last.Index + 1, Term: last.Term + 1, Kind: raft.EntryCommand, Data: []byte("later")}
		require.NoError(t, s.Write(raft.StorageWrite{Log: &raft.LogWrite{After: last, Entries: []raft.Entry{e}}}))
	}
	require.NoError(t, s.Close())
	return stored
}

// A move to the other kind keeps the content of a store, and so does the move back.
func TestMigrate_ThereAndBackChangesNothing(t *testing.T) {
	for what, does := range histories {
		for _, from := range bothKinds {
			t.Run(what+", from "+string(from), func(t *testing.T) {
				p := newPlace(t)
				p.fill(t, from, does)
				before, kind := p.holds(t)
				require.Equal(t, from, kind)
				for _, to := range []Kind{other(from), from, other(from)} {
					done, err := p.migrate(to)
					require.NoError(t, err)
					assert.Equal(t, Migrated{other(to), to, uint64(before.stored.Log.Last.Index - before.stored.Log.Base.ID.Index)}, done)
					after, kind := p.holds(t)
					require.Equal(t, to, kind)
					require.Equal(t, before, after)
					p.checkTidy(t, to)
				}
				stored := p.starts(t, other(from))
				assert.Equal(t, before.stored.Hard, stored.Hard)
				assert.Equal(t, before.meta.StartCount+1, stored.StartCount, "Migrate is not a start")
				_, err := p.migrate(from)
				require.NoError(t, err)
				p.starts(t, from)
			})
		}
	}
}

// checkTidy requires that no copy of the log is left in the other place.
func (p place) checkTidy(t testing.TB, kind Kind) {
	t.Helper()
	if kind == KindBolt {
		list, err := p.disk.List(filepath.Join(p.dir, LogDir))
		if err == nil {
			require.Empty(t, list)
		}
		return
	}
	db, err := bbolt.Open(filepath.Join(p.dir, BoltFile), filePermissions, boltOptions(lockWaitDefault))
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		require.Nil(t, tx.Bucket(logBucket))
		return nil
	}))
}

// Migrate does not touch other files in the directory, even if one of them has the name of the segments' directory.
func TestMigrate_LeavesOtherFilesAlone(t *testing.T) {
	p := newPlace(t)
	p.fill(t, KindBolt, whole)
	log := filepath.Join(p.dir, LogDir)
	require.NoError(t, os.WriteFile(log, []byte("of the application"), 0o600))
	p.starts(t, KindBolt)
	assert.FileExists(t, log)
	require.NoError(t, os.Remove(log))
	require.NoError(t, os.Mkdir(log, 0o700))
	p.starts(t, KindBolt)
	assert.DirExists(t, log)
	require.NoError(t, os.WriteFile(filepath.Join(log, "application.log"), []byte("of the application"), 0o600))
	for _, to := range []Kind{KindSegments, KindBolt} {
		_, err := p.migrate(to)
		require.NoError(t, err)
		p.starts(t, to)
		assert.FileExists(t, filepath.Join(log, "application.log"))
	}
}

func TestMigrate_ReportsProgress(t *testing.T) {
	for _, from := range bothKinds {
		p := newPlace(t)
		p.fill(t, from, whole)
		var said []uint64
		_, err := Migrate(t.Context(), p.dir, other(from), MigrateOptions{copyBytes: 2 << 10, Progress: func(copied, all uint64) {
			assert.EqualValues(t, 56, all)
			said = append(said, copied)
		}})
		require.NoError(t, err)
		assert.Greater(t, len(said), 3)
		assert.IsIncreasing(t, said)
		assert.EqualValues(t, 0, said[0])
		assert.EqualValues(t, 56, said[len(said)-1])
	}
}

// If a log is already in the requested place, Migrate leaves it there.
func TestMigrate_ToWhereItIsDoesNothing(t *testing.T) {
	for _, kind := range bothKinds {
		p := newPlace(t)
		p.fill(t, kind, whole)
		before, _ := p.holds(t)
		done, err := p.migrate(kind)
		require.NoError(t, err)
		assert.Equal(t, Migrated{kind, kind, 56}, done)
		after, found := p.holds(t)
		assert.Equal(t, kind, found)
		assert.Equal(t, before, after)
	}
}

// The context can end Migrate at any time.
func TestMigrate_EndsWithItsContext(t *testing.T) {
	for _, from := range bothKinds {
		p := newPlace(t)
		p.fill(t, from, whole)
		before, _ := p.holds(t)
		ctx, stop := context.WithCancel(t.Context())
		_, err := Migrate(ctx, p.dir, other(from), MigrateOptions{copyBytes: 2 << 10, Progress: func(copied, _ uint64) {
			if copied > 0 {
				stop()
			}
		}})
		require.ErrorIs(t, err, context.Canceled)
		p.checkTidy(t, from)
		after, kind := p.holds(t)
		assert.Equal(t, from, kind)
		assert.Equal(t, before, after)
	}
}

// unmovable describes a store that Migrate refuses.
type unmovable struct {
	from   Kind
	to     Kind // "": the other one
	change func(t *testing.T, p place)
	is     error
	as     any
	says   string
}

var unmovables = map[string]unmovable{
	"no store": {from: KindBolt, is: fs.ErrNotExist, says: BoltFile, change: func(t *testing.T, p place) {
		require.NoError(t, os.Remove(filepath.Join(p.dir, BoltFile)))
	}},
	"another kind":         {from: KindBolt, to: "paper", says: `there is no kind "paper": choose "bbolt" or "segments"`},
	"a store that is open": {from: KindSegments, is: raft.ErrLocked, change: isOpen(KindSegments)},
	"one in bbolt":         {from: KindBolt, is: raft.ErrLocked, change: isOpen(KindBolt)},
	"a damaged entry": {from: KindBolt, as: new(*raft.CorruptError), says: "entry 7", change: func(t *testing.T, p place) {
		changed(t, p.dir, logBucket, logKey(7), func(b []byte) []byte { b[9]++; return b })
	}},
	"a damaged segment": {from: KindSegments, as: new(*raft.CorruptError), says: "2.seg", change: func(t *testing.T, p place) {
		flipped(t, segment(p.dir, 2), 600)
	}},
	"a missing segment": {from: KindSegments, as: new(*raft.CorruptError), says: "2.seg is missing", change: func(t *testing.T, p place) {
		require.NoError(t, os.Remove(segment(p.dir, 2)))
	}},
	"a damaged file": {from: KindBolt, as: new(*raft.CorruptError), says: BoltFile, change: func(t *testing.T, p place) {
		require.NoError(t, os.Truncate(filepath.Join(p.dir, BoltFile), 1000))
	}},
	"a store of a later release": {from: KindBolt, as: new(*raft.LaterVersionError), says: "format record", change: func(t *testing.T, p place) {
		changed(t, p.dir, metaBucket, recordKey, func([]byte) []byte {
			b, err := metaRecord{Format: formatNewest + 1, Cluster: "orders"}.encode()
			require.NoError(t, err)
			return b
		})
	}},
	"a segment of another member": {from: KindBolt, as: new(*InTheWayError), says: "1.seg is no part of this store", change: withAnothersSegment},
	"a segment of another member beside an empty log": {from: KindBolt, as: new(*InTheWayError), says: "1.seg is no part of this store", change: func(t *testing.T, p place) {
		require.NoError(t, os.Remove(filepath.Join(p.dir, BoltFile)))
		b, err := OpenBolt(p.dir, BoltOptions{})
		require.NoError(t, err)
		_, err = b.Load(t.Context(), orders)
		require.NoError(t, errors.Join(err, b.Close()))
		withAnothersSegment(t, p)
	}},
	"a store that its member must not use": {from: KindSegments, as: new(*raft.StaleImageError), says: "older image", change: func(t *testing.T, p place) {
		s, _, err := p.open(KindSegments)
		require.NoError(t, err)
		_, err = s.Load(t.Context(), orders)
		require.NoError(t, err)
		require.NoError(t, s.Write(raft.StorageWrite{Mark: &raft.Mark{Kind: raft.MarkStaleImage, Term: 3}}))
		require.NoError(t, s.Close())
	}},
}

// withAnothersSegment puts segments of another member into the directory where Migrate will put the store's segments.
func withAnothersSegment(t *testing.T, p place) {
	require.NoError(t, os.CopyFS(filepath.Join(p.dir, LogDir), os.DirFS(filepath.Join(logOf(t, 3), LogDir))))
	changed(t, p.dir, metaBucket, recordKey, func(b []byte) []byte {
		meta, err := decodeMeta(b)
		require.NoError(t, err)
		meta.Incarnation++
		b, err = meta.encode()
		require.NoError(t, err)
		return b
	})
}

// If Migrate cannot move a store, it returns an error that says why, and changes no file.
func TestMigrate_Refuses(t *testing.T) {
	for what, row := range unmovables {
		t.Run(what, func(t *testing.T) {
			p := newPlace(t)
			p.fill(t, row.from, whole)
			if row.change != nil {
				row.change(t, p)
			}
			before := golden.Contents(t, p.dir)
			to := row.to
			if to == "" {
				to = other(row.from)
			}
			_, err := Migrate(t.Context(), p.dir, to, MigrateOptions{LockWait: 10 * time.Millisecond})
			require.ErrorContains(t, err, row.says)
			if row.is != nil {
				require.ErrorIs(t, err, row.is)
			}
			if row.as != nil {
				require.ErrorAs(t, err, row.as)
			}
			after := golden.Contents(t, p.dir)
			if strings.HasPrefix(what, "a segment of another member") { // found only after transactions that change raft.db, but not its content
				delete(before, filepath.Join(p.dir, BoltFile))
				delete(after, filepath.Join(p.dir, BoltFile))
			}
			assert.Equal(t, before, after)
		})
	}
}

func isOpen(kind Kind) func(*testing.T, place) {
	return func(t *testing.T, p place) {
		s, _, err := p.open(kind)
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close() })
	}
}

func flipped(t *testing.T, path string, at int) {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[at] ^= 1
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

// Migrate does not begin a copy that may not fit. If the disk still becomes full during the copy, Migrate removes the copy.
func TestMigrate_NeedsRoom(t *testing.T) {
	p := newPlace(t)
	p.fill(t, KindBolt, whole)
	before, _ := p.holds(t)
	for quota := int64(4 << 10); ; quota += 4 << 10 {
		tree := crashdisk.New()
		p.disk = tree.FS()
		require.NoError(t, p.disk.MakeDir(p.dir))
		tree.Quota(quota)
		_, err := p.migrate(KindSegments)
		if err == nil {
			break
		}
		require.ErrorIs(t, err, ErrDiskFull)
		if quota == 4<<10 {
			require.ErrorContains(t, err, fmt.Sprintf("bytes in %s, and 4096 are free", filepath.Join(p.dir, LogDir)))
		}
		require.Zero(t, tree.Used())
		after, kind := p.holds(t)
		require.Equal(t, KindBolt, kind)
		require.Equal(t, before, after)
	}
	after, kind := p.holds(t)
	require.Equal(t, KindSegments, kind)
	require.Equal(t, before, after)
}

// roomAt is a disk that reports the given room for the given directory.
type roomAt struct {
	files.FS
	dir  string
	free int64
}

func (r roomAt) Free(dir string) (int64, error) {
	if free, err := r.FS.Free(dir); err != nil || dir != r.dir {
		return free, err
	}
	return r.free, nil
}

// The directory of the segments may be a separate mount. Then Migrate looks at the room of that mount.
func TestMigrate_LooksForRoomWhereTheSegmentsGo(t *testing.T) {
	dir := bootstrappedStore(t)
	tree := crashdisk.New()
	require.NoError(t, tree.FS().MakeDir(filepath.Join(dir, LogDir)))
	_, err := migrateOn(t.Context(), roomAt{tree.FS(), filepath.Join(dir, LogDir), 10}, dir, KindSegments, MigrateOptions{})
	require.ErrorIs(t, err, ErrDiskFull)
	_, err = migrateOn(t.Context(), roomAt{tree.FS(), dir, 10}, dir, KindSegments, MigrateOptions{})
	require.NoError(t, err)
}
