package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
)

var orders = raft.Identity{Cluster: "orders", ID: "n1", Fresh: 7}

// bootstrappedStore makes a store with a vote and three entries, and returns its directory.
func bootstrappedStore(t *testing.T) string {
	leaks.Check(t)
	dir := t.TempDir()
	b, err := OpenBolt(dir, BoltOptions{})
	require.NoError(t, err)
	defer b.Close()
	_, err = b.Load(t.Context(), orders)
	require.NoError(t, err)
	n1 := raft.Member{ID: "n1", Address: "h1:1", Incarnation: 7}
	bootstrap := raft.Bootstrap{
		Cluster: raft.ClusterID{1}, Bootstrapper: n1.Peer(), Probe: raft.RPCID{StartCount: 1, Counter: 1},
		Configuration: raft.NewConfiguration([]raft.Member{n1}),
	}
	entries := []raft.Entry{{Index: 1, Kind: raft.EntryBootstrap, Data: bootstrap.Encode()}}
	for i := raft.Index(2); i <= 3; i++ {
		entries = append(entries, raft.Entry{Index: i, Term: 1, Kind: raft.EntryCommand, Data: []byte("x")})
	}
	hard := raft.HardState{Term: 4, Vote: raft.Peer{ID: "n1", Incarnation: 7}}
	require.NoError(t, b.Write(raft.StorageWrite{Hard: &hard, Log: &raft.LogWrite{Entries: entries}}))
	return dir
}

// compactedStore is like bootstrappedStore, but the log begins after entry 3. The store also has a record of a snapshot of
// entry 3. The snapshot has no file.
func compactedStore(t *testing.T) string {
	leaks.Check(t)
	dir := bootstrappedStore(t)
	b, err := OpenBolt(dir, BoltOptions{})
	require.NoError(t, err)
	defer b.Close()
	_, err = b.Load(t.Context(), orders)
	require.NoError(t, err)
	s := aSnapshot()
	require.NoError(t, b.Write(raft.StorageWrite{Snapshot: &s, Base: &s.Base}))
	return dir
}

// aSnapshot describes the state at entry 3 of a bootstrappedStore.
func aSnapshot() raft.Snapshot {
	n1 := raft.Member{ID: "n1", Address: "h1:1", Incarnation: 7}
	return raft.Snapshot{Base: raft.Base{
		ID: raft.EntryID{Term: 1, Index: 3}, Cluster: raft.ClusterID{1}, Bootstrapper: n1.Peer(), ConfigIndex: 1,
		Config: raft.NewConfiguration([]raft.Member{n1}),
	}}
}

// changed rewrites one record of the file.
func changed(t *testing.T, dir string, bucket, key []byte, change func([]byte) []byte) {
	db, err := bbolt.Open(filepath.Join(dir, BoltFile), filePermissions, boltOptions(lockWaitDefault))
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		in := tx.Bucket(bucket)
		return in.Put(key, change(slices.Clone(in.Get(key))))
	}))
	require.NoError(t, db.Close())
}

func loaded(ctx context.Context, t *testing.T, dir string) (raft.Stored, error) {
	b, err := OpenBolt(dir, BoltOptions{})
	require.NoError(t, err)
	defer b.Close()
	return b.Load(ctx, orders)
}

// resealedEntry gives a changed entry record the correct checksum, as a release that knows the change would write it.
func resealedEntry(change func([]byte)) func([]byte) []byte {
	return func(r []byte) []byte {
		change(r)
		end := len(r) - checksumBytes
		binary.LittleEndian.PutUint32(r[end:], crc32.Checksum(r[:end], castagnoli))
		return r
	}
}

// laterRecord is one record as a later release may write it.
type laterRecord struct {
	what         string
	compacted    bool // the store is a compactedStore
	bucket, key  []byte
	change       func([]byte) []byte
	names        string
	found, known uint64
}

