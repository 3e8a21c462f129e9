package fuzzy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// jitters is the number of variants of each scenario that the tests play. A scenario must come about in all of them, not only
// in the variants with which a change was tried.
const jitters = 100

// thrift is the divisor of the number of seeds that a test runs. "make simulate" runs more.
const thrift = 2

// fewer returns the part of the given number of seeds that a test runs.
func fewer(seeds int) int {
	if testing.Short() {
		return seeds / max(3, thrift)
	}
	return seeds / thrift
}

func TestScenarios_EachComesAboutAndHolds(t *testing.T) {
	numbers := uint64(fewer(jitters) / thrift)
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for number := range numbers {
				r, err := Run(Seed{ScenarioPrefix + s.name, number}, nil)
				require.NoError(t, err)
				require.Nil(t, r.Failure, "replay it: go run ./cmd/raftlab replay %s", r.Seed)
				assert.Positive(t, r.Commits)
			}
		})
	}
}

func TestScenarios_TheSameNumberPlaysTheSame(t *testing.T) {
	for _, s := range scenarios() {
		plain, err := RunScenario(s.name, nil)
		require.NoError(t, err)
		traced, err := RunScenario(s.name, func(*Record) {})
		require.NoError(t, err)
		other, err := Run(Seed{ScenarioPrefix + s.name, 1}, nil)
		require.NoError(t, err)
		assert.Equal(t, plain.Hash, traced.Hash, s.name)
		assert.NotEqual(t, plain.Hash, other.Hash, s.name)
	}
}

func TestScenarios_AreListedWithASentence(t *testing.T) {
	names := map[string]bool{}
	for _, s := range scenarios() {
		assert.False(t, names[s.name], "%s appears twice", s.name)
		names[s.name] = true
		assert.Greater(t, len(s.about), 20, s.name)
	}
	assert.Len(t, Scenarios(), len(names))
	_, err := RunScenario("figure-9", nil)
	assert.ErrorContains(t, err, `unknown scenario "figure-9"; there are`)
	assert.ErrorContains(t, err, "figure-8-d: an entry")
	seed, err := ParseSeed("f10.scenario:figure-8-d.3")
	require.NoError(t, err)
	assert.Equal(t, Seed{"scenario:figure-8-d", 3}, seed)
}

// A scenario that does not come about fails with S1. A scenario whose expectation does not hold fails with the expectation's
// rule.
func TestScenarios_FailLoudly(t *testing.T) {
	for _, row := range []struct {
		rule  string
		class Class
		play  func(d *director)
	}{
		{"S1", Staging, func(d *director) { d.until("pigs fly", func() bool { return false }) }},
		{"S1", Staging, func(d *director) { d.given("pigs fly", false) }},
		{"S2", Liveness, func(d *director) { d.expect(2, "pigs fly", func() bool { return false }) }},
		{"S3", Safety, func(d *director) { d.always(2, "pigs fly", func() bool { return false }) }},
		{"S3", Safety, func(d *director) { d.check("pigs fly", func() bool { return false }) }},
	} {
		seed := Seed{Profile: ScenarioPrefix + "chain"}
		p, err := Draw(seed)
		require.NoError(t, err)
		c := newCluster(seed, p)
		c.scene.story.play = func(d *director) {
			d.bootstrap()
			row.play(d)
			t.Error("the story continues")
		}
		c.guarded()
		require.NotNil(t, c.failure)
		assert.Equal(t, row.rule, c.failure.Rule)
		assert.Equal(t, row.class, c.failure.Class)
		assert.True(t, strings.Contains(c.failure.Text, "pigs fly"), c.failure.Text)
	}
}
