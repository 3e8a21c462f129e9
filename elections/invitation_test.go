package elections

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInvitation_Rules(t *testing.T) {
	checkRules(t, invitationAlgorithm, Options{}, invitationRules)
}

// groupOf3 is the group of member 3 after its start.
var groupOf3 = group{3, 1}

// later advances the clock until the invitations of the start are no longer in flight, and forgets the messages.
func later(a *actor) { a.clock += a.times.Answer; a.forget() }

// joined: 3 has joined 1.
func joined(a *actor) {
	later(a)
	a.hears(1, invite{group{1, 1}, 1})
	a.forget()
}

// grown: 3 leads {3, 4}.
func grown(a *actor) {
	later(a)
	a.hears(4, acceptance{groupOf3, []Rank{4}})
}

// inviteAll is what member 3 sends as a group of one.
var inviteAll = lines("3 -> 1 INVITE", "3 -> 2 INVITE", "3 -> 4 INVITE", "3 -> 5 INVITE")

var invitationRules = []ruleRow{
	{"every member starts as leader of its own group, and invites the others", 3, started, inviteAll, 3},
	{"at every interval, members are told and others invited", 3, func(a *actor) {
		grown(a)
		a.fires(TimerHeartbeat)
	}, lines("3 -> 1 INVITE", "3 -> 2 INVITE", "3 -> 4 HEARTBEAT", "3 -> 5 INVITE"), 3},
	{"a tie goes to the inviter, whatever its number", 3, func(a *actor) {
		later(a)
		a.hears(5, invite{group{5, 1}, 1})
	}, "3 -> 5 ACCEPT", 5},
	{"of crossed invitations the lower number wins", 3, func(a *actor) {
		a.forget()
		a.hears(5, invite{group{5, 1}, 1})
	}, "", 3},
	{"of crossed invitations the lower number wins, and the higher one joins", 3, func(a *actor) {
		a.forget()
		a.hears(1, invite{group{1, 1}, 1})
	}, "3 -> 1 ACCEPT", 1},
	{"the larger group leads, and only the smaller one is told", 3, func(a *actor) {
		grown(a)
		a.hears(5, invite{group{5, 1}, 3})
		require.Equal(a.t, merger{old: groupOf3, into: group{5, 1}}, a.waiting[len(a.waiting)-1].message)
	}, lines("3 -> 5 ACCEPT", "3 -> 4 JOIN"), 5},
	{"the leader of the larger group invites a smaller one into it", 3, func(a *actor) {
		grown(a)
		a.hears(1, invite{group{1, 1}, 1})
		require.Equal(a.t, invite{groupOf3, 2}, a.waiting[len(a.waiting)-1].message)
	}, "3 -> 1 INVITE", 3},
	{"but not if it was invited just now", 3, func(a *actor) {
		grown(a)
		a.fires(TimerHeartbeat)
		a.forget()
		a.hears(1, invite{group{1, 1}, 1})
	}, "", 3},
	{"a member that leads a group of its own is not counted in", 3, func(a *actor) {
		grown(a)
		a.hears(4, invite{group{4, 2}, 1})
	}, "3 -> 4 ACCEPT", 4},
	{"an invited follower answers with its leader's id", 3, func(a *actor) {
		joined(a)
		a.hears(5, invite{group{5, 1}, 4})
		require.Equal(a.t, referral{group{1, 1}}, a.waiting[len(a.waiting)-1].message)
	}, "3 -> 5 REFER", 1},
	{"a leader that is referred to another one invites it", 3, func(a *actor) {
		later(a)
		a.hears(5, referral{group{4, 1}})
	}, "3 -> 4 INVITE", 3},
	{"but not if that one was invited just now", 3, func(a *actor) {
		a.forget()
		a.hears(5, referral{group{4, 1}})
	}, "", 3},
	{"nor if it has joined meanwhile", 3, func(a *actor) {
		grown(a)
		a.hears(5, referral{group{4, 1}})
	}, "", 3},
	{"nor if an older group of its own is named", 3, func(a *actor) {
		later(a)
		a.hears(5, referral{group{3, 0}})
	}, "", 3},
	{"a follower that is referred to a leader leaves that to its own", 3, func(a *actor) {
		joined(a)
		a.hears(5, referral{group{4, 1}})
	}, "", 1},
	{"an invited member of the own group is counted in: its ACCEPT was lost", 3, func(a *actor) {
		later(a)
		a.hears(4, referral{groupOf3})
		a.fires(TimerHeartbeat)
	}, lines("3 -> 1 INVITE", "3 -> 2 INVITE", "3 -> 4 HEARTBEAT", "3 -> 5 INVITE"), 3},
	{"a member counts once, though it be named twice", 3, func(a *actor) {
		grown(a)
		a.hears(4, acceptance{groupOf3, []Rank{4}})
		a.hears(4, referral{groupOf3})
		a.hears(1, invite{group{1, 1}, 1})
		require.Equal(a.t, invite{groupOf3, 2}, a.waiting[len(a.waiting)-1].message)
	}, "3 -> 1 INVITE", 3},
	{"a follower goes where its leader goes", 3, func(a *actor) {
		joined(a)
		a.clock += a.times.TimeoutMax
		a.hears(1, merger{old: group{1, 1}, into: group{2, 1}})
		require.Greater(a.t, a.timers[3][TimerSuspect], a.clock, "the new leader is waited for anew")
	}, "", 2},
	{"who joins is no leader any more, and waits for its new one", 3, func(a *actor) {
		joined(a)
		require.False(a.t, a.runs(TimerHeartbeat))
		require.True(a.t, a.runs(TimerSuspect))
	}, "", 1},
	{"a JOIN of an older group is dropped", 3, func(a *actor) {
		joined(a)
		a.hears(4, merger{old: group{4, 1}, into: group{2, 1}})
	}, "", 1},
	{"an ACCEPT of an older group is dropped", 3, func(a *actor) {
		later(a)
		a.hears(4, acceptance{group{3, 0}, []Rank{4}})
		a.fires(TimerHeartbeat)
	}, inviteAll, 3},
	{"a heartbeat of an older group is dropped", 3, func(a *actor) {
		joined(a)
		due := a.timers[3][TimerSuspect]
		a.clock++
		a.hears(1, groupHeartbeat{group{1, 0}})
		require.Equal(a.t, due, a.timers[3][TimerSuspect])
	}, "", 1},
	{"without its leader for a timeout it is a group of one again, of a new name", 3, func(a *actor) {
		joined(a)
		a.fires(TimerSuspect)
		require.Equal(a.t, group{3, 2}, a.machines[3].(*invitation).group)
	}, inviteAll, 3},
}

