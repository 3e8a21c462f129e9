package fuzzy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/sim"
)

// This test runs only a part of each day. raftlab runs whole days.
func TestDay_TheLeaderNeverChanges(t *testing.T) {
	var sum Stats
	for number := range uint64(12) {
		s := Seed{"day", number}
		p, err := Draw(s)
		require.NoError(t, err)
		p.Length = sim.In(30 * time.Minute)
		p.Members.Think, p.Members.Emptied = sim.In(time.Minute), sim.In(time.Minute)
		r := RunProfile(s, p, nil)
		require.Nil(t, r.Failure, "replay it: go run ./cmd/raftlab replay %s", s)
		sum.Restores, sum.Streams, sum.Passed = sum.Restores+r.Restores, sum.Streams+r.Streams, sum.Passed+r.Passed
		sum.Changed += r.Changed
		sum.ByFault[Pause] += r.ByFault[Pause]
	}
	assert.Positive(t, sum.Restores)
	assert.Positive(t, sum.Streams)
	assert.Positive(t, sum.Passed)
	assert.Positive(t, sum.Changed)
	assert.Positive(t, sum.ByFault[Pause])
}

// Members change without an election: a learner joins and becomes a voter, and a member is replaced or removed.
func TestDay_MembersChangeUnderOneLeader(t *testing.T) {
	s := Seed{"day", 4}
	p, err := Draw(s)
	require.NoError(t, err)
	require.True(t, p.Members.Gentle)
	p.Length, p.Members.Think, p.Members.Emptied = sim.In(20*time.Minute), sim.In(30*time.Second), sim.In(30*time.Second)
	asked := map[string]int{}
	r := RunProfile(s, p, func(r *Record) {
		for _, what := range []string{"add as learner", "promote", "replace", "remove"} {
			if strings.Contains(r.Text, "admin 1 asks") && strings.Contains(r.Text, what) {
				asked[what]++
			}
		}
	})
	require.Nil(t, r.Failure, "L4 allows one election in the first phase")
	assert.Len(t, asked, 4, "%v", asked)
	assert.Greater(t, r.Changed, 4)
}

// With priorities, the favorite takes over from the first leader in the first minute, and leads on.
func TestDay_TheFavoriteLeads(t *testing.T) {
	takeovers := 0
	for number := range uint64(10) {
		s := Seed{"day", number}
		p, err := Draw(s)
		require.NoError(t, err)
		p.Length, p.Node.Preferences, p.Node.Connections = sim.In(20*time.Minute), allPreferences, true
		p.Members.Priorities = 1 // only the initial members have priorities
		r := RunProfile(s, p, func(r *Record) {
			changes := slices.ContainsFunc(r.Trace, func(note string) bool { return strings.Contains(note, "whose priority is higher") })
			assert.False(t, changes && r.Time > sim.In(time.Minute) && r.Time < p.Length, "the leader changes at %v", time.Duration(r.Time))
		})
		require.Nil(t, r.Failure, "day.%x with priorities", number)
		takeovers += r.Takeovers
	}
	assert.Positive(t, takeovers)
}

// A cluster whose pauses exceed an election timeout is not healthy.
func TestDay_NoticesAChangeOfLeader(t *testing.T) {
	s := Seed{"day", 1}
	p, err := Draw(s)
	require.NoError(t, err)
	p.Length, p.Node.PauseMax = sim.In(20*time.Minute), 4*p.ElectionTimeout
	p.Faults = []FaultRate{{Pause, sim.In(20 * time.Second), 4 * p.ElectionTimeout}}
	r := RunProfile(s, p, nil)
	require.NotNil(t, r.Failure)
	assert.Equal(t, "L4", r.Failure.Rule)
}
