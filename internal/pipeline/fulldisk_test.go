package pipeline_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

func TestRefuseWithoutRoom(t *testing.T) {
	full := errors.New("no space left")
	require.NoError(t, pipeline.RefuseWithoutRoom(nil, true), "there is room")
	require.NoError(t, pipeline.RefuseWithoutRoom(full, false), "only the leader's disk matters")
	err := pipeline.RefuseWithoutRoom(full, true)
	assert.ErrorIs(t, err, full)
	assert.ErrorIs(t, err, raft.ErrOverloaded)
}

const timeout = 100 * time.Millisecond

func votersNamed(ids ...raft.NodeID) *raft.Configuration {
	var members []raft.Member
	for _, id := range ids {
		members = append(members, raft.Member{ID: id})
	}
	members = append(members, raft.Member{ID: "learner", Kind: raft.Learner})
	c := raft.NewConfiguration(members)
	return &c
}

// A leader tries one voter after another, and not the same one again and again. After a round it pauses.
func TestFullDiskTransfer_TriesOneVoterAfterAnother(t *testing.T) {
	var h pipeline.FullDiskTransfer
	voters := votersNamed("a", "b", "c", "d")
	var asked []raft.NodeID
	var at []time.Duration
	for now := raft.Time(1); len(asked) < 6; now += raft.Time(timeout) {
		if to := h.Target(now, "b", voters, timeout); to != "" {
			asked, at = append(asked, to), append(at, time.Duration(now-1)/timeout)
		}
	}
	assert.Equal(t, []raft.NodeID{"c", "d", "a", "c", "d", "a"}, asked)
	assert.Equal(t, []time.Duration{0, 4, 8, 28, 32, 36}, at)
}

func TestFullDiskTransfer_TriesStandbysLast(t *testing.T) {
	voters := votersNamed("a", "b", "c", "d")
	voters.Members[1].Priority = raft.PriorityNever
	for self, want := range map[raft.NodeID][]raft.NodeID{"a": {"c", "d", "b", "c"}, "b": {"a", "c", "d", "a"}, "d": {"b", "a", "c", "b"}} {
		var h pipeline.FullDiskTransfer
		var asked []raft.NodeID
		for now := raft.Time(1); len(asked) < 4; now += raft.Time(20 * timeout) {
			asked = append(asked, h.Target(now, self, voters, timeout))
		}
		assert.Equal(t, want, asked, "the leader is %s", self)
	}
}

// Each member with a full disk transfers leadership as soon as it leads. Then leadership reaches the member that has room.
func TestFullDiskTransfer_ReachesTheVoterWithRoom(t *testing.T) {
	all := []raft.NodeID{"a", "b", "c", "d", "e"}
	for _, roomy := range all {
		for _, leader := range all {
			members := map[raft.NodeID]*pipeline.FullDiskTransfer{}
			for transfers := 0; leader != roomy; transfers++ {
				require.Less(t, transfers, len(all), "from %s to %s", leader, roomy)
				if members[leader] == nil {
					members[leader] = &pipeline.FullDiskTransfer{}
				}
				leader = members[leader].Target(1, leader, votersNamed(all...), timeout)
			}
		}
	}
}

func TestFullDiskTransfer_NeedsAnotherVoter(t *testing.T) {
	var h pipeline.FullDiskTransfer
	assert.Empty(t, h.Target(1, "a", votersNamed("a"), timeout))
	assert.Equal(t, raft.NodeID("b"), h.Target(1, "a", votersNamed("a", "b"), timeout), "a voter that has just joined is tried at once")
}
