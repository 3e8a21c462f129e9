package elections

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/sim"
)

func TestCandidateOrdinary_Rules(t *testing.T) {
	checkRules(t, candidateOrdinary, Options{Candidates: []Rank{1, 2, 5}}, candidateOrdinaryRules)
}

// noticed tells the member that this leader leads, and forgets the messages that the member then sends.
func noticed(leader Rank) func(a *actor) {
	return func(a *actor) {
		a.hears(leader, notice{leader})
		a.forget()
	}
}

// suspects: the member suspects the leader 5.
func suspects(a *actor) {
	noticed(5)(a)
	a.fires(TimerSuspect)
}

// tellsOfTwo is what member 3 sends when its election is over.
var tellsOfTwo = lines("3 -> 1 NOTICE", "3 -> 2 NOTICE", "3 -> 4 NOTICE", "3 -> 5 NOTICE")

// afterDelta is when δ has passed.
func afterDelta(a *actor) sim.Time { return a.clock + a.times.Delta(5, a.self) }

var candidateOrdinaryRules = []ruleRow{
	{"who starts waits for δ", 3, func(a *actor) {
		require.Equal(a.t, afterDelta(a), a.timers[3][TimerSuspect])
	}, "", 0},
	{"an ordinary member contacts all candidates", 3, func(a *actor) {
		a.fires(TimerSuspect) // it knows no leader yet
	}, lines("3 -> 1 ELECTION", "3 -> 2 ELECTION", "3 -> 5 ELECTION"), 0},
	{"only the remaining candidates are asked, not the leader that failed", 3, suspects,
		lines("3 -> 1 ELECTION", "3 -> 2 ELECTION"), 0},
	{"a candidate does the same", 2, suspects, "2 -> 1 ELECTION", 0},
	{"nor is it asked when an attempt is repeated", 3, func(a *actor) {
		suspects(a)
		a.fires(timerCollect)
		a.forget()
		a.fires(TimerSuspect)
	}, lines("3 -> 1 ELECTION", "3 -> 2 ELECTION"), 0},
	{"once another leads it is asked again, and that one is not", 3, func(a *actor) {
		suspects(a)
		noticed(2)(a)
		a.fires(TimerSuspect)
	}, lines("3 -> 1 ELECTION", "3 -> 5 ELECTION"), 0},
	{"a leader that hears another one asks the leader of before, too", 2, func(a *actor) {
		suspects(a)
		a.fires(timerCollect) // nobody answered: it leads
		a.forget()
		a.hears(1, Heartbeat{1})
	}, lines("2 -> 1 ELECTION", "2 -> 5 ELECTION"), 2},
	{"so it is once a heartbeat told of another", 3, func(a *actor) {
		suspects(a)
		a.fires(timerCollect)
		a.hears(2, Heartbeat{2})
		a.forget()
		a.hears(4, notice{4})
		a.hears(4, notice{2})
		a.fires(TimerSuspect)
	}, lines("3 -> 1 ELECTION", "3 -> 5 ELECTION"), 0},
	{"answers are collected for T", 3, func(a *actor) {
		suspects(a)
		a.forget()
		a.hears(2, contactAnswer)
		require.Equal(a.t, a.clock+a.times.Answer, a.timers[3][timerCollect])
	}, "", 0},
	{"the highest that answered leads, and everybody is told", 3, func(a *actor) {
		suspects(a)
		a.forget()
		a.hears(2, contactAnswer)
		a.hears(1, contactAnswer)
		a.fires(timerCollect)
		require.Equal(a.t, notice{2}, a.waiting[len(a.waiting)-1].message)
	}, tellsOfTwo, 2},
	{"the answer of an ordinary member counts for nothing", 3, func(a *actor) {
		suspects(a)
		a.forget()
		a.hears(2, contactAnswer)
		a.hears(4, contactAnswer)
		a.fires(timerCollect)
	}, tellsOfTwo, 2},
	{"no answer within T: repeat after δ", 3, func(a *actor) {
		suspects(a)
		a.forget()
		a.fires(timerCollect)
		require.Equal(a.t, afterDelta(a), a.timers[3][TimerSuspect])
	}, "", 0},
	{"after that, a heartbeat says who leads", 3, func(a *actor) {
		suspects(a)
		a.fires(timerCollect)
		a.forget()
		a.hears(2, Heartbeat{2})
	}, "", 2},
	{"a heartbeat while answers are collected changes nothing", 3, func(a *actor) {
		suspects(a)
		a.forget()
		a.hears(2, Heartbeat{2})
		require.True(a.t, a.runs(timerCollect))
		require.False(a.t, a.runs(TimerSuspect))
	}, "", 0},
	{"another's election while answers are collected is answered, and changes nothing", 2, func(a *actor) {
		suspects(a)
		a.forget()
		a.hears(3, contactElection)
		require.True(a.t, a.runs(timerCollect))
		require.False(a.t, a.runs(TimerSuspect))
	}, "2 -> 3 ANSWER", 0},
	{"a candidate counts itself", 2, func(a *actor) {
		suspects(a)
		a.forget()
		a.hears(1, contactAnswer)
		a.fires(timerCollect)
	}, lines("2 -> 1 NOTICE", "2 -> 3 NOTICE", "2 -> 4 NOTICE", "2 -> 5 NOTICE"), 2},
	{"a candidate that is asked answers", 2, func(a *actor) {
		noticed(5)(a)
		a.hears(3, contactElection)
	}, "2 -> 3 ANSWER", 5},
	{"an ordinary member does not", 3, func(a *actor) {
		noticed(5)(a)
		a.hears(4, contactElection)
	}, "", 5},
	{"another's election during δ cancels the attempt", 2, func(a *actor) {
		noticed(5)(a)
		a.clock = a.timers[2][TimerSuspect] - 1
		a.hears(3, contactElection)
		require.Equal(a.t, afterDelta(a)+a.times.Silence, a.timers[2][TimerSuspect])
	}, "2 -> 3 ANSWER", 5},
	{"a leader's heartbeat during δ cancels the attempt", 3, func(a *actor) {
		noticed(5)(a)
		a.clock = a.timers[3][TimerSuspect] - 1
		a.hears(5, Heartbeat{5})
		require.Equal(a.t, afterDelta(a)+a.times.Silence, a.timers[3][TimerSuspect])
	}, "", 5},
	{"who has no leader takes the one that it hears", 3, func(a *actor) { a.hears(2, Heartbeat{2}) }, "", 2},
	{"a notice ends the own election", 3, func(a *actor) {
		suspects(a)
		a.forget()
		a.hears(4, notice{2})
		require.False(a.t, a.runs(timerCollect))
	}, "", 2},
	{"who is named leads, though another held the election", 2, func(a *actor) {
		noticed(5)(a)
		a.hears(3, notice{2})
		a.fires(TimerHeartbeat)
	}, lines("2 -> 1 HEARTBEAT", "2 -> 3 HEARTBEAT", "2 -> 4 HEARTBEAT", "2 -> 5 HEARTBEAT"), 2},
	{"who leads no more is not heard any more", 2, func(a *actor) {
		noticed(2)(a)
		a.hears(5, notice{5})
		require.False(a.t, a.runs(TimerHeartbeat))
	}, "", 5},
	{"an ordinary member never leads, though it be named", 3, func(a *actor) {
		noticed(5)(a)
		a.hears(4, notice{3})
	}, "", 5},
	{"a leader that hears another one holds an election", 2, func(a *actor) {
		noticed(2)(a)
		a.hears(1, Heartbeat{1})
		a.hears(1, Heartbeat{1})
	}, lines("2 -> 1 ELECTION", "2 -> 5 ELECTION"), 2},
}

