package elections

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/sim"
)

// cast is a ballot of now, as its sender's clock has it.
func (b *bench) cast(from Rank, votes int, claims bool) ballot {
	return ballot{b.wall(from), votes, claims, true}
}

// hear lets member 1 receive a ballot of another one.
func (b *bench) hear(from Rank, votes int, claims bool) { b.tell(1, from, b.cast(from, votes, claims)) }

// period passes, and member 1 holds the next election.
func (b *bench) period() {
	b.clock += b.times.Period
	b.fire(1, ballotsPeriod)
}

// Member 1 of three has priority 5, and each row says what it hears.
var ballotsRules = []struct {
	rule       string
	algorithm  *Algorithm
	priorities []int
	wins       int
	do         func(b *bench)
	led        Rank // whom member 1 holds
}{
	{
		rule: "the winner of two consecutive elections leads", led: 1,
		do: func(b *bench) { b.hear(2, 3, false); b.period() },
	},
	{
		rule: "one win is not enough: a starting member that has heard nobody does not lead", algorithm: ballotsNone,
		do: func(*bench) {},
	},
	{
		rule: "half of an even number is no majority", priorities: []int{5, 1, 1, 1},
		do: func(b *bench) { b.hear(2, 1, false); b.period(); b.period() },
	},
	{
		rule: "one more than half is", priorities: []int{5, 1, 1, 1}, led: 1,
		do: func(b *bench) { b.hear(2, 1, false); b.hear(3, 1, false); b.period() },
	},
	{
		rule: "the number of wins is configurable", wins: 3,
		do: func(b *bench) { b.hear(2, 3, false); b.period() },
	},
	{
		rule: "wins must be consecutive", algorithm: ballotsNone,
		do: func(b *bench) {
			b.hear(2, 9, false)
			b.period()
			b.clock += 3 * b.times.Period
			b.fire(1, ballotsPeriod)
		},
	},
	{
		rule: "most votes win, and the vote count is the priority",
		do:   func(b *bench) { b.hear(2, 6, false); b.period(); b.period() },
	},
	{
		rule: "a tie goes to the lowest id", led: 1,
		do: func(b *bench) { b.hear(2, 5, false); b.period() },
	},
	{
		rule: "(a) a claim of a member of the same priority is respected", led: 2,
		do: func(b *bench) { b.hear(2, 5, true); b.period(); b.period() },
	},
	{
		rule: "a higher priority waives (a): it takes over", led: 1,
		do: func(b *bench) { b.hear(2, 4, true); b.period() },
	},
	{
		rule: "it waives only (a): the quorum must hold", algorithm: ballotsAllButOne, priorities: []int{5, 1, 1, 1},
		do: func(b *bench) { b.hear(2, 1, true); b.period(); b.period() }, led: 2,
	},
	{
		rule: "it waives only (a): the wins are needed", wins: 3, led: 2,
		do: func(b *bench) { b.hear(2, 4, true); b.period() },
	},
	{
		rule: "(b) majority: one ballot of three is too few",
		do:   func(b *bench) { b.period(); b.period() },
	},
	{
		rule: "(b) none: the own ballot will do", algorithm: ballotsNone, led: 1,
		do: func(b *bench) { b.period() },
	},
	{
		rule: "(b) all but one: two of four are too few", algorithm: ballotsAllButOne, priorities: []int{5, 1, 1, 1},
		do: func(b *bench) { b.hear(2, 1, false); b.period() },
	},
	{
		rule: "(b) all but one: three of four will do", algorithm: ballotsAllButOne, priorities: []int{5, 1, 1, 1}, led: 1,
		do: func(b *bench) { b.hear(2, 1, false); b.hear(3, 1, false); b.period() },
	},
	{
		rule: "a member out of service never leads", priorities: []int{-1, 1, 1}, algorithm: ballotsNone,
		do: func(b *bench) { b.period(); b.period() },
	},
	{
		rule: "a member out of service counts towards the quorum", led: 1,
		do: func(b *bench) { b.hear(2, -1, false); b.period() },
	},
	{
		rule: "a ballot counts for two periods", led: 1,
		do: func(b *bench) { b.hear(2, 1, false); b.period(); b.period() },
	},
	{
		rule: "a leader goes to standby when the quorum fails",
		do:   func(b *bench) { b.hear(2, 1, false); b.period(); b.period(); b.period() },
	},
	{
		rule: "a leader goes to standby when it hears a claim of higher priority", led: 2,
		do: func(b *bench) { b.hear(2, 1, false); b.period(); b.hear(2, 6, true) },
	},
	{
		rule: "a leader keeps leading though it no longer wins", led: 1,
		do: func(b *bench) { b.hear(2, 1, false); b.period(); b.hear(2, 6, false); b.period() },
	},
	{
		rule: "of two equal claims the lower id stays", led: 1,
		do: func(b *bench) { b.hear(2, 1, false); b.period(); b.hear(2, 5, true) },
	},
	{
		rule: "a claim that does not count ends no leadership", led: 1,
		do: func(b *bench) {
			b.hear(2, 1, false)
			b.period()
			b.walls[3] = 2*int64(b.times.Period) + 1
			b.hear(3, 9, true)
		},
	},
	{
		rule: "of two claims the higher priority's is followed", led: 3,
		do: func(b *bench) { b.hear(2, 6, true); b.hear(3, 7, true) },
	},
	{
		rule: "of two equal claims the lower id's is followed", led: 2,
		do: func(b *bench) { b.hear(3, 6, true); b.hear(2, 6, true) },
	},
	{
		rule: "who claims no more is followed no more",
		do:   func(b *bench) { b.hear(2, 6, true); b.hear(2, 6, false) },
	},
	{
		rule: "a dead leader's claim lasts as long as its ballot", led: 2,
		do: func(b *bench) { b.hear(3, 1, false); b.hear(2, 5, true); b.period(); b.period() },
	},
	{
		rule: "and no longer", algorithm: ballotsNone, led: 1,
		do: func(b *bench) { b.hear(2, 5, true); b.period(); b.period(); b.period() },
	},
	{
		rule: "ballots are idempotent, and an older one changes nothing", led: 1,
		do: func(b *bench) {
			old := b.cast(2, 9, true)
			b.clock++
			b.hear(2, 1, false)
			b.hear(2, 1, false)
			b.tell(1, 2, old)
			b.period()
		},
	},
	{
		rule: "a ballot of a clock that is ahead by more than two periods does not count",
		do: func(b *bench) {
			b.walls[2] = 2*int64(b.times.Period) + 1
			b.hear(2, 9, true)
			b.fire(1, ballotsPeriod)
		},
	},
	{
		rule: "a ballot of a clock that is ahead by two periods counts", led: 2,
		do: func(b *bench) { b.walls[2] = 2 * int64(b.times.Period); b.hear(2, 9, true); b.fire(1, ballotsPeriod) },
	},
	{
		rule: "a ballot of a clock that is behind by two periods counts", led: 2,
		do: func(b *bench) { b.walls[2] = -2 * int64(b.times.Period); b.hear(2, 9, true) },
	},
	{
		rule: "one of a clock that is behind by more does not",
		do:   func(b *bench) { b.walls[2] = -2*int64(b.times.Period) - 1; b.hear(2, 9, true) },
	},
}

