package fuzzy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
)

// Some runs have founders that look for their cluster. They hear of clusters, and begin some.
func TestSeekers_SomeRunsHaveThem(t *testing.T) {
	runs, told, given := 0, 0, 0
	for number := range uint64(24) {
		r, err := Run(Seed{"bootstrap", number}, nil)
		require.NoError(t, err)
		require.Nil(t, r.Failure, number)
		if p := r.Profile.Node; p.Seekers > 0 && p.Told == 0 && p.LateLists == 0 {
			runs, told, given = runs+1, told+r.Told, given+r.Given
		}
	}
	assert.Positive(t, runs)
	assert.Greater(t, given, runs)
	assert.Greater(t, told, runs)
}

func TestSeekers_EachBreachIsNoticed(t *testing.T) {
	for rule, edit := range map[string]func(s *seeking){
		"a seed is silent": func(s *seeking) { s.silent = []string{"b:1"} },
		"a cluster was shown": func(s *seeking) {
			s.note(&inquiry{of: &node{}, reply: raft.WhoReply{From: raft.Peer{ID: "b"}, Term: 1}})
		},
		"a founder has not answered":    func(s *seeking) { s.answered = s.answered[1:] },
		"nothing is wrong with the one": nil,
	} {
		c, _, _ := running(t)
		n := c.nodes[0]
		n.seeking = seeking{rules: joining.NewSeeker(joining.Config{}), founders: c.initial, answered: foundersOf(c.initial)[1:]}
		if edit != nil {
			edit(&n.seeking)
		}
		if n.checkList(); edit == nil {
			assert.Nil(t, c.failure)
			continue
		}
		require.NotNil(t, c.failure, rule)
		expectBreach(t, c, "N103")
	}
}
