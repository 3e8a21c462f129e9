package elections

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/sim"
)

// twoPhaseBench starts n members of the two-phase election.
func twoPhaseBench(t *testing.T, n int) *bench {
	b := newBench(t, n, Published())
	b.startAll(twoPhase, Options{})
	return b
}

// tell lets a member receive a message that nobody sent.
func (b *bench) tell(to, from Rank, m Message) { b.machines[to].Receive(b.envs[to], from, m) }

// told returns the waiting messages with their numbers, such as "1 -> 2 ELECT(0,0)", and forgets them.
func (b *bench) told() string {
	var all []string
	for _, l := range b.waiting {
		m := l.message.(tpMessage)
		all = append(all, fmt.Sprintf("%d -> %d %s(%d,%d)", l.from, l.to, m.kind, m.stamp.term, m.stamp.msg))
	}
	b.waiting = nil
	return strings.Join(all, ", ")
}

func lead(term, msg uint64) Message  { return tpMessage{tpLEAD, tpStamp{term, msg}} }
func elect(term, msg uint64) Message { return tpMessage{tpELECT, tpStamp{term, msg}} }
func vote(term, msg uint64) Message  { return tpMessage{tpVOTE, tpStamp{term, msg}} }

// electAs makes a member a leader of n = 3 by two votes, its own among them.
func electAs(b *bench, r Rank, term, msg uint64) {
	b.tell(r, r%3+1, vote(term, msg))
	b.tell(r, (r+1)%3+1, vote(term, msg))
	b.waiting = nil
}

// electedBy delivers this vote to member 1 twice: from member 2 and from member 3.
func electedBy(b *bench, v Message) { b.tell(1, 2, v); b.tell(1, 3, v) }

var tpHBT, tpRTT = Published().Heartbeat, Published().RTT

