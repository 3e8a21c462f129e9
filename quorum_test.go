package raft

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// quorumValueOf asks a leader with these values, the first of which is its own. Its learner is ahead of all.
func quorumValueOf(values []Index) Index {
	l := &leader{peers: []progress{{match: 1 << 60}}}
	for _, v := range values[1:] {
		l.peers = append(l.peers, progress{voter: true, match: v})
	}
	return quorumValue(l, &l.indexes, values[0], func(p *progress) Index { return p.match })
}

// naiveQuorumValue is the definition: the largest value that more than half of the voters reached.
func naiveQuorumValue(values []Index) Index {
	var best Index
	for _, v := range values {
		reached := 0
		for _, w := range values {
			if w >= v {
				reached++
			}
		}
		if 2*reached > len(values) {
			best = max(best, v)
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
			require.Equal(t, naiveQuorumValue(values), quorumValueOf(values), "%v", values)
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

// FuzzQuorum compares the quorum's value with its definition, for any values of up to 64 voters.
func FuzzQuorum(f *testing.F) {
	f.Add([]byte{1})
	f.Add([]byte{3, 1, 2, 2})
	f.Add([]byte{0, 255, 0, 255, 7})
	f.Fuzz(func(t *testing.T, reached []byte) {
		values := []Index{Index(len(reached))}
		for _, b := range reached[:min(len(reached), 63)] {
			values = append(values, Index(b))
		}
		require.Equal(t, naiveQuorumValue(values), quorumValueOf(values), "%v", values)
	})
}
