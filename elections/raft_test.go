package elections

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// cores are the algorithms that run the core itself.
var cores = []*Algorithm{raftCore, raftPreferred}

func isCore(a *Algorithm) bool { return slices.Contains(cores, a) }

// raftBench starts bootstrapped members.
func raftBench(t *testing.T, a *Algorithm, n int) *bench {
	disks, err := bootstrapOnce(&Setup{N: n, Times: Scaled()})
	require.NoError(t, err)
	b := newBench(t, n, Scaled())
	for i, disk := range disks {
		b.disks[Rank(i+1)] = disk
	}
	b.startAll(a, Options{})
	return b
}

// askForVote is a candidate's request of a member's vote in the next term.
func (b *bench) askForVote(to, from Rank) raftMessage {
	store := b.disks[to].(raftStore)
	last := store.log[len(store.log)-1]
	bootstrap, err := raft.DecodeBootstrap(store.log[0].Data)
	require.NoError(b.t, err)
	return raftMessage{raft.Message{
		From: raft.Peer{ID: raftID(from), Incarnation: raft.Incarnation(from)},
		To:   raft.Peer{ID: raftID(to), Incarnation: raft.Incarnation(to)}, Cluster: bootstrap.Cluster,
		Term: last.Term + 1, Body: raft.VoteRequest{Last: last.ID()},
	}}
}

// votes reports whether a granted vote waits for delivery to a member, and whether a refused vote does.
func (b *bench) votes(to Rank) (granted, refused bool) {
	for _, l := range b.waiting {
		if reply, ok := l.message.(raftMessage).Body.(raft.VoteReply); ok && l.to == to {
			granted, refused = granted || reply.Granted, refused || !reply.Granted
		}
	}
	return granted, refused
}

func TestRaft_AVoteLeavesOnceItIsDurable(t *testing.T) {
	b := raftBench(t, raftCore, 3)
	b.tell(1, 2, b.askForVote(1, 2))
	granted, _ := b.votes(2)
	assert.False(t, granted, "the disk is still working")
	assert.Equal(t, b.clock+b.times.Durable, b.timers[1][raftDisk])
	b.clock += b.times.Durable
	b.fire(1, raftDisk)
	granted, _ = b.votes(2)
	assert.True(t, granted)
}

func TestRaft_ADurableVoteIsRememberedByARestart(t *testing.T) {
	for _, row := range []struct {
		rule    string
		durable bool
	}{
		{"a vote that was durable is the only one of its term", true},
		{"one that was not durable has not left, and another may be given", false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			b := raftBench(t, raftCore, 3)
			request := b.askForVote(1, 3)
			b.tell(1, 2, b.askForVote(1, 2))
			if row.durable {
				b.clock += b.times.Durable
				b.fire(1, raftDisk)
			}
			b.crash(1)
			b.waiting = nil
			b.start(1, newPlainRaft(Options{Self: 1, N: 3}))
			b.tell(1, 3, request)
			if !row.durable {
				b.clock += b.times.Durable
				b.fire(1, raftDisk)
			}
			granted, refused := b.votes(3)
			assert.Equal(t, row.durable, refused)
			assert.Equal(t, !row.durable, granted)
		})
	}
}

// raftLedBy2 is three members that have just elected the second of them.
func raftLedBy2(t *testing.T, a *Algorithm) *bench {
	b := raftBench(t, a, 3)
	b.stands(2, nil)
	return b
}

// stands advances the clock to a member's next deadline, so that the member campaigns. It loses the messages that the filter
// wants.
func (b *bench) stands(r Rank, lost func(letter) bool) {
	b.clock = b.timers[r][raftWake] // a timer that is much later is taken for a sleep
	b.fire(r, raftWake)
	for range 4 {
		for len(b.waiting) > 0 {
			if lost != nil {
				b.lose(lost)
			}
			b.deliver(nil)
		}
		b.clock += b.times.Durable
		for r := Rank(1); r <= 3; r++ {
			if _, works := b.timers[r][raftDisk]; works {
				b.fire(r, raftDisk)
			}
		}
	}
}

