package raft

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// reached is a member with the halves in which it votes, and the value that it has reached.
type reached struct {
	votes Halves
	value Index
}

// quorumValueOf returns the value that a quorum has reached. The leader is the first of the members. The test adds a learner
// with a higher value.
func quorumValueOf(members []reached) Index {
	l := &leader{votes: members[0].votes, peers: []progress{{match: 1 << 60}}}
	for _, m := range members[1:] {
		l.peers = append(l.peers, progress{votes: m.votes, match: m.value})
	}
	return quorumValue(l, &l.indexes, members[0].value, func(p *progress) Index { return p.match })
}

// voters returns members that vote in the incoming half only.
func voters(values []Index) []reached {
	var members []reached
	for _, v := range values {
		members = append(members, reached{IncomingHalf, v})
	}
	return members
}

// isQuorum is the definition of a quorum: in each half that has voters, more voters are in the set than not.
func isQuorum(members []reached, in func(i int) bool) bool {
	for _, half := range []Halves{IncomingHalf, OutgoingHalf} {
		lead, voters := 0, 0
		for i, m := range members {
			switch {
			case m.votes&half == 0:
				continue
			case in(i):
				lead++
			default:
				lead--
			}
			voters++
		}
		if voters > 0 && lead <= 0 {
			return false
		}
	}
	return true
}

// naiveQuorumValue is the definition: the largest value that all members of some quorum have reached.
func naiveQuorumValue(members []reached) Index {
	var best Index
	for _, m := range members {
		if m.value > best && isQuorum(members, func(i int) bool { return members[i].value >= m.value }) {
			best = m.value
		}
	}
	return best
}

func TestQuorum_ValueIsWhatMoreThanHalfReached(t *testing.T) {
	for n := 1; n < 8; n++ {
		values := make([]Index, n)
		for k := range pow(4, n) {
			for i := range values {
				values[i], k = Index(k%4), k/4
			}
			require.Equal(t, naiveQuorumValue(voters(values)), quorumValueOf(voters(values)), "%v", values)
		}
	}
}

func pow(base, n int) int {
	p := 1
	for range n {
		p *= base
	}
	return p
}

// Any two quorums share a member (§5.2), and no smaller number of members has that property.
func TestQuorum_AnyTwoMajoritiesShareAMember(t *testing.T) {
	for n := 1; n < 100; n++ {
		require.Greater(t, 2*majority(n), n)
		require.LessOrEqual(t, 2*(majority(n)-1), n)
	}
}

func TestQuorum_Halves(t *testing.T) {
	for _, row := range []struct {
		rule, config, peers string
		want                bool
	}{
		{"a majority of the voters", "a:v b:v c:v", "a b", true},
		{"half of the voters is no quorum", "a:v b:v c:v d:v", "a b", false},
		{"learners do not count", "a:v b:v c:l d:l", "a c d", false},
		{"a single voter needs no learner", "a:v b:l c:l", "a", true},
		{"another incarnation does not count", "a:v b:v c:v", "a b2", false},
		{"joint: the old half alone is no quorum", "a:o b:o c:v d:v", "a b", false},
		{"joint: the new half alone is no quorum", "a:o b:o c:v d:v", "c d", false},
		{"joint: a majority of all, but not of each", "a:o b:o c:v d:v e:v", "c d e a", false},
		{"joint: both", "a:o b:o c:v d:v e:v", "a b c d", true},
		{"joint: a voter of both halves counts in both", "a:vo b:o c:v", "a b c", true},
		{"joint: a voter that stays is not enough", "a:vo b:o c:v", "a", false},
		{"joint: a single voter of each half", "a:o b:v", "a b", true},
		{"joint: a demoted voter still counts", "a:vo b:lo c:lo", "a b", true},
		{"joint: a promoted one does not count in the old half", "a:vo b:vo c:v d:v", "a c d", false},
		{"joint: an id counts by its incarnation", "a:vo b:vo c:o c2:v", "a c", false},
		{"joint: both incarnations", "a:vo b:vo c:o c2:v", "a c c2", true},
	} {
		var peers []Peer
		for _, name := range strings.Fields(row.peers) {
			peers = append(peers, peerOf(name))
		}
		c := conf(row.config)
		require.NoError(t, c.Validate(), row.rule)
		require.Equal(t, row.want, c.hasQuorum(func(p Peer) bool { return slices.Contains(peers, p) }), row.rule)
	}
}

// A leader counts itself only in the halves in which it votes.
func TestQuorum_ALeaderCountsItselfWhereItVotes(t *testing.T) {
	const in, out, both = IncomingHalf, OutgoingHalf, IncomingHalf | OutgoingHalf
	for _, row := range []struct {
		rule    string
		members []reached // leader first
		want    Index
	}{
		{"a single voter", []reached{{in, 7}}, 7},
		{"a leader that is removed, and the members that stay", []reached{{0, 9}, {in, 4}, {in, 6}, {in, 2}}, 4},
		{"a leader that is removed, and one that stays", []reached{{0, 9}, {in, 4}}, 4},
		{"joint: the slower half decides", []reached{{both, 9}, {both, 8}, {out, 1}, {in, 2}}, 8},
		{"joint: the old half is behind", []reached{{in, 9}, {out, 3}, {out, 2}, {in, 8}}, 2},
		{"joint: the new half is behind", []reached{{out, 9}, {out, 8}, {in, 1}}, 1},
	} {
		require.Equal(t, row.want, quorumValueOf(row.members), row.rule)
		require.Equal(t, row.want, naiveQuorumValue(row.members), row.rule)
	}
}

