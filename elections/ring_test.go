package elections

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// comes delivers a lap to the actor. It requires that the actor acknowledges the lap, and then forgets the acknowledgement.
func (a *actor) comes(from Rank, l lap) {
	a.hears(from, l)
	sent := a.waiting[0]
	require.Equal(a.t, from, sent.to)
	require.Equal(a.t, "ACK", sent.message.Kind())
}

// newest is the message that the actor sent last.
func (a *actor) newest() Message { return a.waiting[len(a.waiting)-1].message }

// returned delivers to the actor the lap that the actor sent last. It must be the actor's own lap.
func (a *actor) returned(ranks ...Rank) {
	l := a.newest().(lap)
	l.hops, l.ranks = 5, append(l.ranks, ranks...)
	a.forget()
	a.hears(2, l)
}

// quiet forgets what the actor sent at its start.
func (a *actor) quiet() { a.waiting = nil; a.forget() }

// The laps of another that come by.
var (
	anElection = lap{starter: 5, tag: 9, hops: 3, ranks: []Rank{5}}
	told       = lap{coordinator: true, starter: 5, tag: 8, hops: 3, ranks: []Rank{5}}
)

// travelling are the rules that all forms of the ring have in common.
var travelling = []ruleRow{
	{"an election starts at initialisation, at the successor", 3, started, "3 -> 4 ELECTION", 0},
	{"the successor of the highest is the lowest", 5, started, "5 -> 1 ELECTION", 0},
	{"silence for T skips to the next", 3, func(a *actor) {
		require.Equal(a.t, a.clock+a.times.Answer, a.timers[3][timerHop])
		a.forget()
		a.clock += a.times.Answer
		a.fires(timerHop)
	}, "3 -> 5 ELECTION", 0},
	{"an acknowledged hop is done", 3, func(a *actor) {
		a.forget()
		a.hears(4, ack{a.newest().(lap)})
		require.False(a.t, a.runs(timerHop))
	}, "", 0},
	{"an acknowledgement is that of one hop", 3, func(a *actor) {
		own := ack{a.newest().(lap)}
		a.hears(2, anElection)
		a.forget()
		a.hears(4, own)
		require.True(a.t, a.runs(timerHop), "the other one is still under way")
	}, "", 0},
	{"the acknowledgement of who was skipped comes too late", 3, func(a *actor) {
		late := ack{a.newest().(lap)}
		a.fires(timerHop)
		a.forget()
		a.hears(4, late)
		require.True(a.t, a.runs(timerHop))
	}, "", 0},
	{"each hop is acknowledged, and counted", 3, func(a *actor) {
		a.quiet()
		a.comes(2, anElection)
		require.Equal(a.t, 4, a.newest().(lap).hops)
	}, lines("3 -> 2 ACK", "3 -> 4 ELECTION"), 0},
	{"two hops under way have a deadline each", 3, func(a *actor) {
		a.hears(4, ack{a.newest().(lap)})
		a.hears(2, anElection)
		a.clock += a.times.Answer / 2
		a.hears(2, told)
		a.forget()
		a.clock += a.times.Answer / 2
		a.fires(timerHop)
		require.Equal(a.t, a.clock+a.times.Answer/2, a.timers[3][timerHop])
		a.clock += a.times.Answer / 2
		a.fires(timerHop)
	}, lines("3 -> 5 ELECTION", "3 -> 5 COORDINATOR"), 5},
	{"a message past n hops is dropped", 3, func(a *actor) {
		a.quiet()
		far := anElection
		far.hops = 6
		a.comes(2, far)
	}, "3 -> 2 ACK", 0},
	{"a second copy is acknowledged and dropped", 3, func(a *actor) {
		a.hears(2, anElection)
		a.quiet()
		a.comes(1, anElection)
	}, "3 -> 1 ACK", 0},
	{"and so it is after the second round", 3, func(a *actor) {
		a.hears(2, anElection)
		a.hears(2, told)
		a.quiet()
		a.comes(1, anElection)
	}, "3 -> 1 ACK", 5},
	{"the second round tells who leads", 3, func(a *actor) {
		a.quiet()
		a.comes(2, told)
		require.False(a.t, a.runs(timerRound))
		require.True(a.t, a.runs(TimerSuspect), "the leader is watched")
	}, lines("3 -> 2 ACK", "3 -> 4 COORDINATOR"), 5},
	{"who sees no COORDINATOR within 2n·T starts again", 3, func(a *actor) {
		require.Equal(a.t, a.clock+10*a.times.Answer, a.timers[3][timerRound])
		a.forget()
		a.fires(timerRound)
		require.Equal(a.t, a.clock+10*a.times.Answer, a.timers[3][timerRound])
	}, "3 -> 4 ELECTION", 0},
	{"a silent leader is given up, and an election started", 3, func(a *actor) {
		a.hears(2, told)
		a.forget()
		a.fires(TimerSuspect)
	}, "3 -> 4 ELECTION", 0},
	{"a follower that hears another leader does nothing", 3, func(a *actor) {
		a.hears(2, told)
		a.forget()
		a.hears(4, Heartbeat{4})
	}, "", 5},
}

