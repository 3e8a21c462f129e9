package main_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/coxswain/raft/cmd/raftkv/internal/client"
	"github.com/coxswain/raft/storage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEndToEnd_ADamagedFileIsRefusedAndTheOthersGoOn(t *testing.T) {
	c, leader := startCluster(t)
	needle := bytes.Repeat([]byte("needle"), 100)
	require.Eventually(t, func() bool {
		_, err := c.clients()[0].Put(t.Context(), "k", needle, client.Condition{})
		return err == nil
	}, patience, poll)
	c.caughtUp()
	damaged := c.others(leader.ID)[0]
	c.Kill(damaged.ID)
	file := filepath.Join(c.DataDir(damaged.ID), storage.BoltFile)
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
		code, says := runServe(t, c.ServeArgs(damaged))
		assert.Equal(t, 1, code, row.rule)
		assert.Contains(t, says, file+" is damaged at ", row.rule)
		assert.Contains(t, says, "keep the file for inspection", row.rule)
		kept, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(row.data, kept), "%s: the file is unchanged", row.rule)
	}
	c.write() // two of three go on
	require.NoError(t, os.WriteFile(file, intact, 0o600))
	require.NoError(t, c.Start(damaged.ID))
	c.caughtUp()
}
