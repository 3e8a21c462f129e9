package elections

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bares are the variants of §5.2.
var bares = []*Algorithm{raftBare, raftFixed, raftRanked}

// inTerm makes a message of §5.2.
func inTerm(term uint64, kind signal) bareMessage { return bareMessage{kind, term, false} }

// granted is a vote of a term.
func granted(term uint64) bareMessage { return bareMessage{bareVote, term, true} }

// writes lets the disk end its write.
func (a *actor) writes() { a.fires(bareDisk) }

// stands makes the member a candidate, and waits until its term and vote are durable.
func (a *actor) stands() {
	a.fires(TimerSuspect)
	a.writes()
}

// last is the message that it sent last.
func (a *actor) last() Message { return a.waiting[len(a.waiting)-1].message }

func TestRaftBare_Rules(t *testing.T) {
	for _, algorithm := range bares {
		t.Run(algorithm.Name, func(t *testing.T) { checkRules(t, algorithm, Options{}, raftBareRules) })
	}
}

var askForVotes = lines("3 -> 1 RequestVote", "3 -> 2 RequestVote", "3 -> 4 RequestVote", "3 -> 5 RequestVote")
var appendToAll = lines("3 -> 1 AppendEntries", "3 -> 2 AppendEntries", "3 -> 4 AppendEntries", "3 -> 5 AppendEntries")

