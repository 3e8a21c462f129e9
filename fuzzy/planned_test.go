package fuzzy

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/require"
)

// The checker notices a planned transfer that leaves a write's outcome unknown, and knows who need not wait.
func TestPlanned_TheLeaderOwesNoOutcome(t *testing.T) {
	owing := func(t *testing.T, r request) (*cluster, *node) {
		c, lead, _ := running(t)
		r.kind, r.node = transferRequest, lead
		lead.seen.transfer = c.work.ask(r)
		lead.seen.since = lead.seen.now
		write := c.work.ask(request{kind: writeRequest, node: lead})
		lead.accepted = []acceptance{{raft.EntryID{Term: 1, Index: 9}, write}}
		return c, lead
	}
	for rule, r := range map[string]request{"planned": {}, "it is about to end, too soon": {leaving: true}} {
		t.Run(rule, func(t *testing.T) {
			c, lead := owing(t, r)
			c.check.checkOwesNothing(lead)
			expectBreach(t, c, "H5")
		})
	}
	for rule, excuse := range map[string]func(lead *node, r *request){
		"urgent":                                func(_ *node, r *request) { r.urgent = true },
		"its disk stalls":                       func(lead *node, _ *request) { lead.status.DiskStalled = true },
		"its FSM hangs":                         func(lead *node, _ *request) { lead.status.FSMHangs = true },
		"it has accepted it in an earlier term": func(lead *node, _ *request) { lead.accepted[0].id.Term-- },
		"it owes nothing":                       func(lead *node, _ *request) { lead.accepted = nil },
		"it is about to end":                    func(lead *node, r *request) { r.leaving, lead.seen.since = true, lead.seen.now-lead.timeout() },
	} {
		t.Run(rule, func(t *testing.T) {
			c, lead := owing(t, request{})
			excuse(lead, c.work.request(lead.seen.transfer))
			c.check.checkOwesNothing(lead)
			require.Nil(t, c.failure)
		})
	}
}