func TestBallots_FollowTheirRules(t *testing.T) {
	for _, row := range ballotsRules {
		t.Run(row.rule, func(t *testing.T) {
			if row.algorithm == nil {
				row.algorithm = ballotsMajority
			}
			if row.priorities == nil {
				row.priorities = []int{5, 1, 1}
			}
			b := newBench(t, len(row.priorities), Published())
			b.start(1, row.algorithm.New(Options{Self: 1, N: b.n, Priorities: row.priorities, Wins: row.wins}))
			row.do(b)
			assert.Equal(t, row.led, b.leaders()[1])
		})
	}
}

// "Of two equal claims the lower id stays": the higher one goes to standby.
func TestBallots_OfTwoEqualClaimsTheHigherIDGoes(t *testing.T) {
	b := newBench(t, 3, Published())
	b.start(2, ballotsMajority.New(Options{Self: 2, N: 3, Priorities: []int{5, 5, 1}}))
	b.tell(2, 3, b.cast(3, 1, false))
	b.clock += b.times.Period
	b.fire(2, ballotsPeriod)
	require.Equal(t, Rank(2), b.leaders()[2])
	b.tell(2, 1, b.cast(1, 5, false))
	assert.Equal(t, Rank(2), b.leaders()[2], "a ballot without a claim changes nothing")
	b.tell(2, 1, b.cast(1, 5, true))
	assert.Equal(t, Rank(1), b.leaders()[2])
}