func laterRecords(t *testing.T) []laterRecord {
	return []laterRecord{
		{
			what: "the format", bucket: metaBucket, key: recordKey, names: "format record", found: formatNewest + 1, known: formatNewest,
			change: func([]byte) []byte {
				b, err := metaRecord{Format: formatNewest + 1, Cluster: "orders", ID: "n1", Incarnation: 7, StartCount: 1}.encode()
				require.NoError(t, err)
				return b
			},
		},
		{
			what: "a format with other fields under the known names", bucket: metaBucket, key: recordKey,
			names: "format record", found: 9, known: formatNewest,
			change: func([]byte) []byte { // {"format": 9, "id": {}}
				return sealed([]byte{0x82, 0xa6, 'f', 'o', 'r', 'm', 'a', 't', 9, 0xa2, 'i', 'd', 0x80})
			},
		},
		{
			what: "eight bytes more before the vote", bucket: hardBucket, key: recordKey, names: "term and vote", found: hardVersion + 1, known: hardVersion,
			change: func(b []byte) []byte {
				body := b[:len(b)-checksumBytes]
				vote := 1 + hardCount(hardVersionWhole)*8
				grown := slices.Concat([]byte{hardVersion + 1}, body[1:vote], []byte("EIGHTNEW"), body[vote:])
				return sealed(grown)
			},
		},
		{
			what: "the starts", bucket: lineageBucket, key: recordKey, names: "its starts", found: 2, known: 1,
			change: func(b []byte) []byte { return sealed([]byte{2, 'n', 'e', 'w'}) },
		},
		{
			what: "a kind of entry", bucket: logBucket, key: logKey(3), names: "the kind of entry 3@1", found: 9, known: 6,
			change: resealedEntry(func(r []byte) { r[32] = 9 }),
		},
		{
			what: "the record of an entry", bucket: logBucket, key: logKey(3), names: "entry 3@1", found: 1, known: 0,
			change: resealedEntry(func(r []byte) { r[7], r[32] = 1, 0 }),
		},
		{
			what: "the bootstrap", bucket: logBucket, key: logKey(1), names: "bootstrap", found: 4, known: 3,
			change: func([]byte) []byte {
				return raft.Entry{Index: 1, Kind: raft.EntryBootstrap, Data: []byte(`{"version": 4, "cluster": {}}`)}.Record()
			},
		},
		{
			what: "the record of the snapshot", compacted: true, bucket: snapshotBucket, key: recordKey, names: snapshotName, found: 2, known: 1,
			change: func([]byte) []byte { return sealed([]byte{2, 'n', 'e', 'w'}) },
		},
		{
			what: "what the record of the snapshot describes", compacted: true, bucket: snapshotBucket, key: recordKey,
			names: "description of a snapshot", found: 7, known: 2,
			change: func([]byte) []byte { return sealed([]byte("\x01" + `{"version": 7}`)) },
		},
		{
			what: "the record of the base", compacted: true, bucket: snapshotBucket, key: baseKey, names: baseName, found: 2, known: 1,
			change: func([]byte) []byte { return sealed([]byte{2, 'n', 'e', 'w'}) },
		},
		{
			what: "the base", compacted: true, bucket: snapshotBucket, key: baseKey, names: "base of the log", found: 7, known: 2,
			change: func([]byte) []byte { return sealed([]byte("\x01" + `{"version": 7}`)) },
		},
	}
}

func laterConfigurations() []laterRecord {
	return []laterRecord{
		{
			what: "the feature level", bucket: logBucket, key: logKey(3), names: "feature level", found: 7, known: 6,
			change: func([]byte) []byte {
				return raft.Entry{Index: 3, Term: 1, Kind: raft.EntryConfiguration, Data: []byte(`{"version":1,"level":7,"new":7}`)}.Record()
			},
		},
		{
			what: "the feature level in the base", compacted: true, bucket: snapshotBucket, key: baseKey, names: "feature level", found: 7, known: 6,
			change: func([]byte) []byte {
				return sealed([]byte("\x01" + `{"version":2,"configuration":{"version":1,"level":7,"new":7}}`))
			},
		},
	}
}