func TestCandidateOrdinary_WithoutAListEverySecondRankIsACandidate(t *testing.T) {
	assert.Equal(t, []Rank{5, 3, 1}, candidateOrdinary.New(Options{Self: 1, N: 5}).(*standing).candidates)
	assert.Equal(t, []Rank{4, 2}, candidateOrdinary.New(Options{Self: 1, N: 4}).(*standing).candidates)
}

// Any two δ are more than a round trip apart, and a higher priority has a smaller δ. The step is above the time in which the
// others are told. They are told T plus one delay after the start of the election, and the last heartbeat reached the members
// up to one delay apart.
func TestCandidateOrdinary_AnyTwoDeltasAreMoreThanARoundTripApart(t *testing.T) {
	for _, times := range []Times{Scaled(), Published()} {
		for _, n := range []int{3, 5, 9, 25, 101} {
			for r := Rank(2); r <= Rank(n); r++ {
				apart := times.Delta(n, r-1) - times.Delta(n, r)
				assert.Greater(t, apart, times.RTT, "%s, n = %d, %d", times.Name, n, r)
				assert.Greater(t, apart, times.Answer+2*delayMax, "%s, n = %d, %d", times.Name, n, r)
			}
		}
	}
}

// δ is (n − rank + 1) · step.
func TestCandidateOrdinary_DeltaIsAStepARank(t *testing.T) {
	times := Scaled()
	assert.Equal(t, ms(27), times.Delta(5, 5), "the highest waits, too")
	assert.Equal(t, ms(5*27), times.Delta(5, 1))
	times = Published()
	assert.Equal(t, ms(2*625), times.Delta(3, 2))
}

