package raft

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The follower for which a state is frozen may leave the cluster meanwhile.
func TestHeld_EndsWithTheMembershipOfItsFollower(t *testing.T) {
	gone := held{Snapshot{File: SnapshotID{5}, Held: true}, Peer{"gone", 1}}
	c := &Core{leader: &leader{}, snaps: snapshots{held: &gone}}
	c.endHeld()
	require.Nil(t, c.snaps.held)
	require.Equal(t, []SnapshotID{{5}}, c.step.out.Keep.Discard)
}
