package raft

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnter(t *testing.T) {
	for _, row := range []struct{ rule, from, want string }{
		{"a learner is promoted", "a:v b:l>v", "a:vo b:v"},
		{"a voter is demoted", "a:v b:v>l", "a:vo b:lo"},
		{"a voter that is removed keeps its vote in the outgoing half", "a:v b:v>-", "a:vo b:o"},
		{"a learner that is removed is gone at once", "a:v b:l>- c:l>v", "a:vo c:v -b@9"},
		{"if the voters stay, it is not joint", "a:v b:l>-", "a:v -b@9"},
		{"a voter is replaced", "a:v b:v c:v>- c2:l>v", "a:vo b:vo c:o c2:v"},
		{"the only voter is replaced", "a:v>- b:l>v", "a:o b:v"},
		{"all at once", "a:v b:v>l c:v>- d:l>v e:l>- f:l", "a:vo b:lo c:o d:v f:l -e@9"},
		{"earlier removals stay", "a:v b:l>v -x@3", "a:vo b:v -x@3"},
	} {
		from := conf(row.from)
		before := textOf(from)
		got := from.enter(9)
		require.Equal(t, row.want, textOf(got), row.rule)
		require.NoError(t, got.Validate(), row.rule)
		require.Zero(t, got.Patience, row.rule)
		require.Equal(t, before, textOf(from), "configurations are shared, and never changed")
	}
}

func TestLeave(t *testing.T) {
	for _, row := range []struct{ rule, from, want string }{
		{"a promoted member is a voter", "a:vo b:v", "a:v b:v"},
		{"a demoted one is a learner", "a:vo b:lo", "a:v b:l"},
		{"a leaving one is removed by this entry", "a:vo b:o", "a:v -b@9"},
		{"its incarnation alone", "a:vo b:o b2:v", "a:v b2:v -b@9"},
		{"all at once, behind earlier removals", "a:vo b:lo c:o d:v e:l f:o -x@3", "a:v b:l d:v e:l -x@3 -c@9 -f@9"},
	} {
		from := conf(row.from)
		got := from.leave(9)
		require.Equal(t, row.want, textOf(got), row.rule)
		require.NoError(t, got.Validate(), row.rule)
		require.Equal(t, row.from, textOf(from), "configurations are shared, and never changed")
	}
}

func TestGiveUp(t *testing.T) {
	for _, row := range []struct{ rule, from, want string }{
		{"who has joined stays a learner", "a:v b:l>v", "a:v b:l"},
		{"nobody is demoted or removed", "a:v b:v>l c:v>- d:l>v e:l>-", "a:v b:v c:v d:l e:l"},
		{"both incarnations stay", "a:v c:v>- c2:l>v", "a:v c:v c2:l"},
		{"removals stay", "a:v b:l>v -x@3", "a:v b:l -x@3"},
	} {
		from := conf(row.from)
		got := from.giveUp()
		require.Equal(t, row.want, textOf(got), row.rule)
		require.NoError(t, got.Validate(), row.rule)
		require.Equal(t, row.from, textOf(from), "configurations are shared, and never changed")
	}
}

// The oldest removals are forgotten.
func TestRemoved_OnlyTheLatestAreRemembered(t *testing.T) {
	c := conf("a:vo b:o -x@3 -y@3")
	for i := range RemovedMax - 2 {
		c.Removed = append(c.Removed, Removal{peerOf("z"), Index(i + 4)})
		c.Removed[i+2].Peer.Incarnation = Incarnation(i + 1)
	}
	require.NoError(t, c.Validate())
	left := c.leave(1000)
	require.NoError(t, left.Validate())
	require.Len(t, left.Removed, RemovedMax)
	require.Equal(t, peerOf("y"), left.Removed[0].Peer)
	require.Equal(t, Removal{peerOf("b"), 1000}, left.Removed[RemovedMax-1])
	require.Equal(t, peerOf("x"), c.Removed[0].Peer, "configurations are shared, and never changed")
}

