package elections

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/sim"
)

// newsIn returns the members that learn in a run that the process of another one has ended, and the time from the latest
// crash of that one.
func newsIn(t *testing.T, a *Algorithm, scenario string, n int, seed uint64) (late map[Rank]sim.Time) {
	t.Helper()
	crashed := map[Rank]sim.Time{}
	late = map[Rank]sim.Time{}
	_, err := Run(a, scenarioOf(t, scenario), &Setup{N: n, Times: Scaled()}, seed, func(r Record) {
		switch r.Kind {
		case RecordCrash:
			crashed[r.Member] = r.At
		case RecordLost:
			late[r.Member] = r.At - crashed[r.Peer]
		}
	})
	require.NoError(t, err)
	return late
}

// Each follower of a leader that crashes learns of it after three packets: the reset, the dial and the refusal.
func TestConnections_TellOfACrash(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		late := newsIn(t, raftPreferred, "leader-crash", 5, seed)
		require.Len(t, late, 4, "seed %d", seed)
		for r, after := range late {
			assert.GreaterOrEqual(t, after, 3*delayMin, "seed %d, member %d", seed, r)
			assert.LessOrEqual(t, after, 3*delayMax, "seed %d, member %d", seed, r)
		}
	}
}

// A link that is cut breaks no connection, and tells nothing.
func TestConnections_TellNothingOfACut(t *testing.T) {
	for _, scenario := range []string{"minority", "three-way", "one-way", "deaf", "heal"} {
		assert.Empty(t, newsIn(t, raftPreferred, scenario, 5, 1), scenario)
	}
}

// A process that is back when it is dialed accepts the dial.
func TestConnections_TellNothingOfAProcessThatIsBack(t *testing.T) {
	w := newWorld(raftPreferred, &Setup{N: 3, Times: Scaled()}, 1, bootstrapped(t, 3))
	w.at(0, func() {
		for r := Rank(1); r <= 3; r++ {
			w.start(r)
		}
	})
	told := 0
	w.trace = func(r Record) {
		if r.Kind == RecordLost {
			told++
		}
	}
	w.at(sim.Time(1e9), func() { w.crash(2); w.start(2) })
	w.at(sim.Time(2e9), func() { w.crash(3); w.crash(1); w.start(1) }) // what 1 had open ended with it
	require.True(t, w.run(3e9))
	assert.Equal(t, 1, told, "member 2 learns of 3")
}

func bootstrapped(t *testing.T, n int) []any {
	t.Helper()
	disks, err := bootstrapOnce(&Setup{N: n, Times: Scaled()})
	require.NoError(t, err)
	return disks
}

// With news and successors, a leader that crashes is replaced before a timeout has expired, and nearly always by one election.
func TestRaftPreferred_ReplacesACrashedLeaderInOneRound(t *testing.T) {
	for _, n := range []int{3, 5, 9} {
		var elections []int64
		for i, o := range outcomes(t, raftPreferred, "leader-crash", n, 20) {
			assert.Less(t, o[Agreement], int64(ms(100)), "n = %d, seed %d", n, i+1)
			elections = append(elections, o[Elections])
		}
		assert.EqualValues(t, 1, Summarize(elections).Median, "n = %d", n)
	}
}

// A member that comes and goes is not preferred: a leader that works stays.
func TestRaftPreferred_ReplacesNoLeaderThatWorks(t *testing.T) {
	for _, scenario := range []string{"flapping", "flapping-leader", "restart-storm", "one-way", "deaf"} {
		for _, o := range outcomes(t, raftPreferred, scenario, 5, 5) {
			assert.Zero(t, o[Changes], scenario)
		}
	}
}