func TestRaft_AMajorityElectsALeaderThatAllFollow(t *testing.T) {
	b := raftLedBy2(t, raftCore)
	assert.Equal(t, map[Rank]Rank{1: 2, 2: 2, 3: 2}, b.leaders())
	_, term := b.machines[1].Leader()
	assert.Greater(t, term, uint64(1))
}

// A leader that does not run learns nothing. The others elect another leader, and for a while there are two leaders.
func TestRaft_TwoLeadersAtOneInstantAreOfTwoTerms(t *testing.T) {
	b := raftLedBy2(t, raftCore)
	b.stands(3, func(l letter) bool { return l.from == 2 || l.to == 2 })
	assert.Equal(t, map[Rank]Rank{1: 3, 2: 2, 3: 3}, b.leaders())
	_, older := b.machines[2].Leader()
	_, newer := b.machines[3].Leader()
	assert.Greater(t, newer, older)
}

func TestRaft_IsBootstrappedBeforeAScenarioBegins(t *testing.T) {
	for _, n := range []int{1, 5, 101} {
		disks, err := bootstrapOnce(&Setup{N: n, Times: Scaled()})
		require.NoError(t, err)
		require.Len(t, disks, n)
		for i := range disks {
			assert.Equal(t, disks[0].(raftStore).log, disks[i].(raftStore).log, "one log")
			assert.Positive(t, disks[i].(raftStore).hard.Term)
		}
	}
}

// electedTwice reports whether, in one run, two members led the same term, at one instant or one after the other.
func electedTwice(t *testing.T, a *Algorithm, s *Scenario, n int, seed uint64) (twice bool) {
	t.Helper()
	leaders := map[uint64]Rank{}
	_, err := Run(a, s, &Setup{N: n, Times: Scaled()}, seed, func(r Record) {
		if r.Kind != RecordLeader || r.Member != r.Peer {
			return
		}
		if other, led := leaders[r.Epoch]; led && other != r.Member {
			twice = true
		}
		leaders[r.Epoch] = r.Member
	})
	require.NoError(t, err)
	require.NotEmpty(t, leaders, "%s %s, n = %d, seed %d: nobody ever led", a.Name, s.Name, n, seed)
	return twice
}

// followed is how many seeds of a size are followed message by message.
var followed = map[int]uint64{2: 2, 3: 5, 5: 5, 9: 2, 25: 1}

// "At most one leader can be elected in a given term" (Figure 3). No second leader is elected in that term later, either.
func TestRaft_ElectsOneLeaderATermThoughOneAfterTheOther(t *testing.T) {
	for _, s := range Scenarios() {
		for _, a := range cores {
			for n, seeds := range followed {
				for seed := uint64(1); seed <= seeds && s.Takes(a); seed++ {
					assert.False(t, electedTwice(t, a, s, n, seed), "%s %s, n = %d, seed %d", a.Name, s.Name, n, seed)
				}
			}
		}
	}
}

// electedTwice can detect such a term. In the two-phase election, which has no disk, loss alone elects two leaders of one
// term.
func TestTwoPhase_ElectsTwoLeadersOfOneTermInTheComparisonToo(t *testing.T) {
	s, err := FindScenario("loss-20")
	require.NoError(t, err)
	found := false
	for seed := uint64(1); seed <= 300 && !found; seed++ {
		found = electedTwice(t, twoPhase, s, 9, seed)
	}
	assert.True(t, found)
}

// safeSizes are the sizes at which Raft's safety is checked in every scenario. At size 101 it is checked in the only scenario
// of that size.
var safeSizes = []int{1, 2, 3, 5, 9, 101}

// Election Safety (Figure 3), in every cell.
func TestRaft_NeverHasTwoLeadersInOneTerm(t *testing.T) {
	p := somePlan(2)
	p.Algorithms, p.Sizes, p.Seeds = cores, safeSizes, 2*planSeeds
	cells, err := p.Compare(context.Background())
	require.NoError(t, err)
	for i := range cells {
		worst := Summarize(cells[i].Values(TwoInTerm)).Worst
		assert.Zero(t, worst, "%s %s, n = %d", cells[i].Algorithm.Name, cells[i].Scenario.Name, cells[i].N)
	}
}