// The rules that all variants follow, quoted from §5.2 and Figure 2.
var raftBareRules = []ruleRow{
	{"When servers start up, they begin as followers", 3, func(a *actor) {
		require.True(a.t, a.runs(TimerSuspect))
	}, "", 0},
	{"a follower that hears no leader raises the term, votes for itself and asks all for a vote", 3, func(a *actor) {
		a.stands()
		require.Equal(a.t, bareStore{1, 3}, a.disks[3])
		require.Equal(a.t, inTerm(1, bareRequestVote), a.last())
		require.True(a.t, a.runs(TimerSuspect), "a candidate may time out, too")
	}, askForVotes, 0},
	{"nothing leaves before term and vote are durable", 3, func(a *actor) {
		a.fires(TimerSuspect)
		require.Nil(a.t, a.disks[3])
		require.Equal(a.t, a.clock+a.times.Durable, a.timers[3][bareDisk])
	}, "", 0},
	{"a candidate whose votes do not suffice starts a new election in a new term", 3, func(a *actor) {
		a.stands()
		a.hears(1, granted(1))
		a.forget()
		a.stands()
		a.hears(2, granted(1)) // votes of the term before
		a.hears(4, granted(1))
		require.Equal(a.t, bareStore{2, 3}, a.disks[3])
	}, askForVotes, 0},
	{"votes from a majority of the full cluster: it leads, and makes itself heard at once", 3, func(a *actor) {
		a.stands()
		a.forget()
		a.hears(1, granted(1))
		a.hears(2, granted(1))
		require.Equal(a.t, inTerm(1, bareAppendEntries), a.last())
		require.Equal(a.t, a.clock+a.times.Heartbeat, a.timers[3][TimerHeartbeat])
		require.False(a.t, a.runs(TimerSuspect))
	}, appendToAll, 3},
	{"half of the cluster is no majority, and one voter counts once", 3, func(a *actor) {
		a.stands()
		a.forget()
		a.hears(1, granted(1))
		a.hears(1, granted(1))
	}, "", 0},
	{"a refusal counts for nothing", 3, func(a *actor) {
		a.stands()
		a.forget()
		a.hears(1, granted(1))
		a.hears(2, inTerm(1, bareVote))
	}, "", 0},
	{"a leader makes itself heard again and again", 3, func(a *actor) {
		a.stands()
		a.hears(1, granted(1))
		a.hears(2, granted(1))
		a.forget()
		a.fires(TimerHeartbeat)
	}, appendToAll, 3},
	{"a vote is given first come, first served, and once a term", 3, func(a *actor) {
		a.hears(1, inTerm(1, bareRequestVote))
		a.writes()
		require.Equal(a.t, granted(1), a.last())
		a.forget()
		a.hears(2, inTerm(1, bareRequestVote))
		require.Equal(a.t, inTerm(1, bareVote), a.last())
	}, "3 -> 2 Vote", 0},
	{"the same candidate may ask again", 3, func(a *actor) {
		a.hears(1, inTerm(1, bareRequestVote))
		a.writes()
		a.forget()
		a.hears(1, inTerm(1, bareRequestVote))
		require.Equal(a.t, granted(1), a.last())
	}, "3 -> 1 Vote", 0},
	{"a vote leaves once it is durable", 3, func(a *actor) {
		a.hears(1, inTerm(1, bareRequestVote))
	}, "", 0},
	{"a candidate of an older term is refused, and told the newer one", 3, func(a *actor) {
		a.hears(1, inTerm(5, bareAppendEntries))
		a.writes()
		a.forget()
		a.hears(2, inTerm(4, bareRequestVote))
		require.Equal(a.t, inTerm(5, bareVote), a.last())
	}, "3 -> 2 Vote", 1},
	{"a leader of an older term is refused, and told the newer one", 3, func(a *actor) {
		a.hears(1, inTerm(5, bareAppendEntries))
		a.writes()
		a.forget()
		a.hears(2, inTerm(4, bareAppendEntries))
		require.Equal(a.t, inTerm(5, bareAppended), a.last())
	}, "3 -> 2 Appended", 1},
	{"a candidate that hears the leader of its term returns to follower", 3, func(a *actor) {
		a.stands()
		a.forget()
		a.hears(4, inTerm(1, bareAppendEntries))
		for voter := Rank(1); voter <= 5; voter++ {
			a.hears(voter, granted(1))
		}
	}, "3 -> 4 Appended", 4},
	{"a leader that learns of a newer term from an answer is a follower, and waits for a leader", 3, func(a *actor) {
		a.stands()
		a.hears(1, granted(1))
		a.hears(2, granted(1))
		a.forget()
		a.hears(4, inTerm(7, bareAppended))
		require.False(a.t, a.runs(TimerHeartbeat))
		require.True(a.t, a.runs(TimerSuspect))
		a.writes()
		require.Equal(a.t, bareStore{7, 0}, a.disks[3], "the term is durable, and its vote still free")
	}, "", 0},
	{"a candidate that learns of a newer term from a refusal is a follower, which no vote makes a leader", 3, func(a *actor) {
		a.stands()
		a.hears(1, inTerm(7, bareVote))
		a.hears(2, granted(1))
		a.hears(4, granted(1))
		a.writes()
		require.Equal(a.t, bareStore{7, 0}, a.disks[3])
		a.forget()
	}, "", 0},
	{"no stickiness: who hears a leader votes for the candidate of a newer term all the same", 3, func(a *actor) {
		a.hears(4, inTerm(1, bareAppendEntries))
		a.writes()
		a.forget()
		a.hears(2, inTerm(2, bareRequestVote))
		a.writes()
		require.Equal(a.t, granted(2), a.last())
	}, "3 -> 2 Vote", 0},
	{"no CheckQuorum: a leader that nobody answers leads on", 3, func(a *actor) {
		a.stands()
		a.hears(1, granted(1))
		a.hears(2, granted(1))
		for range 100 {
			a.clock += a.times.Heartbeat
			a.fires(TimerHeartbeat)
		}
		a.forget()
	}, "", 3},
	{"a granted vote and a heartbeat begin the timeout anew", 3, func(a *actor) {
		a.clock += a.times.TimeoutMax
		a.hears(1, inTerm(1, bareRequestVote))
		require.Greater(a.t, a.timers[3][TimerSuspect], a.clock)
		a.clock += a.times.TimeoutMax
		a.hears(1, inTerm(1, bareAppendEntries))
		require.Greater(a.t, a.timers[3][TimerSuspect], a.clock)
		a.writes()
		a.forget()
	}, "", 1},
	{"a refused vote does not, and neither does a newer term alone", 3, func(a *actor) {
		a.hears(1, inTerm(1, bareRequestVote))
		a.writes()
		due := a.timers[3][TimerSuspect]
		a.clock += a.times.TimeoutMax
		a.hears(2, inTerm(1, bareRequestVote))
		a.hears(2, inTerm(4, bareAppended))
		a.writes()
		require.Equal(a.t, due, a.timers[3][TimerSuspect])
		a.forget()
	}, "", 0},
	{"while the disk works, a further change waits, and what speaks of it", 3, func(a *actor) {
		a.hears(1, inTerm(1, bareRequestVote))
		a.hears(2, inTerm(2, bareRequestVote))
		a.writes()
		require.Equal(a.t, bareStore{1, 1}, a.disks[3])
		require.Equal(a.t, "3 -> 1 Vote", a.steps())
		a.writes()
		require.Equal(a.t, bareStore{2, 2}, a.disks[3])
	}, "3 -> 2 Vote", 0},
}