var twoPhaseRules = []struct {
	rule string
	do   func(b *bench)
	said string
	wait sim.Time // of the elector's timer of member 1
	led  Rank     // whom member 1 holds
}{
	{rule: "on entry to watching the timer is 5·HBT", do: func(*bench) {}, wait: 5 * tpHBT},
	{
		rule: "LEAD resets the timer to 3·HBT", wait: 3 * tpHBT, led: 2,
		do: func(b *bench) { b.tell(1, 2, lead(1, 0)) },
	},
	{
		rule: "ELECT goes to voting, where ELECT is broadcast and the timer is RTT", wait: tpRTT,
		do:   func(b *bench) { b.tell(1, 2, elect(0, 0)) },
		said: "1 -> 2 ELECT(0,0), 1 -> 3 ELECT(0,0)",
	},
	{
		rule: "a timeout while watching goes to voting", wait: tpRTT,
		do:   func(b *bench) { b.fire(1, tpElector) },
		said: "1 -> 2 ELECT(0,0), 1 -> 3 ELECT(0,0)",
	},
	{
		rule: "ELECT reports the last leader message seen; who missed its leader holds nobody", wait: tpRTT,
		do:   func(b *bench) { b.tell(1, 2, lead(4, 7)); b.fire(1, tpElector) },
		said: "1 -> 2 ELECT(4,7), 1 -> 3 ELECT(4,7)",
	},
	{
		rule: "on timeout VOTE goes to the latest claim, then back to watching", wait: 5 * tpHBT,
		do: func(b *bench) {
			b.tell(1, 2, elect(0, 0))
			b.tell(1, 3, elect(1, 9))
			b.waiting = nil
			b.fire(1, tpElector)
		},
		said: "1 -> 3 VOTE(1,9)",
	},
	{
		rule: "ties go to the smallest id: a vote for itself is not sent", wait: 5 * tpHBT,
		do: func(b *bench) {
			b.tell(1, 2, elect(0, 0))
			b.waiting = nil
			b.fire(1, tpElector)
		},
	},
	{
		rule: "the old leader gets the vote if it still claims, though another claim is later", wait: 5 * tpHBT, led: 2,
		do: func(b *bench) {
			b.tell(1, 2, lead(1, 5))
			b.tell(1, 2, elect(1, 5))
			b.tell(1, 3, elect(1, 6))
			b.waiting = nil
			b.fire(1, tpElector)
		},
		said: "1 -> 2 VOTE(1,5)",
	},
	{
		rule: "an old leader that does not claim gets no vote", wait: 5 * tpHBT,
		do: func(b *bench) {
			b.tell(1, 2, lead(1, 5))
			b.fire(1, tpElector)
			b.tell(1, 3, elect(1, 6))
			b.waiting = nil
			b.fire(1, tpElector)
		},
		said: "1 -> 3 VOTE(1,6)",
	},
	{
		rule: "a LEAD while voting counts as its sender's claim and leaves the timer", wait: 5 * tpHBT, led: 3,
		do: func(b *bench) {
			b.fire(1, tpElector)
			b.clock += tpRTT / 2
			b.tell(1, 3, lead(2, 1))
			require.Equal(b.t, tpRTT/2, b.timers[1][tpElector]-b.clock)
			b.waiting = nil
			b.fire(1, tpElector)
		},
		said: "1 -> 3 VOTE(2,1)",
	},
	{
		rule: "only a leader asks whether a LEAD is obsolete: it resets a follower's timer", wait: 3 * tpHBT, led: 3,
		do: func(b *bench) { b.tell(1, 2, lead(2, 0)); b.clock += tpHBT; b.tell(1, 3, lead(1, 99)) },
	},
	{
		rule: "an obsolete LEAD clears a follower's tally", wait: 3 * tpHBT, led: 3,
		do: func(b *bench) {
			b.tell(1, 2, lead(2, 0))
			b.tell(1, 2, vote(2, 0))
			b.tell(1, 3, lead(1, 99))
			b.tell(1, 3, vote(2, 0))
		},
	},
	{
		rule: "ELECT reports the highest LEAD, though an obsolete one came after it", wait: tpRTT, led: 3,
		do: func(b *bench) {
			b.tell(1, 2, lead(2, 0))
			b.tell(1, 3, lead(1, 99))
			b.tell(1, 2, elect(2, 0))
		},
		said: "1 -> 2 ELECT(2,0), 1 -> 3 ELECT(2,0)",
	},
	{
		rule: "and whose that was is the old leader", wait: 5 * tpHBT, led: 3,
		do: func(b *bench) {
			b.tell(1, 2, lead(2, 0))
			b.tell(1, 3, lead(1, 99))
			b.tell(1, 2, elect(0, 0))
			b.tell(1, 3, elect(1, 99))
			b.waiting = nil
			b.fire(1, tpElector)
		},
		said: "1 -> 2 VOTE(0,0)",
	},
	{
		rule: "an obsolete LEAD while voting counts as its sender's claim, too", wait: 5 * tpHBT, led: 2,
		do: func(b *bench) {
			b.tell(1, 2, lead(2, 0))
			b.fire(1, tpElector)
			b.tell(1, 2, lead(1, 0))
			b.waiting = nil
			b.fire(1, tpElector)
		},
		said: "1 -> 2 VOTE(1,0)",
	},
	{
		rule: "a winner's term is above every term that it has seen: in a LEAD", wait: 3 * tpHBT, led: 1,
		do: func(b *bench) {
			b.tell(1, 2, lead(5, 3))
			b.tell(1, 2, vote(1, 0))
			b.tell(1, 3, vote(1, 0))
		},
		said: "1 -> 2 LEAD(6,0), 1 -> 3 LEAD(6,0)",
	},
	{
		rule: "a winner's term is above every term that it has seen: in an ELECT", wait: tpRTT, led: 1,
		do: func(b *bench) {
			b.tell(1, 3, elect(5, 900))
			b.waiting = nil
			electedBy(b, vote(0, 0))
		},
		said: "1 -> 2 LEAD(6,0), 1 -> 3 LEAD(6,0)",
	},
	{
		rule: "a winner's term is above every term that it has seen: in a VOTE", wait: 3 * tpHBT, led: 1,
		do:   func(b *bench) { b.tell(1, 2, vote(5, 0)); electedBy(b, vote(1, 0)) },
		said: "1 -> 2 LEAD(6,0), 1 -> 3 LEAD(6,0)",
	},
	{
		rule: "a winner's term is above every term that it has seen: its own of before", wait: 3 * tpHBT, led: 1,
		do: func(b *bench) {
			electAs(b, 1, 4, 0)
			b.tell(1, 3, lead(5, 1))
			electedBy(b, vote(0, 0))
		},
		said: "1 -> 2 LEAD(6,0), 1 -> 3 LEAD(6,0)",
	},
	{
		rule: "more than n/2 identical votes make a leader of the next term, which broadcasts at once", wait: 3 * tpHBT, led: 1,
		do:   func(b *bench) { b.tell(1, 2, vote(3, 4)); b.tell(1, 3, vote(3, 4)) },
		said: "1 -> 2 LEAD(4,0), 1 -> 3 LEAD(4,0)",
	},
	{
		rule: "votes with different numbers are not identical", wait: 5 * tpHBT,
		do: func(b *bench) { b.tell(1, 2, vote(3, 4)); b.tell(1, 3, vote(3, 5)) },
	},
	{
		rule: "the tally keeps the latest vote of each member: one that votes twice counts once", wait: 5 * tpHBT,
		do: func(b *bench) { b.tell(1, 2, vote(3, 4)); b.tell(1, 2, vote(3, 4)) },
	},
	{
		rule: "LEAD clears the tally", wait: 3 * tpHBT, led: 2,
		do: func(b *bench) { b.tell(1, 2, vote(0, 0)); b.tell(1, 2, lead(1, 0)); b.tell(1, 3, vote(0, 0)) },
	},
	{
		rule: "a leader broadcasts at least every HBT, and counts its messages", wait: 3 * tpHBT, led: 1,
		do: func(b *bench) {
			electAs(b, 1, 0, 0)
			b.fire(1, tpLead)
			require.Equal(b.t, tpHBT, b.timers[1][tpLead]-b.clock)
		},
		said: "1 -> 2 LEAD(1,1), 1 -> 3 LEAD(1,1)",
	},
	{
		rule: "a LEAD that is not obsolete makes a leader a follower", wait: 3 * tpHBT, led: 3,
		do: func(b *bench) {
			electAs(b, 1, 0, 0)
			b.tell(1, 3, lead(2, 0))
			require.NotContains(b.t, b.timers[1], tpLead)
		},
	},
	{
		rule: "a leader ignores an obsolete LEAD, and votes", wait: 3 * tpHBT, led: 1,
		do: func(b *bench) {
			electAs(b, 1, 4, 0)
			b.tell(1, 3, lead(4, 9))
			b.tell(1, 2, vote(7, 0)) // two would make it leader of term 8
			b.tell(1, 3, vote(7, 0))
		},
	},
	{
		rule: "a LEAD of the numbers last seen is not obsolete", wait: 3 * tpHBT, led: 3,
		do: func(b *bench) { b.tell(1, 2, lead(2, 0)); b.clock += tpHBT; b.tell(1, 3, lead(2, 0)) },
	},
	{
		rule: "a LEAD of a higher term is not obsolete, whatever its msg", wait: 3 * tpHBT, led: 3,
		do: func(b *bench) { b.tell(1, 2, lead(2, 9)); b.tell(1, 3, lead(3, 0)) },
	},
	{
		rule: "the own ELECT joins the slate: its claim may be the latest", wait: 5 * tpHBT, led: 2,
		do: func(b *bench) {
			b.tell(1, 2, lead(4, 7))
			b.tell(1, 3, elect(1, 0))
			b.waiting = nil
			b.fire(1, tpElector)
		},
	},
	{
		rule: "a vote for itself counts", wait: 3 * tpHBT, led: 1,
		do: func(b *bench) {
			b.fire(1, tpElector)
			b.waiting = nil
			b.fire(1, tpElector)
			b.tell(1, 2, vote(0, 0))
		},
		said: "1 -> 2 LEAD(1,0), 1 -> 3 LEAD(1,0)",
	},
	{
		rule: "a leader is the old leader of its own vote, no matter who led before", wait: 5 * tpHBT, led: 1,
		do: func(b *bench) {
			b.tell(1, 2, lead(1, 0))
			electAs(b, 1, 1, 0)
			b.tell(1, 2, elect(1, 0))
			b.waiting = nil
			b.fire(1, tpElector)
		},
	},
	{
		rule: "its own LEAD while voting leaves the timer, too", wait: tpRTT / 2, led: 1,
		do: func(b *bench) {
			b.fire(1, tpElector)
			b.clock += tpRTT / 2
			electAs(b, 1, 0, 0)
		},
	},
	{
		rule: "a leader's own ELECT reports its last sent numbers", wait: tpRTT, led: 1,
		do:   func(b *bench) { electAs(b, 1, 0, 0); b.fire(1, tpLead); b.waiting = nil; b.tell(1, 2, elect(0, 0)) },
		said: "1 -> 2 ELECT(1,1), 1 -> 3 ELECT(1,1)",
	},
	{
		rule: "the slate is cleared on entering watching: an old claim does not count again", wait: 5 * tpHBT,
		do: func(b *bench) {
			b.tell(1, 3, elect(5, 0))
			b.fire(1, tpElector)
			b.fire(1, tpElector)
			b.waiting = nil
			b.fire(1, tpElector)
		},
	},
}

