package elections

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The messages of one election, against the published formulas. The leader n is dead, so n - 1 live.
// Acknowledgements and heartbeats do not count.

var sizes = []int{3, 5, 6, 9, 25}

// detectors returns a bench on which n led and died. Then these members noticed the failure, in this order.
func detectors(t *testing.T, a *Algorithm, n int, who ...Rank) *bench {
	b := newBench(t, n, Scaled())
	b.startAll(a, Options{})
	b.deliverAll()
	b.requireAll(Rank(n))
	b.crash(Rank(n))
	b.steps()
	for _, r := range who {
		b.fire(r, TimerSuspect)
	}
	b.deliverAll()
	return b
}

func TestCount_BullyThreeStepIsLinearForOneDetector(t *testing.T) {
	for _, n := range sizes {
		b := detectors(t, bullyThreeStep, n, 1)
		b.fire(1, timerAlive)
		b.deliverAll()
		b.requireAll(Rank(n - 1))
		assert.Equal(t, n-1, b.count("ELECTION"), "n = %d", n)
		assert.Equal(t, n-2, b.count("ALIVE"), "n = %d", n)
		assert.Equal(t, 1, b.count("PROCEED"), "n = %d", n)
		assert.Equal(t, n-2, b.count("ELECTED"), "n = %d", n)
		assert.Equal(t, 3*n-4, b.count(), "n = %d", n)
	}
}

// The bully's worst case is O(n²): the lowest rank detects, and every live one holds an election.
func TestCount_BullyCascadingIsQuadraticIfTheLowestDetects(t *testing.T) {
	for _, n := range sizes {
		b := detectors(t, bullyCascading, n, 1)
		b.fire(Rank(n-1), timerAnswer)
		b.deliverAll()
		b.requireAll(Rank(n - 1))
		assert.Equal(t, n*(n-1)/2, b.count("ELECTION"), "n = %d", n)
		assert.Equal(t, (n-1)*(n-2)/2, b.count("ANSWER"), "n = %d", n)
		assert.Equal(t, n-2, b.count("COORDINATOR"), "n = %d", n)
		assert.Equal(t, n*n-n-1, b.count(), "n = %d", n)
	}
}

// The best case: the highest rank that lives detects.
func TestCount_BullyCascadingIsLinearIfTheHighestDetects(t *testing.T) {
	for _, n := range sizes {
		b := detectors(t, bullyCascading, n, Rank(n-1))
		b.fire(Rank(n-1), timerAnswer)
		b.deliverAll()
		b.requireAll(Rank(n - 1))
		assert.Equal(t, n-1, b.count(), "n = %d", n)
	}
}

// While an alternate lives, next-in-line takes fewer messages than either form of the bully, no matter which member detects
// the failure.
func TestCount_NextInLineTakesFewerThanBullyWhileAnAlternateLives(t *testing.T) {
	const n = 9
	for detector := Rank(1); detector < n-1; detector++ {
		b := detectors(t, nextInLineFailover, n, detector)
		b.requireAll(n - 1)
		require.Equal(t, n+1, b.count(), "NEXT, ALIVE, and ELECTED to all others")

		bully := detectors(t, bullyThreeStep, n, detector)
		bully.fire(detector, timerAlive)
		bully.deliverAll()
		assert.Less(t, b.count(), bully.count(), "detector %d", detector)
		cascade := detectors(t, bullyCascading, n, detector)
		cascade.fire(n-1, timerAnswer)
		cascade.deliverAll()
		assert.Less(t, b.count(), cascade.count(), "detector %d", detector)
	}
}

// skipDead lets members skip the dead members that do not acknowledge, until no message is in flight.
func skipDead(b *bench) {
	for moved := true; moved; {
		moved = false
		for r := Rank(1); r <= Rank(b.n); r++ {
			if _, runs := b.timers[r][timerHop]; runs && b.machines[r] != nil {
				b.clock = b.timers[r][timerHop]
				b.fire(r, timerHop)
				b.deliverAll()
				moved = true
			}
		}
	}
}

// vain is how many messages went to a member that is dead.
func vain(b *bench, dead Rank) (n int) {
	to := fmt.Sprintf(" -> %d ", dead)
	for _, l := range b.sent {
		if strings.Contains(l, to) {
			n++
		}
	}
	return n
}

