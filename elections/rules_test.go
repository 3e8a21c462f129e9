package elections

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// actor is the one member that a row of a table tests. Its messages to the others stay in flight.
type actor struct {
	*bench
	self Rank
}

// hears delivers a message to it.
func (a *actor) hears(from Rank, m Message) { a.machines[a.self].Receive(a.envs[a.self], from, m) }

// fires lets one of the actor's timers run out. The timer must be running.
func (a *actor) fires(t Timer) { a.fire(a.self, t) }

// runs reports whether a timer of its runs.
func (a *actor) runs(t Timer) bool { _, ok := a.timers[a.self][t]; return ok }

// forget forgets the messages that the actor has sent so far, because the row does not test them.
func (a *actor) forget() { a.steps() }

// ruleRow is a rule of an algorithm. It describes the behaviour of one member of five after the start.
type ruleRow struct {
	rule   string
	self   Rank
	do     func(a *actor)
	want   string // what it sends
	leader Rank   // whom it holds for the leader afterwards
}

// checkRules runs a table.
func checkRules(t *testing.T, algorithm *Algorithm, o Options, rows []ruleRow) {
	for _, row := range rows {
		t.Run(row.rule, func(t *testing.T) {
			a := &actor{newBench(t, 5, Scaled()), row.self}
			o.Self, o.N = row.self, 5
			a.start(row.self, algorithm.New(o))
			row.do(a)
			assert.Equal(t, row.want, a.steps())
			leader, _ := a.machines[row.self].Leader()
			assert.Equal(t, row.leader, leader, "its leader")
		})
	}
}

// started does nothing but start.
func started(*actor) {}

// askAll is what member 3 sends in every form of the bully when it starts an election.
var askAll = lines("3 -> 4 ELECTION", "3 -> 5 ELECTION")

func TestBullyThreeStep_Rules(t *testing.T) {
	checkRules(t, bullyThreeStep, Options{}, bullyThreeStepRules)
}