func TestRaftBare_ADurableVoteIsRememberedByARestart(t *testing.T) {
	b := newBench(t, 3, Scaled())
	b.start(1, raftBare.New(Options{Self: 1, N: 3}))
	a := &actor{b, 1}
	a.hears(2, inTerm(4, bareRequestVote))
	a.writes()
	b.crash(1)
	b.start(1, raftBare.New(Options{Self: 1, N: 3}))
	a.hears(3, inTerm(4, bareRequestVote))
	assert.Equal(t, inTerm(4, bareVote), a.last(), "its vote of term 4 was 2's")
	b.crash(1)
	b.start(1, raftBare.New(Options{Self: 1, N: 3}))
	a.hears(3, inTerm(5, bareRequestVote))
	b.crash(1) // before the vote was durable: it has not left
	b.start(1, raftBare.New(Options{Self: 1, N: 3}))
	a.hears(2, inTerm(5, bareRequestVote))
	a.writes()
	assert.Equal(t, granted(5), a.last())
}

func TestRaftBare_HalfOfAnEvenNumberElectsNobody(t *testing.T) {
	a := &actor{newBench(t, 4, Scaled()), 1}
	a.start(1, raftBare.New(Options{Self: 1, N: 4}))
	a.stands()
	a.hears(2, granted(1))
	assert.Zero(t, a.leaders()[1], "two of four")
	a.hears(3, granted(1))
	assert.Equal(t, Rank(1), a.leaders()[1])
}

func TestRaftBare_OneMemberElectsItself(t *testing.T) {
	for _, algorithm := range bares {
		s := newStage(t, algorithm, 1)
		s.pass(time.Second)
		s.requireAll(1)
	}
}

// A candidate's own vote counts once this vote is durable. It does not count merely because an older vote is durable.
func TestRaftBare_ItsOwnVoteCountsOnceItIsDurable(t *testing.T) {
	a := &actor{newBench(t, 1, Scaled()), 1}
	a.start(1, raftBare.New(Options{Self: 1, N: 1}))
	a.fires(TimerSuspect)
	a.fires(TimerSuspect) // while the disk writes the vote of term 1
	a.writes()
	assert.Zero(t, a.leaders()[1])
	a.writes()
	a.requireAll(1)
}

// "Raft uses randomized election timeouts [...] chosen randomly from a fixed interval (e.g., 150–300ms)"
func TestRaftBare_DrawsItsTimeoutAnewAndTheOthersHaveOne(t *testing.T) {
	for _, algorithm := range bares {
		a := &actor{newBench(t, 5, Scaled()), 3}
		a.start(3, algorithm.New(Options{Self: 3, N: 5}))
		waits := map[time.Duration]bool{}
		for range 20 {
			a.hears(1, inTerm(1, bareAppendEntries))
			wait := time.Duration(a.timers[3][TimerSuspect] - a.clock)
			assert.GreaterOrEqual(t, wait, 150*time.Millisecond)
			assert.LessOrEqual(t, wait, 300*time.Millisecond)
			waits[wait] = true
		}
		if algorithm == raftBare {
			assert.Greater(t, len(waits), 15)
		} else {
			assert.Equal(t, map[time.Duration]bool{150 * time.Millisecond: true}, waits, algorithm.Name)
		}
	}
}

// "If a candidate discovered another candidate with higher rank, it would return to follower state so that the
// higher ranking candidate could more easily win the next election."
func TestRaftRanked_ACandidateGivesWayToAHigherRankAlone(t *testing.T) {
	for _, row := range []struct {
		rule      string
		algorithm *Algorithm
		rival     Rank
		term      uint64
		wins      bool // with the votes that come then
	}{
		{"a candidate of higher rank is given way to", raftRanked, 4, 1, false},
		{"one of lower rank is not", raftRanked, 2, 1, true},
		{"nor one of an older term", raftRanked, 4, 0, true},
		{"nor any where there are no ranks", raftFixed, 4, 1, true},
	} {
		t.Run(row.rule, func(t *testing.T) {
			a := &actor{newBench(t, 5, Scaled()), 3}
			a.start(3, row.algorithm.New(Options{Self: 3, N: 5}))
			a.stands()
			a.clock += a.times.Answer
			a.hears(row.rival, inTerm(row.term, bareRequestVote))
			require.Equal(t, inTerm(1, bareVote), a.last(), "its vote is its own already")
			if !row.wins {
				assert.Equal(t, a.clock+a.times.Silence, a.timers[3][TimerSuspect], "it waits for a whole timeout")
			}
			a.hears(1, granted(1))
			a.hears(5, granted(1))
			assert.Equal(t, row.wins, a.leaders()[3] == 3)
		})
	}
}