func TestInvitation_NoGroupHasTheNameOfAnotherAfterARestart(t *testing.T) {
	s := newStage(t, invitationAlgorithm, 3)
	_, before := s.machines[1].Leader()
	s.crash(1)
	s.restart(1)
	_, after := s.machines[1].Leader()
	assert.Greater(t, after, before)
}

// The group count over time: as many as members, then one in each part, then one.
func TestInvitation_GroupsMergeUntilOneIsLeft(t *testing.T) {
	s := newStage(t, invitationAlgorithm, 9)
	s.split(1, 2, 3, 4, 5, 6, 7, 8, 9)
	var groups []int
	count := func() {
		s.pass(100 * time.Millisecond)
		groups = append(groups, len(s.inOffice()))
	}
	s.pass(time.Second)
	count()
	s.split(4, 7)
	count()
	s.split(4)
	count()
	s.heal()
	count()
	assert.Equal(t, []int{9, 3, 2, 1}, groups)
	s.requireAll(s.inOffice()[0])
}

func TestInvitation_TheGroupOfADeadLeaderFallsApartAndMergesAnew(t *testing.T) {
	s := elected(t, invitationAlgorithm, 5)
	old := s.inOffice()[0]
	s.crash(old)
	s.pass(time.Second)
	require.Len(t, s.inOffice(), 1)
	s.requireAll(s.inOffice()[0])
	s.restart(old)
	s.pass(time.Second)
	require.Len(t, s.inOffice(), 1)
	s.requireAll(s.inOffice()[0])
	assert.NotEqual(t, old, s.inOffice()[0], "the one that comes back joins the larger group")
}

// If a leader comes and goes, it leaves groups that merge in a new order each time. The highest rank rarely leads here.
func TestInvitation_AFlappingLeaderCostsMostChanges(t *testing.T) {
	for seed := uint64(1); seed <= 5; seed++ {
		assert.Greater(t, runOne(t, invitationAlgorithm, "flapping-leader", 5, seed)[Changes], int64(3*flaps), "seed %d", seed)
		assert.LessOrEqual(t, runOne(t, invitationAlgorithm, "flapping", 5, seed)[Changes], int64(2*flaps), "seed %d", seed)
		assert.Zero(t, runOne(t, raftCore, "flapping-leader", 5, seed)[Changes], "seed %d", seed)
	}
}
