package raft

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A message that depends on a durable term, vote or log waits for exactly that part.
func TestOutput_ReleasesWhatIsDurable(t *testing.T) {
	b := Peer{"b", 2}
	for _, row := range []struct {
		rule string
		disk disk
		say  func(c *Core)
		send bool
	}{
		{"a plain message in a durable term", disk{hard: HardState{Term: 2}}, func(c *Core) { c.send(b, HeartbeatReply{}) }, true},
		{"a plain message in a newer term", disk{hard: HardState{Term: 1}}, func(c *Core) { c.send(b, HeartbeatReply{}) }, false},
		{"a vote that is not durable", disk{hard: HardState{Term: 2}}, func(c *Core) { c.promiseVote(b, VoteReply{Granted: true}) }, false},
		{"a vote that is durable", disk{hard: HardState{Term: 2, Vote: b}}, func(c *Core) { c.promiseVote(b, VoteReply{Granted: true}) }, true},
		{"entries that are not durable", disk{hard: HardState{Term: 2}, persisted: 4}, func(c *Core) { c.promiseLog(b, AppendReply{Match: 5}, 5) }, false},
		{"entries that are", disk{hard: HardState{Term: 2}, persisted: 5}, func(c *Core) { c.promiseLog(b, AppendReply{Match: 5}, 5) }, true},
	} {
		c := &Core{hard: HardState{Term: 2, Vote: b}, disk: row.disk}
		row.say(c)
		c.release()
		require.Equal(t, row.send, len(c.step.out.Send) == 1, row.rule)
		require.Equal(t, !row.send, len(c.step.out.Write.Then) == 1, row.rule)
	}
	c := &Core{hard: HardState{Term: 2}, disk: disk{hard: HardState{Term: 2}}}
	c.send(b, HeartbeatReply{})
	c.hard.Term = 3
	c.release()
	require.Empty(t, append(c.step.out.Send, c.step.out.Write.Then...), "a step through several terms sends nothing in the earlier ones")
}

// This is the race of overwritten appends (ABA). One leader writes an index, another leader overwrites it, and the first
// leader writes it again, while all three writes are pending. An old write acknowledges only the entries that it wrote and
// that no later write has overwritten.
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
	require.Panics(t, func() { d.acknowledge(99, 0) }, "a write that was not issued cannot be durable")
}

// The disk remembers each file that a record has replaced until the file is discarded. This also holds if one acknowledgement
// covers several records.
func TestDisk_RemembersWhatRecordsHaveReplaced(t *testing.T) {
	file := func(n byte) *Snapshot { return &Snapshot{File: SnapshotID{n}} }
	d := disk{snapshot: *file(1)}
	d.issue(0, &Write{Snapshot: file(2)}, EntryID{})
	d.issue(0, &Write{Snapshot: file(3)}, EntryID{})
	last := d.issue(0, &Write{Snapshot: &Snapshot{}}, EntryID{})
	require.Len(t, d.pending, 3, "each record waits for its acknowledgement")
	d.acknowledge(last, 0)
	require.Equal(t, []SnapshotID{{1}, {2}, {3}}, d.replaced)
	require.Zero(t, d.snapshot)
	d.issue(0, &Write{Snapshot: file(4)}, EntryID{})
	d.acknowledge(last+1, 0)
	require.Len(t, d.replaced, 3, "no file was replaced")
	require.Equal(t, *file(4), d.snapshot)
}

// While a state is frozen for a follower, that follower may leave the cluster.
func TestHeld_EndsWithTheMembershipOfItsFollower(t *testing.T) {
	gone := held{Snapshot{File: SnapshotID{5}, Held: true}, Peer{"gone", 1}}
	c := &Core{leader: &leader{}, snaps: snapshots{held: &gone}}
	c.endHeld()
	require.Nil(t, c.snaps.held)
	require.Equal(t, []SnapshotID{{5}}, c.step.out.Keep.Discard)
}
