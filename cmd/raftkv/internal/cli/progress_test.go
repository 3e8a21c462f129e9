package cli

import (
	"strings"
	"testing"
	"time"

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

// A command that waits for a leader says so, and does not look as if it hung.
func TestNarrator_SaysThatThereIsNoLeader(t *testing.T) {
	var out strings.Builder
	n := narrator{out: &out}
	begin := time.Now()
	without := admin.Members{Tolerance: "the cluster does not work as seen from here: 1 of 3 voters can be reached, 2 are needed"}
	n.tell(without, begin)
	n.tell(without, begin.Add(leaderlessMax-1))
	assert.Empty(t, out.String(), "an election may take that long")
	n.tell(without, begin.Add(leaderlessMax))
	n.tell(without, begin.Add(leaderlessMax+1))
	assert.Equal(t, "no leader: 1 of 3 voters can be reached, 2 are needed; nothing is changed yet\n", out.String())
	out.Reset()
	without.Change = &admin.Changing{}
	n.tell(admin.Members{Leader: "n1"}, begin.Add(time.Hour))
	n.tell(without, begin.Add(time.Hour+leaderlessMax-1))
	assert.Empty(t, out.String())
	n.tell(without, begin.Add(time.Hour+leaderlessMax))
	assert.Equal(t, "no leader: 1 of 3 voters can be reached, 2 are needed; the change waits for one\n", out.String())
}

// One recovered member is healthy, and yet not what it was.
func TestDoctor_SaysHowManyFailuresAHealthyClusterSurvives(t *testing.T) {
	for voters, want := range map[int]string{
		1: "one voter, so it survives no failure; add the others", 2: "two voters, so it survives no failure; add the others",
		3: "survives 1 failure", 4: "survives 1 failure", 5: "survives 2 failures",
	} {
		s := admin.Status{Members: []admin.MemberStatus{{Kind: "learner"}}}
		for range voters {
			s.Members = append(s.Members, admin.MemberStatus{Kind: "voter"})
		}
		assert.Equal(t, want, survives(&s))
	}
	assert.Empty(t, survives(nil))
}
