package elections

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft/internal/sim"
)

// The effects of clocks, cuts and operators on ballots, in the simulated world.

const minute = int64(time.Minute)

// ballotsWorld returns a world of members of a variant with these priorities. All members start, except the absent ones.
func ballotsWorld(a *Algorithm, seed uint64, priorities []int, absent ...Rank) *world {
	w := newWorld(a, &Setup{N: len(priorities), Times: Scaled(), Priorities: priorities}, seed, nil)
	for r := Rank(1); int(r) <= len(priorities); r++ {
		down := false
		for _, one := range absent {
			down = down || one == r
		}
		if !down {
			w.startAt(w.chance.Between(0, startSpread), r)
		}
	}
	return w
}

// ledFrom runs until a member leads, and returns the time at that moment. It returns no later than the limit.
func (w *world) ledFrom(limit sim.Time) sim.Time {
	for w.queue.Now() < limit && len(w.watch.leaders) == 0 {
		w.run(w.queue.Now() + ms(1))
	}
	return w.queue.Now()
}

// A member drops a ballot from a clock that runs ahead when the ballot arrives. If it kept the ballot, the ballot would be
// newer than all later ballots of its sender, once the sender's clock is right. Then two healthy members of three would have
// no leader for a minute.
func TestBallots_AClockThatWasAheadLocksNobodyOut(t *testing.T) {
	period := Scaled().Period
	for seed := uint64(1); seed <= 20; seed++ {
		w := ballotsWorld(ballotsMajority, seed, []int{1, 1, 1}, 3)
		w.member(2).clock.Jump(minute)
		w.run(ms(2000))
		assert.Empty(t, w.watch.leaders, "seed %d: one valid ballot of three is no majority", seed)
		w.member(2).clock.Jump(-minute)
		led := w.ledFrom(ms(2000) + sim.Time(minute))
		assert.Less(t, led-ms(2000), 4*period, "seed %d", seed)
	}
}

// A ballot is valid when it arrives. Then the receiver's own clock is set right, and the ballot may be valid no longer. The
// receiver must then not drop the sender's new ballots because of the old one.
func TestBallots_TwoClocksThatWereAheadAndAreSetRightLockNobodyOut(t *testing.T) {
	period := Scaled().Period
	for seed := uint64(1); seed <= 20; seed++ {
		w := ballotsWorld(ballotsMajority, seed, []int{1, 1, 1}, 3)
		w.member(1).clock.Jump(minute)
		w.member(2).clock.Jump(minute)
		w.run(ms(2000))
		assert.Equal(t, []Rank{1}, w.watch.leaders, "seed %d: both clocks agree", seed)
		w.member(1).clock.Jump(-minute)
		w.run(ms(2500))
		assert.Empty(t, w.watch.leaders, "seed %d", seed)
		w.member(2).clock.Jump(-minute)
		led := w.ledFrom(ms(2500) + sim.Time(minute))
		assert.Less(t, led-ms(2500), 4*period, "seed %d", seed)
	}
}

// A ballot counts for two periods, but a member may count it up to one period after it arrives. So the clocks may differ by
// only one period minus one delay. Here one clock of three is wrong, ahead or behind, and nothing else is wrong.
func TestBallots_TolerateASkewOfOnePeriodLessADelayNotOfTwo(t *testing.T) {
	period := Scaled().Period
	for _, row := range []struct {
		tenths              sim.Time // of a period
		leaderless, changes bool     // in some run, without any cause
	}{
		{9, false, false}, {-9, false, false},
		{15, true, false}, {-15, false, true},
	} {
		leaderless, changes := false, false
		for seed := uint64(1); seed <= 20; seed++ {
			w := ballotsWorld(ballotsMajority, seed, []int{1, 1, 1})
			w.member(1).clock.Jump(int64(row.tenths * period / 10))
			w.run(20 * period)
			w.watch.begin()
			w.run(120 * period)
			o := w.watch.end(true)
			leaderless, changes = leaderless || o[Leaderless] > 0, changes || o[Changes] > 0
		}
		assert.Equal(t, row.leaderless, leaderless, "%d tenths of a period", row.tenths)
		assert.Equal(t, row.changes, changes, "%d tenths of a period", row.tenths)
	}
}

// A member wins elections alone while it is cut off. These wins do not let it lead after the heal. It must first win two
// elections in which the others' ballots count.
func TestBallots_AReturningMemberWinsTwiceAmongTheOthersFirst(t *testing.T) {
	period := Scaled().Period
	for seed := uint64(1); seed <= 20; seed++ {
		w := ballotsWorld(ballotsMajority, seed, []int{1, 1, 9})
		w.run(ms(1000))
		assert.Equal(t, []Rank{3}, w.watch.leaders)
		w.cut([]int{0, 0, 1})
		w.run(ms(3000))
		assert.Equal(t, []Rank{1}, w.watch.leaders, "seed %d", seed)
		w.mend()
		for w.queue.Now() < ms(4000) && w.member(3).leader != 3 {
			w.run(w.queue.Now() + ms(1))
		}
		took := w.queue.Now() - ms(3000)
		assert.GreaterOrEqual(t, took, period, "seed %d", seed)
		assert.LessOrEqual(t, took, 3*period, "seed %d: the others' ballots come within a period", seed)
	}
}
