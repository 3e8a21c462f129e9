package elections

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// at makes a message of the bully with its sender's quality.
func at(quality int, kind signal) qualityMessage { return qualityMessage{kind, quality} }

func TestBullyQuality_Rules(t *testing.T) {
	checkRules(t, bullyQuality, Options{Qualities: []int{50, 50, 50, 50, 50}}, bullyQualityRules)
}

// askEverybody lists the messages that member 3 sends to start an election. tellEverybody lists the messages that it sends to
// end one.
var (
	askEverybody  = lines("3 -> 1 ELECTION", "3 -> 2 ELECTION", "3 -> 4 ELECTION", "3 -> 5 ELECTION")
	tellEverybody = lines("3 -> 1 ELECTED", "3 -> 2 ELECTED", "3 -> 4 ELECTED", "3 -> 5 ELECTED")
)

var bullyQualityRules = []ruleRow{
	{"an election starts at initialisation: all are told the quality, and ALIVE is waited for, T", 3, func(a *actor) {
		require.Equal(a.t, at(50, bullyElection), a.waiting[0].message)
		require.Equal(a.t, a.clock+a.times.Answer, a.timers[3][timerAlive])
	}, askEverybody, 0},
	{"the highest rank asks, too: its host may not be the best", 5, started,
		lines("5 -> 1 ELECTION", "5 -> 2 ELECTION", "5 -> 3 ELECTION", "5 -> 4 ELECTION"), 0},
	{"none answers within T: it leads, and tells all", 3, func(a *actor) {
		a.forget()
		a.fires(timerAlive)
	}, tellEverybody, 3},
	{"a worse host is answered, though its rank is higher", 3, func(a *actor) {
		a.forget()
		a.hears(5, at(49, bullyElection))
		require.Equal(a.t, at(50, bullyAlive), a.waiting[len(a.waiting)-1].message)
	}, "3 -> 5 ALIVE", 0},
	{"a better one is not, though its rank is lower", 3, func(a *actor) {
		a.forget()
		a.hears(1, at(51, bullyElection))
	}, "", 0},
	{"of equal hosts the lower rank is answered", 3, func(a *actor) {
		a.forget()
		a.hears(4, at(50, bullyElection))
		a.hears(2, at(50, bullyElection))
	}, "3 -> 2 ALIVE", 0},
	{"some answer: the best host is told to proceed, the highest rank of equal ones", 3, func(a *actor) {
		a.forget()
		a.hears(5, at(50, bullyAlive))
		a.hears(1, at(60, bullyAlive))
		a.hears(2, at(60, bullyAlive))
		a.fires(timerAlive)
		require.Equal(a.t, a.clock+a.times.Answer, a.timers[3][timerElected], "ELECTED is waited for, T")
	}, "3 -> 2 PROCEED", 0},
	{"the answer of one below it counts for nothing", 3, func(a *actor) {
		a.forget()
		a.hears(5, at(40, bullyAlive))
		a.fires(timerAlive)
	}, tellEverybody, 3},
	{"no ELECTED within T: the next best is told", 3, func(a *actor) {
		a.hears(1, at(60, bullyAlive))
		a.hears(5, at(55, bullyAlive))
		a.fires(timerAlive)
		a.forget()
		a.fires(timerElected)
	}, "3 -> 5 PROCEED", 0},
	{"none of them announces itself: afresh, and an answer that came twice counted once", 3, func(a *actor) {
		a.hears(1, at(60, bullyAlive))
		a.hears(1, at(60, bullyAlive))
		a.fires(timerAlive)
		a.forget()
		a.fires(timerElected)
	}, askEverybody, 0},
	{"who is told to proceed leads", 3, func(a *actor) {
		a.forget()
		a.hears(5, at(40, bullyProceed))
		require.False(a.t, a.runs(timerAlive))
	}, tellEverybody, 3},
	{"a better one tells nobody to proceed", 3, func(a *actor) {
		a.forget()
		a.hears(1, at(60, bullyProceed))
	}, "", 0},
	{"ELECTED is obeyed, even a lower rank's, and ends the election", 3, func(a *actor) {
		a.forget()
		a.hears(1, announcement{})
		require.False(a.t, a.runs(timerAlive))
		require.True(a.t, a.runs(TimerSuspect), "the leader is watched")
	}, "", 1},
	{"a silent leader is given up, and an election started", 3, func(a *actor) {
		a.hears(5, announcement{})
		a.forget()
		a.fires(TimerSuspect)
	}, askEverybody, 0},
	{"a leader that hears another one starts an election, and leads on meanwhile", 3, func(a *actor) {
		a.fires(timerAlive)
		a.forget()
		a.hears(4, Heartbeat{4})
		a.hears(4, Heartbeat{4})
	}, askEverybody, 3},
}

func TestBullyQuality_ARestartLowersTheQualityAndTheDiskKeepsIt(t *testing.T) {
	b := newBench(t, 3, Scaled())
	for _, want := range []int{15, 5, 0, 0} {
		b.waiting = nil
		b.start(2, bullyQuality.New(Options{Self: 2, N: 3, Qualities: []int{100, 15, 100}}))
		assert.Equal(t, at(want, bullyElection), b.waiting[0].message)
		b.crash(2)
	}
	b.waiting = nil
	b.start(1, bullyQuality.New(Options{Self: 1, N: 3}))
	assert.Equal(t, at(QualityMax, bullyElection), b.waiting[0].message, "the best, if nothing else was said")
}

// Qualities prevent the re-election. While 5 is down, 4 leads. When 5 is back, 4 stays the leader, because the restart
// lowered the quality of 5. Without the quality, 5 would lead.
func TestBullyQuality_AMemberThatComesBackDisplacesNobody(t *testing.T) {
	s := elected(t, bullyQuality, 5)
	s.requireAll(5)
	s.crash(5)
	s.pass(time.Second)
	s.requireAll(4)
	s.steps()
	s.restart(5)
	s.pass(time.Second)
	s.requireAll(4)
	assert.Equal(t, 4, s.count("ALIVE"), "all of them stand above it")
	assert.Equal(t, 1, s.count("PROCEED"), "to the leader")
}

// A favourite leads again after a failure, until it has failed too often. Its quality of 75 stays above the others' 50 after
// two restarts.
func TestBullyQuality_AFavouriteLeadsAgainUntilItHasFailedTooOften(t *testing.T) {
	qualities := []int{50, 50, 50, 50, 75}
	var led []Rank
	s := &stage{bench: newBench(t, 5, Scaled()), algorithm: bullyQuality, options: Options{N: 5, Qualities: qualities}}
	s.heal()
	s.startAll(bullyQuality, s.options)
	s.pass(time.Second)
	for range 5 {
		s.crash(5)
		s.pass(time.Second)
		s.restart(5)
		s.pass(time.Second)
		led = append(led, s.inOffice()...)
	}
	assert.Equal(t, []Rank{5, 5, 4, 4, 4}, led)
}

// In the world of the comparison, the bully changes its leader seven times. The bully with qualities does not change its
// leader.
func TestBullyQuality_CuresTheReelectionOfAFlappingMember(t *testing.T) {
	changes := func(a *Algorithm) (all int64) {
		for _, o := range outcomes(t, a, "flapping", 5, 5) {
			all += o[Changes]
			assert.EqualValues(t, 1, o[Ends])
		}
		return all
	}
	assert.GreaterOrEqual(t, changes(bullyThreeStep), int64(5*flaps))
	assert.LessOrEqual(t, changes(bullyQuality), int64(1))
}
