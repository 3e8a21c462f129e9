package fuzzy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

func TestMisversioned_NoticesEachBreach(t *testing.T) {
	for _, row := range []struct {
		why        string
		least, min uint64
		level      uint64
		versions   [2]uint64
	}{
		{"", 0, 0, 0, [2]uint64{}},
		{"", 1, 2, 3, [2]uint64{2, 4}},
		{"the minimum falls from 3 to 2", 3, 2, 3, [2]uint64{3, 3}},
		{"at feature level 2", 0, 1, 2, [2]uint64{1, 1}},
		{"b has version 1, and the minimum is 2", 0, 2, 3, [2]uint64{2, 1}},
		{"a has version 1, and the minimum is 0", 0, 0, 3, [2]uint64{1, 1}},
	} {
		c := namedConfig("a b")
		c.Level, c.AppVersionMin = row.level, row.min
		c.Members[0].AppVersion, c.Members[1].AppVersion = row.versions[0], row.versions[1]
		if why := misversioned(row.least, &c); row.why == "" {
			assert.Empty(t, why)
		} else {
			assert.Contains(t, why, row.why)
		}
	}
}

// raising appends a configuration with the minimum 2 to the leader's log.
func raising(lead *node, version uint64) *loggedConfig {
	config := *lead.config()
	config.Level, config.AppVersionMin = 3, 2
	lead.version = version
	return lead.rule(config)
}

func TestInvariants_OfVersionsNoticeTheirBreach(t *testing.T) {
	for rule, row := range map[string]struct {
		rule   string
		breach func(k *checker, lead, follower *node)
	}{
		"it does not say that it is outdated": {"N100", func(k *checker, lead, _ *node) {
			raising(lead, 1)
			k.checkOutdated(lead, &raft.Output{})
		}},
		"it does not start": {"N100", func(k *checker, lead, _ *node) { k.isOutdated(lead, &raft.AppVersionError{Min: 1}) }},
		"a member has told nothing": {"N101", func(k *checker, lead, _ *node) {
			lead.configBefore = raising(lead, 2).before
			k.checkOutdated(lead, &raft.Output{})
		}},
		"a configuration names one": {"N101", func(k *checker, lead, _ *node) {
			l := raising(lead, 2)
			k.checkVersions(lead, l)
		}},
	} {
		t.Run(rule, func(t *testing.T) {
			c, lead, follower := running(t)
			row.breach(c.check, lead, follower)
			require.NotNil(t, c.failure)
			assert.Equal(t, row.rule, c.failure.Rule)
		})
	}
}

// In some runs, programs have versions: minimums rise, and programs that are too old are replaced.
func TestVersions_RiseInTheSimulator(t *testing.T) {
	raised, outdated := 0, 0
	for number := range uint64(40) {
		seed := Seed{Profile: "durable", Number: number}
		p, err := Draw(seed)
		require.NoError(t, err)
		if p.Node.Versions == 0 {
			continue
		}
		r := RunProfile(seed, p, nil)
		require.Nil(t, r.Failure)
		raised, outdated = raised+r.Stats.Raised, outdated+r.Stats.Outdated
	}
	t.Logf("%d raised, %d outdated", raised, outdated)
	assert.Positive(t, raised)
	assert.Positive(t, outdated)
}