// alone skips everybody else.
func (a *actor) alone() {
	for range 4 {
		a.clock += a.times.Answer
		a.fires(timerHop)
	}
}

func TestRingCollecting_Rules(t *testing.T) {
	checkRules(t, ringCollecting, Options{}, append(slices.Clone(travelling), []ruleRow{
		{"the starter sends itself", 3, func(a *actor) {
			require.Equal(a.t, []Rank{3}, a.newest().(lap).ranks)
		}, "3 -> 4 ELECTION", 0},
		{"each adds itself and passes on", 3, func(a *actor) {
			a.quiet()
			a.comes(2, lap{starter: 1, tag: 9, hops: 2, ranks: []Rank{1, 2}})
			require.Equal(a.t, []Rank{1, 2, 3}, a.newest().(lap).ranks)
		}, lines("3 -> 2 ACK", "3 -> 4 ELECTION"), 0},
		{"back at the start the highest rank leads, and a second round tells all", 3, func(a *actor) {
			a.returned(4, 1, 2)
			require.Equal(a.t, []Rank{4}, a.newest().(lap).ranks)
			require.False(a.t, a.runs(timerRound))
		}, lines("3 -> 2 ACK", "3 -> 4 COORDINATOR"), 4},
		{"the highest may be the starter", 3, func(a *actor) { a.returned(1, 2) },
			lines("3 -> 2 ACK", "3 -> 4 COORDINATOR"), 3},
		{"the second round ends where it began", 3, func(a *actor) {
			a.returned(4, 1, 2)
			a.returned()
		}, "3 -> 2 ACK", 4},
		{"an election from before a restart is dropped", 3, func(a *actor) {
			a.quiet()
			a.comes(2, lap{starter: 3, tag: 9, hops: 5, ranks: []Rank{3, 4}})
		}, "3 -> 2 ACK", 0},
		{"concurrent elections run independently", 3, func(a *actor) {
			own := a.newest().(lap)
			a.hears(2, lap{coordinator: true, starter: 5, tag: 8, hops: 3, ranks: []Rank{5}})
			a.quiet()
			a.hears(2, own)
		}, lines("3 -> 2 ACK", "3 -> 4 COORDINATOR"), 3},
		{"who reaches nobody leads itself", 3, func(a *actor) {
			a.forget()
			a.alone()
		}, lines("3 -> 5 ELECTION", "3 -> 1 ELECTION", "3 -> 2 ELECTION", "3 -> 4 COORDINATOR"), 3},
		{"who thinks itself alone, and was not, has had its round", 3, func(a *actor) {
			own := a.newest().(lap)
			a.alone()
			a.quiet()
			own.hops, own.ranks = 5, []Rank{3, 4}
			a.comes(2, own)
		}, "3 -> 2 ACK", 3},
		{"a leader that hears another one starts an election", 3, func(a *actor) {
			a.returned(1, 2)
			a.forget()
			a.hears(4, Heartbeat{4})
			a.hears(4, Heartbeat{4})
		}, "3 -> 4 ELECTION", 3},
	}...))
}

func TestRingMaximum_Rules(t *testing.T) {
	checkRules(t, ringMaximum, Options{}, append(slices.Clone(travelling), []ruleRow{
		{"only the highest rank seen travels: mine, if it is higher", 3, func(a *actor) {
			a.quiet()
			a.comes(2, lap{starter: 1, tag: 9, hops: 2, ranks: []Rank{2}})
			require.Equal(a.t, []Rank{3}, a.newest().(lap).ranks)
		}, lines("3 -> 2 ACK", "3 -> 4 ELECTION"), 0},
		{"only the highest rank seen travels: the other, if that is", 3, func(a *actor) {
			a.quiet()
			a.comes(2, lap{starter: 1, tag: 9, hops: 2, ranks: []Rank{4}})
			require.Equal(a.t, []Rank{4}, a.newest().(lap).ranks)
		}, lines("3 -> 2 ACK", "3 -> 4 ELECTION"), 0},
		{"back at the start it goes round once more as COORDINATOR", 3, func(a *actor) {
			a.returned(5)
			require.Equal(a.t, []Rank{5}, a.newest().(lap).ranks)
		}, lines("3 -> 2 ACK", "3 -> 4 COORDINATOR"), 5},
	}...))
}

