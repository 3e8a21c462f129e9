package node_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// startOnBolt starts a cluster of one on the data in dir.
func startOnBolt(t *testing.T, dir string) (*node.Node, error) {
	t.Helper()
	disk, err := storage.OpenBolt(dir, storage.BoltOptions{})
	require.NoError(t, err, "its structure is sound")
	cfg := node.Config{ID: "n1", Cluster: "test", Initial: []raft.Member{{ID: "n1", Address: "n1:1"}}}
	n, err := node.Start(context.Background(), cfg, newJournal(), disk, transport.NewNetwork().Join("n1"))
	if err != nil {
		require.NoError(t, disk.Close())
	}
	return n, err
}

// A file whose structure is sound can still hold a damaged record: Start finds it, and neither truncates the
// log there nor continues.
func TestStart_ADamagedRecordIsATypedErrorThatSaysWhereAndWhatToDo(t *testing.T) {
	dir := t.TempDir()
	n, err := startOnBolt(t, dir)
	require.NoError(t, err)
	require.NoError(t, n.Ready(context.Background()))
	command := bytes.Repeat([]byte("needle"), 10)
	result, err := n.Propose(context.Background(), command)
	require.NoError(t, err)
	require.NoError(t, n.Close())

	file := filepath.Join(dir, storage.BoltFile)
	intact, err := os.ReadFile(file)
	require.NoError(t, err)
	changed := bytes.ReplaceAll(intact, command, bytes.ToUpper(command))
	require.NotEqual(t, intact, changed)
	require.NoError(t, os.WriteFile(file, changed, 0o600))
	for range 2 { // another start does not repair it
		_, err = startOnBolt(t, dir)
		var failed *raft.StorageError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, "load", failed.Op)
		var damage *raft.CorruptError
		require.ErrorAs(t, err, &damage)
		assert.Equal(t, file, damage.File)
		assert.Contains(t, err.Error(), "keep the file for inspection")
	}

	require.NoError(t, os.WriteFile(file, intact, 0o600))
	n, err = startOnBolt(t, dir)
	require.NoError(t, err)
	require.NoError(t, n.Ready(context.Background()))
	assert.GreaterOrEqual(t, n.Status().Applied, result.Index)
	require.NoError(t, n.Close())
}