func TestTwoPhase_FollowsItsRules(t *testing.T) {
	for _, row := range twoPhaseRules {
		t.Run(row.rule, func(t *testing.T) {
			b := twoPhaseBench(t, 3)
			row.do(b)
			assert.Equal(t, row.said, b.told())
			assert.Equal(t, row.wait, b.timers[1][tpElector]-b.clock, "the elector's timer")
			assert.Equal(t, row.led, b.leaders()[1])
		})
	}
}

func TestTwoPhase_HalfOfAnEvenNumberElectsNobody(t *testing.T) {
	b := twoPhaseBench(t, 4)
	b.tell(1, 2, vote(0, 0))
	b.tell(1, 3, vote(0, 0))
	assert.Zero(t, b.leaders()[1], "two of four")
	b.tell(1, 4, vote(0, 0))
	assert.Equal(t, Rank(1), b.leaders()[1])
}

// electors lets the time for claims run out at each of the members: it votes.
func (b *bench) electors(ranks ...Rank) {
	for _, r := range ranks {
		b.fire(r, tpElector)
	}
}

// Loss alone elects two leaders. In round 1 only the votes of 1 and 2 reach 1. In round 2 the ELECT of 1 reaches only 5. So
// 2, 3, 4 vote for 2, and 1, 5 vote for 1. The tallies are {1, 2, 5} and {2, 3, 4}.
func TestTwoPhase_LossAloneElectsTwoLeadersOfOneTerm(t *testing.T) {
	b := twoPhaseBench(t, 5)
	b.fire(1, tpElector)
	b.deliverAll() // the first ELECT pulls all into the round
	b.electors(1, 2, 3, 4, 5)
	b.lose(func(l letter) bool { return l.from > 2 }) // VOTEs for 1
	b.deliverAll()
	assert.Equal(t, map[Rank]Rank{1: 0, 2: 0, 3: 0, 4: 0, 5: 0}, b.leaders(), "two votes of five elect nobody")

	b.fire(1, tpElector) // round 2
	b.lose(func(l letter) bool { return l.from == 1 && l.to != 5 })
	b.deliverAll()
	b.electors(1, 2, 3, 4, 5)
	votes := b.waiting
	for _, l := range votes {
		want := Rank(2)
		if l.from == 5 {
			want = 1
		}
		assert.Equal(t, want, l.to, "the vote of %d", l.from)
	}
	for b.deliver(func(l letter) bool { return l.message.Kind() == string(tpVOTE) }) {
	}
	assertTwoOfOneTerm(t, b, 1, 2)
}