func TestBallots_GoToAllEveryPeriodAndClaimFromTheSecondWinOn(t *testing.T) {
	b := newBench(t, 3, Published())
	b.start(1, ballotsMajority.New(Options{Self: 1, N: 3, Priorities: []int{7, 1, 1}}))
	assert.Equal(t, "1 -> 2 BALLOT\n1 -> 3 BALLOT", b.steps())
	b.hear(2, 1, false)
	b.waiting = nil
	b.period()
	require.Len(t, b.waiting, 2)
	assert.Equal(t, ballot{int64(b.clock), 7, true, true}, b.waiting[0].message)
}

func runOne(t *testing.T, a *Algorithm, scenario string, n int, seed uint64) Outcome {
	t.Helper()
	s, err := FindScenario(scenario)
	require.NoError(t, err)
	o, err := Run(a, s, &Setup{N: n, Times: Scaled()}, seed, nil)
	require.NoError(t, err)
	return o
}

func TestBallots_WithoutQuorumSplitTheBrainUnderAPartition(t *testing.T) {
	for _, scenario := range []string{"minority", "three-way"} {
		split := runOne(t, ballotsNone, scenario, 5, 1)
		assert.Greater(t, split[TwoLeaders], int64(partitionTime)*9/10, scenario)
		whole := runOne(t, ballotsMajority, scenario, 5, 1)
		assert.Less(t, whole[TwoLeaders], int64(Scaled().Period), scenario)
	}
}

// A higher priority takes over: one that comes and goes is elected at each return.
func TestBallots_AFlappingHighestPriorityIsElectedAtEachReturn(t *testing.T) {
	for _, a := range []*Algorithm{ballotsMajority, ballotsAllButOne, ballotsNone} {
		assert.GreaterOrEqual(t, runOne(t, a, "flapping", 5, 1)[Changes], int64(flaps), a.Name)
	}
}

// Clocks that differ by more than two periods drop each other's ballots: with a majority strategy nobody
// leads, although nothing is wrong but the clocks.
func TestBallots_WithClocksThatDifferNobodyLeads(t *testing.T) {
	for _, row := range []struct {
		apart sim.Time
		led   bool
	}{{Scaled().Period, true}, {3 * Scaled().Period, false}} {
		w := newWorld(ballotsMajority, &Setup{N: 3, Times: Scaled()}, 1, nil)
		for r := Rank(1); r <= 3; r++ {
			w.member(r).clock.Jump(int64(r) * int64(row.apart))
			w.startAt(0, r)
		}
		w.run(20 * Scaled().Period)
		assert.Equal(t, row.led, len(w.watch.leaders) > 0, "%v apart", row.apart)
	}
}

func TestBallots_WithAMajorityOfThreeAndTwoDownNobodyLeads(t *testing.T) {
	w := newWorld(ballotsMajority, &Setup{N: 3, Times: Scaled()}, 1, nil)
	w.startAt(0, 1)
	w.run(20 * Scaled().Period)
	assert.Empty(t, w.watch.leaders)
	w.startAt(w.queue.Now(), 2)
	w.run(w.queue.Now() + 20*Scaled().Period)
	assert.Equal(t, []Rank{2}, w.watch.leaders, "two of three are enough")
}