// FuzzQuorum compares both counters with the definition, for every subset of up to seven members with any
// votes. Each member takes two bytes; the first member is the leader.
func FuzzQuorum(f *testing.F) {
	f.Add([]byte{1, 1})
	f.Add([]byte{1, 3, 1, 1, 1, 2, 1, 2})
	f.Add([]byte{3, 9, 2, 4, 1, 7, 2, 4, 3, 1})
	f.Add([]byte{0, 255, 1, 0, 3, 255, 0, 0, 2, 7})
	f.Fuzz(func(t *testing.T, data []byte) {
		const most = 7
		var members []reached
		config := Configuration{}
		for i := 0; i+1 < len(data) && i < 2*most; i += 2 {
			m := reached{Halves(data[i] % 4), Index(data[i+1])}
			p := Peer{ID: NodeID(rune('a' + i/2)), Incarnation: 1}
			kind := Learner
			switch m.votes {
			case IncomingHalf, IncomingHalf | OutgoingHalf:
				kind = Voter
			case OutgoingHalf:
				kind = Leaving
			}
			members = append(members, m)
			config.Members = append(config.Members, Member{ID: p.ID, Incarnation: p.Incarnation, Kind: kind})
			if m.votes&OutgoingHalf != 0 {
				config.Outgoing = append(config.Outgoing, p)
			}
		}
		if !slices.ContainsFunc(members, func(m reached) bool { return m.votes&IncomingHalf != 0 }) {
			return // no valid configuration
		}
		require.Equal(t, naiveQuorumValue(members), quorumValueOf(members), "%v", members)
		all := 1<<len(members) - 1
		for set := range all + 1 {
			want := isQuorum(members, func(i int) bool { return set>>i&1 == 1 })
			require.Equal(t, want, quorumOf(config, set), "%v, set %b", members, set)
			require.False(t, want && quorumOf(config, all&^set), "%v: two quorums share no member, set %b", members, set)
		}
	})
}

// quorumOf reports whether the members whose bits are set are a quorum.
func quorumOf(c Configuration, set int) bool {
	return c.hasQuorum(func(p Peer) bool {
		i, ok := c.position(p)
		return ok && set>>i&1 == 1
	})
}

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
		require.Equal(t, before, textOf(from), "configurations are shared, and must not change")
	}
}

func TestLeave(t *testing.T) {
	for _, row := range []struct{ rule, from, want string }{
		{"a promoted member is a voter", "a:vo b:v", "a:v b:v"},
		{"a demoted one is a learner", "a:vo b:lo", "a:v b:l"},
		{"a leaving one is removed by this entry", "a:vo b:o", "a:v -b@9"},
		{"its incarnation alone", "a:vo b:o b2:v", "a:v b2:v -b@9"},
		{"all at once, after earlier removals", "a:vo b:lo c:o d:v e:l f:o -x@3", "a:v b:l d:v e:l -x@3 -c@9 -f@9"},
	} {
		from := conf(row.from)
		got := from.leave(9)
		require.Equal(t, row.want, textOf(got), row.rule)
		require.NoError(t, got.Validate(), row.rule)
		require.Equal(t, row.from, textOf(from), "configurations are shared, and must not change")
	}
}

func TestGiveUp(t *testing.T) {
	for _, row := range []struct{ rule, from, want string }{
		{"a new member stays a learner", "a:v b:l>v", "a:v b:l"},
		{"nobody is demoted or removed", "a:v b:v>l c:v>- d:l>v e:l>-", "a:v b:v c:v d:l e:l"},
		{"both incarnations stay", "a:v c:v>- c2:l>v", "a:v c:v c2:l"},
		{"removals stay", "a:v b:l>v -x@3", "a:v b:l -x@3"},
	} {
		from := conf(row.from)
		got := from.giveUp()
		require.Equal(t, row.want, textOf(got), row.rule)
		require.NoError(t, got.Validate(), row.rule)
		require.Equal(t, row.from, textOf(from), "configurations are shared, and must not change")
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
	require.Equal(t, peerOf("x"), c.Removed[0].Peer, "configurations are shared, and must not change")
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
		{"a removal is not recorded", "a:v b:l", "a:v", false},
		{"a removal is recorded with another index", "a:v b:l", "a:v -b@8", false},
		{"a removal is recorded of a member that did not exist", "a:v", "a:v -b@9", false},
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
	require.NoError(t, moved.follows(before, 9), "Raft has no rule about addresses")
	waiting := conf("a:v b:l>v")
	moved = waiting.enter(9)
	moved.Members = slices.Clone(moved.Members)
	moved.Members[0].Address = "x:1"
	require.Error(t, moved.follows(waiting, 9), "a step of a running change changes nothing else")
}

// These are the roles that a member may have in joint configurations, and in all others. "" means that it is no member.
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
// This covers all configurations of a few members, one of which may have two incarnations. Suppose that one configuration may
// follow another. Then each quorum of the first shares a member with each quorum of the second. It also shares a member with
// each quorum of every other configuration that may follow.
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
			switch { // follows compares with these, so it refuses all others
			case before.Joint():
				candidates = []Configuration{before.leave(at)}
			case before.Changing():
				candidates = []Configuration{before.enter(at), before.giveUp()}
			case len(names) > 4 && !ordered(before):
				continue // it differs only in names
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

// ordered reports whether the list has the voters first, then the learners, and then the names that are no members.
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

// requireMeeting checks all subsets of the peers. If before is not joint, each quorum of after must contain a quorum of
// before. So the quorums of any two configurations that may follow before share a member, too.
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

// Whatever change is requested, each configuration on the way is valid and may follow the previous one. The last
// configuration is the requested one.
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
