package fuzzy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// Leases are asked for, promised, used and lost in the runs of their profile.
func TestLeases_AreUsedInTheSimulator(t *testing.T) {
	promises, reads := 0, 0
	for number := range uint64(4) {
		r, err := Run(Seed{"leases", number}, nil)
		require.NoError(t, err)
		require.Nil(t, r.Failure)
		promises, reads = promises+r.Stats.Promises, reads+r.Stats.LeaseReads
	}
	t.Logf("%d promises, %d reads by lease", promises, reads)
	assert.Positive(t, promises)
	assert.Positive(t, reads)
}

func TestInvariants_OfLeasesNoticeTheirBreach(t *testing.T) {
	second := raft.Time(time.Second)
	leaseOf := func(n *node) raft.LeaderLease {
		return raft.LeaderLease{Term: n.status.Term, Commit: n.status.Commit, Until: n.now().Mono + second}
	}
	promise := func(d raft.Time) *raft.Output {
		return &raft.Output{Send: []raft.Message{{Body: raft.HeartbeatReply{Promise: raft.Promise{SentAt: 7, Duration: d}}}}}
	}
	for what, row := range map[string]struct {
		rule   string
		breach func(k *checker, lead, follower *node)
	}{
		"two have a lease": {"G12", func(k *checker, lead, follower *node) {
			follower.lease = leaseOf(lead)
			k.checkLeases(lead, &lead.status, nil, &raft.Output{Lease: leaseOf(lead)})
		}},
		"another one commits": {"G12", func(k *checker, lead, follower *node) {
			follower.lease = leaseOf(lead)
			follower.lease.Term--
			k.checkLeases(lead, &raft.CoreStatus{Commit: lead.status.Commit - 1}, nil, &raft.Output{})
		}},
		"it votes": {"N107", func(k *checker, lead, follower *node) {
			follower.seen.promised = follower.seen.now + second
			k.checkLeases(follower, &follower.status, nil, &raft.Output{Send: []raft.Message{{To: lead.peer(), Body: raft.VoteReply{Granted: true}}}})
		}},
		"it grants a pre-vote": {"N107", func(k *checker, lead, follower *node) {
			follower.seen.promised = follower.seen.now + second
			k.checkLeases(follower, &follower.status, nil, &raft.Output{Send: []raft.Message{{To: lead.peer(), Body: raft.PreVoteReply{Granted: true}}}})
		}},
		"it campaigns": {"N107", func(k *checker, lead, follower *node) {
			follower.seen.promised = follower.seen.now + second
			k.checkLeases(follower, &follower.status, nil, &raft.Output{Write: raft.Write{Then: []raft.Message{{To: lead.peer(), Body: raft.VoteRequest{}}}}})
		}},
		"beyond the stamp": {"N108", func(k *checker, _, follower *node) {
			follower.seen.sought = map[raft.Time]raft.Time{7: second}
			k.checkLeases(follower, &follower.status, nil, promise(second))
		}},
		"unasked": {"N108", func(k *checker, _, follower *node) {
			follower.disk.hard.Lease = second
			k.checkLeases(follower, &follower.status, nil, promise(second))
		}},
	} {
		t.Run(what, func(t *testing.T) {
			c, lead, follower := running(t)
			row.breach(c.check, lead, follower)
			require.NotNil(t, c.failure)
			assert.Equal(t, row.rule, c.failure.Rule)
		})
	}
}
