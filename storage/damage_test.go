package storage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/storage"
)

// damageBytesMax is the maximum length of an error about damage. Such an error is one line in the log of a program.
const damageBytesMax = 512

// intact writes a store with a log that takes a tree of several pages, and returns the file of the store.
func intact(t *testing.T) []byte {
	dir := t.TempDir()
	b, _ := mustLoad(t, dir)
	last := raft.EntryID{}
	for term := range raft.Term(4) {
		w := logWrite(last, term, 100)
		w.Hard = &raft.HardState{Term: term, Vote: raft.Peer{ID: "n2", Incarnation: 7}}
		require.NoError(t, b.Write(w))
		last = w.Log.Entries[99].ID()
	}
	require.NoError(t, b.Close())
	file, err := os.ReadFile(filepath.Join(dir, storage.BoltFile))
	require.NoError(t, err)
	return file
}

// intactCompacted is like intact, but the store also has a base, and a recorded snapshot without a file. The file still
// contains some of the entries below the base.
func intactCompacted(t *testing.T) []byte {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, storage.BoltFile), intact(t), 0o600))
	b, _ := mustLoad(t, dir)
	first, second := baseAt(raft.EntryID{Term: 1, Index: 150}), baseAt(raft.EntryID{Term: 2, Index: 250})
	require.NoError(t, b.Write(raft.StorageWrite{Base: &first}))
	more, err := b.Prune()
	require.NoError(t, err)
	require.False(t, more)
	require.NoError(t, b.Write(raft.StorageWrite{Snapshot: &raft.Snapshot{Base: second}, Base: &second}))
	require.NoError(t, b.Close())
	file, err := os.ReadFile(filepath.Join(dir, storage.BoltFile))
	require.NoError(t, err)
	return file
}

// quickDir returns a directory in memory if possible. The tests open thousands of files, and do not depend on real syncs.
func quickDir(t *testing.T) string {
	leaks.Check(t)
	dir, err := os.MkdirTemp("/dev/shm", "storage-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// contents holds everything that a store returns.
type contents struct {
	stored raft.Stored
	log    []byte
}

func open(dir string) (c contents, err error) {
	b, err := storage.OpenBolt(dir, storage.BoltOptions{})
	if err != nil {
		return c, err
	}
	defer b.Close()
	if c.stored, err = b.Load(context.Background(), member); err != nil {
		return c, err
	}
	entries, err := b.Entries(raft.Span{After: c.stored.Log.Base.ID.Index, Last: c.stored.Log.Last.Index}, math.MaxInt)
	for _, e := range entries {
		c.log = append(c.log, e.Record()...)
	}
	return c, err
}

// damage opens changed copies of a file. For each copy, the store must report damage or return the whole content.
type damage struct {
	dir               string
	want              contents
	refused, unharmed int
}

func newDamage(t *testing.T, file []byte) *damage {
	d := &damage{dir: quickDir(t)}
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, storage.BoltFile), file, 0o600))
	var err error
	d.want, err = open(d.dir)
	require.NoError(t, err)
	return d
}

