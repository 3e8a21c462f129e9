package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A restarted member continues from its stored commit index, but not beyond its log.
func TestStart_TheCommitHintOfTheLastLife(t *testing.T) {
	for hint, want := range map[raft.Index]raft.Index{0: 0, 2: 2, 3: 3, 9: 3} {
		stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 4, Hard: raft.HardState{Term: 2}, Commit: hint}
		assert.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("abc"))))
		for _, e := range entries(2, 1, 1) {
			assert.NoError(t, stored.Log.Observe(e))
		}
		c := begin(t, coreConfig(), stored)
		assert.Equal(t, want, c.Status().Commit)
		assert.Equal(t, want, c.out.Apply.Index)
	}
}

// A state machine that is ahead of the log does not belong to it.
func TestStart_AppliedBeyondTheLogIsRefused(t *testing.T) {
	for name, applied := range map[string]raft.EntryID{"beyond": id(3, 1), "another term": id(2, 2), "index 0": id(0, 1)} {
		stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 4, Hard: raft.HardState{Term: 2}, Applied: applied}
		assert.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("abc"))))
		assert.NoError(t, stored.Log.Observe(entries(2, 1)[0]))
		core, _, err := raft.NewCore(coreConfig(), stored, raft.Now{})
		assert.Nil(t, core, name)
		var beyond *raft.AppliedBeyondLogError
		assert.ErrorAs(t, err, &beyond, name)
	}
}

// A term is durable before its entries. If the log is ahead of the stored term, the store has lost something.
func TestStart_ALogAheadOfItsTermIsRefused(t *testing.T) {
	stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 4, Hard: raft.HardState{Term: 1}}
	assert.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("abc"))))
	assert.NoError(t, stored.Log.Observe(entries(2, 2)[0]))
	_, _, err := raft.NewCore(coreConfig(), stored, raft.Now{})
	var corrupt *raft.CorruptError
	assert.ErrorAs(t, err, &corrupt)
}

// "If RPC request or response contains term T > currentTerm: set currentTerm = T, convert to follower
// (§5.1)." (Figure 2, All Servers)
func TestTerm_ANewerOneConvertsToFollower(t *testing.T) {
	states := map[string]func() *core{
		"follower":      func() *core { return follower(t, 2, 1) },
		"pre-candidate": func() *core { c := follower(t, 2, 1); c.timeout(); return c },
		"candidate":     func() *core { return candidateOf(t, "abc", 2, 1) },
		"leader":        func() *core { return leaderOf(t, "abc", 2, 1) },
	}
	for role, state := range states {
		for _, body := range []raft.Body{
			raft.VoteReply{}, raft.AppendReply{}, raft.AppendConflict{Prev: 1}, raft.HeartbeatReply{},
			raft.PreVoteReply{}, raft.ReadRequest{}, raft.ReadReply{}, raft.TimeoutNow{},
		} {
			c := state()
			out := c.receive("b", 9, body)
			assert.Equal(t, raft.Leadership{Term: 9}, c.Leadership(), "%s, %T", role, body)
			require.NotNil(t, out.Write.Hard, "%s, %T", role, body)
			assert.Equal(t, raft.HardState{Term: 9}, *out.Write.Hard, "a new term begins without a vote")
		}
	}
}