// Both forms take 2 · live hops for one starter.
func TestCount_RingTakesTwoRoundsForOneStarter(t *testing.T) {
	for _, a := range []*Algorithm{ringCollecting, ringMaximum} {
		for _, n := range sizes[:4] {
			for starter := Rank(1); starter < Rank(n); starter++ {
				b := detectors(t, a, n, starter)
				skipDead(b)
				b.requireAll(Rank(n - 1))
				require.Equal(t, 2*(n-1), b.count()-vain(b, Rank(n)), "%s, n = %d, %d starts", a.Name, n, starter)
				require.Equal(t, 2, vain(b, Rank(n)), "each round passes the dead one once")
			}
		}
	}
}

// At most 3n - 1 messages for one starter, and that many if all live and the lowest starts.
func TestCount_ChangRobertsTakesThreeRoundsAtMost(t *testing.T) {
	for _, n := range sizes {
		for starter := Rank(1); starter < Rank(n); starter++ {
			b := detectors(t, ringChangRoberts, n, starter)
			skipDead(b)
			b.requireAll(Rank(n - 1))
			live := n - 1
			require.Equal(t, 3*live-int(starter), b.count()-vain(b, Rank(n)), "n = %d, %d starts", n, starter)
			require.Less(t, b.count(), 3*n, "though two were sent in vain")
		}
	}
}

// The best case: all start at once, and only the highest rank's message survives its first hop.
func TestCount_ChangRobertsSwallowsWhatIsLower(t *testing.T) {
	for _, n := range sizes {
		b := newBench(t, n, Scaled())
		b.startAll(ringChangRoberts, Options{})
		b.deliverAll()
		b.requireAll(Rank(n))
		assert.Equal(t, n-1+n+n, b.count(), "n = %d", n)
	}
}

// Concurrent elections run independently: each starter pays for its own two rounds.
func TestCount_ConcurrentStartersOfARingMultiplyTheMessages(t *testing.T) {
	for _, n := range sizes {
		b := newBench(t, n, Scaled())
		b.startAll(ringMaximum, Options{})
		b.deliverAll()
		b.requireAll(Rank(n))
		assert.Equal(t, 2*n*n, b.count(), "n = %d", n)
	}
}

// At the cold start each member invites every other member once, and the others answer. After that, only the leader sends
// heartbeats.
func TestCount_InvitationIsQuadraticAtTheColdStartAlone(t *testing.T) {
	const n = 9
	s := newStage(t, invitationAlgorithm, n)
	s.carry()
	s.requireAll(1)
	assert.Equal(t, n*(n-1), s.count("INVITE"))
	s.steps()
	s.clock += s.times.Answer
	s.fire(1, TimerHeartbeat)
	s.carry()
	assert.Equal(t, n-1, len(s.sent), "heartbeats, and nothing else")
}

// One round of the two-phase election: ELECT of each to all, and at most a vote of each; then the leader's LEAD.
func TestCount_TwoPhaseTakesOneRoundThatNothingDisturbs(t *testing.T) {
	for _, n := range sizes {
		b := newBench(t, n, Scaled())
		b.startAll(twoPhase, Options{})
		b.fire(1, tpElector)
		b.deliverAll() // the first ELECT pulls all into the round
		for r := Rank(1); r <= Rank(n); r++ {
			b.fire(r, tpElector)
		}
		b.deliverAll()
		b.requireAll(1)
		assert.Equal(t, n*(n-1), b.count("ELECT"), "n = %d", n)
		assert.Equal(t, n-1, b.count("VOTE"), "its own is not sent, n = %d", n)
		assert.Equal(t, n-1, b.count("LEAD"), "n = %d", n)
	}
}

// Ballots never end: in every period each member sends one to all, no matter which member leads.
func TestCount_BallotsAreQuadraticInEveryPeriod(t *testing.T) {
	for _, n := range sizes {
		b := newBench(t, n, Scaled())
		b.startAll(ballotsMajority, Options{})
		b.deliverAll()
		b.steps()
		for r := Rank(1); r <= Rank(n); r++ {
			b.fire(r, ballotsPeriod)
		}
		b.deliverAll()
		assert.Equal(t, n*(n-1), b.count("BALLOT"), "n = %d", n)
		assert.Equal(t, n*(n-1), b.count(), "n = %d", n)
	}
}
