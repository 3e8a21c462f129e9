package fuzzy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// With links cut for good, in each of the four ways, somebody leads and commits.
func TestParted_WhoReachesAQuorumLeads(t *testing.T) {
	parted := map[string]int{}
	for number := range uint64(60) {
		p := calmOfThree(t)
		p.Length, p.Voters = p.ElectionTimeout*10, 5
		r := RunProfile(Seed{"calm", number}, p, func(r *Record) {
			if _, how, ok := strings.Cut(r.Text, "for good: "); ok {
				parted[how]++
			}
		})
		require.Nil(t, r.Failure)
	}
	assert.GreaterOrEqual(t, len(parted), 4, "%v", parted)
}
