package fuzzy

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// hurried lists breaches of what a core says and does about the work of its host.
var hurried = []struct {
	rule   string
	breach func(n *node)
}{
	{"N120", func(n *node) { n.duty = duty{term: n.status.Term} }},                                    // it was not told to stop
	{"N120", func(n *node) { n.duty = duty{term: n.status.Term, stops: n.seen.now - n.timeout()/2} }}, // its time is not over
	{"N121", func(n *node) { n.seen.office = n.status.Applied }},                                      // it has applied no entry of its term
	{"N121", func(n *node) { n.status.Role = raft.Follower }},
	{"N121", func(n *node) { n.status.TransferringUntil = n.seen.now + 1 }},
	{"N121", func(n *node) { n.seen.closed = true }},
}

func TestInvariants_OfWorkNoticeTheirBreach(t *testing.T) {
	for _, row := range hurried {
		c, n, _ := running(t)
		n.seen.now = n.now().Mono
		c.profile.Node.WorkStopMax = sim.Time(n.timeout())
		row.breach(n)
		c.check.checkWorkEnded(n)
		c.check.checkMayWork(n)
		expectBreach(t, c, row.rule)
	}
}
