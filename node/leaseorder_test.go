package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// atLog is a logger that looks at the node within a step: the loop logs after it has published the lease, and before any
// message or answer of the step leaves.
type atLog struct {
	hclog.Logger
	look func()
}

func (l atLog) Log(hclog.Level, string, ...any) { l.look() }

// A lease is withdrawn, and the work of its leader is cancelled, before any message of the same step leaves: TimeoutNow, a
// configuration without this member, or the news that it has stepped down. A lease that moves is published before, too: else a
// reader would miss a commit that an answer or a message of the step reports.
func TestLease_IsPublishedBeforeAnythingElseOfItsStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n *Node
		var look func()
		sent := &wire{}
		n = parts(nil, sent, func(cfg *Config) {
			cfg.Logger = atLog{hclog.NewNullLogger(), func() {
				expect.Empty(t, n.senders.peers, "nothing has been sent yet")
				look()
				look = nil
			}}
		})
		n.applier, n.deadline = newApplier(n, &tally{}, raft.EntryID{}), time.NewTimer(time.Hour)
		defer n.wg.Wait()
		defer n.senders.close()
		defer close(n.stop)
		_, err := n.newCore(raft.Stored{Incarnation: 1, StartCount: 1})
		require.NoError(t, err)
		held := raft.LeaderLease{Term: 1, Commit: 7, Until: 1 << 60}
		n.lease.publish(held)

		step := func(entry raft.Index, lease raft.LeaderLease, sees func(), send ...raft.Message) {
			look = sees
			n.process(raft.Output{Lease: lease, Send: send, Trace: []raft.TraceEvent{{Kind: raft.TraceLaterVersion, ID: raft.EntryID{Term: 1, Index: entry}}}})
			require.Nil(t, look, "the loop has logged")
		}
		held.Commit++ // and the same end
		step(8, held, func() {
			index, leased := n.lease.readIndex(n.now)
			expect.True(t, leased)
			expect.EqualValues(t, 8, index)
		})
		works, cancel := context.WithCancelCause(t.Context())
		n.works.running = []*work{{cancel: cancel, term: 1}}
		step(9, raft.LeaderLease{}, func() {
			_, leased := n.lease.readIndex(n.now)
			expect.False(t, leased)
			expect.Error(t, works.Err())
		}, raft.Message{To: raft.Peer{ID: "n2", Incarnation: 2}, Body: raft.TimeoutNow{}})
		synctest.Wait()
		sent.mu.Lock()
		defer sent.mu.Unlock()
		expect.Len(t, sent.batches, 1)
	})
}
