package elections

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/sim"
)

// A leader restarts before the others miss it, and begins at (0, 0). It wins the following election, because it is the old
// leader and claims. The other members remember its earlier reign. If they treated its new LEADs as obsolete, they would hold
// elections for as long as that reign lasted.
func TestTwoPhase_ALeaderThatRestartsBeforeItIsMissedCausesNoElectionStorm(t *testing.T) {
	const reign = sim.Time(time.Minute)
	for _, n := range []int{3, 5, 9} {
		for seed := uint64(1); seed <= 3; seed++ {
			w := newWorld(twoPhase, &Setup{N: n, Times: Scaled()}, seed, nil)
			for r := 1; r <= n; r++ {
				w.startAt(0, Rank(r))
			}
			var led, leads Rank
			w.fault(reign, "the leader restarts", func() {
				led = w.crashPresent()
				w.startAt(reign+ms(20), led)
			})
			storm := 0
			w.trace = func(r Record) {
				if r.Kind == RecordSend && r.Text == string(tpELECT) && r.At > reign+sim.Time(time.Second) {
					storm++
				}
			}
			inTime := w.run(2 * reign)
			leads = w.present()
			outcome := w.watch.end(inTime)
			assert.Zero(t, storm, "n = %d, seed %d: ELECTs from a second after the restart on", n, seed)
			assert.Equal(t, led, leads, "n = %d, seed %d: the old leader claims, and wins", n, seed)
			assert.Greater(t, w.member(leads).epoch, uint64(1), "in a term above its first")
			assert.Less(t, outcome[Agreement], int64(ms(300)), "n = %d, seed %d", n, seed)
			assert.Positive(t, outcome[Agreement], "n = %d, seed %d", n, seed)
			assert.EqualValues(t, 1, outcome[Ends], "n = %d, seed %d", n, seed)
		}
	}
}

// If no ELECT tells the restarted leader of its old term, it leads in (1, 0). The members that remember (9, 500) still follow
// it.
func TestTwoPhase_WhoRemembersAHigherTermFollowsAllTheSame(t *testing.T) {
	b := twoPhaseBench(t, 3)
	b.tell(2, 1, lead(9, 500))
	b.tell(3, 1, lead(9, 500))
	electedBy(b, vote(0, 0)) // 1 has restarted
	b.deliverAll()
	b.requireAll(1)
	for i := range 5 {
		b.clock += tpHBT
		b.fire(1, tpLead)
		b.deliverAll()
		require.Equal(t, b.clock+3*tpHBT, b.timers[2][tpElector], "after %d more LEADs", i)
		_, term := b.machines[2].Leader()
		require.Equal(t, uint64(1), term)
	}
	assert.Zero(t, b.count(string(tpELECT)))
}
