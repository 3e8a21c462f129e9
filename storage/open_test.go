package storage_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/storage"
)

// The kind of a store is chosen once, and recognised from then on.
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