// δ keeps elections from starting together: in no run do two members hold elections, with the published example's candidates
// or with others. An election asks only candidates. So an ordinary member with a later δ is not asked, and waits for the
// notice.
func TestCandidateOrdinary_NoTwoElectionsStartTogether(t *testing.T) {
	seeds := uint64(200 / fewer)
	scenario, err := FindScenario("leader-crash")
	require.NoError(t, err)
	for _, row := range []struct {
		n          int
		candidates []Rank
	}{
		{6, []Rank{1, 2, 6}}, {5, []Rank{1, 2, 5}}, {5, []Rank{4, 5}}, {5, nil}, {9, nil}, {5, []Rank{1, 2, 3, 4, 5}},
	} {
		together := 0
		for seed := uint64(1); seed <= seeds; seed++ {
			setup := &Setup{N: row.n, Times: Scaled(), Candidates: row.candidates}
			outcome, err := Run(candidateOrdinary, scenario, setup, seed, nil)
			require.NoError(t, err)
			require.Positive(t, outcome[Elections])
			if outcome[Elections] > 1 {
				together++
			}
		}
		assert.Zero(t, together, "n = %d, candidates %v: of %d runs", row.n, row.candidates, seeds)
	}
}

// All members lose the leader at the same instant, but only one election is held, because δ keeps the other members back.
func TestCandidateOrdinary_OneElectionIsHeldForManyDetectors(t *testing.T) {
	for _, n := range []int{3, 5, 9, 25} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := elected(t, candidateOrdinary, n)
			s.crash(Rank(n))
			s.pass(time.Second)
			s.requireAll(Rank(n - 2))
			assert.Equal(t, (n+1)/2-1, s.count("ELECTION"), "each remaining candidate is asked")
			assert.Equal(t, (n+1)/2-1, s.count("ANSWER"))
			assert.Equal(t, n-1, s.count("NOTICE"))
		})
	}
}

func TestCandidateOrdinary_APartWithoutCandidatesHasNoLeader(t *testing.T) {
	s := newStage(t, candidateOrdinary, 5)
	s.options.Candidates = []Rank{1, 2, 5}
	for r := Rank(1); r <= 5; r++ {
		s.restart(r)
	}
	s.pass(time.Second)
	s.requireAll(5)
	s.split(3, 5) // {1, 2}, {3, 4}, {5}
	s.pass(time.Second)
	assert.Equal(t, []Rank{2, 5}, s.inOffice(), "two leaders, for both have candidates")
	held := s.leaders()
	assert.Equal(t, []Rank{0, 0}, []Rank{held[3], held[4]}, "none, for there is no candidate")
	s.heal()
	s.pass(time.Second)
	s.requireAll(5)
}
