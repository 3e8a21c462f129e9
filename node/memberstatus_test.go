package node

import (
	"testing"
	"time"

	expect "github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
)

// While the voters change, the former and the new voters must both agree. So the half that can lose fewer voters decides the
// tolerance.
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
		row.status.patience = time.Second
		row.status.judge()
		expect.Equal(t, row.want, row.status.Tolerance)
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
		{CatchUp{Round: 2, Target: 9, Rate: 2.44}, "round 2, up to entry 9, 2.4 entries/s"},
		{CatchUp{Round: 2, Target: 9, Rate: 12345.6, Left: 1499 * time.Millisecond}, "round 2, up to entry 9, 12346 entries/s, 1s left"},
		{CatchUp{Round: 2, Target: 9, Ready: true}, "it has caught up"},
		{CatchUp{Done: 41 << 10, Total: 100 << 10}, "41 % of 100 KiB"},
		{CatchUp{Done: 41 << 10, Total: -1}, "41 KiB so far"},
	} {
		expect.Equal(t, row.want, row.is.String())
	}
}

// The time left is shown only after a second of progress, when the rate is known.
func TestStatus_SaysHowLongAMemberTakes(t *testing.T) {
	const second = raft.Time(time.Second)
	for _, row := range []struct {
		rule  string
		spoil func(c *CatchUp, p *raft.PeerProgress)
		last  raft.Index
		rate  float64
		left  time.Duration
	}{
		{"it has acknowledged 400 in 4 s, and lacks 600", nil, 1100, 100, 6 * time.Second},
		{"the log grows by 20 entries a second meanwhile", nil, 1200, 100, 8750 * time.Millisecond},
		{"the log grows as fast", nil, 1600, 100, 0},
		{"it takes years", func(c *CatchUp, _ *raft.PeerProgress) { c.Target = 1 << 40 }, 1 << 40, 100, leftMax},
		{"less than a second", func(_ *CatchUp, p *raft.PeerProgress) { p.CatchUp.FromAt = 10*second - second/2 }, 1100, 0, 0},
		{"nothing acknowledged", func(_ *CatchUp, p *raft.PeerProgress) { p.Match = 100 }, 1100, 0, 0},
		{"it is sent a snapshot", func(_ *CatchUp, p *raft.PeerProgress) { p.State = "snapshot" }, 1100, 0, 0},
		{"it has caught up", func(c *CatchUp, _ *raft.PeerProgress) { c.Ready = true }, 1100, 0, 0},
	} {
		c := CatchUp{Round: 1, Target: 1100, Since: 5 * time.Second}
		p := raft.PeerProgress{State: "replicate", Match: 500, CatchUp: raft.CatchUpRound{From: 100, FromAt: 6 * second}}
		if row.spoil != nil {
			row.spoil(&c, &p)
		}
		c.predict(10*second, p, row.last)
		expect.InDelta(t, row.rate, c.Rate, 1e-9, row.rule)
		expect.Equal(t, row.left, c.Left, row.rule)
	}
}

// A transfer predicts its time left from the bytes of this attempt: the bytes from before a break do not raise the rate.
func TestTransfer_SaysHowLongItTakes(t *testing.T) {
	const second = raft.Time(time.Second)
	at := func(done int64) *Transfer { return &Transfer{Peer: "n3", Done: done, Total: 1000 << 10} }
	first := at(0).follow(nil, second)
	expect.Zero(t, first.fromAt, "nothing has come yet")
	first = at(600<<10).follow(first, 2*second)
	later := at(700<<10).follow(first, 12*second)
	expect.Equal(t, 2*second, later.fromAt)
	expect.Equal(t, 30*time.Second, later.predict(10*time.Second).Left)
	expect.Equal(t, "700 of 1000 KiB, 30s left", later.String())
	expect.Zero(t, at(700<<10).follow(first, 3*second).predict(rateAfter-1).Left, "too early to know")
	expect.Equal(t, 13*second, at(10).follow(later, 13*second).fromAt, "another stream")
	expect.Equal(t, leftMax, (&Transfer{Done: 1, Total: 1 << 40}).predict(time.Minute).Left)
	expect.Equal(t, "5 KiB", (&Transfer{Done: 5 << 10, Total: -1}).predict(time.Minute).String())
}
