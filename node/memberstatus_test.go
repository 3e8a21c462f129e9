package node

import (
	"testing"
	"time"

	expect "github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
)

// While the voters change, the former and the new ones must agree, so the half that can lose fewer voters counts.
func TestStatus_ToleranceInAJointPhase(t *testing.T) {
	joint := func(reached ...raft.NodeID) Status {
		s := seenFrom(raft.Leader, 5, reached...) // n1 n2 n3 → n1 n4 n5
		for i := range s.Members {
			m := &s.Members[i]
			m.outgoing = i < 3
			if i == 1 || i == 2 {
				m.Kind = raft.Leaving
			}
		}
		return s
	}
	for _, row := range []struct {
		status Status
		want   string
	}{
		{joint("n2", "n3", "n4", "n5"), "the cluster survives 1 failure more: 3 of 3 voters of the new configuration can be reached"},
		{joint("n2", "n3", "n4"), "none: 2 of 3 voters of the new configuration can be reached, and the next failure stops the cluster"},
		{joint("n2", "n4", "n5"), "none: 2 of 3 voters of the configuration that is being left can be reached, and the next failure stops the cluster"},
		{joint("n4", "n5"), "the cluster does not work as seen from here: 1 of 3 voters of the configuration that is being left can be reached, 2 are needed"},
		{joint("n2", "n3"), "the cluster does not work as seen from here: 1 of 3 voters of the new configuration can be reached, 2 are needed"},
	} {
		expect.Equal(t, row.want, tolerance(row.status, time.Second))
	}
}

func TestStatus_SaysWhatAChangeMakesOfAMember(t *testing.T) {
	member := func(id raft.NodeID, kind raft.MemberKind, next raft.NextRole) raft.Member {
		return raft.Member{ID: id, Kind: kind, Incarnation: 1, Next: next}
	}
	waits := raft.NewConfiguration([]raft.Member{member("n1", raft.Voter, 0), member("n2", raft.Voter, raft.NextLearner), member("n3", raft.Learner, raft.NextVoter)})
	joint := raft.NewConfiguration([]raft.Member{
		member("n1", raft.Voter, 0), member("n2", raft.Learner, 0), member("n3", raft.Voter, 0), member("n4", raft.Leaving, 0), member("n5", raft.Learner, 0),
	})
	joint.Outgoing = []raft.Peer{{ID: "n1", Incarnation: 1}, {ID: "n2", Incarnation: 1}, {ID: "n4", Incarnation: 1}}
	standings := func(c raft.Configuration) (all []string) {
		for _, m := range c.Members {
			all = append(all, standing(c, m))
		}
		return all
	}
	expect.Equal(t, []string{"voter", "voter", "joins"}, standings(waits))
	expect.Equal(t, []string{"voter", "leaves", "enters", "leaves", "learner"}, standings(joint))
	expect.Equal(t, "joint: n1 n2 n4 → n1 n3", phase(joint))
	expect.Empty(t, phase(waits))
}

func TestStatus_SaysHowFarAMemberIs(t *testing.T) {
	for _, row := range []struct {
		is   CatchUp
		want string
	}{
		{CatchUp{Round: 2, Target: 9}, "round 2, up to entry 9"},
		{CatchUp{Round: 2, Target: 9, Ready: true}, "it has caught up"},
		{CatchUp{Done: 41 << 10, Total: 100 << 10}, "41 % of 100 KiB"},
		{CatchUp{Done: 41 << 10, Total: -1}, "41 KiB so far"},
	} {
		expect.Equal(t, row.want, row.is.String())
	}
}
