package storage_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/storage"
)

// The kind of a store is chosen when the store is created. From then on, Open recognises the kind.
func TestOpen_TakesEitherKind(t *testing.T) {
	for kind, want := range map[storage.Kind]raft.Storage{"": &storage.Log{}, storage.KindBolt: &storage.Bolt{}, storage.KindSegments: &storage.Log{}} {
		t.Run("kind "+string(kind), func(t *testing.T) {
			dir := t.TempDir()
			for _, given := range []storage.Kind{kind, storage.KindBolt, storage.KindSegments} {
				store, err := storage.Open(dir, storage.Options{New: given})
				require.NoError(t, err)
				assert.IsType(t, want, store)
				_, err = store.Load(t.Context(), member)
				require.NoError(t, err)
				require.NoError(t, store.Close())
			}
		})
	}
	_, err := storage.Open(t.TempDir(), storage.Options{New: "paper"})
	assert.ErrorContains(t, err, `"paper"`)
}

func TestOpen_OneKindIsNotOpenedAsTheOther(t *testing.T) {
	bolt, log := t.TempDir(), t.TempDir()
	for dir, kind := range map[string]storage.Kind{bolt: storage.KindBolt, log: storage.KindSegments} {
		store, err := storage.Open(dir, storage.Options{New: kind})
		require.NoError(t, err)
		require.NoError(t, store.Close())
	}
	_, err := storage.OpenBolt(log, storage.BoltOptions{})
	assert.ErrorIs(t, err, storage.ErrOtherLog)
	_, err = storage.OpenLog(bolt, storage.LogOptions{})
	assert.ErrorIs(t, err, storage.ErrOtherLog)
	_, err = openLog(log)
	assert.NoError(t, err)
}

// written makes a bbolt file with the given buckets.
func written(t *testing.T, name string, opts *bbolt.Options, buckets ...string) {
	db, err := bbolt.Open(name, 0o600, opts)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		for _, bucket := range buckets {
			b, err := tx.CreateBucketIfNotExists([]byte(bucket))
			require.NoError(t, err)
			require.NoError(t, b.Put([]byte("key"), make([]byte, 10_000)))
		}
		return nil
	}))
	require.NoError(t, db.Close())
}

// A file of another program is not a damaged store. If Open reported damage, an operator might set the file aside or replace
// the member by mistake.
func TestOpen_AFileOfAnotherProgram(t *testing.T) {
	for _, row := range []struct {
		what    string
		opts    *bbolt.Options
		buckets []string
	}{
		{"raft-boltdb", nil, []string{"conf", "logs"}},
		{"one without a list of free pages", &bbolt.Options{NoFreelistSync: true}, []string{"conf", "log"}},
		{"one of larger pages", &bbolt.Options{PageSize: 16 << 10}, []string{"conf", "log"}},
		{"an empty one", nil, nil},
	} {
		dir := t.TempDir()
		name := filepath.Join(dir, storage.BoltFile)
		written(t, name, row.opts, row.buckets...)
		before, err := os.ReadFile(name)
		require.NoError(t, err)
		for how, open := range map[string]func() error{
			"Open":     func() error { _, err := storage.Open(dir, storage.Options{}); return err },
			"OpenBolt": func() error { _, err := storage.OpenBolt(dir, storage.BoltOptions{}); return err },
			"OpenLog":  func() error { _, err := storage.OpenLog(dir, storage.LogOptions{}); return err },
			"Migrate": func() error {
				_, err := storage.Migrate(t.Context(), dir, storage.KindBolt, storage.MigrateOptions{})
				return err
			},
		} {
			err := open()
			var foreign *storage.ForeignFileError
			var corrupt *raft.CorruptError
			require.ErrorAs(t, err, &foreign, "%s: %s", row.what, how)
			assert.NotErrorAs(t, err, &corrupt)
			assert.Equal(t, name, foreign.File)
			assert.ErrorContains(t, err, "another program has written "+name)
			for _, bucket := range row.buckets {
				assert.ErrorContains(t, err, bucket)
			}
		}
		after, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(before, after), row.what)
	}
}

// If another program has written to a store, nobody can trust the store any more. So Open reports it as damaged.
func TestOpen_AStoreToWhichAnotherProgramHasWrittenIsDamaged(t *testing.T) {
	dir := t.TempDir()
	b, _ := mustLoad(t, dir)
	require.NoError(t, b.Close())
	written(t, filepath.Join(dir, storage.BoltFile), nil, "log")
	_, err := storage.OpenBolt(dir, storage.BoltOptions{})
	var corrupt *raft.CorruptError
	require.ErrorAs(t, err, &corrupt)
	assert.ErrorContains(t, err, "a list of free pages")
}

// Some files have names that only resemble the names of the store's files. The store does not remove them.
func TestOpen_RemovesNoFilesOfOthers(t *testing.T) {
	for _, kind := range []storage.Kind{storage.KindBolt, storage.KindSegments} {
		dir := t.TempDir()
		others := []string{"raft.db.new-year", "raft.db.new-1.bak", "log/spare-parts.seg", "log/old.seg", "log/0000000000000001.wal", "snapshots/x.snap",
			"snapshots/0000000000000001-0000000000000002.snap"} // the last one as etcd
		for _, name := range others {
			path := filepath.Join(dir, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, []byte("its own"), 0o600))
		}
		for range 2 {
			s, err := storage.Open(dir, storage.Options{New: kind})
			require.NoError(t, err)
			_, err = s.Load(t.Context(), raft.Identity{Cluster: "c", ID: "n1", Fresh: 1, Nonce: 1})
			require.NoError(t, err)
			require.NoError(t, s.Close())
		}
		for _, name := range others {
			content, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err, name)
			assert.Equal(t, "its own", string(content))
		}
	}
}