// refused requires that Load fails, and returns the error of Load. Load must not report damage, and must not change the
// store.
func refused(t *testing.T, dir string) error {
	t.Helper()
	file := filepath.Join(dir, BoltFile)
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	_, refusal := loaded(t.Context(), t, dir)
	var corrupt *raft.CorruptError
	assert.NotErrorAs(t, refusal, &corrupt)
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, before, after, "nothing was changed")
	return refusal
}

// A later release may write any record in a new form. This release must report that and change nothing. If it reported
// damage, an operator might throw away a good disk.
func TestBolt_TellsALaterReleaseFromDamage(t *testing.T) {
	for _, row := range append(laterRecords(t), laterConfigurations()...) {
		t.Run(row.what, func(t *testing.T) {
			dir := bootstrappedStore(t)
			if row.compacted {
				dir = compactedStore(t)
			}
			changed(t, dir, row.bucket, row.key, row.change)
			err := refused(t, dir)
			var later *raft.LaterVersionError
			require.ErrorAs(t, err, &later)
			assert.Equal(t, filepath.Join(dir, BoltFile), later.File)
			assert.Contains(t, later.Record, row.names)
			assert.Equal(t, [2]uint64{row.found, row.known}, [2]uint64{later.Found, later.Known})
			assert.ErrorContains(t, err, "start the newer release")
		})
	}
}

// If a store has an earlier format, Load returns an error that says what to do, and changes nothing. The same holds for an
// entry that only an earlier release can read.
func TestBolt_TellsAnEarlierReleaseFromDamage(t *testing.T) {
	for _, row := range []struct {
		what          string
		bucket, key   []byte
		change        func([]byte) []byte
		names         string
		found, oldest uint64
	}{
		{
			what: "the format", bucket: metaBucket, key: recordKey, names: "format record", found: 2, oldest: formatVersion,
			change: func([]byte) []byte {
				b, err := metaRecord{Format: 2, Cluster: "orders", ID: "n1", Incarnation: 7, StartCount: 1}.encode()
				require.NoError(t, err)
				return b
			},
		},
		{
			what: "the bootstrap", bucket: logBucket, key: logKey(1), names: "bootstrap", found: 1, oldest: 2,
			change: func([]byte) []byte { // msgpack: {"version": 1}
				return raft.Entry{Index: 1, Kind: raft.EntryBootstrap, Data: []byte{0x81, 0xa7, 'v', 'e', 'r', 's', 'i', 'o', 'n', 1}}.Record()
			},
		},
	} {
		t.Run(row.what, func(t *testing.T) {
			dir := bootstrappedStore(t)
			changed(t, dir, row.bucket, row.key, row.change)
			err := refused(t, dir)
			var earlier *raft.EarlierVersionError
			require.ErrorAs(t, err, &earlier)
			assert.Equal(t, filepath.Join(dir, BoltFile), earlier.File)
			assert.Contains(t, earlier.Record, row.names)
			assert.Equal(t, [2]uint64{row.found, row.oldest}, [2]uint64{earlier.Found, earlier.Oldest})
			assert.ErrorContains(t, err, "start the earlier release")
		})
	}
}

// A release that does not know bases must not mistake the remainder of a compacted log for the whole log. Before the first
// snapshot, that release may read everything that this release writes.
func TestBolt_ACompactedLogIsNotReadByAnEarlierRelease(t *testing.T) {
	version := func(dir string) (version byte) {
		changed(t, dir, hardBucket, recordKey, func(record []byte) []byte {
			version = record[0]
			return record
		})
		return version
	}
	assert.EqualValues(t, 1, version(bootstrappedStore(t)))
	assert.EqualValues(t, 2, version(compactedStore(t)))
	_, err := loaded(t.Context(), t, compactedStore(t))
	require.NoError(t, err)
}

