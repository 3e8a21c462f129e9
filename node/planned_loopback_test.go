package node_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
			for k := 0; ctx.Err() == nil; k++ {
				if !l.proposeSomewhere(t, fmt.Sprintf("%d of %d", k, i)) {
					return
				}
				acked[i] = append(acked[i], time.Now())
			}
		})
	}
	synced := make(chan []time.Duration, 1)
	go func() { synced <- syncedWrites(t, ctx, l.dir) }()
	var spans [][2]time.Time
	for range plannedTransfers {
		at := time.Now()
		if err := l.leader().TransferLeadership(t.Context(), ""); err != nil {
			t.Logf("a transfer failed: %v", err) // a slow machine
			continue
		}
		spans = append(spans, [2]time.Time{at, time.Now()})
		<-time.After(20 * time.Millisecond)
	}
	stop()
	proposers.Wait()
	all := slices.Concat(acked...)
	slices.SortFunc(all, time.Time.Compare)
	var gaps []time.Duration
	var asked []time.Duration
	for _, s := range spans {
		gaps, asked = append(gaps, pauseWithin(all, s[0], s[1])), append(asked, s[1].Sub(s[0]))
	}
	slices.Sort(asked)
	write := <-synced
	slices.Sort(gaps)
	slices.Sort(write)
	t.Logf("%d transfers, %d commands: writes pause for %v in the median, %v at most; transfers take %v; a synced write takes %v in the median", len(spans),
		len(all), gaps[len(gaps)/2], gaps[len(gaps)-1], asked[len(asked)/2], write[len(write)/2])
	l.appliedOnce(t, len(all))
}

// proposeSomewhere proposes a command to random members until one has applied it. It stops at an error that may not occur.
func (l *loopback) proposeSomewhere(t *testing.T, command string) bool {
	for n := l.nodes[rand.IntN(len(l.nodes))]; ; {
		_, err := n.Propose(t.Context(), []byte(command))
		var elsewhere *node.NotLeaderError
		switch {
		case err == nil:
			return true
		case !errors.As(err, &elsewhere):
			return assert.NoError(t, err)
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

// pauseWithin returns the longest time without an acknowledgement that overlaps a transfer.
func pauseWithin(acked []time.Time, began, ended time.Time) (longest time.Duration) {
	i, _ := slices.BinarySearchFunc(acked, began, time.Time.Compare)
	for i = max(i, 1); i < len(acked) && acked[i-1].Before(ended); i++ {
		longest = max(longest, acked[i].Sub(acked[i-1]))
	}
	return longest
}

// syncedWrites measures small synced writes to the disk of the members until the context ends.
func syncedWrites(t *testing.T, ctx context.Context, dir string) (took []time.Duration) {
	f, err := os.Create(filepath.Join(dir, "synced"))
	if !assert.NoError(t, err) {
		return []time.Duration{0}
	}
	defer f.Close()
	for ctx.Err() == nil || len(took) == 0 {
		began := time.Now()
		_, err := f.Write(make([]byte, 256))
		assert.NoError(t, errors.Join(err, f.Sync()))
		took = append(took, time.Since(began))
		<-time.After(10 * time.Millisecond)
	}
	return took
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
		assert.Len(t, list, commands)
	}
}
