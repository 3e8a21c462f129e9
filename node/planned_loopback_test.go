package node_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/load"
	"github.com/coxswain/raft/node"
)

const (
	plannedTransfers = 50
	proposersMost    = 64
)

// Transfers under load, on real disks and connections: no outcome is unknown, no command is lost, and each is applied once. The
// log of the test says how long the writes pause in a transfer.
func TestLoopback_PlannedTransfersCostNoOutcome(t *testing.T) {
	l := newLoopback(t, 3)
	l.leader()
	ctx, stop := context.WithCancel(t.Context())
	var proposers sync.WaitGroup
	acked := make([][]time.Time, proposersMost)
	for i := range acked {
		proposers.Go(func() {
			for k := 0; ctx.Err() == nil && !t.Failed(); k++ {
				if l.proposeSomewhere(t, fmt.Sprintf("%d of %d", k, i)) {
					acked[i] = append(acked[i], time.Now())
				}
			}
		})
	}
	var synced []time.Duration
	proposers.Go(func() {
		var err error
		synced, err = load.SyncedWrites(ctx, l.dir)
		assert.NoError(t, err)
	})
	var spans []load.Span
	for range plannedTransfers {
		at := time.Now()
		if err := l.leader().TransferLeadership(t.Context(), ""); err != nil {
			t.Logf("a transfer failed: %v", err) // a slow machine
			continue
		}
		spans = append(spans, load.Span{Began: at, Ended: time.Now()})
		<-time.After(20 * time.Millisecond)
	}
	stop()
	proposers.Wait()
	all := slices.Concat(acked...)
	gaps := load.Pauses(all, spans)
	var asked []time.Duration
	for _, s := range spans {
		asked = append(asked, s.Ended.Sub(s.Began))
	}
	slices.Sort(asked)
	t.Logf("%d transfers, %d commands: writes pause for %v in the median, %v at most; transfers take %v; a synced write takes %v in the median", len(spans),
		len(all), gaps[len(gaps)/2], gaps[len(gaps)-1], asked[len(asked)/2], synced[len(synced)/2])
	l.appliedOnce(t, len(all))
}

// wokeLate reports that the machine let a member wait for so long that it may have lost its leader, or its leadership.
func (l *loopback) wokeLate() bool {
	for i := range l.logs {
		if strings.Contains(l.logs[i].String(), "the node woke late") {
			return true
		}
	}
	return false
}

// proposeSomewhere proposes a command to random members until one has applied it. It stops at an error that may not occur, unless
// the machine is too busy.
func (l *loopback) proposeSomewhere(t *testing.T, command string) bool {
	for n := l.nodes[rand.IntN(len(l.nodes))]; ; {
		_, err := n.Propose(t.Context(), []byte(command))
		var elsewhere *node.NotLeaderError
		switch {
		case err == nil:
			return true
		case !errors.As(err, &elsewhere):
			assert.True(t, l.wokeLate(), "%v", err)
			return false
		case elsewhere.Leader == nil:
			if _, err := n.WaitLeader(t.Context()); err != nil {
				return assert.NoError(t, err)
			}
			continue
		}
		for i := range l.members {
			if l.members[i].ID == elsewhere.Leader.ID {
				n = l.nodes[i]
			}
		}
	}
}

// appliedOnce checks that every member applies as many commands as were acknowledged, each once.
func (l *loopback) appliedOnce(t *testing.T, commands int) {
	last, err := l.leader().Barrier(t.Context())
	require.NoError(t, err)
	for i, n := range l.nodes {
		require.NoError(t, n.WaitApplied(t.Context(), last))
		list := l.states[i].list()
		slices.Sort(list)
		assert.Len(t, slices.Compact(list), len(list), "no command is applied twice")
		if l.wokeLate() {
			assert.GreaterOrEqual(t, len(list), commands, "what was acknowledged is there")
		} else {
			assert.Len(t, list, commands)
		}
	}
}