func TestFollows(t *testing.T) {
	for _, row := range []struct {
		rule, before, after string
		legal               bool
	}{
		{"a learner joins", "a:v", "a:v b:l", true},
		{"a learner leaves", "a:v b:l", "a:v -b@9", true},
		{"a learner is replaced", "a:v b:l", "a:v b2:l -b@9", true},
		{"nothing changes", "a:v b:l", "a:v b:l", true},
		{"a change begins to wait", "a:v b:v", "a:v b:v>- c:l>v", true},
		{"a voter is removed through a joint one", "a:v b:v", "a:vo b:o", true},
		{"a voter is demoted through a joint one", "a:v b:v", "a:vo b:lo", true},
		{"and a learner joins, another leaves", "a:v b:v c:l", "a:vo b:lo d:l -c@9", true},
		{"a waiting change takes effect", "a:v b:v>- c:l>v", "a:vo b:o c:v", true},
		{"a waiting change is given up", "a:v b:v>- c:l>v", "a:v b:v c:l", true},
		{"a joint one is left", "a:vo b:o c:v", "a:v c:v -b@9", true},

		{"a voter joins at once", "a:v", "a:v b:v", false},
		{"a voter joins at once in a joint one", "a:v", "a:vo b:v", false},
		{"a learner votes at once", "a:v b:l", "a:v b:v", false},
		{"a learner votes at once in a joint one", "a:v b:l", "a:vo b:v", false},
		{"a voter is demoted at once", "a:v b:v", "a:v b:l", false},
		{"a voter is removed at once", "a:v b:v", "a:v -b@9", false},
		{"another incarnation votes", "a:v b:v", "a:v b2:v", false},
		{"the outgoing half lacks a voter", "a:v b:v c:v", "a:vo b:vo c:l", false},
		{"the outgoing half has one more", "a:v b:v c:l", "a:vo b:o c:lo", false},
		{"a removal is not told", "a:v b:l", "a:v", false},
		{"a removal is told with another index", "a:v b:l", "a:v -b@8", false},
		{"a removal is made up", "a:v", "a:v -b@9", false},
		{"a removal is forgotten", "a:v -b@3", "a:v", false},
		{"a removed incarnation returns", "a:v -b@3", "a:v b:l", false},
		{"a removed incarnation returns, and is forgotten", "a:v -b@3", "a:v b:l -c@9", false},
		{"a joint one is not left", "a:vo b:o", "a:vo b:o", false},
		{"a joint one goes back", "a:vo b:o", "a:v b:v", false},
		{"a joint one is left for something else", "a:vo b:o c:v", "a:v c:l -b@9", false},
		{"a joint one is left, and a learner joins", "a:vo b:o", "a:v c:l -b@9", false},
		{"a waiting change takes effect in part", "a:v b:v>- c:l>v", "a:vo b:vo c:v", false},
		{"a waiting change takes effect at once", "a:v b:v>- c:l>v", "a:v c:v -b@9", false},
		{"a waiting change grows", "a:v b:l>v", "a:v b:l>v c:l", false},
		{"a waiting change is given up in part", "a:v b:v>- c:l>v", "a:v b:v", false},
	} {
		before, after := conf(row.before), conf(row.after)
		require.NoError(t, before.Validate(), row.rule)
		require.NoError(t, after.Validate(), row.rule)
		err := after.follows(before, 9)
		require.Equal(t, row.legal, err == nil, "%s: %v", row.rule, err)
	}
}

func TestFollows_FeatureLevelAndText(t *testing.T) {
	before := plain("a:v b:l")
	require.NoError(t, conf("a:v b:l c:l").follows(before, 9), "the first change raises the level")
	require.ErrorContains(t, plain("a:v b:l c:l").follows(before, 9), "feature level")
	require.ErrorContains(t, plain("a:v b:l c:l").follows(conf("a:v b:l"), 9), "feature level")

	moved := conf("a:v b:l")
	moved.Members[0].Address, moved.Members[1].Meta = "x:1", "x"
	require.NoError(t, moved.follows(before, 9), "an address is no rule of Raft")
	waiting := conf("a:v b:l>v")
	moved = waiting.enter(9)
	moved.Members = slices.Clone(moved.Members)
	moved.Members[0].Address = "x:1"
	require.Error(t, moved.follows(waiting, 9), "nothing else changes in the step of a running change")
}

// The roles that one of a few members may have, in configurations that are joint, and in all others. "" means that it
// is no member.
var (
	singleRoles = []string{"", "v", "l", "v>l", "v>-", "l>v", "l>-"}
	jointRoles  = []string{"", "vo", "v", "lo", "l", "o"}
)

// configurationsOf returns every valid configuration of some of the members.
func configurationsOf(names []string, roles []string) []Configuration {
	var all []Configuration
	for k := range pow(len(roles), len(names)) {
		text := ""
		for _, name := range names {
			if role := roles[k%len(roles)]; role != "" {
				text += name + ":" + role + " "
			}
			k /= len(roles)
		}
		if c := conf(text); c.Validate() == nil {
			all = append(all, c)
		}
	}
	return all
}

