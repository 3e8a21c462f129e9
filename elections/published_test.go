package elections

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/sim"
)

// The examples that the authors gave, each message in its order. Members 1 to 6; the leader 6 is dead.

// leaderSixDies brings members 1 to 6 to the beginning of the examples.
func leaderSixDies(t *testing.T, a *Algorithm, o Options) *bench {
	b := newBench(t, 6, Published())
	b.startAll(a, o)
	if a == candidateOrdinary {
		b.fire(6, TimerSuspect)
		b.deliverAll()
		b.fire(6, timerCollect)
	}
	b.deliverAll()
	b.requireAll(6)
	b.crash(6)
	b.steps()
	return b
}

func TestPublished_BullyInThreeSteps(t *testing.T) {
	b := leaderSixDies(t, bullyThreeStep, Options{})
	b.fire(3, TimerSuspect)
	b.deliverAll()
	assert.Equal(t, lines(
		"3 -> 4 ELECTION", "3 -> 5 ELECTION", "3 -> 6 ELECTION",
		"4 -> 3 ALIVE", "5 -> 3 ALIVE"), b.steps())
	b.fire(3, timerAlive)
	b.deliverAll()
	assert.Equal(t, lines(
		"3 -> 5 PROCEED",
		"5 -> 1 ELECTED", "5 -> 2 ELECTED", "5 -> 3 ELECTED", "5 -> 4 ELECTED"), b.steps())
	b.requireAll(5)
}

func TestPublished_NextInLine(t *testing.T) {
	b := leaderSixDies(t, nextInLineFailover, Options{})
	b.fire(3, TimerSuspect)
	b.deliverAll()
	assert.Equal(t, lines(
		"3 -> 5 NEXT", "5 -> 3 ALIVE",
		"5 -> 1 ELECTED", "5 -> 2 ELECTED", "5 -> 3 ELECTED", "5 -> 4 ELECTED", "5 -> 6 ELECTED"), b.steps())
	b.requireAll(5)
}

func TestPublished_CandidateOrdinary(t *testing.T) {
	b := leaderSixDies(t, candidateOrdinary, Options{Candidates: []Rank{1, 2, 6}})
	b.fire(4, TimerSuspect)
	b.deliverAll()
	assert.Equal(t, lines(
		"4 -> 1 ELECTION", "4 -> 2 ELECTION", // 6 has failed: only the remaining candidates are asked
		"1 -> 4 ANSWER", "2 -> 4 ANSWER"), b.steps())
	b.fire(4, timerCollect)
	b.deliverAll()
	assert.Equal(t, lines(
		"4 -> 1 NOTICE", "4 -> 2 NOTICE", "4 -> 3 NOTICE", "4 -> 5 NOTICE", "4 -> 6 NOTICE"), b.steps())
	b.requireAll(2)
}

func TestPublished_CollectingRing(t *testing.T) {
	b := leaderSixDies(t, ringCollecting, Options{})
	b.fire(3, TimerSuspect)
	type step struct {
		to    Rank
		kind  string
		ranks []Rank
	}
	var steps []step
	for len(b.waiting) > 0 {
		if l := b.waiting[0]; l.message.Kind() != "ACK" {
			steps = append(steps, step{l.to, l.message.Kind(), l.message.(lap).ranks})
		}
		b.deliver(nil)
		if _, waits := b.timers[5][timerHop]; waits && len(b.waiting) == 0 { // for 6 to acknowledge
			b.clock += b.times.Answer
			b.fire(5, timerHop)
		}
	}
	assert.Equal(t, []step{
		{4, "ELECTION", []Rank{3}},
		{5, "ELECTION", []Rank{3, 4}},
		{6, "ELECTION", []Rank{3, 4, 5}}, // in vain
		{1, "ELECTION", []Rank{3, 4, 5}},
		{2, "ELECTION", []Rank{3, 4, 5, 1}},
		{3, "ELECTION", []Rank{3, 4, 5, 1, 2}},
		{4, "COORDINATOR", []Rank{5}},
		{5, "COORDINATOR", []Rank{5}},
		{6, "COORDINATOR", []Rank{5}}, // in vain
		{1, "COORDINATOR", []Rank{5}},
		{2, "COORDINATOR", []Rank{5}},
		{3, "COORDINATOR", []Rank{5}},
	}, steps)
	b.requireAll(5)
}

func TestPublished_Invitation(t *testing.T) {
	b := newBench(t, 4, Published())
	only := func(from, to Rank) {
		b.lose(func(l letter) bool { return l.from != from || l.to != to })
		b.deliverAll()
	}
	start := func(r Rank) { b.start(r, invitationAlgorithm.New(Options{Self: r, N: 4})) }
	start(2)
	start(4)
	start(1)
	only(1, 2)
	start(3)
	only(3, 4)
	require.Equal(t, map[Rank]Rank{1: 1, 2: 1, 3: 3, 4: 3}, b.leaders(), "1 invited 2, and 3 invited 4")
	b.steps()

	b.clock += b.times.Answer + sim.Time(1)
	b.fire(1, TimerHeartbeat)
	b.deliverAll()
	assert.Equal(t, lines(
		"1 -> 2 HEARTBEAT", "1 -> 3 INVITE", "1 -> 4 INVITE",
		"3 -> 1 ACCEPT", "3 -> 4 JOIN",
		"4 -> 1 REFER"), b.steps())
	b.requireAll(1)
	assert.ElementsMatch(t, []Rank{1, 2, 3, 4}, b.machines[1].(*invitation).members)
}