// Members 1 to 3 stand in one term, and each votes for itself. With ranks, 1 and 2 give way, and 3 wins the next election.
// Without ranks, all three stand again.
func TestRaftRanked_TheHighestCandidateWinsTheNextElection(t *testing.T) {
	for _, algorithm := range []*Algorithm{raftRanked, raftFixed} {
		b := newBench(t, 3, Scaled())
		b.startAll(algorithm, Options{})
		standing := func(who ...Rank) {
			for _, r := range who {
				b.fire(r, TimerSuspect)
			}
			for _, r := range who {
				b.fire(r, bareDisk)
			}
			b.deliverAll()
		}
		standing(1, 2, 3)
		assert.Equal(t, map[Rank]Rank{1: 0, 2: 0, 3: 0}, b.leaders(), "the votes are split")
		if algorithm == raftFixed {
			standing(1, 2, 3)
			assert.Equal(t, map[Rank]Rank{1: 0, 2: 0, 3: 0}, b.leaders(), "and split again")
			continue
		}
		b.clock += b.times.Answer
		require.Greater(t, b.timers[1][TimerSuspect], b.timers[3][TimerSuspect]-b.times.Answer)
		standing(3)
		b.fire(1, bareDisk)
		b.fire(2, bareDisk)
		b.deliverAll()
		b.requireAll(3)
	}
}

// Raft's authors gave the ranks up. Reason 1: "a lower-ranked server might need to time out and become a candidate again if a
// higher-ranked server fails". Member 2 gives way to 3, and then 3 crashes. So 2 waits for another timeout; if it had not
// given way, it would lead by now.
func TestRaftRanked_AHigherRankThatFailsWasWaitedForInVain(t *testing.T) {
	a := &actor{newBench(t, 5, Scaled()), 2}
	a.start(2, raftRanked.New(Options{Self: 2, N: 5}))
	a.stands()
	a.hears(3, inTerm(1, bareRequestVote)) // and is silent from here on
	a.hears(1, granted(1))
	a.hears(4, granted(1))
	assert.Zero(t, a.leaders()[2], "it had a majority, and had given way")
}

// Raft's authors gave the ranks up. Reason 2: "but if it does so too soon, it can reset progress towards electing a leader".
// Member 2 gives way to 3. Member 3 has two of the three votes that it needs when 2 stands again. The newer term of 2 ends
// the candidacy of 3.
func TestRaftRanked_ALowerRankThatStandsTooSoonResetsTheProgress(t *testing.T) {
	a := &actor{newBench(t, 5, Scaled()), 3}
	a.start(3, raftRanked.New(Options{Self: 3, N: 5}))
	a.stands()
	a.hears(1, granted(1))
	a.hears(2, inTerm(2, bareRequestVote))
	a.writes()
	assert.Equal(t, granted(2), a.last(), "a higher rank votes for it, as the term is new")
	a.hears(4, granted(1))
	assert.Zero(t, a.leaders()[3], "the third vote comes too late: its term is over")
}

// PreVote and stickiness prevent this: a member that does not hear the leader raises the term, which ends the leader's
// leadership. If the member hears nobody, it does so again and again. The core's leader stays.
func TestRaftBare_OneDeafMemberDeposesTheLeaderAgainAndAgain(t *testing.T) {
	for _, row := range []struct {
		scenario string
		changes  int64
	}{{"one-way", 1}, {"deaf", 10}} {
		for _, o := range outcomes(t, raftBare, row.scenario, 5, 5) {
			assert.GreaterOrEqual(t, o[Changes], row.changes, row.scenario)
		}
		for _, o := range outcomes(t, raftCore, row.scenario, 5, 5) {
			assert.Zero(t, o[Changes], row.scenario)
		}
	}
}

// CheckQuorum prevents this: a leader that is cut off with a minority continues to lead for as long as the cut lasts.
func TestRaftBare_ACutOffLeaderLeadsOn(t *testing.T) {
	for _, o := range outcomes(t, raftBare, "minority", 5, 5) {
		assert.Greater(t, time.Duration(o[TwoLeaders]), 9*time.Second)
		assert.Zero(t, o[TwoInTerm])
	}
	for _, o := range outcomes(t, raftCore, "minority", 5, 5) {
		assert.Less(t, time.Duration(o[TwoLeaders]), time.Second)
	}
}

// §5.2 alone already guarantees Election Safety (Figure 3). It does so in every scenario, also with a fixed timeout and with
// ranks.
func TestRaftBare_ElectsOneLeaderATerm(t *testing.T) {
	for _, algorithm := range bares {
		for _, s := range Scenarios() {
			if !s.Takes(algorithm) {
				continue
			}
			for n, seed := range map[int]uint64{2: 1, 3: 2, 5: 3} {
				assert.False(t, electedTwice(t, algorithm, s, n, seed), "%s %s, n = %d", algorithm.Name, s.Name, n)
			}
		}
	}
}