func TestRingChangRoberts_Rules(t *testing.T) {
	resting := func(a *actor) { // a follower, that takes no part in an election
		a.hears(2, lap{coordinator: true, starter: 5, tag: 1, hops: 3, ranks: []Rank{5}})
		a.quiet()
	}
	checkRules(t, ringChangRoberts, Options{}, append(slices.Clone(travelling), []ruleRow{
		{"a higher rank is passed on, and one takes part", 3, func(a *actor) {
			resting(a)
			a.comes(2, lap{starter: 4, tag: 9, hops: 3})
			require.Equal(a.t, Rank(4), a.newest().(lap).starter)
			require.True(a.t, a.runs(timerRound))
		}, lines("3 -> 2 ACK", "3 -> 4 ELECTION"), 5},
		{"the wait for COORDINATOR begins when one takes part, and no other election makes it longer", 3, func(a *actor) {
			resting(a)
			a.hears(2, lap{starter: 4, tag: 9, hops: 3})
			due := a.clock + 10*a.times.Answer
			a.forget()
			a.clock += a.times.Answer
			a.hears(2, lap{starter: 5, tag: 10, hops: 3})
			require.Equal(a.t, due, a.timers[3][timerRound])
		}, lines("3 -> 2 ACK", "3 -> 4 ELECTION"), 5},
		{"a lower one is replaced by the own", 3, func(a *actor) {
			resting(a)
			a.comes(2, lap{starter: 1, tag: 9, hops: 2})
			require.Equal(a.t, Rank(3), a.newest().(lap).starter)
			require.Equal(a.t, 1, a.newest().(lap).hops)
		}, lines("3 -> 2 ACK", "3 -> 4 ELECTION"), 5},
		{"unless one takes part already", 3, func(a *actor) {
			a.quiet()
			a.comes(2, lap{starter: 1, tag: 9, hops: 2})
		}, "3 -> 2 ACK", 0},
		{"its own comes back: it leads, and COORDINATOR goes round", 3, func(a *actor) {
			a.returned()
			require.False(a.t, a.runs(timerRound))
		}, lines("3 -> 2 ACK", "3 -> 4 COORDINATOR"), 3},
		{"its own from before a restart is dropped", 3, func(a *actor) {
			a.quiet()
			a.comes(2, lap{starter: 3, tag: 9, hops: 5})
		}, "3 -> 2 ACK", 0},
		{"a leader that hears another one starts an election", 3, func(a *actor) {
			a.returned()
			a.forget()
			a.hears(4, Heartbeat{4})
			a.hears(4, Heartbeat{4})
		}, "3 -> 4 ELECTION", 3},
		{"who takes part and loses its leader waits for the election under way", 3, func(a *actor) {
			resting(a)
			a.hears(2, lap{starter: 4, tag: 9, hops: 3})
			a.forget()
			a.fires(TimerSuspect)
		}, "", 0},
		{"who reaches nobody leads itself", 3, func(a *actor) {
			a.forget()
			a.alone()
		}, lines("3 -> 5 ELECTION", "3 -> 1 ELECTION", "3 -> 2 ELECTION", "3 -> 4 COORDINATOR"), 3},
	}...))
}

// A lost acknowledgement makes a second copy of a lap, and the copy skips a member. Still, only one leader is announced.
func TestRing_ALostAcknowledgementCostsNoSecondLeader(t *testing.T) {
	b := newBench(t, 5, Scaled())
	b.startAll(ringCollecting, Options{})
	b.deliverAll()
	b.requireAll(5)
	b.steps()
	b.fire(3, TimerSuspect)
	b.deliver(nil)
	b.lose(func(l letter) bool { return l.to == 3 && l.message.Kind() == "ACK" })
	b.fire(3, timerHop)
	b.deliverAll()
	assert.Equal(t, 11, b.count(), "ten hops, and one that was made twice")
	b.requireAll(5)
}
