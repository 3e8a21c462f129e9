package raft

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// reached is a member with the halves in which it votes, and a value that it has reached.
type reached struct {
	votes Halves
	value Index
}

// quorumValueOf asks a leader, which is the first of the members. A learner is ahead of all.
func quorumValueOf(members []reached) Index {
	l := &leader{votes: members[0].votes, peers: []progress{{match: 1 << 60}}}
	for _, m := range members[1:] {
		l.peers = append(l.peers, progress{votes: m.votes, match: m.value})
	}
	return quorumValue(l, &l.indexes, members[0].value, func(p *progress) Index { return p.match })
}

// voters returns members that vote in the incoming half alone.
func voters(values []Index) []reached {
	var members []reached
	for _, v := range values {
		members = append(members, reached{IncomingHalf, v})
	}
	return members
}

// isQuorum is the definition: in each half that has voters, more of them belong to the set than do not.
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

// Any two quorums share a member (§5.2), and no smaller number has that property.
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
		{"half of them is none", "a:v b:v c:v d:v", "a b", false},
		{"learners do not count", "a:v b:v c:l d:l", "a c d", false},
		{"nobody is asked for a learner", "a:v b:l c:l", "a", true},
		{"another incarnation does not count", "a:v b:v c:v", "a b2", false},
		{"joint: the old half alone is none", "a:o b:o c:v d:v", "a b", false},
		{"joint: the new half alone is none", "a:o b:o c:v d:v", "c d", false},
		{"joint: a majority of all, but not of each", "a:o b:o c:v d:v e:v", "c d e a", false},
		{"joint: both", "a:o b:o c:v d:v e:v", "a b c d", true},
		{"joint: a voter of both halves counts in both", "a:vo b:o c:v", "a b c", true},
		{"joint: one that stays is not enough", "a:vo b:o c:v", "a", false},
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
		members []reached // the leader first
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

// FuzzQuorum compares both counters with the definition, for every subset of up to seven members with any votes. Each
// takes two bytes; the first is the leader.
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

// quorumOf asks whether the members whose bits are set are a quorum.
func quorumOf(c Configuration, set int) bool {
	return c.hasQuorum(func(p Peer) bool {
		i, ok := c.position(p)
		return ok && set>>i&1 == 1
	})
}
