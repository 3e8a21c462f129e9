package node_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// littered is a store that finds files of snapshots that nothing recorded.
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
