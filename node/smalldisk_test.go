package node_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// ofSize is a storage on a disk of that many bytes, of which it takes some.
type ofSize struct {
	raft.SnapshotStorage
	size *atomic.Int64 // negative: nobody knows
}

const takenOfIt = 5 << 20

func (s ofSize) DiskBytes() (used, free int64, err error) {
	if s.size.Load() < 0 {
		return 0, 0, errors.New("unknown")
	}
	return takenOfIt, s.size.Load() - takenOfIt, nil
}

// A disk below the documented size is told at the start, and again when a snapshot shows that it is too small now.
func TestStatus_ASmallDisk(t *testing.T) {
	const documented = 64<<20 + 128<<20
	for _, row := range []struct {
		size, later int64
		want        string // at the start
		then        string // after a snapshot
	}{
		{documented, documented, "", "should have 193 MiB for two snapshots (of 1 MiB)"},
		{documented + 1<<20, documented + 1<<20, "", ""},
		{60 << 20, documented + 1<<20, "its disk has room for 60 MiB of its data, and should have 192 MiB", ""},
		{-1, -1, "", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			size, log := new(atomic.Int64), new(strings.Builder)
			size.Store(row.size)
			c := startAll(t, rafttest.Options{Members: 1, NewFSM: newJournal,
				Configure: func(cfg *node.Config) {
					cfg.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: log})
				},
				Storage: func(_ raft.NodeID, s raft.Storage) raft.Storage { return ofSize{s.(raft.SnapshotStorage), size} }})
			n := c.Leader()
			says := func(want string) {
				said := n.Status().SmallDisk
				assert.Equal(t, want == "", said == "", said)
				assert.Contains(t, said, want)
				assert.Empty(t, n.Status().Members[0].Problem, "it serves")
			}
			says(row.want)
			size.Store(row.later)
			proposeMany(t, n, 0, 3)
			_, err := n.Snapshot(t.Context())
			require.NoError(t, err)
			says(row.then)
			require.NoError(t, n.Close())
			assert.Equal(t, row.want != "" || row.then != "", strings.Contains(log.String(), "the disk is smaller than this member may need"))
		})
	}
}