// Each write of a snapshot or a base also writes the record of term and vote. If the record of the snapshot or of the base is
// lost or replaced, Load reports damage.
func TestBolt_ALostRecordOfTheSnapshotIsDamage(t *testing.T) {
	other := aSnapshot()
	other.ID.Index--
	for _, row := range []struct {
		what, where string
		key         []byte
		record      []byte // nil: lost
	}{
		{"the snapshot is lost", snapshotName, recordKey, nil},
		{"the snapshot is another one", snapshotName, recordKey, encodeSnapshot(other)},
		{"the base is lost", baseName, baseKey, nil},
		{"the base is another one", baseName, baseKey, encodeBase(other.Base)},
	} {
		t.Run(row.what, func(t *testing.T) {
			dir := compactedStore(t)
			if row.record != nil {
				changed(t, dir, snapshotBucket, row.key, func([]byte) []byte { return row.record })
			} else {
				deleted(t, dir, snapshotBucket, row.key)
			}
			_, err := loaded(t.Context(), t, dir)
			var corrupt *raft.CorruptError
			require.ErrorAs(t, err, &corrupt)
			assert.Equal(t, raft.CorruptError{File: filepath.Join(dir, BoltFile), Where: row.where, Reason: corrupt.Reason, Cluster: raft.ClusterID{1}}, *corrupt)
		})
	}
}

func deleted(t *testing.T, dir string, bucket, key []byte) {
	db, err := bbolt.Open(filepath.Join(dir, BoltFile), filePermissions, boltOptions(lockWaitDefault))
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Delete(key) }))
	require.NoError(t, db.Close())
}

// A start writes the record of the starts and the owner's record together. If they disagree, one of them is damaged.
func TestBolt_ALineageThatEndsElsewhereIsDamaged(t *testing.T) {
	dir := bootstrappedStore(t)
	changed(t, dir, lineageBucket, recordKey, func(record []byte) []byte {
		l, err := decodeLineage(record)
		require.NoError(t, err)
		l.starts = l.starts.Begin(9)
		record, err = l.encode()
		require.NoError(t, err)
		return record
	})
	_, err := loaded(t.Context(), t, dir)
	var corrupt *raft.CorruptError
	require.ErrorAs(t, err, &corrupt)
	assert.ErrorContains(t, err, lineageName)
}

// A store that is marked with a contradiction may hold the last copy of acknowledged writes. If the store is also damaged,
// the error still reports the contradiction. Otherwise an operator who sets damaged stores aside might overlook it.
func TestBolt_AContradictedStoreThatIsDamagedSaysSo(t *testing.T) {
	for kind, contradicts := range map[raft.MarkKind]bool{raft.MarkContradicted: true, raft.MarkStaleImage: false} {
		dir := bootstrappedStore(t)
		b, err := OpenBolt(dir, BoltOptions{})
		require.NoError(t, err)
		_, err = b.Load(t.Context(), orders)
		require.NoError(t, err)
		require.NoError(t, b.Write(raft.StorageWrite{Mark: &raft.Mark{
			Kind: kind, By: raft.Peer{ID: "n2", Incarnation: 2}, Term: 7, Detail: "it was shown",
			Ours: raft.EntryID{Term: 1, Index: 3}, Theirs: raft.EntryID{Term: 2, Index: 3},
		}}))
		require.NoError(t, b.Close())
		changed(t, dir, logBucket, logKey(3), func(record []byte) []byte { record[len(record)-1] ^= 1; return record })

		b, err = OpenBolt(dir, BoltOptions{})
		require.NoError(t, err)
		_, err = b.Load(t.Context(), orders)
		var contradicted *raft.ContradictedError
		var damaged *raft.CorruptError
		require.Equal(t, contradicts, errors.As(err, &contradicted), err)
		require.Equal(t, !contradicts, errors.As(err, &damaged), err)
		require.ErrorContains(t, err, "entry 3", "the damage is also reported")
		require.NoError(t, b.Close())
	}
}