// A restart alone elects two leaders: member 3 votes for 1, restarts and forgets this vote, and votes for 2.
func TestTwoPhase_ARestartAloneElectsTwoLeadersOfOneTerm(t *testing.T) {
	b := twoPhaseBench(t, 3)
	b.tell(3, 1, elect(0, 0))
	b.fire(3, tpElector)
	b.tell(1, 3, vote(0, 0))
	b.tell(1, 1, vote(0, 0)) // its own
	b.crash(3)
	b.waiting = nil
	b.start(3, twoPhase.New(Options{Self: 3, N: 3}))
	b.tell(3, 2, elect(0, 0)) // the ELECT of 1 comes too late for this round
	b.fire(3, tpElector)
	b.tell(2, 3, vote(0, 0))
	b.tell(2, 2, vote(0, 0))
	assertTwoOfOneTerm(t, b, 1, 2)
}

func assertTwoOfOneTerm(t *testing.T, b *bench, one, two Rank) {
	t.Helper()
	first, term1 := b.machines[one].Leader()
	second, term2 := b.machines[two].Leader()
	assert.Equal(t, []Rank{one, two}, []Rank{first, second}, "each leads")
	assert.Equal(t, term1, term2, "in one term")
}

// A member sends at most two messages per RTT: in each round trip one ELECT and one VOTE. A broadcast counts as one message.
func TestTwoPhase_SendsAtMostTwoMessagesAMemberAndRoundTrip(t *testing.T) {
	type sending struct {
		at   sim.Time
		kind string
		step int
	}
	for seed := uint64(1); seed <= 20; seed++ {
		for _, name := range []string{"cold-start", "leader-crash", "loss-20", "restart-storm"} {
			scenario, err := FindScenario(name)
			require.NoError(t, err)
			sent := map[Rank][]sending{}
			times := Scaled()
			_, err = Run(twoPhase, scenario, &Setup{N: 5, Times: times}, seed, func(r Record) {
				switch last := len(sent[r.Member]) - 1; {
				case r.Kind == RecordCrash:
					delete(sent, r.Member) // a new process knows nothing of what was sent
				case r.Kind != RecordSend || r.Text == string(tpLEAD):
				case last < 0 || sent[r.Member][last].step != r.Step || sent[r.Member][last].kind != r.Text:
					sent[r.Member] = append(sent[r.Member], sending{r.At, r.Text, r.Step})
				}
				all := sent[r.Member]
				if k := len(all); k > 2 {
					// A clock may run a little fast: see driftMax.
					assert.Greater(t, all[k-1].at-all[k-3].at, times.RTT-times.RTT*driftMax/sim.Million-1, "seed %d", seed)
				}
			})
			require.NoError(t, err)
			assert.NotEmpty(t, sent)
		}
	}
}
