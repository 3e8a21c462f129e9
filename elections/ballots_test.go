package elections

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/sim"
)

// cast returns a ballot that its sender casts now. The timestamp is the sender's wall clock.
func (b *bench) cast(from Rank, votes int, claims bool) ballot {
	return ballot{b.wall(from), votes, claims, true}
}

// hear lets member 1 receive a ballot of another one.
func (b *bench) hear(from Rank, votes int, claims bool) { b.tell(1, from, b.cast(from, votes, claims)) }

// period lets a period pass; then member 1 holds the next election.
func (b *bench) period() {
	b.clock += b.times.Period
	b.fire(1, ballotsPeriod)
}

// terms lets this many periods pass. In each period, member 1 receives a ballot of another member.
func (b *bench) terms(periods int, from Rank, votes int) {
	for range periods {
		b.hear(from, votes, false)
		b.period()
	}
}

// Member 1 of three has priority 5. Each row lists the ballots that member 1 hears.
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
		do: func(b *bench) { b.terms(2, 2, 3) },
	},
	{
		rule: "one win among the others is not enough", do: func(b *bench) { b.terms(1, 2, 3) },
	},
	{
		rule: "a win without a quorum does not count as one of the consecutive ones",
		do:   func(b *bench) { b.period(); b.period(); b.terms(1, 2, 3) },
	},
	{
		rule: "an election without a quorum ends a row of wins",
		do:   func(b *bench) { b.terms(1, 2, 3); b.period(); b.period(); b.period(); b.terms(1, 2, 3) },
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
		do: func(b *bench) { b.hear(2, 1, false); b.hear(3, 1, false); b.period(); b.period() },
	},
	{
		rule: "the number of wins is configurable", wins: 3, do: func(b *bench) { b.terms(2, 2, 3) },
	},
	{
		rule: "that many wins will do", wins: 3, led: 1, do: func(b *bench) { b.terms(3, 2, 3) },
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
		rule: "a tie goes to the lowest id", led: 1, do: func(b *bench) { b.terms(2, 2, 5) },
	},
	{
		rule: "(a) a claim of a member of the same priority is respected", led: 2,
		do: func(b *bench) { b.hear(2, 5, true); b.period(); b.period() },
	},
	{
		rule: "a higher priority waives (a): it takes over", led: 1,
		do: func(b *bench) { b.hear(2, 4, true); b.period(); b.period() },
	},
	{
		rule: "it waives only (a): the quorum must hold", algorithm: ballotsAllButOne, priorities: []int{5, 1, 1, 1},
		do: func(b *bench) { b.hear(2, 1, true); b.period(); b.period() }, led: 2,
	},
	{
		rule: "it waives only (a): the wins are needed", wins: 3, led: 2,
		do: func(b *bench) { b.hear(2, 4, true); b.period(); b.period() },
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
		do: func(b *bench) { b.hear(2, 1, false); b.period(); b.period() },
	},
	{
		rule: "(b) all but one: three of four will do", algorithm: ballotsAllButOne, priorities: []int{5, 1, 1, 1}, led: 1,
		do: func(b *bench) { b.hear(2, 1, false); b.hear(3, 1, false); b.period(); b.period() },
	},
	{
		rule: "a member out of service never leads", priorities: []int{-1, 1, 1}, algorithm: ballotsNone,
		do: func(b *bench) { b.period(); b.period() },
	},
	{
		rule: "a member out of service counts towards the quorum", led: 1,
		do: func(b *bench) { b.terms(2, 2, -1) },
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
		do: func(b *bench) { b.terms(2, 2, 1); b.hear(2, 6, true) },
	},
	{
		rule: "a leader keeps leading though it no longer wins", led: 1,
		do: func(b *bench) { b.terms(2, 2, 1); b.terms(2, 2, 6) },
	},
	{
		rule: "of two equal claims the lower id stays", led: 1,
		do: func(b *bench) { b.terms(2, 2, 1); b.hear(2, 5, true) },
	},
	{
		rule: "a claim that does not count ends no leadership", led: 1,
		do: func(b *bench) {
			b.terms(2, 2, 1)
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
		rule: "it is dropped when it comes: what its sender casts when its clock is right counts", led: 2,
		do: func(b *bench) {
			b.walls[2] = minute
			b.hear(2, 9, true)
			b.walls[2] = 0
			b.hear(2, 9, true)
		},
	},
	{
		rule: "one that is kept, and is valid no more by a clock that was set right, gives way to any", led: 2,
		do: func(b *bench) {
			b.walls[1], b.walls[2] = minute, minute
			b.hear(2, 9, true)
			b.walls[1], b.walls[2] = 0, 0
			b.fire(1, ballotsPeriod)
			b.hear(2, 9, true)
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

// Of two equal claims the lower id stays: the higher one goes to standby.
func TestBallots_OfTwoEqualClaimsTheHigherIDGoes(t *testing.T) {
	b := newBench(t, 3, Published())
	b.start(2, ballotsMajority.New(Options{Self: 2, N: 3, Priorities: []int{5, 5, 1}}))
	b.tell(2, 3, b.cast(3, 1, false))
	for range 2 {
		b.clock += b.times.Period
		b.fire(2, ballotsPeriod)
	}
	require.Equal(t, Rank(2), b.leaders()[2])
	b.tell(2, 1, b.cast(1, 5, false))
	assert.Equal(t, Rank(2), b.leaders()[2], "a ballot without a claim changes nothing")
	b.tell(2, 1, b.cast(1, 5, true))
	assert.Equal(t, Rank(1), b.leaders()[2])
}

// In alphabetical order 10 comes before 2.
func TestBallots_OfTwoEqualClaimsTheFirstInAlphabeticalOrderStays(t *testing.T) {
	for _, row := range []struct{ self, other, led Rank }{{2, 10, 10}, {10, 2, 10}} {
		b := newBench(t, 10, Scaled())
		b.start(row.self, ballotsNone.New(Options{Self: row.self, N: 10}))
		b.clock += b.times.Period
		b.fire(row.self, ballotsPeriod)
		require.Equal(t, row.self, b.leaders()[row.self])
		b.tell(row.self, row.other, b.cast(row.other, 1, true))
		assert.Equal(t, row.led, b.leaders()[row.self])
	}
}

func TestBallots_APriorityThatChangesCountsFromTheNextElectionOn(t *testing.T) {
	for _, row := range []struct {
		claim, next int
		led         Rank
	}{{7, 9, 3}, {3, 1, 1}} {
		b := newBench(t, 3, Scaled())
		b.start(1, ballotsNone.New(Options{Self: 1, N: 3, Priorities: []int{5, 1, 1}}))
		b.period()
		require.Equal(t, Rank(1), b.leaders()[1])
		b.prioritize(1, row.next)
		b.tell(1, 3, b.cast(3, row.claim, true))
		assert.Equal(t, row.led, b.leaders()[1], "priority 5 becomes %d, and another claims with %d", row.next, row.claim)
	}
}

func TestBallots_GoToAllEveryPeriodAndClaimFromTheSecondWinOn(t *testing.T) {
	b := newBench(t, 3, Published())
	b.start(1, ballotsMajority.New(Options{Self: 1, N: 3, Priorities: []int{7, 1, 1}}))
	assert.Equal(t, "1 -> 2 BALLOT\n1 -> 3 BALLOT", b.steps())
	b.terms(1, 2, 1)
	b.waiting = nil
	b.terms(1, 2, 1)
	require.Len(t, b.waiting, 2)
	assert.Equal(t, ballot{int64(b.clock), 7, true, true}, b.waiting[0].message)
}

func runOne(t *testing.T, a *Algorithm, scenario string, n int, seed uint64) Outcome {
	t.Helper()
	o, err := Run(a, scenarioOf(t, scenario), &Setup{N: n, Times: Scaled()}, seed, nil)
	require.NoError(t, err)
	return o
}

func scenarioOf(t *testing.T, name string) *Scenario {
	t.Helper()
	s, err := FindScenario(name)
	require.NoError(t, err)
	return s
}

func TestBallots_WithoutQuorumSplitTheBrainUnderAPartition(t *testing.T) {
	for _, scenario := range []string{"minority", "three-way"} {
		split := runOne(t, ballotsNone, scenario, 5, 1)
		assert.Greater(t, split[TwoLeaders], int64(partitionTime)*9/10, scenario)
		whole := runOne(t, ballotsMajority, scenario, 5, 1)
		assert.Less(t, whole[TwoLeaders], int64(Scaled().Period), scenario)
	}
}

// A higher priority takes over: if such a member comes and goes, it is elected at each return. Among equals, which is the
// default of the product, nobody takes over from a leader that works.
func TestBallots_AFlappingHighestPriorityIsElectedAtEachReturnAndAnEqualOneIsNot(t *testing.T) {
	for _, a := range []*Algorithm{ballotsMajority, ballotsAllButOne, ballotsNone} {
		assert.Zero(t, runOne(t, a, "flapping", 5, 1)[Changes], a.Name)
		o, err := Run(a, scenarioOf(t, "flapping"), &Setup{N: 5, Times: Scaled(), Priorities: priorityByRank(5)}, 1, nil)
		require.NoError(t, err)
		assert.EqualValues(t, flaps, o[Changes], a.Name)
	}
	assert.EqualValues(t, flaps, runOne(t, ballotsRanked, "flapping", 5, 1)[Changes])
}

// If clocks differ by more than two periods, members drop each other's ballots. Then nobody leads with a majority strategy,
// although nothing but the clocks is wrong.
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
	assert.Equal(t, []Rank{1}, w.watch.leaders, "two of three are enough, and of equals the lower id leads")
}

// Ties to the lowest id in alphabetical order: the ids are ranks, as text.
func TestBallots_TiesAreInAlphabeticalOrderOfIDs(t *testing.T) {
	s := newStage(t, ballotsMajority, 12)
	s.crash(1)
	s.pass(time.Second)
	s.requireAll(10)
	s.crash(10)
	s.pass(time.Second)
	s.requireAll(11)
	s.crash(11)
	s.crash(12)
	s.pass(time.Second)
	s.requireAll(2)
}

// prioritize gives a member another priority.
func (b *bench) prioritize(r Rank, priority int) {
	b.machines[r].(Prioritized).Prioritize(b.envs[r], priority)
}

// A priority changes while members run. At the beginning of each row all priorities are equal and member 1 leads. The row
// names the leader at once after the change, and the leader after three periods.
func TestBallots_APriorityChangesWhileTheyRun(t *testing.T) {
	for _, row := range []struct {
		rule    string
		do      func(s *stage)
		at, led []Rank
	}{
		{"who gets the highest priority leads", func(s *stage) { s.prioritize(3, 9) }, []Rank{1}, []Rank{3}},
		{"who gets a lower one than a leader does not", func(s *stage) { s.prioritize(3, 0) }, []Rank{1}, []Rank{1}},
		{"a leader whose priority becomes the lowest goes to standby for another", func(s *stage) { s.prioritize(1, 0) },
			[]Rank{1}, []Rank{2}},
		{"a leader that is taken out of service steps down at once", func(s *stage) { s.prioritize(1, -1) },
			nil, []Rank{2}},
		{"who is out of service does not win", func(s *stage) { s.prioritize(2, -1); s.prioritize(1, -1) }, nil, []Rank{3}},
		{"who is taken out of service and back as a leader wins again", func(s *stage) {
			s.prioritize(1, -1)
			s.pass(time.Second)
			s.prioritize(1, 9)
		}, []Rank{2}, []Rank{1}},
		{"one that is back among equals takes over from nobody", func(s *stage) {
			s.prioritize(1, -1)
			s.pass(time.Second)
			s.prioritize(1, 1)
		}, []Rank{2}, []Rank{2}},
		{"a member out of service still counts towards the quorum", func(s *stage) { s.prioritize(3, -1); s.crash(2) },
			[]Rank{1}, []Rank{1}},
		{"all out of service: nobody leads", func(s *stage) { s.prioritize(1, -1); s.prioritize(2, -1); s.prioritize(3, -1) },
			nil, nil},
	} {
		t.Run(row.rule, func(t *testing.T) {
			s := elected(t, ballotsMajority, 3)
			s.requireAll(1)
			row.do(s)
			assert.Equal(t, row.at, s.inOffice(), "at once")
			s.pass(3 * time.Duration(s.times.Period))
			assert.Equal(t, row.led, s.inOffice(), "after three periods")
		})
	}
}