var bullyThreeStepRules = []ruleRow{
	{"an election starts at initialisation: all higher ranks are asked, and ALIVE is waited for, T", 3, func(a *actor) {
		require.Equal(a.t, a.clock+a.times.Answer, a.timers[3][timerAlive])
	}, askAll, 0},
	{"the highest rank leads at once, and tells all lower ranks", 5, started,
		lines("5 -> 1 ELECTED", "5 -> 2 ELECTED", "5 -> 3 ELECTED", "5 -> 4 ELECTED"), 5},
	{"none answers within T: it leads and tells all lower ranks", 3, func(a *actor) {
		a.forget()
		a.fires(timerAlive)
	}, lines("3 -> 1 ELECTED", "3 -> 2 ELECTED"), 3},
	{"some answer: nothing is said before T is over", 3, func(a *actor) {
		a.forget()
		a.hears(4, bullyAlive)
	}, "", 0},
	{"some answer: the highest is told to proceed", 2, func(a *actor) {
		a.forget()
		a.hears(4, bullyAlive)
		a.hears(5, bullyAlive)
		a.hears(3, bullyAlive)
		a.fires(timerAlive)
		require.Equal(a.t, a.clock+a.times.Answer, a.timers[2][timerElected], "ELECTED is waited for, T")
	}, "2 -> 5 PROCEED", 0},
	{"the answer of a lower rank counts for nothing", 3, func(a *actor) {
		a.forget()
		a.hears(2, bullyAlive)
		a.fires(timerAlive)
	}, lines("3 -> 1 ELECTED", "3 -> 2 ELECTED"), 3},
	{"no ELECTED within T: the next highest is told", 2, func(a *actor) {
		a.hears(3, bullyAlive)
		a.hears(4, bullyAlive)
		a.fires(timerAlive)
		a.forget()
		a.fires(timerElected)
	}, "2 -> 3 PROCEED", 0},
	{"none of them announces itself: afresh", 3, func(a *actor) {
		a.hears(4, bullyAlive)
		a.fires(timerAlive)
		a.forget()
		a.fires(timerElected)
	}, askAll, 0},
	{"an answer that comes twice counts once", 3, func(a *actor) {
		a.hears(4, bullyAlive)
		a.hears(4, bullyAlive)
		a.fires(timerAlive)
		a.forget()
		a.fires(timerElected)
	}, askAll, 0},
	{"ELECTED ends the election", 3, func(a *actor) {
		a.forget()
		a.hears(4, announcement{})
		require.False(a.t, a.runs(timerAlive))
		require.True(a.t, a.runs(TimerSuspect), "the leader is watched")
	}, "", 4},
	{"a lower rank is answered, and gets no election in return", 3, func(a *actor) {
		a.hears(5, announcement{})
		a.forget()
		a.hears(1, bullyElection)
	}, "3 -> 1 ALIVE", 5},
	{"a higher rank is not answered", 3, func(a *actor) {
		a.forget()
		a.hears(4, bullyElection)
	}, "", 0},
	{"who is told to proceed leads", 3, func(a *actor) {
		a.forget()
		a.hears(1, bullyProceed)
		require.False(a.t, a.runs(timerAlive))
	}, lines("3 -> 1 ELECTED", "3 -> 2 ELECTED"), 3},
	{"a higher rank tells nobody to proceed", 3, func(a *actor) {
		a.forget()
		a.hears(4, bullyProceed)
	}, "", 0},
	{"a leader watches nobody", 3, func(a *actor) {
		a.hears(5, announcement{})
		a.hears(1, bullyProceed)
		a.forget()
		require.False(a.t, a.runs(TimerSuspect))
		require.Equal(a.t, a.clock+a.times.Heartbeat, a.timers[3][TimerHeartbeat])
	}, "", 3},
	{"who follows another one leads no more", 3, func(a *actor) {
		a.fires(timerAlive)
		a.forget()
		a.hears(5, announcement{})
		require.False(a.t, a.runs(TimerHeartbeat))
	}, "", 5},
	{"a leader is given from TimeoutMin to TimeoutMax from its last heartbeat on", 3, func(a *actor) {
		a.hears(5, announcement{})
		a.forget()
		for range 20 {
			a.clock += a.times.Heartbeat
			a.hears(5, Heartbeat{5})
			wait := a.timers[3][TimerSuspect] - a.clock
			require.GreaterOrEqual(a.t, wait, a.times.TimeoutMin)
			require.LessOrEqual(a.t, wait, a.times.TimeoutMax)
		}
	}, "", 5},
	{"a silent leader is given up, and an election started", 3, func(a *actor) {
		a.hears(5, announcement{})
		a.forget()
		a.fires(TimerSuspect)
	}, askAll, 0},
	{"a leader that hears another one starts an election, and leads on meanwhile", 3, func(a *actor) {
		a.fires(timerAlive)
		a.forget()
		a.hears(4, Heartbeat{4})
		a.hears(4, Heartbeat{4})
	}, askAll, 3},
	{"a follower that hears another leader does nothing", 3, func(a *actor) {
		a.hears(5, announcement{})
		due := a.timers[3][TimerSuspect]
		a.forget()
		a.clock += a.times.TimeoutMax // a new draw would come later
		a.hears(4, Heartbeat{4})
		require.Equal(a.t, due, a.timers[3][TimerSuspect])
	}, "", 5},
	{"a leader makes itself heard by all", 4, func(a *actor) {
		a.fires(timerAlive)
		a.forget()
		a.fires(TimerHeartbeat)
		require.Equal(a.t, a.clock+a.times.Heartbeat, a.timers[4][TimerHeartbeat], "and again after an interval")
	}, lines("4 -> 1 HEARTBEAT", "4 -> 2 HEARTBEAT", "4 -> 3 HEARTBEAT", "4 -> 5 HEARTBEAT"), 4},
}

func TestBullyCascading_Rules(t *testing.T) {
	checkRules(t, bullyCascading, Options{}, bullyCascadingRules)
}

