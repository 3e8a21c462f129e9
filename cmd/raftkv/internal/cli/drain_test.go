package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// leading returns the status of a leader that has committed up to entry 9. A member is written as "n2 9", with the last entry
// that it holds, or as "n2 9 verdict".
func leading(id string, members ...string) api.Status {
	s := api.Status{Status: admin.Status{ID: id, Role: "leader", Commit: 9}}
	for _, text := range members {
		fields := strings.SplitN(text, " ", 3)
		m := admin.MemberStatus{ID: fields[0], Kind: admin.StandingVoter}
		_, _ = fmt.Sscan(fields[1], &m.Match)
		if len(fields) == 3 {
			m.Verdict, m.Problem = fields[2], "it is in trouble"
		}
		s.Members = append(s.Members, m)
	}
	return s
}

// drained returns a server of n1, n2 and n3, at which n3 gets priority 0. It shows these statuses afterwards.
func drained(t *testing.T, was int, statuses ...api.Status) *steward {
	before, after := at(7, "n1 voter", "n2 voter", "n3 voter"), at(8, "n1 voter", "n2 voter", "n3 voter")
	s := newSteward(t, withPriority(before, "n3", was), reply{status: 200, views: []admin.Members{withPriority(after, "n3", 0)}})
	s.statuses = statuses
	return s
}

func TestDrain_WaitsUntilTheVoterCanBeStopped(t *testing.T) {
	follower := api.Status{Status: admin.Status{ID: "n1", Role: "follower"}}
	joint := leading("n1", "n1 9", "n2 9", "n3 9")
	joint.Phase = "joint: n1 n2 n3 → n1 n2 n4"
	s := drained(t, 5, follower, leading("n3", "n1 9", "n2 9", "n3 9"), joint, leading("n1", "n1 9", "n2 8", "n3 9"),
		leading("n1", "n1 9", "n2 9 behind", "n3 9"), leading("n1", "n1 10", "n2 9 applies late", "n3 10"))
	code, out, errs := s.run(t, "members drain n3")
	assert.Zero(t, code, errs)
	require.Len(t, s.asked, 1)
	assert.Equal(t, []admin.Update{{Peer: admin.Peer{ID: "n3"}, Priority: new(int)}}, s.asked[0].Update)
	assert.Equal(t, "done: configuration 8, voters n1 n2 n3\n"+
		"n3 can be stopped: n1 leads, and a majority of the voters without n3 holds what is acknowledged; it had priority 5; "+
		"once it is back: raftkv members drain n3 --undo --priority 5\n", out)
	assert.Equal(t, "not yet: no leader answers\nnot yet: n3 still leads\nnot yet: the voters change, joint: n1 n2 n3 → n1 n2 n4\n"+
		"not yet: without n3, 1 of 3 voters hold what is acknowledged, and 2 are needed; n2 holds the log up to entry 8 of 9\n"+
		"not yet: without n3, 1 of 3 voters hold what is acknowledged, and 2 are needed; n2: it is in trouble\n", errs)
	assert.Zero(t, s.transfers, "it transfers by itself")
}

func TestDrain_SaysHowToUndoIt(t *testing.T) {
	ready := leading("n1", "n1 9", "n2 9", "n3 3")
	for was, want := range map[int]string{0: "it had priority 0; once it is back: it stays a standby\n", 1: "it had priority 1; once it is back: raftkv members drain n3 --undo\n"} {
		_, out, _ := drained(t, was, ready).run(t, "members drain n3")
		assert.Contains(t, out, want)
	}
	for args, want := range map[string]int{"--undo": 1, "--undo --priority 5": 5} {
		s := drained(t, 0)
		s.answers[0].views = []admin.Members{withPriority(at(8, "n1 voter", "n2 voter", "n3 voter"), "n3", want)}
		code, out, errs := s.run(t, "members drain n3 "+args)
		assert.Zero(t, code, errs)
		assert.Equal(t, "done: configuration 8, voters n1 n2 n3\n", out)
		assert.Equal(t, []admin.Update{{Peer: admin.Peer{ID: "n3"}, Priority: &want}}, s.asked[0].Update)
	}
}

// A leader that ignores priorities does not transfer its leadership by itself.
func TestDrain_AsksALeaderThatStaysToTransfer(t *testing.T) {
	s := drained(t, 1, leading("n3", "n1 9", "n2 9", "n3 9"))
	code, _, errs := s.run(t, "members drain n3 --timeout 4s")
	assert.Equal(t, 5, code)
	assert.Contains(t, errs, "n3 has priority 0, but do not stop it yet: n3 still leads; run the same command to wait for it again")
	assert.Positive(t, s.transfers)
}

func TestDrain_WhatItRefuses(t *testing.T) {
	two := newSteward(t, at(7, "n1 voter", "n2 voter", "n3 learner"))
	code, _, errs := two.run(t, "members drain n2")
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "quorum_loss: n2 cannot be stopped: 2 of the voters n1 n2 are needed (add another voter first; raftkv members priority n2 0 only moves")
	code, out, _ := two.run(t, "members drain n3")
	assert.Zero(t, code)
	assert.Equal(t, "n3 has no vote, so it can be stopped at any time\n", out)
	assert.Empty(t, two.asked)

	for _, code := range []admin.Code{admin.UnknownMember, admin.NotElectable, admin.EarlierRelease} {
		s := newSteward(t, at(7, "n1 voter", "n2 voter", "n3 voter"), refuses(code))
		got, out, errs := s.run(t, "members drain n4")
		assert.Equal(t, 1, got, code)
		assert.Empty(t, out)
		assert.Contains(t, errs, string(code)+": because (a remedy)")
	}

	s := drained(t, 1)
	code, out, _ = s.run(t, "members drain n3 --no-wait")
	assert.Zero(t, code)
	assert.Equal(t, "done: configuration 8, voters n1 n2 n3\n", out, "no status was asked for")
}
