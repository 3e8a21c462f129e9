package boltfsm_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/coxswain/raft/boltfsm"
)

// A bbolt file of another program, such as the member's own store, is refused and stays as it is.
func TestOpen_RefusesAFileOfAnotherProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	db, err := bolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("log"))
		return err
	}))
	require.NoError(t, db.Close())
	_, err = boltfsm.Open(path, count, nil)
	require.ErrorContains(t, err, "another program")
	db, err = bolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, db.View(func(tx *bolt.Tx) error {
		assert.NotNil(t, tx.Bucket([]byte("log")), "its data is gone")
		return nil
	}))
}