var bullyCascadingRules = []ruleRow{
	{"a member that starts begins an election, and waits T for ANSWER", 3, func(a *actor) {
		require.Equal(a.t, a.clock+a.times.Answer, a.timers[3][timerAnswer])
	}, askAll, 0},
	{"the highest rank sends COORDINATOR at once", 5, started,
		lines("5 -> 1 COORDINATOR", "5 -> 2 COORDINATOR", "5 -> 3 COORDINATOR", "5 -> 4 COORDINATOR"), 5},
	{"a receiver returns ANSWER, and begins an election of its own", 3, func(a *actor) {
		a.hears(5, cascadeCoordinator)
		a.forget()
		a.hears(2, cascadeElection)
	}, lines("3 -> 2 ANSWER", askAll), 5},
	{"unless one is under way", 3, func(a *actor) {
		a.forget()
		a.hears(2, cascadeElection)
	}, "3 -> 2 ANSWER", 0},
	{"the highest rank waits like the others if a lower one asks, once for all that do", 5, func(a *actor) {
		a.forget()
		a.hears(2, cascadeElection)
		a.hears(3, cascadeElection)
		require.Equal(a.t, a.clock+a.times.Answer, a.timers[5][timerAnswer])
	}, lines("5 -> 2 ANSWER", "5 -> 3 ANSWER"), 5},
	{"a higher rank is not answered", 3, func(a *actor) {
		a.forget()
		a.hears(4, cascadeElection)
	}, "", 0},
	{"no ANSWER within T: COORDINATOR to all lower ranks", 3, func(a *actor) {
		a.forget()
		a.fires(timerAnswer)
	}, lines("3 -> 1 COORDINATOR", "3 -> 2 COORDINATOR"), 3},
	{"an ANSWER: COORDINATOR is waited for, 2T from the first one", 3, func(a *actor) {
		a.forget()
		a.clock += a.times.Answer / 2
		a.hears(4, cascadeAnswer)
		due := a.clock + 2*a.times.Answer
		a.clock += a.times.Answer / 4
		a.hears(5, cascadeAnswer)
		require.Equal(a.t, due, a.timers[3][timerCoordinator])
		require.False(a.t, a.runs(timerAnswer))
	}, "", 0},
	{"an ANSWER after the election is over changes nothing", 3, func(a *actor) {
		a.hears(5, cascadeCoordinator)
		a.forget()
		a.hears(4, cascadeAnswer)
		require.False(a.t, a.runs(timerCoordinator))
	}, "", 5},
	{"who loses its leader during an election goes on with that", 3, func(a *actor) {
		a.hears(5, cascadeCoordinator)
		a.hears(2, cascadeElection)
		a.forget()
		a.fires(TimerSuspect)
	}, "", 0},
	{"no COORDINATOR within T′: it begins again", 3, func(a *actor) {
		a.hears(4, cascadeAnswer)
		a.forget()
		a.fires(timerCoordinator)
		require.True(a.t, a.runs(timerAnswer))
	}, askAll, 0},
	{"COORDINATOR is obeyed, even a lower rank's, and ends the election", 3, func(a *actor) {
		a.forget()
		a.hears(2, cascadeCoordinator)
		require.False(a.t, a.runs(timerAnswer))
		require.True(a.t, a.runs(TimerSuspect), "the leader is watched")
	}, "", 2},
	{"a silent leader is given up, and an election begun", 3, func(a *actor) {
		a.hears(5, cascadeCoordinator)
		a.forget()
		a.fires(TimerSuspect)
	}, askAll, 0},
	{"a leader that hears another one begins an election, and leads on meanwhile", 3, func(a *actor) {
		a.fires(timerAnswer)
		a.forget()
		a.hears(4, Heartbeat{4})
		a.hears(4, Heartbeat{4})
	}, askAll, 3},
}

func TestNextInLine_Rules(t *testing.T) {
	checkRules(t, nextInLineFailover, Options{}, nextInLineRules)
}

// named lets the leader 5 name these alternates. After that, the leader is silent.
func named(alternates ...Rank) func(a *actor) {
	return func(a *actor) {
		a.hears(5, announcement{alternates})
		a.forget()
		a.fires(TimerSuspect)
	}
}

// tellAll is what member 3 sends when it is next in line and leads.
var tellAll = lines("3 -> 1 ELECTED", "3 -> 2 ELECTED", "3 -> 4 ELECTED", "3 -> 5 ELECTED")

