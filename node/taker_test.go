package node

import (
	"testing"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// A snapshot stalls, and the failure is reported to the core. Then WriteTo returns after all. The taker must delete the
// finished file.
func TestTaker_AFileThatWasFinishedAfterAStallIsDeleted(t *testing.T) {
	n := parts(nil, nil, nil)
	n.applier = newApplier(n, &tally{}, raft.EntryID{})
	defer n.wg.Wait()
	defer close(n.stop)
	run, err := n.taker.begin(raft.Take{Base: raft.Base{ID: raft.EntryID{Term: 1, Index: 5}}})
	require.NoError(t, err)
	n.taker.conclude(run, raft.SnapshotTaken{Take: run.ID, Err: &SnapshotStalledError{}})
	file := newSnapshotID()
	n.taker.end(run, raft.SnapshotTaken{Take: run.ID, Snapshot: raft.Snapshot{Base: run.Base, File: file}})

	batch, _, _ := n.mailbox.take(nil)
	require.Len(t, batch, 1, "the core hears of one outcome")
	expect.Error(t, batch[0].(raft.SnapshotTaken).Err)
	expect.Equal(t, []raft.SnapshotID{file}, n.receiver.discards.waiting())
}