func (d *damage) try(file []byte) error {
	name := filepath.Join(d.dir, storage.BoltFile)
	if err := os.WriteFile(name, file, 0o600); err != nil {
		return err
	}
	got, err := open(d.dir)
	var corrupt *raft.CorruptError
	switch {
	case errors.As(err, &corrupt):
		d.refused++
		if corrupt.File != name || corrupt.Where == "" {
			return fmt.Errorf("the error names no place: %w", err)
		}
		if len(err.Error()) > damageBytesMax {
			return fmt.Errorf("the error takes %d bytes: %w", len(err.Error()), err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("not a *CorruptError: %w", err)
	}
	d.unharmed++
	if !bytes.Equal(got.log, d.want.log) || !assert.ObjectsAreEqual(d.want.stored, got.stored) {
		return fmt.Errorf("the store was taken for intact, and returns %+v", got.stored)
	}
	return nil
}

func TestBolt_ATruncatedFileIsDamaged(t *testing.T) {
	file := intact(t)
	d := newDamage(t, file)
	for size := 0; size < len(file); size += 509 {
		require.NoError(t, d.try(file[:size]), "cut to %d of %d bytes", size, len(file))
	}
	for _, size := range []int{1, 16, 4095, 4096, 4097, 8191, 8192, 8193, 12288, 16384} {
		require.NoError(t, d.try(file[:size]), "cut to %d of %d bytes", size, len(file))
	}
	t.Logf("%d refused, %d lost nothing", d.refused, d.unharmed)
	assert.Greater(t, d.refused, 0)
}

func TestBolt_ADamagedBitIsFoundOrHarmless(t *testing.T) {
	t.Run("of a whole log", func(t *testing.T) { flipBits(t, intact(t)) })
	t.Run("of a compacted log", func(t *testing.T) { flipBits(t, intactCompacted(t)) })
}

func flipBits(t *testing.T, file []byte) {
	d := newDamage(t, file)
	step := 61 // bytes; over the whole file, each bit of a byte is flipped
	if testing.Short() {
		step *= 10
	}
	for at := 0; at < len(file); at += step {
		flipped := slices.Clone(file)
		flipped[at] ^= 1 << (at % 8)
		require.NoError(t, d.try(flipped), "bit %d of byte %d", at%8, at)
	}
	t.Logf("%d refused, %d lost nothing", d.refused, d.unharmed)
	assert.Greater(t, d.refused, d.unharmed/10)
}

func TestBolt_DamagedStructureIsFound(t *testing.T) {
	t.Run("of a whole log", func(t *testing.T) { breakStructure(t, intact(t)) })
	t.Run("of a compacted log", func(t *testing.T) { breakStructure(t, intactCompacted(t)) })
}

func breakStructure(t *testing.T, file []byte) {
	d := newDamage(t, file)
	random := rand.New(rand.NewPCG(1, 1))
	pages := len(file) / 4096
	for range 2000 {
		damaged := slices.Clone(file)
		page := damaged[random.IntN(pages)*4096:]
		for range 1 + random.IntN(4) { // in the header and the first elements
			page[random.IntN(96)] = byte(random.UintN(256))
		}
		require.NoError(t, d.try(damaged))
	}
	t.Logf("%d refused, %d lost nothing", d.refused, d.unharmed)
}

func TestBolt_APageInThePlaceOfAnotherIsFound(t *testing.T) {
	file := intact(t)
	d := newDamage(t, file)
	pages := len(file) / 4096
	for from := range min(pages, 24) {
		for to := range min(pages, 24) {
			damaged := slices.Clone(file)
			copy(damaged[to*4096:(to+1)*4096], file[from*4096:])
			require.NoError(t, d.try(damaged), "page %d in the place of page %d", from, to)
		}
	}
	t.Logf("%d refused, %d lost nothing", d.refused, d.unharmed)
}

// If a log has lost its end, the rest of the log is sound. Only the record of the last write shows that the log was longer.
func TestBolt_ALogThatLostItsEndIsDamaged(t *testing.T) {
	dir := quickDir(t)
	name := filepath.Join(dir, storage.BoltFile)
	require.NoError(t, os.WriteFile(name, intact(t), 0o600))
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{NoFreelistSync: true})
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		cursor := tx.Bucket([]byte("log")).Cursor()
		cursor.Last()
		return cursor.Delete()
	}))
	require.NoError(t, db.Close())
	_, err = open(dir)
	var corrupt *raft.CorruptError
	require.ErrorAs(t, err, &corrupt)
	assert.Equal(t, "the end of the log", corrupt.Where)
}

func TestBolt_GarbageIsDamaged(t *testing.T) {
	for name, file := range map[string][]byte{
		"empty":        {},
		"zeros":        make([]byte, 64<<10),
		"text":         bytes.Repeat([]byte("not a database\n"), 4096),
		"half of zero": make([]byte, 5000),
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, storage.BoltFile), file, 0o600))
		_, err := storage.OpenBolt(dir, storage.BoltOptions{})
		var corrupt *raft.CorruptError
		assert.ErrorAs(t, err, &corrupt, name)
		assert.Equal(t, 1, strings.Count(fmt.Sprint(err), "is damaged at"), "said once: %v", err)
		assert.ErrorContains(t, err, "keep the file", name)
		left, err := os.ReadFile(filepath.Join(dir, storage.BoltFile))
		require.NoError(t, err)
		assert.True(t, bytes.Equal(file, left), "%s: the file is left for inspection", name)
	}
}

func TestBolt_DamageWhileItRunsIsAnErrorAndNoPanic(t *testing.T) {
	for _, row := range []struct {
		rule   string
		damage func(t *testing.T, name string)
	}{
		{"bytes are overwritten", func(t *testing.T, name string) {
			f, err := os.OpenFile(name, os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, 120_000), 8192) // keeps the head pages
			require.NoError(t, errors.Join(err, f.Close()))
		}},
		{"the file is cut short", func(t *testing.T, name string) { require.NoError(t, os.Truncate(name, 8192)) }},
	} {
		t.Run(row.rule, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, storage.BoltFile)
			require.NoError(t, os.WriteFile(name, intact(t), 0o600))
			b, stored := mustLoad(t, dir)
			last := stored.Log.Last
			row.damage(t, name)
			var corrupt *raft.CorruptError
			_, err := b.Entries(raft.Span{After: 0, Last: last.Index}, math.MaxInt)
			assert.ErrorAs(t, err, &corrupt)
			err = b.Write(logWrite(last, last.Term, 1))
			require.ErrorAs(t, err, &corrupt)
			assert.Equal(t, err, b.Write(logWrite(last, last.Term, 1)), "the store is not written to again")
			assert.NoError(t, b.Close())
		})
	}
}

