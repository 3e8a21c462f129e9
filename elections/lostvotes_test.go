package elections

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLostVotes_ElectTwoLeadersOfOneTermAndRaftNone(t *testing.T) {
	seeds := uint64(20 / fewer)
	for _, n := range []int{5, 6, 9} {
		twice := 0
		for seed := uint64(1); seed <= seeds; seed++ {
			setup := &Setup{N: n, Times: Scaled()}
			outcome, err := Run(twoPhase, LostVotes(), setup, seed, nil)
			require.NoError(t, err)
			if outcome[TwoInTerm] > int64(time.Second) {
				twice++
			}
			outcome, err = Run(raftCore, LostVotes(), setup, seed, nil)
			require.NoError(t, err)
			assert.Zero(t, outcome[TwoLeaders], "Raft, n = %d, seed %d", n, seed)
		}
		assert.GreaterOrEqual(t, twice, int(seeds*9/10), "n = %d", n)
	}
}

func TestLostVotes_AreAScenarioOfSmallGroupsToo(t *testing.T) {
	for n := 1; n <= 4; n++ {
		outcome, err := Run(twoPhase, LostVotes(), &Setup{N: n, Times: Scaled()}, 1, nil)
		require.NoError(t, err)
		assert.EqualValues(t, 1, outcome[Ends], "n = %d", n)
	}
}

func TestLostVotes_AreFoundByNameAndAreInNoTable(t *testing.T) {
	found, err := FindScenario("lost-votes")
	require.NoError(t, err)
	assert.Same(t, LostVotes(), found)
	assert.NotContains(t, Scenarios(), found)
}
