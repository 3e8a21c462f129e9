package main_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/storage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEndToEnd_ADamagedFileIsRefusedAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	for kind, holdsEntries := range map[storage.Kind]string{
		storage.KindBolt:     storage.BoltFile,
		storage.KindSegments: filepath.Join(storage.LogDir, "0000000000000001.seg"),
	} {
		t.Run(string(kind), func(t *testing.T) {
			c := newCluster(t)
			c.More = func(local.Node) []string { return []string{"--log", string(kind)} }
			require.NoError(t, c.Start())
			damaged := c.others(c.leader("").ID)[0]
			needle := bytes.Repeat([]byte("needle"), 100)
			c.writeValue(needle)
			c.caughtUp() // otherwise a slow member could write both entries at once
			c.write()    // a later write shows that the one before was durable
			c.caughtUp()
			c.Kill(damaged.ID)
			c.refusesDamage(damaged, filepath.Join(c.DataDir(damaged.ID), holdsEntries), needle)
			c.write() // two of three members continue
			require.NoError(t, c.Start(damaged.ID))
			c.caughtUp()
		})
	}
}

// refusesDamage damages a file of a stopped member in several ways, and restores it at the end.
func (c cluster) refusesDamage(n local.Node, file string, needle []byte) {
	t := c.t
	t.Helper()
	intact, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, bytes.Contains(intact, needle))
	for _, row := range []struct {
		rule string
		data []byte
	}{
		{"empty", nil},
		{"cut short within its header", intact[:1000]},
		{"cut in half", intact[:len(intact)/2]},
		{"garbage", bytes.Repeat([]byte("garbage!"), len(intact)/8)},
		{"one entry changed", bytes.ReplaceAll(intact, needle, bytes.ToUpper(needle))},
	} {
		require.NoError(t, os.WriteFile(file, row.data, 0o600))
		code, says := runServe(t, c.ServeArgs(n))
		assert.Equal(t, 1, code, row.rule)
		assert.Contains(t, says, file+" is damaged at ", row.rule)
		assert.Contains(t, says, "keep the file for inspection", row.rule)
		kept, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(row.data, kept), "%s: the file is unchanged", row.rule)
	}
	if filepath.Base(file) != storage.BoltFile { // without raft.db the directory has no store
		require.NoError(t, os.Remove(file))
		code, says := runServe(t, c.ServeArgs(n))
		assert.Equal(t, 1, code)
		assert.Contains(t, says, file+" is missing")
		_, err = os.Stat(file)
		assert.ErrorIs(t, err, fs.ErrNotExist, "it is not made again")
	}
	require.NoError(t, os.WriteFile(file, intact, 0o600))
}
