package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft/admin"
)

// The command invents no number. It prints the remaining time only if the present rate predicts it.
func TestMembers_SaysHowFarAMemberIs(t *testing.T) {
	for want, is := range map[string]admin.CatchUp{
		"entry 41 of 100":                                             {IdleMS: 1999},
		"entry 41 of 100, no progress for 2m5s":                       {Rate: 12, LeftMS: 5000, IdleMS: 125_000},
		"entry 41 of 100, 12 entries/s, 5s left":                      {Rate: 12.3, LeftMS: 4917},
		"entry 41 of 100, 0.012 entries/s, 1s left":                   {Rate: 0.0123, LeftMS: 1},
		"entry 41 of 100, 12 entries/s, no faster than the log grows": {Rate: 12},
		"entry 41 of 100, 12 entries/s, more than 24h0m0s left":       {Rate: 12, LeftMS: float64(leftMax.Milliseconds())},
		"10.0 MiB of 100 MiB, 10 %, 18s left":                         {Snapshot: &admin.Transfer{Done: 10 << 20, Total: 100 << 20, ForMS: 2000, LeftMS: 18000}},
	} {
		is.Match, is.Last = 41, 100
		assert.Equal(t, want, howFar(&is))
	}
}