// "There is no point in time in which C_old and C_new can both make decisions independently." (Figure 11)
//
// Of all configurations of a few members, one of which may have two incarnations: whenever one may follow another, each
// quorum of the one shares a member with each quorum of the other, and with each quorum of all others that may follow.
func TestQuorum_NeighboursMeet(t *testing.T) {
	const at = 9
	for _, names := range [][]string{{"a", "b", "c", "c2"}, {"a", "b", "c", "d"}, {"a", "b", "c", "d", "e"}} {
		all := append(configurationsOf(names, singleRoles), configurationsOf(names, jointRoles)...)
		var peers []Peer
		for _, name := range names {
			peers = append(peers, peerOf(name))
		}
		pairs := 0
		for _, before := range all {
			candidates := all
			switch { // all others are refused, because follows compares with these
			case before.Joint():
				candidates = []Configuration{before.leave(at)}
			case before.Changing():
				candidates = []Configuration{before.enter(at), before.giveUp()}
			case len(names) > 4 && !ordered(before):
				continue // it only has other names
			}
			for _, after := range candidates {
				if !before.Joint() && !before.Changing() {
					after.Removed = before.withRemoved(absent(before, after), at)
				}
				if after.follows(before, at) == nil {
					pairs++
					requireMeeting(t, peers, before, after)
				}
			}
		}
		require.Greater(t, pairs, 1000)
	}
}

// ordered reports whether the voters come first, then the learners, and then those that are no members.
func ordered(c Configuration) bool {
	for i, m := range c.Members {
		if m.ID != NodeID(rune('a'+i)) || i > 0 && m.Kind < c.Members[i-1].Kind {
			return false
		}
	}
	return true
}

// absent returns the members of before that are not in after.
func absent(before, after Configuration) []Peer {
	var gone []Peer
	for _, m := range before.Members {
		if _, ok := after.Peer(m.Peer()); !ok {
			gone = append(gone, m.Peer())
		}
	}
	return gone
}

// requireMeeting checks all subsets of the peers. If before is not joint, each quorum of after has a quorum of before in
// it, so that those of two configurations that may both follow it meet as well.
func requireMeeting(t *testing.T, peers []Peer, before, after Configuration) {
	t.Helper()
	all := 1<<len(peers) - 1
	for set := range all + 1 {
		in := func(p Peer) bool { return set>>slices.Index(peers, p)&1 == 1 }
		out := func(p Peer) bool { return !in(p) }
		if after.hasQuorum(in) && (before.hasQuorum(out) || !before.Joint() && !before.hasQuorum(in)) {
			t.Fatalf("%q then %q: the quorum %b", textOf(before), textOf(after), set)
		}
	}
}

// Whatever is asked for, each configuration on the way is valid and may follow the one before it, and the one at the end
// is what was asked for.
func TestPlan_RandomWalk(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c, at := plain("a:v b:v c:v"), Index(1)
		steps := 0
		for range 400 {
			at += 1 + Index(rng.IntN(3))
			next := randomStep(rng, c, at)
			if next.Equal(c) {
				continue
			}
			steps++
			require.NoError(t, next.Validate(), "seed %d: %q then %q", seed, textOf(c), textOf(next))
			require.NoError(t, next.follows(c, at), "seed %d: %q then %q", seed, textOf(c), textOf(next))
			decoded, err := DecodeConfiguration(next.Encode())
			require.NoError(t, err)
			require.True(t, decoded.Equal(next))
			c = next
		}
		require.Greater(t, steps, 50, "seed %d", seed)
	}
}

// randomStep takes the next step of a running change, or begins one.
func randomStep(rng *rand.Rand, c Configuration, at Index) Configuration {
	switch {
	case c.Joint():
		return c.leave(at)
	case c.Changing() && rng.IntN(4) == 0:
		return c.giveUp()
	case c.Changing():
		return c.enter(at)
	}
	var ch Change
	present := func() Peer { return c.Members[rng.IntN(len(c.Members))].Peer() }
	fresh := func() Member {
		m := memberOf(fmt.Sprintf("%c%d", 'a'+rune(rng.IntN(7)), 2+rng.IntN(1000)))
		m.Kind = MemberKind(rng.IntN(2))
		return m
	}
	for range 1 + rng.IntN(3) {
		switch rng.IntN(6) {
		case 0:
			ch.Add = append(ch.Add, fresh())
		case 1:
			ch.Promote = append(ch.Promote, present())
		case 2:
			ch.Demote = append(ch.Demote, present())
		case 3:
			ch.Remove = append(ch.Remove, present())
		case 4:
			old := present()
			m := fresh()
			if rng.IntN(2) == 0 {
				m.ID = old.ID
			}
			ch.Replace = append(ch.Replace, Replacement{old, m})
		case 5:
			address := fmt.Sprintf("%d:1", rng.IntN(100))
			ch.Update = append(ch.Update, Update{Peer: present(), Address: &address})
		}
	}
	next, _ := c.plan(ch, at, func(Peer) bool { return true })
	return next
}