// A sound record may lie in the place of another record of the same size. Its checksum is correct, but it is not the
// requested entry.
func TestBolt_ARecordInThePlaceOfAnotherIsFound(t *testing.T) {
	dir := quickDir(t)
	name := filepath.Join(dir, storage.BoltFile)
	require.NoError(t, os.WriteFile(name, intact(t), 0o600))
	b, stored := mustLoad(t, dir)
	defer b.Close()
	entries, err := b.Entries(raft.Span{After: 0, Last: stored.Log.Last.Index}, math.MaxInt)
	require.NoError(t, err)
	at := 1
	for len(entries[at].Data) != len(entries[at+1].Data) {
		at++
	}
	old, other := bytes.Clone(entries[at].Record()), bytes.Clone(entries[at+1].Record())
	require.Len(t, other, len(old))
	file, err := os.ReadFile(name)
	require.NoError(t, err)
	place := bytes.LastIndex(file, old)
	require.Positive(t, place)
	writer, err := os.OpenFile(name, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer writer.Close()
	for ; place >= 0; place = bytes.LastIndex(file[:place], old) { // the file may hold older copies
		_, err = writer.WriteAt(other, int64(place))
		require.NoError(t, err)
	}
	index := entries[at].Index
	_, err = b.Entries(raft.Span{After: index - 1, Last: index}, math.MaxInt)
	var corrupt *raft.CorruptError
	require.ErrorAs(t, err, &corrupt)
	assert.Equal(t, name, corrupt.File)
}

// Only a reset may drop the whole log. Any other write requires the entry before its first entry. If that required entry is
// damaged, the write must not drop the log, because the entries before the damaged one are acknowledged.
func TestBolt_ATruncationAfterADamagedEntryLosesNothing(t *testing.T) {
	dir := quickDir(t)
	name := filepath.Join(dir, storage.BoltFile)
	require.NoError(t, os.WriteFile(name, intact(t), 0o600))
	b, stored := mustLoad(t, dir)
	defer b.Close()
	entries, err := b.Entries(raft.Span{After: 99, Last: 100}, math.MaxInt)
	require.NoError(t, err)
	record := bytes.Clone(entries[0].Record())
	file, err := os.ReadFile(name)
	require.NoError(t, err)
	writer, err := os.OpenFile(name, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer writer.Close()
	for place := bytes.LastIndex(file, record); place >= 0; place = bytes.LastIndex(file[:place], record) {
		_, err = writer.WriteAt([]byte{^record[len(record)-1]}, int64(place+len(record)-1))
		require.NoError(t, err)
	}

	err = b.Write(logWrite(entries[0].ID(), 9, 1))
	var corrupt *raft.CorruptError
	require.ErrorAs(t, err, &corrupt)
	assert.Equal(t, "entry 100", corrupt.Where)
	for _, kept := range []raft.Index{1, 99, 101, stored.Log.Last.Index} {
		_, err = b.Entries(raft.Span{After: kept - 1, Last: kept}, math.MaxInt)
		assert.NoError(t, err, "entry %d is still there", kept)
	}
}

// A 32-bit program maps at most 2 GiB, but the file of a larger log is sound.
func TestBolt_AFileTooLargeToMapIsNotDamaged(t *testing.T) {
	if math.MaxInt > math.MaxInt32 {
		t.Skip("a program of 64 bits maps any file")
	}
	dir := quickDir(t)
	name := filepath.Join(dir, storage.BoltFile)
	require.NoError(t, os.WriteFile(name, intact(t), 0o600))
	for _, size := range []int64{3 << 30, 4 << 30, 5 << 30} {
		require.NoError(t, os.Truncate(name, size)) // sparse
		_, err := open(dir)
		var corrupt *raft.CorruptError
		require.ErrorContains(t, err, "64 bits")
		assert.False(t, errors.As(err, &corrupt), "%v", err)
	}
}

// After a failed write the kernel may have dropped pages. The acknowledgement of a later write could depend on the dropped
// pages, so the store accepts no later write.
func TestBolt_NothingIsWrittenAfterAWriteThatFailed(t *testing.T) {
	dir := quickDir(t)
	b, stored := mustLoad(t, dir)
	failed := b.Write(logWrite(raft.EntryID{Term: 9, Index: stored.Log.Last.Index + 5}, 9, 1))
	require.Error(t, failed)
	err := b.Write(raft.StorageWrite{Hard: &raft.HardState{Term: 7}})
	assert.Equal(t, failed, err)
	require.NoError(t, b.Close())
	b, stored = mustLoad(t, dir)
	defer b.Close()
	assert.Zero(t, stored.Hard.Term)
}
