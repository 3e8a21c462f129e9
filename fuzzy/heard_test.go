package fuzzy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// Some runs tell members of clusters, and leave addresses open.
func TestHeard_SomeRunsTellMembers(t *testing.T) {
	told, bootstrapNone, open := 0, 0, 0
	for number := range uint64(24) {
		r, err := Run(Seed{"bootstrap", number}, nil)
		require.NoError(t, err)
		require.Nil(t, r.Failure, number)
		told += r.Told
		if r.Profile.Node.OpenLists > 0 {
			open++
		}
		for i, count := range r.Decisions {
			if decisions[i].kind == raft.TraceHeard {
				bootstrapNone += count
			}
		}
	}
	assert.Greater(t, told, bootstrapNone, "some are members already")
	assert.Positive(t, bootstrapNone)
	assert.Positive(t, open)
}

// The list of the same founders may begin another cluster once all their disks were emptied.
func TestInvariants_OneClusterPerListUnlessAllDisksWereEmptied(t *testing.T) {
	c, lead, _ := running(t)
	k := c.check
	require.Len(t, k.founded, 1)
	first := *k.founded[0]
	first.Cluster[0] ^= 0xff
	first.Configuration.Members = append([]raft.Member(nil), first.Configuration.Members...)
	for i := range first.Configuration.Members {
		first.Configuration.Members[i].Incarnation++
	}
	k.founded[0] = &first
	k.checkOneCluster(lead)
	require.Nil(t, c.failure)
	assert.Len(t, k.founded, 2)
	k.founded = k.founded[:1]
	first.Configuration.Members[1].Incarnation--
	k.checkOneCluster(lead)
	expectBreach(t, c, "G22")
}
