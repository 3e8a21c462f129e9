package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
)

// span is the time in which a call ran.
type span struct{ began, ended time.Time }

// writers propose values on members of a loopback cluster until stop is called.
type writers struct {
	l    *loopback
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	nodes   []*node.Node // those that take values at present
	running map[*node.Node]int
	applied []string
	unknown []span
	terms   map[raft.Term]time.Time // when the first value of each term was answered
	failed  []error
}

func (l *loopback) write(t *testing.T, callers int) *writers {
	ctx, stop := context.WithCancel(t.Context())
	w := &writers{l: l, stop: stop, nodes: slices.Clone(l.nodes), running: map[*node.Node]int{}, terms: map[raft.Term]time.Time{}}
	for i := range callers {
		w.wg.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				w.propose(i, fmt.Sprintf("%d of %d", k, i))
			}
		})
	}
	return w
}

func (w *writers) propose(caller int, value string) {
	w.mu.Lock()
	n := w.nodes[caller%len(w.nodes)]
	w.running[n]++
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	began := time.Now()
	r, err := n.Propose(ctx, []byte(value))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[n]--
	switch {
	case err == nil:
		w.applied = append(w.applied, value)
		if _, seen := w.terms[r.Term]; !seen {
			w.terms[r.Term] = time.Now()
		}
	case errors.Is(err, node.ErrOutcomeUnknown):
		w.unknown = append(w.unknown, span{began, time.Now()})
	default:
		w.failed = append(w.failed, err)
	}
}

// use makes the writers propose on these members alone. It returns once no call runs on another member.
func (w *writers) use(t *testing.T, nodes ...*node.Node) {
	t.Helper()
	w.mu.Lock()
	w.nodes = slices.Clone(nodes)
	w.mu.Unlock()
	require.Eventually(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for n, calls := range w.running {
			if calls > 0 && !slices.Contains(nodes, n) {
				return false
			}
		}
		return true
	}, time.Minute, time.Millisecond)
}

func (w *writers) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.applied)
}

// more waits until the writers have written more values.
func (w *writers) more(t *testing.T, values int) {
	t.Helper()
	before := w.count()
	require.Eventually(t, func() bool { return w.count() >= before+values }, time.Minute, time.Millisecond)
}

// check ends the writers. It checks that every member has each value that was acknowledged, and no value twice.
func (w *writers) check(t *testing.T) {
	t.Helper()
	w.stop()
	w.wg.Wait()
	require.Empty(t, w.failed)
	last := propose(t, w.l.nodes[0], "last")
	for i, n := range w.l.nodes {
		require.NoError(t, n.WaitApplied(t.Context(), last.Index))
		list := w.l.states[i].list()
		assert.Len(t, unique(list), len(list), "no value is applied twice")
		assert.Empty(t, without(w.applied, list), "what was acknowledged is applied")
	}
	t.Logf("%d applied, %d unknown", len(w.applied), len(w.unknown))
}

func (l *loopback) others(n *node.Node) (others []*node.Node) {
	for _, other := range l.nodes {
		if other != n {
			others = append(others, other)
		}
	}
	return others
}

func (l *loopback) indexOf(n *node.Node) int { return slices.Index(l.nodes, n) }

func forwardOn(cfg *node.Config) { cfg.Forward = true }

// Values through members that do not lead, while leadership is transferred: no outcome is unknown, and none fails.
func TestForwardLoopback_TransfersCostNoOutcome(t *testing.T) {
	l := newLoopback(t, 3, forwardOn)
	l.leader()
	w := l.write(t, 64)
	for range 5 {
		w.more(t, 200)
		if err := l.leader().TransferLeadership(t.Context(), ""); err != nil {
			t.Logf("a transfer failed: %v", err) // a slow machine
		}
	}
	w.more(t, 200)
	w.check(t)
	assert.Empty(t, w.unknown)
}

// A rolling restart: each member is closed and started again, while the others take values.
func TestForwardLoopback_ARollingRestartCostsNoOutcome(t *testing.T) {
	l := newLoopback(t, 3, forwardOn)
	l.leader()
	w := l.write(t, 64)
	for i := range l.nodes {
		w.more(t, 100)
		w.use(t, l.others(l.nodes[i])...)
		w.more(t, 300)
		require.NoError(t, l.nodes[i].Close())
		l.restart(i)
		require.NoError(t, l.nodes[i].Ready(t.Context()))
		w.use(t, l.nodes...)
	}
	w.check(t)
	assert.Empty(t, w.unknown)
}

// The leader dies without a word. Only values that were in flight to it are of unknown outcome.
func TestForwardLoopback_OnlyWhatWasInFlightToAKilledLeaderIsUnknown(t *testing.T) {
	l := newLoopback(t, 3, forwardOn)
	dead := l.leader()
	w := l.write(t, 64)
	w.use(t, l.others(dead)...)
	w.more(t, 300)
	i := l.indexOf(dead)
	term, killed := dead.Status().Term, time.Now()
	require.NoError(t, l.wires[i].Close()) // it sends and receives nothing more
	w.more(t, 500)
	_ = dead.Close()
	l.restart(i)
	w.more(t, 500)
	w.check(t)
	next := time.Time{} // when both others have voted for another leader, neither sends to the dead one
	for of, at := range w.terms {
		if of > term && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for _, s := range w.unknown {
		assert.True(t, s.ended.After(killed) && s.began.Before(next), "it ran from %v to %v after the kill, and another leader answered after %v",
			s.began.Sub(killed), s.ended.Sub(killed), next.Sub(killed))
	}
}
