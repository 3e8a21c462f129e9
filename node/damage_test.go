package node_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// startOn starts a cluster of one on the data in dir, which is in bbolt or in segments.
func startOn(t *testing.T, dir string, kind storage.Kind) (*node.Node, error) {
	t.Helper()
	leaks.Check(t)
	disk, err := storage.Open(dir, storage.Options{New: kind})
	require.NoError(t, err, "its structure is sound")
	cfg := node.Config{ID: "n1", Cluster: "test", Initial: []raft.Member{{ID: "n1", Address: "n1:1"}}}
	n, err := node.Start(context.Background(), cfg, newJournal(), disk, transport.NewNetwork().Join("n1"))
	if err != nil {
		require.NoError(t, disk.Close())
	}
	return n, err
}

// A file with a sound structure can still hold a damaged record. Start finds the record. It neither truncates the log there
// nor continues.
func TestStart_ADamagedRecordIsATypedErrorThatSaysWhereAndWhatToDo(t *testing.T) {
	dir := t.TempDir()
	n, err := startOn(t, dir, storage.KindBolt)
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
		_, err = startOn(t, dir, storage.KindBolt)
		var failed *node.StorageError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, "load", failed.Op)
		var damage *raft.CorruptError
		require.ErrorAs(t, err, &damage)
		assert.Equal(t, file, damage.File)
		assert.Contains(t, err.Error(), "keep the file for inspection")
	}

	require.NoError(t, os.WriteFile(file, intact, 0o600))
	n, err = startOn(t, dir, storage.KindBolt)
	require.NoError(t, err)
	require.NoError(t, n.Ready(context.Background()))
	assert.GreaterOrEqual(t, n.Status().Applied, result.Index)
	require.NoError(t, n.Close())
}

// If an older copy replaces raft.db, the log is newer than the stored term. Start then fails, and names that file.
func TestStart_ATermThatIsOlderThanTheLogNamesItsFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, storage.BoltFile)
	var older, newest []byte
	for range 2 { // each start of a cluster of one begins a term
		n, err := startOn(t, dir, storage.KindSegments)
		require.NoError(t, err)
		require.NoError(t, n.Ready(context.Background()))
		require.NoError(t, n.Close())
		older = newest
		newest, err = os.ReadFile(file)
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(file, older, 0o600))
	_, err := startOn(t, dir, storage.KindSegments)
	var damage *raft.CorruptError
	require.ErrorAs(t, err, &damage)
	assert.Equal(t, file, damage.File)
	assert.Equal(t, "the stored term 1", damage.Where)
	assert.ErrorContains(t, damage.Reason, "@2 of the log is newer (if this is an older copy, putting back the newest one is enough)")

	require.NoError(t, os.WriteFile(file, newest, 0o600))
	n, err := startOn(t, dir, storage.KindSegments)
	require.NoError(t, err)
	require.NoError(t, n.Ready(context.Background()))
	require.NoError(t, n.Close())
}

// littered is a store that finds snapshot files without a record.
type littered struct {
	raft.Storage
	files []string
}

func (s littered) Load(ctx context.Context, identity raft.Identity) (raft.Stored, error) {
	stored, err := s.Storage.Load(ctx, identity)
	stored.LeftOver = s.files
	return stored, err
}

func TestStart_NamesTheSnapshotsThatWereLeftOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		start := func(files ...string) {
			startAll(t, rafttest.Options{
				Members: 1, NewFSM: newJournal,
				Configure: func(cfg *node.Config) { cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &log}) },
				Storage:   func(_ raft.NodeID, s raft.Storage) raft.Storage { return littered{s, files} },
			})
		}
		start()
		assert.NotContains(t, log.String(), "a crash has left")
		start("ab.part", "cd.snap")
		assert.Contains(t, log.String(), `count=2 files="ab.part cd.snap"`)
	})
}
