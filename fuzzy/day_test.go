package fuzzy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/sim"
)

// A part of each day suffices here; raftlab runs whole ones.
func TestDay_TheLeaderNeverChanges(t *testing.T) {
	var sum Stats
	for number := range uint64(12) {
		s := Seed{"day", number}
		p, err := Draw(s)
		require.NoError(t, err)
		p.Length = sim.In(30 * time.Minute)
		r := RunProfile(s, p, nil)
		require.Nil(t, r.Failure, "replay it: go run ./cmd/raftlab replay %s", s)
		sum.Restores, sum.Streams, sum.Passed = sum.Restores+r.Restores, sum.Streams+r.Streams, sum.Passed+r.Passed
		sum.ByFault[Pause] += r.ByFault[Pause]
	}
	assert.Positive(t, sum.Restores)
	assert.Positive(t, sum.Streams)
	assert.Positive(t, sum.Passed)
	assert.Positive(t, sum.ByFault[Pause])
}

// Pauses longer than an election timeout are not healthy.
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
