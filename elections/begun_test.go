package elections

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Elect counts the members that begin an election, and not the members that join one. The messages of an election differ
// between algorithms, so each algorithm reports itself when it begins an election.
func TestElect_CountsEachElectionThatAMemberBegins(t *testing.T) {
	const n = 5
	for _, row := range []struct {
		rule  string
		a     *Algorithm
		begin func(b *bench)
		want  int
	}{
		{"the detector asks, the others answer", bullyThreeStep, suspectedBy(1), 1},
		{"each higher rank holds an election of its own", bullyCascading, suspectedBy(1), n - 1},
		{"the highest that lives holds the only one", bullyCascading, suspectedBy(n - 1), 1},
		{"an alternate is asked: that is all", nextInLineFailover, suspectedBy(1), 1},
		{"no alternate: the bully's election is the only one", nextInLineFailover, func(b *bench) {
			b.machines[1].(*nextInLine).line = nil
			suspectedBy(1)(b)
		}, 1},
		{"an ordinary member asks the candidates", candidateOrdinary, suspectedBy(2), 1},
		{"a group of one again", invitationAlgorithm, suspectedBy(2), 1},
		{"one starter, one round", ringCollecting, suspectedBy(1), 1},
		{"each starter has a round of its own", ringMaximum, suspectedBy(1, 3), 2},
		{"a lower rank's message is replaced by the own", ringChangRoberts, suspectedBy(1), n - 1},
		{"the first ELECT pulls all into one round", twoPhase, fired(tpElector, 1), 1},
		{"one in each period", ballotsMajority, fired(ballotsPeriod, 1, 2), 2},
		{"who waited in vain begins the next round, and tells all", stable, fired(stableSilence, 2), 1},
	} {
		b := newBench(t, n, Scaled())
		b.startAll(row.a, Options{})
		b.deliverAll()
		b.elected = 0
		row.begin(b)
		assert.Equal(t, row.want, b.elected, "%s: %s", row.a.Name, row.rule)
	}
}

// suspectedBy lets the highest rank crash, and these members notice it.
func suspectedBy(detectors ...Rank) func(b *bench) {
	return func(b *bench) {
		b.crash(Rank(b.n))
		for _, r := range detectors {
			b.timers[r][TimerSuspect] = b.clock
		}
		fired(TimerSuspect, detectors...)(b)
		skipDead(b)
	}
}

// fired lets a timer of these members run out.
func fired(timer Timer, ranks ...Rank) func(b *bench) {
	return func(b *bench) {
		for _, r := range ranks {
			b.fire(r, timer)
		}
		b.deliverAll()
	}
}

// Every algorithm reports an election when it replaces a leader. If an algorithm forgot to report its elections, it would
// appear to need none.
func TestElect_EveryAlgorithmReplacesALeaderByAnElection(t *testing.T) {
	for _, a := range Algorithms() {
		for _, n := range []int{3, 5} {
			assert.NotZero(t, runOne(t, a, "leader-crash", n, 1)[Elections], "%s, n = %d", a.Name, n)
		}
	}
}
