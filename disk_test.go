package raft

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The race of overwritten appends (ABA): the same index is written by one leader, by another, and by
// the first one again, while all three writes are pending. An old write only acknowledges what it wrote and what has
// not been overwritten since.
func TestDisk_OldWriteDoesNotCountOverwrittenEntries(t *testing.T) {
	d := disk{persisted: 3}
	first := d.issue(0, &Write{}, EntryID{1, 6}) // 4@1 5@1 6@1
	d.truncated(4)
	second := d.issue(0, &Write{}, EntryID{2, 5}) // 5@2
	d.truncated(4)
	third := d.issue(0, &Write{}, EntryID{3, 6}) // 5@3 6@3

	d.acknowledge(first, 0)
	require.EqualValues(t, 4, d.persisted, "5 and 6 were overwritten")
	d.acknowledge(second, 0)
	require.EqualValues(t, 4, d.persisted, "5 was overwritten again")
	d.acknowledge(third, 0)
	require.EqualValues(t, 6, d.persisted)
}

func TestDisk_TruncationLowersWhatIsDurableAtOnce(t *testing.T) {
	d := disk{persisted: 7}
	d.truncated(4)
	require.EqualValues(t, 4, d.persisted)
	d.truncated(6)
	require.EqualValues(t, 4, d.persisted)
}

func TestDisk_AcknowledgesAllBefore(t *testing.T) {
	d := disk{}
	d.issue(0, &Write{Hard: &HardState{Term: 1}}, EntryID{1, 2})
	last := d.issue(0, &Write{Hard: &HardState{Term: 2, Vote: Peer{"b", 1}}}, EntryID{2, 0})
	d.issue(0, &Write{}, EntryID{2, 5})
	d.acknowledge(last, 0)
	require.Equal(t, HardState{Term: 2, Vote: Peer{"b", 1}}, d.hard)
	require.EqualValues(t, 2, d.persisted)
	require.Len(t, d.pending, 1)
	d.acknowledge(last, 0)
	require.Len(t, d.pending, 1, "twice is once")
	require.Panics(t, func() { d.acknowledge(99, 0) }, "what was not issued is not durable")
}

// Of the files that records have replaced, each is known until it is discarded, also if one acknowledgement covers several.
func TestDisk_RemembersWhatRecordsHaveReplaced(t *testing.T) {
	file := func(n byte) *Snapshot { return &Snapshot{File: SnapshotID{n}} }
	d := disk{snapshot: *file(1)}
	d.issue(0, &Write{Snapshot: file(2)}, EntryID{})
	d.issue(0, &Write{Snapshot: file(3)}, EntryID{})
	last := d.issue(0, &Write{Snapshot: &Snapshot{}}, EntryID{})
	require.Len(t, d.pending, 3, "a record is waited for")
	d.acknowledge(last, 0)
	require.Equal(t, []SnapshotID{{1}, {2}, {3}}, d.replaced)
	require.Zero(t, d.snapshot)
	d.issue(0, &Write{Snapshot: file(4)}, EntryID{})
	d.acknowledge(last+1, 0)
	require.Len(t, d.replaced, 3, "no file was replaced")
	require.Equal(t, *file(4), d.snapshot)
}
