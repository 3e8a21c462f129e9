package elections

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The classics in the world of the comparison, with its delays and its clocks.

// outcomes runs some seeds of a cell.
func outcomes(t *testing.T, a *Algorithm, scenario string, n, seeds int) []Outcome {
	t.Helper()
	s, err := FindScenario(scenario)
	require.NoError(t, err)
	var all []Outcome
	for seed := range uint64(seeds) {
		o, err := Run(a, s, &Setup{N: n, Times: Scaled()}, seed+1, nil)
		require.NoError(t, err)
		all = append(all, o)
	}
	return all
}

func TestClassics_ACrashedLeaderIsReplacedByOne(t *testing.T) {
	for _, a := range classics {
		t.Run(a.Name, func(t *testing.T) {
			for _, o := range outcomes(t, a, "leader-crash", 9, 5) {
				assert.EqualValues(t, 1, o[Ends])
				assert.Less(t, time.Duration(o[Agreement]), time.Second)
				if a != invitationAlgorithm { // each timeout makes a group, and with it a leader
					assert.Zero(t, o[TwoLeaders])
				}
			}
		})
	}
}

// A partition of ten seconds has two leaders for about ten seconds. The difference is the time to notice the partition and to
// end it.
func TestClassics_APartitionIsSplitBrainForAsLongAsItLasts(t *testing.T) {
	for _, a := range classics {
		t.Run(a.Name, func(t *testing.T) {
			for _, scenario := range []string{"minority", "three-way"} {
				for _, o := range outcomes(t, a, scenario, 9, 2) {
					assert.Greater(t, time.Duration(o[TwoLeaders]), 9500*time.Millisecond, scenario)
					assert.Less(t, time.Duration(o[TwoLeaders]), 10500*time.Millisecond, scenario)
					assert.EqualValues(t, 1, o[Ends], scenario)
				}
			}
		})
	}
}

// If the highest rank flaps, each of its seven returns costs a change without a cause. With invitations the returning member
// displaces nobody. It leads only a group of one, until that group is merged. This lead also counts as a change, unless
// nobody else leads at that time.
func TestClassics_AFlappingHighestRankDisplacesAWorkingLeaderAtEachReturn(t *testing.T) {
	for _, a := range classics {
		for _, o := range outcomes(t, a, "flapping", 5, 3) {
			if a == bullyQuality {
				assert.Zero(t, o[Changes])
			} else if a == invitationAlgorithm {
				assert.LessOrEqual(t, o[Changes], int64(7))
			} else if a != candidateOrdinary { // there, only if no heartbeat is heard during δ
				assert.GreaterOrEqual(t, o[Changes], int64(7), a.Name)
			}
		}
	}
}

// Each ELECTION makes its receiver begin an election, and COORDINATOR ends that election. If the highest rank answered each
// ELECTION with COORDINATOR at once, the elections would never end.
func TestBullyCascading_AWaveOfElectionsEbbs(t *testing.T) {
	const n = 25
	for _, o := range outcomes(t, bullyCascading, "cold-start", n, 3) {
		assert.Less(t, o[Messages], int64(3*n*n))
		assert.EqualValues(t, 1, o[Ends])
	}
	for _, o := range outcomes(t, bullyCascading, "leader-crash", 101, 1) {
		assert.Less(t, o[Messages], int64(2*101*101))
		assert.EqualValues(t, 1, o[Ends])
	}
}

// Loss alone makes a follower ask the next in line. The next in line then leads, only because it was asked.
func TestNextInLine_LossAloneMovesTheLeader(t *testing.T) {
	moves := func(a *Algorithm) (changes int64) {
		for _, o := range outcomes(t, a, "loss-20", 9, 5) {
			changes += o[Changes]
		}
		return changes
	}
	assert.Greater(t, moves(nextInLineFailover), 2*moves(bullyThreeStep))
}