var nextInLineRules = []ruleRow{
	{"no alternate is known: bully a in full", 3, started, askAll, 0},
	{"the first alternate is asked first, and has T to answer", 2, func(a *actor) {
		named(4, 3)(a)
		require.Equal(a.t, a.clock+a.times.Answer, a.timers[2][timerNext])
	}, "2 -> 4 NEXT", 0},
	{"the answer of another than the one that was asked keeps it from nothing", 2, func(a *actor) {
		named(4, 3)(a)
		a.forget()
		a.hears(5, bullyAlive)
		a.fires(timerNext)
	}, "2 -> 3 NEXT", 0},
	{"the next one T later", 2, func(a *actor) {
		named(4, 3)(a)
		a.forget()
		a.fires(timerNext)
	}, "2 -> 3 NEXT", 0},
	{"no alternate is left: bully a in full", 3, func(a *actor) {
		named(4)(a)
		a.forget()
		a.fires(timerNext)
	}, askAll, 0},
	{"an answer keeps the detector from asking others", 2, func(a *actor) {
		named(4, 3)(a)
		a.forget()
		a.clock += a.times.Answer / 2
		a.hears(4, bullyAlive)
		require.Equal(a.t, a.clock+a.times.Answer, a.timers[2][timerNext], "it announces itself within T")
	}, "", 0},
	{"an alternate that answers and never announces itself: bully a in full", 3, func(a *actor) {
		named(4, 2)(a)
		a.hears(4, bullyAlive)
		a.forget()
		a.fires(timerNext)
	}, askAll, 0},
	{"the first on the list leads at once", 3, named(3, 2), tellAll, 3},
	{"on the list, and all above it stay silent: it leads at once", 3, func(a *actor) {
		named(4, 3)(a)
		a.forget()
		a.fires(timerNext)
		require.False(a.t, a.runs(timerNext))
	}, tellAll, 3},
	{"who is asked answers, leads and tells all", 3, func(a *actor) {
		a.hears(5, announcement{[]Rank{4, 3}})
		a.forget()
		a.hears(1, nextInLineAsk)
		require.Equal(a.t, announcement{[]Rank{2, 1}}, a.waiting[len(a.waiting)-1].message, "it names the next ones")
	}, lines("3 -> 1 ALIVE", tellAll), 3},
	{"who is asked during bully a leads, and that is over", 3, func(a *actor) {
		a.forget()
		a.hears(1, nextInLineAsk)
		require.False(a.t, a.runs(timerAlive))
	}, lines("3 -> 1 ALIVE", tellAll), 3},
	{"who is asked while it asks another leads, and its search is over", 3, func(a *actor) {
		named(4, 2)(a)
		a.forget()
		a.hears(1, nextInLineAsk)
		require.False(a.t, a.runs(timerNext))
	}, lines("3 -> 1 ALIVE", tellAll), 3},
	{"a heartbeat renews the list", 2, func(a *actor) {
		a.hears(5, announcement{[]Rank{4, 3}})
		a.hears(5, namingHeartbeat{[]Rank{3, 1}})
		a.forget()
		a.fires(TimerSuspect)
	}, "2 -> 3 NEXT", 0},
	{"another leader's heartbeat does not", 2, func(a *actor) {
		a.hears(5, announcement{[]Rank{4, 3}})
		a.hears(4, namingHeartbeat{[]Rank{3, 1}})
		a.forget()
		a.fires(TimerSuspect)
	}, "2 -> 4 NEXT", 0},
	{"a higher rank follows a lower one that was next in line", 3, func(a *actor) {
		a.forget()
		a.hears(2, announcement{[]Rank{1}})
	}, "", 2},
	{"PROCEED ends the search", 3, func(a *actor) {
		named(4, 2)(a)
		a.forget()
		a.hears(1, bullyProceed)
		require.False(a.t, a.runs(timerNext))
	}, lines("3 -> 1 ELECTED", "3 -> 2 ELECTED"), 3},
	{"the announcement ends the search", 2, func(a *actor) {
		named(4, 3)(a)
		a.forget()
		a.hears(3, announcement{[]Rank{2}})
		require.False(a.t, a.runs(timerNext))
	}, "", 3},
	{"a leader that hears another one holds bully a in full", 3, func(a *actor) {
		a.fires(timerAlive)
		a.forget()
		a.hears(4, namingHeartbeat{})
	}, askAll, 3},
}

func TestNextInLine_ALeaderNamesTheTwoRanksBelowIt(t *testing.T) {
	for _, row := range []struct {
		leader Rank
		want   []Rank
	}{{5, []Rank{4, 3}}, {2, []Rank{1}}, {1, nil}} {
		b := newBench(t, 5, Scaled())
		b.start(row.leader, nextInLineFailover.New(Options{Self: row.leader, N: 5}))
		if row.leader < 5 {
			b.fire(row.leader, timerAlive)
		}
		if row.leader > 1 {
			assert.Equal(t, announcement{row.want}, b.waiting[len(b.waiting)-1].message, "with ELECTED")
		}
		b.waiting = nil
		b.fire(row.leader, TimerHeartbeat)
		require.Len(t, b.waiting, 4)
		assert.Equal(t, namingHeartbeat{row.want}, b.waiting[0].message)
	}
}
